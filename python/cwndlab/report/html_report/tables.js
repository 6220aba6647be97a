// The tables of a report: sorted by a press on a heading, filtered by words.
"use strict";

(() => {
  sortableTables();

  function sortableTables() {
    for (const table of document.querySelectorAll("table.sortable")) {
      table.querySelectorAll("thead th").forEach((head, place) => {
        head.querySelector("button").addEventListener("click", () => sort(table, head, place));
      });
      if (table.classList.contains("filterable")) addFilter(table);
    }
  }

  function sort(table, head, place) {
    const descending = head.getAttribute("aria-sort") === "ascending";
    for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const body = table.tBodies[0];
    const keyed = Array.from(body.rows, (row) => {
      const cell = row.cells[place];
      const number = cell.dataset.v === undefined ? NaN : Number(cell.dataset.v);
      return { row, number, text: cell.textContent };
    });
    const sign = descending ? -1 : 1;
    // What has no value stays at the end, whichever way the rest is sorted.
    const empty = (key) => Number.isNaN(key.number) && key.text === "";
    keyed.sort((a, b) => {
      if (empty(a) !== empty(b)) return empty(a) ? 1 : -1;
      if (!Number.isNaN(a.number) && !Number.isNaN(b.number)) return sign * (a.number - b.number);
      return sign * a.text.localeCompare(b.text, undefined, { numeric: true });
    });
    body.append(...keyed.map((key) => key.row));
  }

  function addFilter(table) {
    const input = document.createElement("input");
    input.type = "search";
    input.placeholder = "words that rows must contain";
    const label = document.createElement("label");
    label.append("Filter ", input);
    const holder = document.createElement("p");
    holder.className = "filter controls";
    holder.append(label);
    table.closest(".scroll").before(holder);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of table.tBodies[0].rows) {
        const text = Array.from(row.cells, (cell) => cell.textContent).join(" ").toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    });
  }
})();
