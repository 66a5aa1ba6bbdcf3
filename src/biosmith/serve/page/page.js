"use strict";
(() => {
  const $ = id => document.getElementById(id);
  const root = document.documentElement, tip = $("tip");
  const HUES = { disease: 18, phenotyp: 18, chemical: 145, drug: 145, gene: 262, protein: 262, species: 212, organism: 212, variant: 325,
    mutation: 325, cellline: 180, cell_line: 180, cell: 195, anatomy: 48, tissue: 48, dna: 290, rna: 345 };
  const FREE = [230, 85, 35, 165, 305, 60, 0, 120, 245, 200, 280, 100];
  const UNSURE = 0.6, MOST_WIRES = 60, LONGEST_LABEL = 18;
  const EXAMPLE = "Naloxone reverses the antihypertensive effect of clonidine.\n\nIn unanesthetized, spontaneously hypertensive rats the " +
    "decrease in blood pressure and heart rate produced by intravenous clonidine was inhibited or reversed by naloxone. Naloxone alone " +
    "did not affect either blood pressure or heart rate. Patients with familial adenomatous polyposis, Duchenne muscular dystrophy or " +
    "gout who took allopurinol developed Stevens-Johnson syndrome more often than patients with breast cancer treated with tamoxifen.";
  let state = { documents: [], failed: [] }, types = new Map(), off = new Set(), least = 0, current = null, asked = 0;

  // ---------------------------------------------------------------- small things
  const make = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) name === "class" ? (node.className = value) : node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const draw = (tag, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const count = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
  const shorten = text => text.length > LONGEST_LABEL ? text.slice(0, LONGEST_LABEL - 1) + "…" : text;
  const say = (text, bad = false) => { $("status").textContent = text; $("status").classList.toggle("bad", bad); };
  const hueOf = type => {
    if (types.has(type)) return types.get(type).hue;
    const used = [...types.values()].map(t => t.hue), word = type.toLowerCase().replaceAll(" ", "_");
    const known = Object.keys(HUES).find(key => word.includes(key));
    let hue = known === undefined ? undefined : HUES[known];
    if (hue === undefined || used.includes(hue)) hue = FREE.find(h => !used.includes(h)) ?? FREE[types.size % FREE.length];
    types.set(type, { hue, count: 0, number: types.size + 1 });
    return hue;
  };

  // Where the browser keeps nothing, what is kept is kept as long as the page is open.
  const kept = {};
  const keep = (store, name, value) => { kept[name] = value; try { window[store].setItem(name, value); } catch { /* cookies are blocked */ } };
  const recall = (store, name) => { try { return window[store].getItem(name); } catch { return kept[name] ?? null; } };

  // ---------------------------------------------------------------- the service
  const call = async (path, options = {}) => {
    const token = recall("sessionStorage", "token"), headers = { ...options.headers };
    if (token) headers.Authorization = `Bearer ${token}`;
    const answer = await fetch(path, { ...options, headers });
    if (answer.status === 401 && await askToken()) return call(path, options);
    if (answer.ok) return answer;
    let detail = answer.statusText || `status ${answer.status}`;
    try {
      const value = (await answer.json()).detail;
      detail = Array.isArray(value) ? value.map(v => v.msg).join("; ") : value;
    } catch { /* not JSON: the status says it */ }
    throw new Error(detail);
  };
  const askToken = () => new Promise(resolve => {
    const dialog = $("ask");
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      if (dialog.returnValue === "ok" && $("token").value) keep("sessionStorage", "token", $("token").value);
      resolve(dialog.returnValue === "ok" && $("token").value !== "");
    }, { once: true });
    dialog.showModal();
  });
  const json = value => ({ method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) });
  const isFile = text => /^\s*(<\?xml|<!DOCTYPE|<[A-Za-z][\w:-]*[\s>]|\{\s*")/.test(text) || /^\s*\S+\|t\|/.test(text) || /^\s*PMID *- *\d/m.test(text);

  // A file, or what is pasted and looks like one, goes as it is; a paragraph before an empty line is a title.
  const requestFor = source => {
    if (source instanceof Blob || isFile(source)) return [`v1/annotate/file${source.name ? `?name=${encodeURIComponent(source.name)}` : ""}`, { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: source }];
    const parts = source.trim().split(/\n\s*\n/);
    if (parts.length === 2 && parts[0].length < 300 && !parts[0].includes("\n"))
      return ["v1/annotate", json({ documents: [{ title: parts[0], abstract: parts[1] }] })];
    return ["v1/annotate", json({ text: source })];
  };
  const annotate = async source => {
    if (typeof source === "string" && !source.trim()) { say("There is no text to annotate."); $("text").focus(); return; }
    if (typeof source === "string" && /^\s*\d{1,8}\s*$/.test(source)) { say("The service has no network to look a PMID up; paste or open the citation itself (PubMed, “Save”, format PubMed or XML).", true); return; }
    const turn = ++asked;  // an answer that comes after a later question is not shown
    $("go").disabled = true;
    say("Annotating …");
    const began = performance.now();
    try {
      const answer = await (await call(...requestFor(source))).json();
      if (turn !== asked) return;
      state = answer;
      show();
      const mentions = state.documents.reduce((n, d) => n + d.mentions.length, 0), relations = state.documents.reduce((n, d) => n + d.relations.length, 0);
      const seconds = ((performance.now() - began) / 1000).toFixed(2);
      say(`${count(mentions, "mention")}${relations ? `, ${count(relations, "relation")}` : ""} in ${count(state.documents.length, "document")}, ${seconds} s` +
        (state.failed.length ? `; ${count(state.failed.length, "record")} failed: ${state.failed[0].reason}` : ""), state.failed.length > 0);
      if (innerWidth < 900) $("result").scrollIntoView();
    } catch (error) {
      if (turn === asked) say(error.message === "Failed to fetch" ? "The service does not answer." : error.message, true);
    } finally {
      if (turn === asked) $("go").disabled = false;
    }
  };

  // ---------------------------------------------------------------- drawing
  const show = () => {
    types = new Map(); off = new Set(); current = null;
    for (const d of state.documents) for (const m of d.mentions) { hueOf(m.type); types.get(m.type).count++; }
    $("documents").replaceChildren(...state.documents.map(drawDocument));
    $("types").replaceChildren(...[...types].map(([type, { hue, count: n, number }]) => {
      const chip = make("button", { class: "chip", type: "button", "aria-pressed": "true", "data-type": type },
        make("i", {}, number < 10 ? String(number) : ""), type || "(no type)", make("small", {}, n.toLocaleString("en")));
      chip.style.setProperty("--h", hue);
      return chip;
    }));
    if (!types.size) $("types").append(make("span", { class: "soft" }, "No mention was found."));
    $("tools").hidden = !state.documents.length;
    $("empty").hidden = state.documents.length > 0;
    $("clear").hidden = false;
    $("least-label").hidden = !state.documents.some(d => d.mentions.some(m => m.score !== null));
    $("arcs-label").hidden = !state.documents.some(d => d.relations.length);
    filter();
  };
  const drawDocument = (document_, index) => {
    // Offsets count code points, strings of this language UTF-16 units.
    const characters = Array.from(document_.text), passages = document_.passages.length ? document_.passages : [{ kind: "", text: document_.text, offset: 0 }];
    const text = make("div", { class: "text" });
    for (const passage of passages) {
      const heading = [passage.kind, passage.label].filter(Boolean).join(" · ");
      if (heading && passage.kind !== "title" && passages.length > 1) text.append(make("h3", {}, heading));
      const p = make("p", { class: passage.kind === "title" ? "t title" : "t" }), end = passage.offset + Array.from(passage.text).length;
      drawText(p, characters, passage.offset, end, document_, index);
      text.append(p);
    }
    const facts = [count(document_.mentions.length, "mention")];
    if (document_.relations.length) facts.push(count(document_.relations.length, "relation"));
    const article = make("article", { class: "doc card", "data-d": index },
      make("h2", {}, make("b", {}, document_.id || `document ${index + 1}`), make("span", {}, facts.join(", "))), text);
    if (document_.relations.length) {
      text.classList.add("has-arcs");
      text.append(draw("svg", { class: "wires", "aria-hidden": "true" }));
      article.append(relationTable(document_));
    }
    if (document_.mentions.length) article.append(mentionTable(document_));
    return article;
  };
  // Nested mentions lie in each other; one that crosses another goes on as a second piece.
  const drawText = (parent, characters, from, to, document_, index) => {
    const pieces = [];
    document_.mentions.forEach((mention, m) => {
      const fragments = mention.fragments && mention.fragments.length ? mention.fragments : [[mention.start, mention.end]];
      fragments.forEach(([start, end], f) => {
        if (Math.max(start, from) < Math.min(end, to)) pieces.push({ start: Math.max(start, from), end: Math.min(end, to), m, first: f === 0, last: f === fragments.length - 1, parts: fragments.length });
      });
    });
    const order = (a, b) => a.start - b.start || b.end - a.end;
    pieces.sort(order);
    const stack = [];
    let at = from, node = parent;
    const textTo = end => { if (end > at) node.append(characters.slice(at, end).join("")); at = end; };
    while (pieces.length || stack.length) {
      const top = stack[stack.length - 1];
      if (top && (!pieces.length || top.end <= pieces[0].start)) { textTo(top.end); node = node.parentNode; stack.pop(); continue; }
      const piece = pieces.shift();
      textTo(piece.start);
      if (top && piece.end > top.end) {
        const rest = { ...piece, start: top.end, first: false, goes: true };
        const place = pieces.findIndex(p => order(p, rest) > 0);
        pieces.splice(place < 0 ? pieces.length : place, 0, rest);
        piece.end = top.end; piece.last = false; piece.open = true;
      }
      const mention = document_.mentions[piece.m], mark = make("mark", { "data-m": piece.m, tabindex: "-1" });
      mark.style.setProperty("--h", hueOf(mention.type));
      if (piece.last && mention.type) mark.dataset.l = shorten(mention.type);
      if (piece.first) mark.dataset.first = "";
      mark.classList.toggle("open", !!piece.open); mark.classList.toggle("goes", !!piece.goes);
      mark.classList.toggle("part", piece.parts > 1); mark.classList.toggle("unsure", mention.score !== null && mention.score < UNSURE);
      if (piece.first) mark.setAttribute("aria-label", `${mention.text}, ${mention.type}${mention.score === null ? "" : `, score ${mention.score.toFixed(2)}`}`);
      node.append(mark);
      node = mark;
      stack.push(piece);
    }
    textTo(to);
  };
  const sides = (document_, relation) => relation.arguments.map(argument => {
    let found = document_.mentions.findIndex(m => m.id && m.id === argument.target);
    if (found < 0) found = document_.mentions.findIndex(m => (m.ids || []).includes(argument.target));
    return { role: argument.role, target: argument.target, m: found, text: found < 0 ? argument.target : document_.mentions[found].text };
  });
  const relationTable = document_ => {
    const rows = document_.relations.map((relation, r) => {
      const found = sides(document_, relation);
      return make("tr", { "data-m": found.map(s => s.m).join(" "), "data-r": r }, make("td", {}, relation.type),
        make("td", {}, found.map(s => s.role ? `${s.role}: ${s.text}` : s.text).join(" → ")), make("td", { class: "n" }, relation.score == null ? "" : relation.score.toFixed(3)));
    });
    const head = make("tr", {}, make("th", {}, "Relation"), make("th", {}, "Between"), make("th", { class: "n" }, "Score"));
    return make("details", { open: "" }, make("summary", {}, count(rows.length, "relation")), make("div", { class: "scroll" }, make("table", {}, head, ...rows)));
  };
  const mentionTable = document_ => {
    const groups = new Map();
    document_.mentions.forEach((mention, m) => {
      const key = `${mention.type}\n${mention.text.toLowerCase()}`, group = groups.get(key) || groups.set(key, { mention, all: [], scores: [] }).get(key);
      group.all.push(m);
      if (mention.score !== null) group.scores.push(mention.score);
    });
    const rows = [...groups.values()].sort((a, b) => b.all.length - a.all.length).map(({ mention, all, scores }) => {
      const dot = make("i", { class: "dot" });
      dot.style.setProperty("--h", hueOf(mention.type));
      return make("tr", { "data-m": all.join(" "), "data-type": mention.type }, make("td", {}, mention.text), make("td", {}, dot, mention.type),
        make("td", {}, (mention.ids || []).join(", ")), make("td", { class: "n" }, String(all.length)), make("td", { class: "n" }, scores.length ? Math.max(...scores).toFixed(3) : ""));
    });
    const head = make("tr", {}, make("th", {}, "Mention"), make("th", {}, "Type"), make("th", {}, "Identifier"), make("th", { class: "n" }, "Times"), make("th", { class: "n" }, "Best score"));
    return make("details", {}, make("summary", {}, `${count(rows.length, "distinct mention")}`), make("div", { class: "scroll" }, make("table", {}, head, ...rows)));
  };

  // ---------------------------------------------------------------- relations as wires
  const wire = article => {
    const svg = article.querySelector("svg.wires");
    if (!svg) return;
    const document_ = state.documents[article.dataset.d], on = $("arcs").checked, box = svg.getBoundingClientRect();
    svg.replaceChildren();
    svg.parentNode.classList.toggle("has-arcs", on);
    if (!on || document_.relations.length > MOST_WIRES) return;
    const place = m => {
      const mark = article.querySelector(`mark[data-m="${m}"][data-first]`);
      if (!mark || mark.classList.contains("off")) return null;
      const r = mark.getClientRects()[0];
      return { x: r.left - box.left + Math.min(r.width, 90) / 2, top: r.top - box.top, bottom: r.bottom - box.top };
    };
    const lanes = [];
    document_.relations.forEach((relation, r) => {
      const found = sides(document_, relation).filter(s => s.m >= 0), [a, b] = [found[0], found[1]].map(s => s && place(s.m));
      if (!a || !b) return;
      const group = draw("g", { "data-r": r, "data-m": found.map(s => s.m).join(" ") });
      group.style.setProperty("--h", hueOfRelation(relation.type));
      // Wires run in the gap above a line, those of one gap that would lie over each other each in a lane of their own:
      // within a line from top to top, else from under the upper mention to the top of the lower one.
      const oneLine = Math.abs(a.top - b.top) < 12, upper = a.top <= b.top ? a : b, lower = upper === a ? b : a;
      const line = Math.max(a.top, b.top), left = Math.min(a.x, b.x), right = Math.max(a.x, b.x);
      let lane = 0;
      while (lanes.some(l => l.lane === lane && Math.abs(l.line - line) < 12 && l.left < right + 8 && l.right > left - 8)) lane++;
      lanes.push({ lane, line, left, right });
      const y = line - 11 - 9 * Math.min(lane, 2), bend = Math.min(8, (right - left) / 2), way = upper.x < lower.x ? 1 : -1;
      const start = oneLine ? `M${upper.x},${upper.top} V${y + bend} Q${upper.x},${y}` : `M${upper.x},${upper.bottom} V${y - bend} Q${upper.x},${y}`;
      const path = right - left < 2 ? `M${upper.x},${oneLine ? upper.top : upper.bottom} V${lower.top}` :
        `${start} ${upper.x + way * bend},${y} H${lower.x - way * bend} Q${lower.x},${y} ${lower.x},${y + bend} V${lower.top}`;
      const head = b === lower || oneLine ? `M${b.x},${b.top} l-3.6,-6.5 h7.2 z` : `M${b.x},${b.bottom} l-3.6,6.5 h7.2 z`;
      group.append(draw("path", { d: path }), draw("path", { class: "head", d: head }));
      const top = y;
      const label = draw("text", { x: (a.x + b.x) / 2, y: top + 3.5 });
      label.textContent = shorten(relation.type);
      if (right - left <= 24) { label.setAttribute("x", right + 8); label.style.textAnchor = "start"; }
      group.append(label);
      svg.append(group);
    });
  };
  const relationHues = new Map();
  const hueOfRelation = type => relationHues.get(type) ?? relationHues.set(type, FREE[relationHues.size % FREE.length]).get(type);
  const wireAll = () => document.querySelectorAll(".doc").forEach(wire);

  // ---------------------------------------------------------------- what is shown
  const isShown = mention => !off.has(mention.type) && (mention.score === null || mention.score >= least);
  const filter = () => {
    for (const article of document.querySelectorAll(".doc")) {
      const { mentions } = state.documents[article.dataset.d];
      for (const mark of article.querySelectorAll("mark")) mark.classList.toggle("off", !isShown(mentions[mark.dataset.m]));
      for (const row of article.querySelectorAll("tr[data-m]"))
        row.hidden = row.dataset.r === undefined ? !row.dataset.m.split(" ").some(m => isShown(mentions[m])) : row.dataset.m.split(" ").some(m => m >= 0 && !isShown(mentions[m]));
    }
    wireAll();
  };
  const toggleType = chip => {
    const on = chip.getAttribute("aria-pressed") === "false";
    chip.setAttribute("aria-pressed", on);
    on ? off.delete(chip.dataset.type) : off.add(chip.dataset.type);
    filter();
  };
  const shown = () => state.documents.map(d => {
    const kept = d.mentions.filter(isShown), hidden = new Set(d.mentions.filter(m => !isShown(m)).flatMap(m => m.id ? [m.id] : []));
    return { ...d, mentions: kept, relations: d.relations.filter(r => !r.arguments.some(a => hidden.has(a.target))) };
  });
  const save = async format => {
    try {
      const answer = await call(`v1/convert?format=${format}`, json({ documents: shown() }));
      const name = /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") || ""), link = make("a", { download: name ? name[1] : "annotated" });
      link.href = URL.createObjectURL(await answer.blob());
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      say(`Saved ${link.download}`);
    } catch (error) { say(error.message, true); }
  };

  // ---------------------------------------------------------------- pointing
  const light = (article, names, relation) => {
    document.querySelectorAll("mark.lit, .wires g").forEach(node => node.classList.remove("lit", "dim"));
    if (!article || !names.length) return;
    for (const m of names) article.querySelectorAll(`mark[data-m="${m}"]`).forEach(mark => mark.classList.add("lit"));
    article.querySelectorAll(".wires g").forEach(g => {
      const mine = relation === undefined ? g.dataset.m.split(" ").some(m => names.includes(m)) : g.dataset.r === relation;
      if (mine) g.classList.add("lit");
      else if (relation !== undefined || [...article.querySelectorAll(".wires g")].some(o => o.dataset.m.split(" ").some(m => names.includes(m)))) g.classList.add("dim");
    });
  };
  const explain = mark => {
    const article = mark.closest(".doc"), document_ = state.documents[article.dataset.d], mention = document_.mentions[mark.dataset.m];
    light(article, [mark.dataset.m]);
    const score = mention.score === null ? "" : mention.score.toFixed(3);
    tip.replaceChildren(make("b", {}, mention.type || "mention", make("span", {}, score)));
    if (score) {
      const inner = make("div");
      inner.style.width = `${Math.min(1, Math.max(0, mention.score)) * 100}%`;
      tip.append(make("div", { class: "bar" }, inner));
    }
    if (mention.ids && mention.ids.length) tip.append(make("div", {}, mention.ids.join(", ")));
    for (const relation of document_.relations) {
      const found = sides(document_, relation);
      if (found.some(s => String(s.m) === mark.dataset.m))
        tip.append(make("small", {}, `${relation.type}: ${found.map(s => s.text).join(" → ")}${relation.score == null ? "" : ` (${relation.score.toFixed(2)})`}`));
    }
    tip.append(make("small", {}, `${mention.start}–${mention.end}${mention.infons && mention.infons.model ? ` · ${mention.infons.model}` : ""}`));
    tip.hidden = false;
    const box = mark.getClientRects()[0], own = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - own.width - 8))}px`;
    tip.style.top = `${box.bottom + own.height + 10 < innerHeight ? box.bottom + 8 : Math.max(8, box.top - own.height - 8)}px`;
  };
  const leave = () => { tip.hidden = true; light(null, []); };
  const walk = step => {
    const marks = [...document.querySelectorAll("mark[data-first]:not(.off)")];
    if (!marks.length) return;
    const at = marks.indexOf(current);
    current = marks[at < 0 ? (step > 0 ? 0 : marks.length - 1) : (at + step + marks.length) % marks.length];
    current.focus({ preventScroll: true });
    current.scrollIntoView({ block: "center" });
    explain(current);
  };

  document.addEventListener("mouseover", event => {
    const mark = event.target.closest("mark:not(.off)"), row = event.target.closest("tr[data-m]");
    if (mark) explain(mark);
    else if (row) { tip.hidden = true; light(row.closest(".doc"), row.dataset.m.split(" "), row.dataset.r); }
    else leave();
  });
  document.addEventListener("focusin", event => { const mark = event.target.closest("mark"); if (mark) { current = mark; explain(mark); } });
  document.addEventListener("focusout", event => { if (event.target.closest("mark")) leave(); });
  document.addEventListener("click", event => {
    const chip = event.target.closest(".chip"), format = event.target.closest("[data-format]"), row = event.target.closest("tr[data-m]"), mark = event.target.closest("mark:not(.off)");
    if (chip) toggleType(chip);
    else if (format) save(format.dataset.format);
    else if (mark) { mark.focus({ preventScroll: true }); explain(mark); }
    else if (row) {
      const target = row.closest(".doc").querySelector(`mark[data-m="${row.dataset.m.split(" ").find(m => m >= 0)}"]`);
      if (target) target.scrollIntoView({ block: "center" });
    }
  });
  addEventListener("scroll", () => { if (document.activeElement.tagName !== "MARK") tip.hidden = true; }, { passive: true });
  addEventListener("resize", wireAll);
  $("least").addEventListener("input", event => { least = +event.target.value; event.target.nextElementSibling.value = least.toFixed(2); filter(); });
  $("arcs").addEventListener("change", wireAll);
  $("go").addEventListener("click", () => annotate($("text").value));
  $("example").addEventListener("click", () => { $("text").value = EXAMPLE; annotate(EXAMPLE); });
  $("clear").addEventListener("click", () => { asked++; $("go").disabled = false; $("text").value = ""; state = { documents: [], failed: [] }; show(); $("clear").hidden = true; say(""); $("text").focus(); });
  $("file").addEventListener("change", event => { const [file] = event.target.files; if (file) open_(file); event.target.value = ""; });
  const open_ = file => { $("text").value = ""; $("text").placeholder = file.name; annotate(file); };
  const input = $("input");
  input.addEventListener("dragover", event => { event.preventDefault(); input.classList.add("over"); });
  input.addEventListener("dragleave", () => input.classList.remove("over"));
  input.addEventListener("drop", event => {
    event.preventDefault();
    input.classList.remove("over");
    const [file] = event.dataTransfer.files, text = event.dataTransfer.getData("text/plain");
    if (file) open_(file); else if (text) { $("text").value = text; annotate(text); }
  });

  // ---------------------------------------------------------------- keys
  const theme = () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    keep("localStorage", "theme", root.dataset.theme);
  };
  if (recall("localStorage", "theme")) root.dataset.theme = recall("localStorage", "theme");
  $("theme").addEventListener("click", theme);
  $("help").addEventListener("click", () => $("keys").showModal());
  document.addEventListener("keydown", event => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); annotate($("text").value); return; }
    const typing = /^(TEXTAREA|INPUT)$/.test(event.target.tagName) && !/^(range|checkbox)$/.test(event.target.type);
    if (event.key === "Escape" && typing) { event.target.blur(); $("result").focus(); return; }
    if (event.key === "Escape") leave();
    if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const actions = { j: () => walk(1), n: () => walk(1), k: () => walk(-1), p: () => walk(-1), t: theme, "?": () => $("keys").showModal(), "/": () => $("text").focus(),
      r: () => { $("arcs").checked = !$("arcs").checked; wireAll(); }, 0: () => document.querySelectorAll('.chip[aria-pressed="false"]').forEach(toggleType) };
    const chip = /^[1-9]$/.test(event.key) ? document.querySelectorAll(".chip")[event.key - 1] : null;
    if (chip) toggleType(chip);
    else if (actions[event.key]) actions[event.key]();
    else return;
    event.preventDefault();
  });

  // ---------------------------------------------------------------- what the service is
  (async () => {
    try {
      const { models } = await (await call("v1/models")).json();
      $("models").textContent = models.map(m => `${m.name}: ${m.types.slice(0, 8).join(", ")}${m.types.length > 8 ? ", …" : ""}`).join(" · ");
      $("leaderboard").hidden = !(await (await call("v1/limits")).json()).leaderboard;
    } catch (error) { say(error.message, true); }
  })();
})();
