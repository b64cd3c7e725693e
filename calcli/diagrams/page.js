"use strict";
// Tooltips, and switches for what is shown. Without this script the page shows everything.
(() => {
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const root = document.documentElement;
  root.classList.add("script");

  // Switches: a button shows what it names, or, in a group where one is chosen, nothing else.
  const pressed = (button) => button.getAttribute("aria-pressed") === "true";
  const named = new Set(all('.switches button[data-key="score"]').map((button) => button.value));
  const refresh = () => {
    const off = {};
    for (const button of all(".switches button")) {
      if (!pressed(button)) (off[button.dataset.key] ??= new Set()).add(button.value);
    }
    for (const part of all("[data-score], [data-of], [data-kind]")) {
      part.toggleAttribute("hidden", ["score", "of", "kind"].some((key) => off[key]?.has(part.dataset[key])));
    }
    // A picture of which every score is switched off would be an empty frame.
    for (const figure of all("figure:not([data-score])")) {
      const scores = all("[data-score]", figure).filter((part) => named.has(part.dataset.score));
      figure.toggleAttribute("hidden", scores.length > 0 && scores.every((part) => part.hasAttribute("hidden")));
    }
  };
  for (const button of all(".switches button")) {
    button.addEventListener("click", () => {
      const group = all("button", button.parentElement);
      if (button.parentElement.dataset.choose === "one") {
        group.forEach((other) => other.setAttribute("aria-pressed", other === button));
      } else if (!pressed(button) || group.filter(pressed).length > 1) {
        button.setAttribute("aria-pressed", !pressed(button));
      }
      refresh();
    });
  }
  refresh();

  // Tooltips: the point that is nearest in x, of each curve in the picture.
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);

  const digits = (value) => (value === null ? "" : value.toFixed(3));
  const rows = (value) => value.toLocaleString("en", { maximumFractionDigits: 0 });
  const number = (value) => String(+value.toPrecision(4));
  const percent = (value) => `${(100 * value).toFixed(1)} %`;
  const words = {
    reliability: (p, its) =>
      `${its.predicted} ${digits(p.x)}, ${its.observed} ${digits(p.y)}\n${rows(p.n)} rows from ${+p.begin.toFixed(4)} to ${+p.end.toFixed(4)}`,
    corp: (p, its) => `${its.predicted} ${digits(p.x)}, ${its.observed} ${digits(p.y)}`,
    smooth: (p, its) => `${its.predicted} ${digits(p.x)}, ${its.observed} ${digits(p.y)}`,
    rejection: (p, its, score) => `${score}: ${percent(p.y)} of the rows kept are wrong`,
    chart: (p, its, score) => `${score}: ${number(p.y)}`,
  };
  const point = ([x, y, n, lo, hi, begin, end]) => ({ x, y, n, lo, hi, begin, end });
  const tracks = (svg) =>
    all("[data-points]", svg)
      .filter((track) => !track.closest("[hidden]"))
      .map((track) => ({ track, points: (track.found ??= JSON.parse(track.dataset.points).map(point)) }));
  const bent = { prob: (v) => v, log: Math.log, logit: (v) => Math.log(v / (1 - v)) };
  const share = (value, begin, end, scale) => {
    const [low, high, at] = [+begin, +end, Math.min(Math.max(value, +begin), +end)].map(bent[scale]);
    return (at - low) / (high - low);
  };
  const place = (svg, x, y) => {
    const shape = svg.dataset.shape.split(" ");
    const [left, top, width, height] = shape.map(Number);
    return [left + share(x, ...shape.slice(4, 7)) * width, top + height - share(y, ...shape.slice(7)) * height];
  };
  const within = (svg, p, left) => {
    const [begin, end] = [p.begin ?? p.x, p.end ?? p.x].map((x) => place(svg, x, 0)[0]);
    return Math.max(begin - left, left - end, 0);
  };
  const nearest = (svg, points, left) =>
    points.reduce((best, p, i) => (within(svg, p, left) < within(svg, points[best], left) ? i : best), 0);

  const show = (svg, at) => {
    const lines = [];
    let anchor = null;
    for (const { track, points } of tracks(svg)) {
      if (!points.length) continue;
      const p = points[at(points)];
      const [x, y] = place(svg, p.x, p.y);
      const cursor = track.querySelector(".cursor");
      cursor.setAttribute("cx", x);
      cursor.setAttribute("cy", y);
      cursor.removeAttribute("hidden");
      anchor ??= cursor;
      const its = svg.dataset;
      if (its.drawn === "rejection" && !lines.length) lines.push(`${percent(p.x)} rejected`);
      if (its.drawn === "chart" && !lines.length) lines.push(`${its.x} ${number(p.x)}`);
      lines.push(words[its.drawn](p, its, track.dataset.score));
      if (p.lo !== null && its.band) lines.push(`${its.band}: ${digits(p.lo)} to ${digits(p.hi)}`);
    }
    if (!anchor) return;
    tip.textContent = lines.join("\n");
    tip.hidden = false;
    const dot = anchor.getBoundingClientRect();
    const box = tip.getBoundingClientRect();
    const left = Math.min(Math.max(6, dot.left - box.width / 2), root.clientWidth - box.width - 6);
    const top = dot.top - box.height - 12;
    tip.style.left = `${left}px`;
    tip.style.top = `${top > 4 ? top : dot.bottom + 12}px`;
  };
  const hide = (svg) => {
    tip.hidden = true;
    all(".cursor", svg).forEach((cursor) => cursor.setAttribute("hidden", ""));
  };
  for (const svg of all("svg[data-shape]")) {
    let index = null;
    const follow = (event) => {
      const box = svg.getBoundingClientRect();
      const left = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      show(svg, (points) => (index = nearest(svg, points, left)));
    };
    svg.addEventListener("pointermove", follow);
    svg.addEventListener("pointerdown", follow);
    svg.addEventListener("pointerleave", () => hide(svg));
    svg.addEventListener("blur", () => hide(svg));
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") hide(svg);
      if (!step) return;
      event.preventDefault();
      index = index === null ? 0 : index + step;
      show(svg, (points) => (index = Math.min(Math.max(index, 0), points.length - 1)));
    });
  }

  // The slider: what follows from a threshold, in its table and as a line in the pictures.
  for (const slider of all("[data-slider]")) {
    const data = JSON.parse(slider.dataset.slider);
    const input = slider.querySelector("input");
    const move = () => {
      const at = (name) => data[name][input.value];
      const [tp, fp, fn, tn] = ["tp", "fp", "fn", "tn"].map(at);
      const total = tp + fp + fn + tn;
      const share = (part, whole) => (whole > 0 ? percent(part / whole) : "none");
      const cells = {
        threshold: String(+at("threshold").toPrecision(3)),
        tp: rows(tp), fp: rows(fp), fn: rows(fn), tn: rows(tn),
        alerts: share(tp + fp, total), precision: share(tp, tp + fp), recall: share(tp, tp + fn),
        "false-positive rate": share(fp, fp + tn), accuracy: share(tp + tn, total),
      };
      if (data.cost) cells["cost per row"] = number(at("cost"));
      if (data.cost) cells["cost of all rows"] = rows(at("cost") * total);
      for (const cell of all("[data-cell]", slider)) cell.textContent = cells[cell.dataset.cell];
      for (const svg of all('svg[data-x="threshold"]')) {
        const [, top, , height] = svg.dataset.shape.split(" ").map(Number);
        const line = svg.querySelector(".at");
        line.setAttribute("d", `M${place(svg, at("threshold"), 0)[0]} ${top}v${height}`);
        line.removeAttribute("hidden");
      }
    };
    input.addEventListener("input", move);
    move();
  }

  // The numbers behind a picture, when somebody asks for them.
  for (const details of all("details[data-numbers]")) {
    details.addEventListener("toggle", () => {
      const target = details.querySelector(".scroll");
      if (!details.open || target.firstChild) return;
      const table = document.createElement("table");
      const add = (cells, kind) => {
        const row = table.insertRow();
        for (const text of cells) row.appendChild(document.createElement(kind)).textContent = text;
      };
      const found = all("[data-points]", details.parentElement);
      const columns = details.dataset.numbers.split(",");
      add([...(found.length > 1 ? ["score"] : []), ...columns], "th");
      for (const track of found) {
        for (const [x, y, n, lo, hi] of JSON.parse(track.dataset.points)) {
          const cells = columns.length === 2 ? [number(x), number(y)] : [digits(x), digits(y), rows(n), digits(lo), digits(hi)];
          add([...(found.length > 1 ? [track.dataset.score] : []), ...cells], "td");
        }
      }
      target.append(table);
    });
  }
})();
