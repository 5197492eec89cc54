"use strict";
// All that a page does beyond being read: sorted columns, hints where one points, marks of what differs. It reads and
// moves what the page holds already; a text is never read as HTML.

/** An element with its properties and children. */
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

const NUMBER = /^[±+−-]?\d[\d,]*(\.\d+)?(?=[%× ]|$)/;

/** What a cell is sorted by: its first number, else its text; null where there is nothing. */
function keyOf(row, column) {
  const cell = row.cells[column];
  const text = (cell.firstElementChild?.tagName === "SMALL" ? cell.firstChild : cell).textContent.trim();
  if (!text || text === "–") return null;
  const shown = text.startsWith("<") || text.startsWith(">") ? text.slice(1) : text;
  return NUMBER.test(shown) ? Number.parseFloat(shown.replace("−", "-").replace("+", "").replaceAll(",", "")) : text;
}

function compareKeys(one, other) {
  if (one === null || other === null) return (one === null) - (other === null);
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}

/** Sort the rows of every group by a column: up, down, and as they were; what has no value stays below. */
function sortBy(table, column, order) {
  for (const body of table.tBodies) {
    body.rowsAsWritten ??= [...body.rows];
    const heads = body.rowsAsWritten.filter((row) => row.classList.contains("group"));
    const rows = body.rowsAsWritten.filter((row) => !row.classList.contains("group"));
    if (order) {
      const keys = new Map(rows.map((row) => [row, keyOf(row, column)]));
      rows.sort((one, other) => {
        const [a, b] = [keys.get(one), keys.get(other)];
        return (a === null || b === null ? 1 : order) * compareKeys(a, b);
      });
    }
    body.append(...heads, ...rows);
  }
}

function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  if (![...table.tBodies].some((body) => body.rows.length > 2)) return;
  heads.forEach((head, column) => {
    if (!head.textContent.trim()) return;
    const button = element("button", { type: "button", className: "sort" }, ...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const next = { none: "ascending", ascending: "descending", descending: "none" }[head.ariaSort ?? "none"];
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      if (next !== "none") head.ariaSort = next;
      sortBy(table, column, { ascending: 1, descending: -1, none: 0 }[next]);
    });
  });
}

/** Pieces of the second text, and whether they are outside the longest common subsequence of words. */
function changedWords(before, after) {
  const [a, b] = [before, after].map((text) => text.split(/\s+/).filter(Boolean));
  const longest = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i][j] = a[i] === b[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const pieces = [];
  const add = (word, isNew) => {
    const last = pieces.at(-1);
    if (last && last[1] === isNew) last[0] += ` ${word}`;
    else pieces.push([word, isNew]);
  };
  for (let i = 0, j = 0; j < b.length; ) {
    if (i < a.length && a[i] === b[j]) {
      add(b[j++], false);
      i++;
    } else if (i < a.length && longest[i + 1][j] >= longest[i][j + 1]) i++;
    else add(b[j++], true);
  }
  return pieces;
}

const namesOf = (version) => JSON.parse(version.dataset.names);

/** A choice of the output from which the others are seen to differ. */
function makeComparable(block) {
  const names = [...new Set([...block.querySelectorAll("[data-names]")].flatMap(namesOf))];
  const select = element("select", {}, ...names.map((name) => element("option", {}, name)));
  select.value = block.dataset.compared;
  block.querySelector(".compared").replaceChildren(element("label", {}, "Marked: what differs from ", select));
  select.addEventListener("change", () => {
    for (const example of block.querySelectorAll(".versions")) {
      const versions = [...example.querySelectorAll("[data-names]")];
      const chosen = versions.find((version) => namesOf(version).includes(select.value));
      for (const version of versions) {
        const text = version.lastElementChild;
        const before = chosen ? chosen.lastElementChild.textContent : text.textContent;
        const pieces = changedWords(before, text.textContent);
        const marked = pieces.flatMap(([words, isNew]) => [isNew ? element("mark", {}, words) : words, " "]);
        text.replaceChildren(...marked.slice(0, -1));
      }
    }
  });
}

/** The title of a shape beside the pointer at once, and the other series fainter. */
function makeHints() {
  const hint = element("div", { id: "hint", hidden: true });
  document.body.append(hint);
  const titles = new Map();
  for (const title of document.querySelectorAll(".drawing title, .bars title")) {
    titles.set(title.parentElement, title.textContent);
    title.remove();
  }
  let drawing = null;
  document.addEventListener("pointerover", ({ target, clientX, clientY }) => {
    drawing?.classList.remove("chosen");
    drawing?.querySelectorAll(".of-chosen").forEach((each) => each.classList.remove("of-chosen"));
    drawing = null;
    const series = target.dataset?.series;
    if (series !== undefined) {
      drawing = target.closest("svg");
      drawing.classList.add("chosen");
      drawing.querySelectorAll(`[data-series="${series}"]`).forEach((each) => each.classList.add("of-chosen"));
    }
    hint.hidden = !titles.has(target);
    if (hint.hidden) return;
    hint.textContent = titles.get(target);
    const { width, height } = hint.getBoundingClientRect();
    hint.style.left = `${Math.max(4, Math.min(clientX + 12, innerWidth - width - 4))}px`;
    hint.style.top = `${clientY > height + 24 ? clientY - height - 12 : clientY + 18}px`;
  });
}

/** What scrolls is reached by keys; what fits need not be. */
function findStops() {
  for (const each of document.querySelectorAll(".wide")) {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
    else each.removeAttribute("tabindex");
  }
}

document.querySelectorAll("table").forEach((table) => table.tHead && makeSortable(table));
document.querySelectorAll("[data-compared]").forEach(makeComparable);
makeHints();
findStops();
addEventListener("resize", findStops);
