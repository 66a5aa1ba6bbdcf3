"use strict";
(() => {
  const root = document.documentElement, tip = document.getElementById("tip"), rules = document.createElement("style");
  document.head.append(rules);
  const off = new Set();
  let least = 0;

  // What is filtered out is one rule a class, so that a page of a hundred thousand mentions stays quick.
  const filter = () => {
    const hidden = [...off];
    for (let step = 0; step < least; step++) hidden.push("p" + step);
    const marks = hidden.map(name => `mark.${name}`), rows = hidden.map(name => `tr.${name}`);
    rules.textContent = !hidden.length ? "" :
      `${marks.join()}{background:none!important;border-color:transparent!important;padding:0;margin:0;box-shadow:none}` +
      `${marks.map(m => m + "::after").join()},${marks.map(m => m + "::before").join()},${rows.join()}{display:none!important}`;
  };
  document.addEventListener("click", event => {
    const chip = event.target.closest(".chip");
    if (chip) {
      const on = chip.getAttribute("aria-pressed") === "false";
      chip.setAttribute("aria-pressed", on);
      on ? off.delete(chip.dataset.c) : off.add(chip.dataset.c);
      filter();
    } else if (event.target.id === "theme") {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
    }
  });
  const score = document.getElementById("least");
  if (score) score.addEventListener("input", () => {
    least = +score.value;
    score.nextElementSibling.value = (least / 20).toFixed(2);
    filter();
  });

  const search = document.getElementById("find"), wrong = document.getElementById("wrong");
  const choose = () => {
    const words = search.value.toLowerCase();
    for (const doc of document.querySelectorAll(".doc"))
      doc.hidden = (wrong && wrong.checked && doc.dataset.wrong === "0") || (words !== "" && !doc.textContent.toLowerCase().includes(words));
  };
  let waiting = 0;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(choose, 150); });
  if (wrong) wrong.addEventListener("change", choose);

  // All pieces of a mention light up together, and those of both sides of a relation.
  let lit = [];
  const light = (doc, names) => {
    lit.forEach(mark => mark.classList.remove("lit"));
    lit = doc ? names.flatMap(name => [...doc.querySelectorAll(`mark[data-m="${CSS.escape(name)}"]`)]) : [];
    lit.forEach(mark => mark.classList.add("lit"));
  };
  const line = (tag, text) => { const node = document.createElement(tag); node.textContent = text; tip.append(node); return node; };
  const show = mark => {
    const first = mark.closest(".doc").querySelector(`mark[data-m="${CSS.escape(mark.dataset.m)}"][data-t]`) || mark, d = first.dataset;
    tip.replaceChildren();
    line("b", d.t || "mention");
    if (d.s) {
      line("span", `score ${d.s}`);
      const bar = line("u", ""), inner = document.createElement("s");
      inner.style.width = `${Math.min(1, Math.max(0, +d.s)) * 100}%`;
      bar.append(inner);
    }
    if (d.i) line("div", d.i);
    if (d.w) line("div", d.w);
    tip.hidden = false;
    const box = mark.getClientRects()[0], own = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - own.width - 8))}px`;
    tip.style.top = `${box.top > own.height + 14 ? box.top - own.height - 8 : box.bottom + 8}px`;
  };
  document.addEventListener("mouseover", event => {
    const mark = event.target.closest("mark"), row = event.target.closest("tr[data-m]");
    tip.hidden = !mark;
    if (mark) { light(mark.closest(".doc"), [mark.dataset.m]); show(mark); }
    else if (row) light(row.closest(".doc"), row.dataset.m.split(" "));
    else light(null, []);
  });
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
})();
