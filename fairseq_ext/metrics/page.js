"use strict";
// Tables are sorted by a click on a heading: up, down, and as they were written. The page says the same without it.

const NUMBER = /^[<>]? ?[+-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?/;

/** What a cell is sorted by: text, its first number, or null where there is none. */
function keyOf(cell, isText) {
  const text = cell.textContent.trim();
  if (!text || text === "–") return null;
  if (isText) return text;
  const number = NUMBER.exec(text.replaceAll("−", "-"));
  return number && Number.parseFloat(number[0].replace(/[<> ,+]/g, ""));
}

function compareKeys(one, other) {
  if (typeof one === "number") return one - other;
  return one.localeCompare(other, "en", { numeric: true });
}

/** The rows by a column; order is 1 for up, -1 for down; rows without a value are the last. */
function sortedRows(rows, column, isText, order) {
  const keys = new Map(rows.map((row) => [row, keyOf(row.cells[column], isText)]));
  return [...rows].sort((one, other) => {
    const [a, b] = [keys.get(one), keys.get(other)];
    return a === null || b === null ? (a === null) - (b === null) : order * compareKeys(a, b);
  });
}

function makeSortable(table) {
  const [body] = table.tBodies;
  const written = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (!head.textContent.trim()) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const next = { none: "ascending", ascending: "descending", descending: "none" }[head.ariaSort ?? "none"];
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      if (next !== "none") head.ariaSort = next;
      // Numbers are aligned to the right.
      const isText = head.style.textAlign !== "right";
      const order = { ascending: 1, descending: -1 }[next];
      body.append(...(order ? sortedRows(written, column, isText, order) : written));
    });
  });
}

document.querySelectorAll("table").forEach((table) => table.tBodies[0]?.rows.length > 2 && makeSortable(table));
