"use strict";
// Theme, filters and sorting; every page can be read without them.
const root = document.documentElement;
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch (error) { /* a file page may have no storage */ }
});

// On a narrow screen the list of suites scrolls: the one that is open is in sight.
const nav = document.querySelector(".top nav"), current = nav.querySelector("[aria-current]");
if (current) nav.scrollLeft = current.offsetLeft + current.offsetWidth - nav.offsetLeft - nav.clientWidth;

const find = document.getElementById("find"), group = document.getElementById("group");
const chips = [...document.querySelectorAll(".chip[data-kind]")];
function filter() {
  const wanted = find.value.trim().toLowerCase();
  if (wanted) for (const more of document.querySelectorAll(".more")) if (more.textContent.startsWith("Show all")) more.click();
  const on = Object.fromEntries(chips.map((c) => [c.dataset.kind, c.getAttribute("aria-pressed") === "true"]));
  for (const body of document.querySelectorAll("tbody[data-kind]")) {
    body.hidden = !on[body.dataset.kind];
    for (const row of body.querySelectorAll("tr[data-model]")) row.hidden = !row.dataset.model.toLowerCase().includes(wanted);
  }
  for (const cell of document.querySelectorAll("td.other")) cell.style.visibility = on.other ? "" : "hidden";
  for (const more of document.querySelectorAll(".more")) more.hidden = !on.reported;
  for (const notes of document.querySelectorAll(".notes"))  // there as long as a figure that they speak of is
    notes.hidden = !on.other || !notes.closest(".card").querySelector("tbody:not([hidden]) tr:not([hidden]) td.other");
  for (const part of document.querySelectorAll("main > [data-group]"))
    part.hidden = Boolean(group.value) && part.dataset.group !== group.value;
}
if (find) {
  find.addEventListener("input", filter);
  group.addEventListener("change", filter);
  for (const chip of chips) chip.addEventListener("click", () => {
    chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
    filter();
  });
}

// Long lists of reported rows begin folded.
for (const body of document.querySelectorAll('tbody[data-kind="reported"]')) {
  const rows = body.querySelectorAll("tr[data-model]").length;
  if (rows < 12) continue;
  const more = document.createElement("button");
  more.type = "button"; more.className = "more";
  const name = () => { more.textContent = body.classList.contains("fold") ? `Show all ${rows} reported` : "Show fewer"; };
  more.addEventListener("click", () => { body.classList.toggle("fold"); name(); });
  body.classList.add("fold"); name();
  body.closest(".scroll").after(more);
}

// Measured and reported rows are sorted each among themselves.
const number = (row, column) => {
  const cell = row.cells[column];
  const value = parseFloat(cell.dataset.value ?? cell.textContent);
  return Number.isNaN(value) ? -Infinity : value;
};
for (const table of document.querySelectorAll("table.sortable"))
  for (const head of table.tHead.querySelectorAll("th.n")) {
    head.tabIndex = 0;
    const sort = (event) => {
      if (event.target.closest("a")) return;
      const falling = head.getAttribute("aria-sort") !== "descending";
      for (const other of table.tHead.querySelectorAll("th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      for (const body of table.tBodies) {
        const rows = [...body.querySelectorAll("tr[data-model]")];
        rows.sort((a, b) => (falling ? 1 : -1) * (number(b, head.cellIndex) - number(a, head.cellIndex)) || 0);
        body.append(...rows);
      }
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(event); });
  }
