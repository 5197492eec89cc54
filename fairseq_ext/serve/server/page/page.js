"use strict";

const byId = (id) => document.getElementById(id);
const percent = (share) => `${Math.round(100 * share)}\u00a0%`;
const FEW = 0.05; // domains whose weight is below this at every word are not drawn
const NOTES = {
  parts: "translated in parts",
  untranslated: "a part is untranslated",
  repetition: "the model repeated itself",
  length: "the length was odd",
};
const NAMES = { gates: "Gates", classifier: "Classifier", base: "Base model" };

let info = null; // answer of GET /info
let shown = null; // requested routes with their translated lines
let drawn = []; // domains drawn word by word
let running = null; // AbortController of the current request

/** Create an element with properties and children. Strings are never parsed as HTML. */
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** Send a request to the service, and return its response. Errors are thrown with the service's message. */
async function call(path, options = {}) {
  const token = sessionStorage.getItem("token");
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  const response = await fetch(path, { ...options, headers });
  if (response.ok) return response;
  if (response.status === 401) {
    byId("token-field").hidden = false;
    byId("token").focus();
  }
  const content = await response.json().catch(() => ({ error: `the service answered ${response.status}` }));
  throw new Error(content.error);
}

const ask = async (path, options) => (await call(path, options)).json();

const post = (content) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(content),
});

const chosenRoute = () => document.querySelector("[name=route]:checked").value;

function say(error) {
  byId("error").textContent = error || "";
  byId("error").hidden = !error;
}

async function loadInfo() {
  info = await ask("/info");
  info.default_route ??= info.routes[0];
  document.title = `${info.system}: ${info.languages.join(" → ")}`;
  byId("name").textContent = info.system;
  byId("languages").textContent = info.languages.join(" → ");
  byId("base").textContent = `Base model: ${info.base}`;
  byId("base").hidden = !info.base;
  byId("source").lang = info.languages[0];
  byId("token-field").hidden = true;
  byId("files").hidden = false;
  byId("file-hint").textContent = `${info.files.join(", ")}; choose one, or drop it here`;
  addRoutes();
}

/** Add a choice for each route: the default route first, domains last. */
function addRoutes() {
  const own = info.routes.filter((route) => !info.domains.includes(route) && route !== info.default_route);
  const domains = info.domains.filter((domain) => info.routes.includes(domain) && domain !== info.default_route);
  const routes = [info.default_route, ...own, ...domains];
  for (const route of routes) {
    const input = element("input", { type: "radio", name: "route", value: route, checked: route === info.default_route });
    input.addEventListener("change", () => byId("source").value.trim() && translate());
    byId("routes").append(element("label", { className: "chip" }, input, element("span", {}, NAMES[route] || route)));
  }
  byId("routes").hidden = routes.length < 2;
}

/** Return the default route, the chosen route, and the model without adapters, without duplicates. */
function routesToShow() {
  return [...new Set([info.default_route, chosenRoute(), ...info.routes.filter((route) => route === "base")])];
}

async function translate() {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  say("");
  byId("results").setAttribute("aria-busy", "true");
  byId("status").textContent = "…";
  try {
    if (!info) await loadInfo();
    const lines = byId("source").value.split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/).filter((line) => line.trim());
    if (!lines.length) return clear();
    const routes = routesToShow();
    const texts = routes.flatMap((route) => lines.map((text) => ({ text, route })));
    const start = performance.now();
    const { translations } = await ask("/translate", { ...post({ texts, gates: "tokens" }), signal });
    byId("status").textContent = `${((performance.now() - start) / 1000).toFixed(2)} s`;
    show(routes, translations, lines);
  } catch (error) {
    if (error.name === "AbortError") return;
    byId("status").textContent = "";
    say(error instanceof TypeError ? "The service does not answer. Is it still running?" : error.message);
  }
  if (!signal.aborted) byId("results").setAttribute("aria-busy", "false");
}

function clear() {
  shown = null;
  byId("status").textContent = "";
  byId("results").replaceChildren();
  byId("results").setAttribute("aria-busy", "false");
  byId("gates").hidden = true;
}

function show(routes, translations, sources) {
  const count = sources.length;
  const answers = translations.map((line, index) => ({ ...line, source: sources[index % count] }));
  shown = routes.map((route, index) => ({ route, lines: answers.slice(index * count, (index + 1) * count) }));
  byId("results").replaceChildren(...shown.map((column) => card(column, shown[0])));
  showLines(count);
  showGates();
}

/** Create the card of a translation. Words that differ from the first translation are marked. */
function card({ route, lines }, first) {
  const domains = [...new Set(lines.map((line) => line.domain).filter((domain) => domain && domain !== route))];
  const title = [NAMES[route] || route, ...domains].join(" · ");
  const made = element("article", { className: "card" }, element("h2", {}, title));
  made.dataset.route = route;
  let changed = 0;
  lines.forEach((line, index) => {
    const paragraph = element("p", { lang: info.languages[1] });
    const words = compare(wordsOf(first.lines[index].text), wordsOf(line.text));
    for (const [word, isNew] of words) paragraph.append(isNew ? element("mark", {}, word) : word, " ");
    const news = words.filter(([, isNew]) => isNew).length;
    changed += Math.max(news, wordsOf(first.lines[index].text).length - (words.length - news));
    made.append(paragraph);
    for (const told of remarks(line)) made.append(element("p", { className: "hint" }, told));
    if (info.corrections) made.append(correction(line));
  });
  if (route !== first.route) {
    const words = changed === 1 ? "1 word differs" : `${changed || "no"} words differ`;
    made.append(element("p", { className: "hint" }, `${words} from ${NAMES[first.route] || first.route}`));
  }
  return made;
}

/** Return what a translation kept, and why to review it. */
function remarks(line) {
  const terms = Object.entries(line.terms ?? {});
  const told = terms.map(([term, kept]) => (kept === null ? `${term}: not kept` : `${term} → ${kept}`));
  return [
    ["Terms", told],
    ["Placeholders kept", line.placeholders ?? []],
    ["Please review", (line.notes ?? []).map((note) => NOTES[note] || note)],
  ].flatMap(([title, values]) => (values.length ? [`${title}: ${values.join(", ")}`] : []));
}

/** Create the field for a better translation. */
function correction(line) {
  const field = element("textarea", { value: line.text, lang: info.languages[1], rows: 2, ariaLabel: "Better translation" });
  const send = element("button", { type: "button" }, "Send");
  const said = element("output", { className: "hint" });
  const [source, target] = info.languages;
  const domain = [line.domain, chosenRoute()].find((name) => info.domains.includes(name));
  send.addEventListener("click", async () => {
    try {
      await ask("/suggest", post({ q: line.source, s: field.value, source, target, domain }));
      said.textContent = `Kept${domain ? ` for ${domain}` : ""}. Thank you.`;
    } catch (error) {
      said.textContent = error.message;
    }
  });
  const actions = element("div", { className: "actions" }, send, said);
  return element("details", { className: "correction" }, element("summary", {}, "Correct"), field, actions);
}

/** Translate a file; the service tells after every few texts how many are done. */
async function translateFile(file) {
  const body = new FormData();
  const [source, target] = info.languages;
  for (const [key, value] of Object.entries({ source, target, file })) body.append(key, value);
  const path = info.domains.includes(chosenRoute()) ? `/d/${chosenRoute()}/translate_file` : "/translate_file";
  say("");
  byId("download").hidden = true;
  byId("progress").hidden = false;
  byId("file-status").textContent = "…";
  try {
    const response = await call(path, { method: "POST", headers: { Accept: "application/x-ndjson" }, body });
    for await (const step of linesOf(response)) showStep(step, file.name);
  } catch (error) {
    byId("file-status").textContent = "";
    say(error.message);
  }
  byId("progress").hidden = true;
}

function showStep({ done, total, translatedFileUrl, error }, name) {
  if (error) throw new Error(error);
  Object.assign(byId("progress"), { max: total, value: done });
  byId("file-status").textContent = `${name}: ${done} of ${total} texts`;
  if (!translatedFileUrl) return;
  const path = new URL(translatedFileUrl).pathname;
  Object.assign(byId("download"), { href: path, download: path.split("/").pop(), hidden: false });
}

/** Yield the objects of a response, one a line, as they arrive. */
async function* linesOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}

const wordsOf = (text) => text.split(/\s+/).filter(Boolean);

/** Return the words of b, each with whether it is outside the longest common subsequence of a and b. */
function compare(a, b) {
  const longest = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i][j] = a[i] === b[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const found = [];
  for (let i = 0, j = 0; j < b.length; ) {
    if (i < a.length && a[i] === b[j]) {
      found.push([b[j++], false]);
      i++;
    } else if (i < a.length && longest[i + 1][j] >= longest[i][j + 1]) i++;
    else found.push([b[j++], true]);
  }
  return found;
}

/** Show a choice of the line whose gates are shown, if there are several lines. */
function showLines(count) {
  const options = Array.from({ length: count }, (_, index) => element("option", { value: index }, `line ${index + 1}`));
  byId("line").replaceChildren(element("option", { value: "" }, "all lines"), ...options);
  byId("line-field").hidden = count < 2;
}

/** Show the weights chosen by the gates as bars. A domain chosen by the user is highlighted. */
function showGates() {
  const column = shown.find(({ lines }) => lines[0].gates && !lines[0].domain && lines[0].route !== "base");
  byId("gates").hidden = !column;
  if (!column) return;
  const line = byId("line").value;
  const lines = line === "" ? column.lines : [column.lines[Number(line)]];
  const mean = (value) => lines.reduce((sum, each) => sum + value(each), 0) / lines.length;
  const forced = chosenRoute();
  const rows = routedTo(lines).map((domain) => {
    const layers = (side) => lines[0].gates[side].map((_, layer) => mean((each) => each.gates[side][layer][domain] ?? 0));
    return bar(domain, mean((each) => each.weights[domain] ?? 0), layers("encoder"), layers("decoder"), domain === forced);
  });
  byId("bars").replaceChildren(...rows);
  showWords(lines);
}

/** Return the domains, and the base if it has a share of the lines. */
function routedTo(lines) {
  return lines.some(({ weights }) => weights.base) ? [...info.domains, "base"] : info.domains;
}

function bar(domain, share, encoder, decoder, isForced) {
  const fill = element("span");
  fill.style.width = `${100 * share}%`;
  const meter = element("div", { className: "bar", role: "meter", ariaLabel: domain }, fill);
  Object.assign(meter, { ariaValueMin: "0", ariaValueMax: "100", ariaValueNow: String(Math.round(100 * share)) });
  return element(
    "li",
    { className: isForced ? "row forced" : "row" },
    element("span", { className: "domain" }, domain, ...(isForced ? [" ", element("small", {}, "forced")] : [])),
    meter,
    element("span", { className: "share" }, percent(share)),
    layerBars("encoder", encoder),
    layerBars("decoder", decoder),
  );
}

function layerBars(side, shares) {
  const label = `${side}, layer by layer: ${shares.map(percent).join(", ")}`;
  const titles = shares.map((share, index) => `${side}, layer ${index + 1}: ${percent(share)}`);
  const made = element("div", { className: "small-bars layers", role: "img", ariaLabel: label }, ...smallBars(shares, titles));
  made.dataset.side = side;
  return made;
}

function smallBars(shares, titles) {
  return shares.map((share, index) => {
    const fill = element("i");
    fill.style.height = `${100 * share}%`;
    return element("span", { title: titles[index] }, fill);
  });
}

/** Show the weights of the decoder's gates at every word of one line: as numbers, and as one bar per subword. */
function showWords(lines) {
  const tokens = lines.length === 1 ? lines[0].tokens : null;
  for (const id of ["words", "numbers"]) byId(id).hidden = !tokens;
  byId("words-note").textContent = "Choose a line to see the decoder’s weights at each of its words.";
  if (!tokens) return;
  const domains = routedTo(lines).filter((domain) => (tokens.weights[domain] ?? []).some((weight) => weight >= FEW));
  const words = joinPieces(tokens.pieces);
  byId("words").replaceChildren(...words.map((word) => wordColumn(word, tokens, domains)));
  byId("numbers-list").replaceChildren(...words.map((word) => wordNumbers(word, tokens)));
  byId("words-note").textContent =
    "The decoder’s weights, averaged over its layers, at each word; a word with several bars has several subwords." +
    (domains.length < routedTo(lines).length ? ` Domains below ${percent(FEW)} at every word are omitted.` : "");
  drawn = domains;
  labelLines();
}

/** Join subwords to words with the indices of their subwords. The end of the sentence is skipped. */
function joinPieces(pieces) {
  const words = [];
  pieces.forEach((piece, place) => {
    if (piece === "</s>") return;
    if (!words.length || piece.startsWith("▁")) words.push({ text: "", places: [] });
    const word = words[words.length - 1];
    word.text += piece.replaceAll("▁", "");
    word.places.push(place);
  });
  return words;
}

function wordColumn(word, tokens, domains) {
  const cells = domains.map((domain) => {
    const shares = word.places.map((place) => tokens.weights[domain][place]);
    const titles = word.places.map((place, index) => `${tokens.pieces[place]}, ${domain}: ${percent(shares[index])}`);
    return element("div", { className: "small-bars" }, ...smallBars(shares, titles));
  });
  return element("div", { className: "word" }, element("span", { lang: info.languages[1] }, word.text), ...cells);
}

/** Create the list item of a word with its domains, largest weight first. */
function wordNumbers(word, tokens) {
  const mean = (domain) => word.places.reduce((sum, place) => sum + tokens.weights[domain][place], 0) / word.places.length;
  const shares = Object.keys(tokens.weights).map((domain) => [domain, mean(domain)]).sort((one, other) => other[1] - one[1]);
  const listed = shares.filter(([, share]) => share >= 0.005).map(([domain, share]) => `${domain} ${percent(share)}`);
  return element("li", {}, element("span", { lang: info.languages[1] }, word.text), `: ${listed.join(", ")}`);
}

/** Add the names of the domains to the first word of every line, given the current line breaks. */
function labelLines() {
  for (const old of byId("words").querySelectorAll(".labels")) old.remove();
  let line = -1;
  for (const word of byId("words").children) {
    const bottom = word.offsetTop + word.offsetHeight;
    if (bottom === line) continue;
    line = bottom;
    const labels = drawn.map((domain) => element("span", { title: domain }, domain));
    word.append(element("div", { className: "labels" }, ...labels));
  }
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  translate();
});
byId("form").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    translate();
  }
});
byId("file").addEventListener("change", ({ target }) => {
  const [file] = target.files;
  if (file) translateFile(file).then(() => (target.value = "")); // so that the same file can be chosen again
});
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  const [file] = event.dataTransfer.files;
  if (file && info) translateFile(file);
});
byId("line").addEventListener("change", showGates);
new ResizeObserver(labelLines).observe(byId("words"));
byId("token").addEventListener("change", (event) => {
  sessionStorage.setItem("token", event.target.value);
  if (!info) loadInfo().then(() => say(""), (error) => say(error.message));
});
loadInfo().catch((error) => say(error.message));
