"use strict";
// Filters over the results, and the standing of the methods on the files that are left.
(() => {
  const columns = JSON.parse(document.getElementById("results").textContent);
  const names = Object.keys(columns);
  const count = (columns.file.codes ?? columns.file).length;
  const results = Array.from({ length: count }, (_, row) =>
    Object.fromEntries(names.map((name) => {
      const own = columns[name];
      return [name, own.words ? own.words[own.codes[row]] : own[row]];
    })));
  for (const one of results) one.size = one.rows < 1000 ? "fewer than 1,000" : "1,000 and more";

  const filters = { files: "files", data: "data set", model: "base model", size: "rows to fit on", looks_at: "looks at", package: "package" };
  const chosen = {};
  const place = document.getElementById("filters");
  const make = (tag, properties = {}, ...inside) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...inside);
    return made;
  };
  for (const [key, title] of Object.entries(filters)) {
    const select = make("select", { ariaLabel: title });
    for (const value of ["all", ...new Set(results.map((one) => one[key]))]) select.append(make("option", { value }, value));
    select.addEventListener("change", () => { chosen[key] = select.value; draw(); });
    place.append(make("label", {}, `${title} `, select, " "));
  }
  const same = make("input", { type: "checkbox" });
  same.addEventListener("change", () => draw());
  place.append(make("label", {}, same, " only files on which every method shown gave a result"));

  const grouped = (list, key) => {
    const groups = new Map();
    for (const one of list) groups.set(key(one), [...(groups.get(key(one)) ?? []), one]);
    return groups;
  };
  const median = (values) => {
    const sorted = [...values].sort((a, b) => a - b);
    const middle = sorted.length >> 1;
    return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  };
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const percent = (value) => `${value < 0 ? "−" : "+"}${Math.abs(100 * value).toFixed(2)} %`;
  const heads = [
    ["method", (own) => own[0].method, String],
    ["package", (own) => own[0].package, String],
    ["files", (own) => own.length, String],
    ["mean gain", (own) => mean(own.map((one) => one.gain)), percent],
    ["median gain", (own) => median(own.map((one) => one.gain)), percent],
    ["made worse", (own) => own.filter((one) => one.worse).length, String],
    ["worst gain", (own) => Math.min(...own.map((one) => one.gain)), percent],
    ["worst segment", (own) => median(own.map((one) => one.segment)), (value) => value.toFixed(2)],
    ["fit, s (median)", (own) => median(own.map((one) => one.fit_s)), (value) => value.toFixed(2)],
  ];
  let by = 3, down = true;

  const draw = () => {
    const left = results.filter((one) => Object.keys(filters).every((key) => (chosen[key] ?? "all") === "all" || one[key] === chosen[key]));
    const methods = grouped(left, (one) => one.method);
    if (same.checked) {
      const counts = grouped(left, (one) => one.file);
      for (const [method, own] of methods) methods.set(method, own.filter((one) => counts.get(one.file).length === methods.size));
    }
    const lines = [...methods.values()].filter((own) => own.length).map((own) => heads.map(([, value]) => value(own)));
    const order = (a, b) => (a[by] < b[by] ? -1 : a[by] > b[by] ? 1 : 0);
    lines.sort((a, b) => (down ? order(b, a) : order(a, b)));
    const head = make("tr");
    heads.forEach(([title], column) => {
      const button = make("button", { type: "button" }, `${title}${column === by ? (down ? " ↓" : " ↑") : ""}`);
      button.addEventListener("click", () => { down = column === by ? !down : column > 1; by = column; draw(); });
      head.append(make("th", { className: column < 2 ? "word" : "" }, button));
    });
    const body = lines.map((line) => make("tr", {}, ...line.map((value, column) =>
      make("td", { className: column < 2 ? "word" : "" }, heads[column][2](value)))));
    document.getElementById("standing").replaceChildren(
      make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
  };
  draw();
})();
