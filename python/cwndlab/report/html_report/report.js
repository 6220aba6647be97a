// The report's plots: the linked ones over time, and the box plots.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const COLOURS = 7;
  const DASHES = [[], [7, 3], [2, 2.5], [8, 3, 2, 3]];
  const SVG = "http://www.w3.org/2000/svg";

  if (document.getElementById("add-run")) viewer();
  if (document.getElementById("boxes")) boxPlots();

  // ---- plots over time

  function viewer() {
    const runs = new Map(data.runs.map((run) => [run.id, run]));
    const decoded = new Map();
    const shown = [];
    const view = { from: 0, to: 1, all: [0, 1], cursor: null, pointed: null };
    const panels = Array.from(document.querySelectorAll("figure[data-kind]"), panel);
    const legend = document.getElementById("legend");
    const adder = document.getElementById("add-run");
    const fields = [document.getElementById("from"), document.getElementById("to")];

    adder.append(new Option("choose …", ""));
    for (const run of data.runs) adder.append(new Option(`${number(run.id)}: ${run.label}`, run.id));
    adder.addEventListener("change", () => {
      if (adder.value) show(adder.value);
      adder.value = "";
    });
    for (const button of document.querySelectorAll("button.pick")) {
      button.addEventListener("click", () => {
        if (shown.includes(button.dataset.run)) hide(button.dataset.run);
        else show(button.dataset.run);
      });
    }
    const actions = {
      in: () => zoom(0.5), out: () => zoom(2), earlier: () => move(-0.25), later: () => move(0.25), all: () => span(...view.all),
    };
    for (const button of document.querySelectorAll("button[data-action]")) {
      button.addEventListener("click", actions[button.dataset.action]);
    }
    fields.forEach((field) => field.addEventListener("change", () => {
      const from = fields[0].value === "" ? view.all[0] : Number(fields[0].value);
      const to = fields[1].value === "" ? view.all[1] : Number(fields[1].value);
      if (from < to) span(from, to);
    }));
    const redraw = () => panels.forEach((each) => each.draw());
    // Paper gets the light colours.
    const print = (on) => () => {
      document.documentElement.classList.toggle("printing", on);
      fit(on);
      redraw();
    };
    const unlessPrinting = () => document.documentElement.classList.contains("printing") || redraw();
    new ResizeObserver(unlessPrinting).observe(document.body);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", unlessPrinting);
    window.addEventListener("beforeprint", print(true));
    window.addEventListener("afterprint", print(false));
    Promise.all(data.start.map((id) => show(id)));

    function number(id) {
      return id.split("-")[0];
    }

    async function show(id) {
      if (shown.includes(id)) return;
      shown.push(id);
      try {
        if (!decoded.has(id)) decoded.set(id, await unpack(runs.get(id), id));
      } catch (error) {
        hide(id);
        const problem = document.getElementById("viewer-problem");
        problem.hidden = false;
        problem.textContent = `The series of run ${number(id)} cannot be unpacked here (${error.message}).`;
        return;
      }
      changed();
    }

    function hide(id) {
      shown.splice(shown.indexOf(id), 1);
      changed();
    }

    function changed() {
      const ready = shown.filter((id) => decoded.has(id));
      const before = view.all;
      let end = 0;
      for (const id of ready) for (const line of decoded.get(id)) end = Math.max(end, line.t[line.t.length - 1]);
      view.all = [0, end || 1];
      const whole = view.from <= before[0] && view.to >= before[1];
      // One pen for each flow or hop of each run, the same in every plot.
      const pens = new Map();
      const lines = [];
      for (const id of ready) {
        for (const line of decoded.get(id)) {
          const key = `${id}\n${line.panel === "queue" ? "" : line.name}`;
          // A hop is drawn with the pen of its run's first flow, and every further hop with a pen of its own.
          const own = line.panel === "queue" ? hopKey(id, line.name) : key;
          if (!pens.has(own)) pens.set(own, { id, name: line.name, panels: new Set() });
          pens.get(own).panels.add(line.panel);
          lines.push({ ...line, pen: pens.get(own), run: id });
        }
      }
      takePlaces(Array.from(pens.values()));
      for (const line of lines) line.pen = line.pen.place;
      for (const each of panels) each.lines = lines.filter((line) => line.panel === each.kind);
      drawLegend(Array.from(pens.values()), ready);
      for (const button of document.querySelectorAll("button.pick")) {
        button.setAttribute("aria-pressed", String(shown.includes(button.dataset.run)));
      }
      if (whole) span(...view.all);
      else span(view.from, view.to);
    }

    // The first line of a stack or a congestion control has its colour; the others have what is free.
    function takePlaces(pens) {
      const taken = new Set();
      for (const pen of pens) {
        const { pens: places } = runs.get(pen.id);
        const own = Object.hasOwn(places, pen.name) ? places[pen.name] : undefined;
        if (own === undefined || taken.has(own)) continue;
        pen.place = own;
        taken.add(own);
      }
      let next = 0;
      for (const pen of pens.filter((each) => each.place === undefined)) {
        while (taken.has(next)) next += 1;
        pen.place = next;
        taken.add(next);
      }
    }

    function hopKey(id, hop) {
      const lines = decoded.get(id);
      const hops = lines.filter((line) => line.panel === "queue").map((line) => line.name);
      const flow = lines.find((line) => line.panel !== "queue");
      return hops[0] === hop && flow ? `${id}\n${flow.name}` : `${id}\nhop ${hop}`;
    }

    function drawLegend(pens, ready) {
      legend.replaceChildren();
      for (const pen of pens) {
        const item = document.createElement("li");
        item.append(swatch(pen.place), text(pen, pens));
        item.addEventListener("pointerenter", () => point(pen.place));
        item.addEventListener("pointerleave", () => point(null));
        const first = pens.find((other) => other.id === pen.id) === pen;
        if (first && runs.get(pen.id).live) item.append(liveLink(pen.id));
        if (first && ready.length > 1) {
          const button = document.createElement("button");
          button.type = "button";
          button.textContent = "×";
          button.setAttribute("aria-label", `Remove run ${number(pen.id)}`);
          button.addEventListener("click", () => hide(pen.id));
          item.append(button);
        }
        legend.append(item);
      }
    }

    // The line of a pen stands out from the others.
    function point(place) {
      view.pointed = place;
      panels.forEach((each) => each.draw());
    }

    function liveLink(id) {
      const link = document.createElement("a");
      link.className = "live";
      link.href = runs.get(id).live;
      link.target = "_blank";
      link.rel = "noopener noreferrer";
      link.textContent = "live";
      link.setAttribute("aria-label", `Open run ${number(id)} in the live lab`);
      return link;
    }

    function text(pen, pens) {
      const several = pens.filter((other) => other.id === pen.id).length > 1;
      return `${number(pen.id)}: ${runs.get(pen.id).label}${several ? `, ${pen.name}` : ""}`;
    }

    function swatch(place) {
      const svg = svgElement("svg", { width: 34, height: 10, "aria-hidden": "true" });
      const line = svgElement("line", { x1: 1, x2: 33, y1: 5, y2: 5, "stroke-width": 2.5 });
      line.setAttribute("stroke-dasharray", DASHES[Math.floor(place / COLOURS) % DASHES.length].join(" "));
      line.style.stroke = `var(--c${place % COLOURS})`;
      svg.append(line);
      return svg;
    }

    function span(from, to) {
      const [first, last] = view.all;
      const shortest = (last - first) * 1e-6;
      let width = Math.min(Math.max(to - from, shortest), last - first);
      view.from = Math.min(Math.max(from, first), last - width);
      view.to = view.from + width;
      fields[0].value = Number(view.from.toPrecision(6));
      fields[1].value = Number(view.to.toPrecision(6));
      panels.forEach((each) => each.draw());
    }

    function zoom(factor, around = (view.from + view.to) / 2) {
      span(around - (around - view.from) * factor, around + (view.to - around) * factor);
    }

    function move(share) {
      const by = (view.to - view.from) * share;
      span(view.from + by, view.to + by);
    }

    function panel(figure) {
      const base = figure.querySelector("canvas.base");
      const overlay = figure.querySelector("canvas.overlay");
      const readout = figure.querySelector(".readout");
      const name = figure.querySelector("strong").textContent;
      const unit = base.getAttribute("aria-label");
      const self = { kind: figure.dataset.kind, lines: [], draw, point, frame: null };
      let dragged = null;

      const time = (event) => {
        const { left, width } = self.frame;
        const x = event.clientX - base.getBoundingClientRect().left;
        return view.from + (Math.min(Math.max(x - left, 0), width) / width) * (view.to - view.from);
      };
      base.addEventListener("pointerdown", (event) => {
        if (event.button !== 0 || !self.frame) return;
        base.setPointerCapture(event.pointerId);
        dragged = { from: time(event), x: event.clientX };
      });
      base.addEventListener("pointermove", (event) => {
        if (!self.frame) return;
        view.cursor = time(event);
        view.drag = dragged ? [dragged.from, view.cursor] : null;
        panels.forEach((each) => each.point());
      });
      base.addEventListener("pointerup", (event) => {
        if (!dragged) return;
        const [a, b] = [dragged.from, time(event)];
        const far = Math.abs(event.clientX - dragged.x) > 5;
        dragged = view.drag = null;
        if (far) span(Math.min(a, b), Math.max(a, b));
        panels.forEach((each) => each.point());
      });
      const leave = () => {
        dragged = view.drag = view.cursor = null;
        panels.forEach((each) => each.point());
      };
      base.addEventListener("pointerleave", leave);
      base.addEventListener("pointercancel", leave);
      figure.querySelector("button.csv").addEventListener("click", () => save(`${self.kind}.csv`, new Blob([csv()], { type: "text/csv" })));
      figure.querySelector("button.png").addEventListener("click", () => base.toBlob((blob) => save(`${self.kind}.png`, blob)));
      base.addEventListener("dblclick", () => span(...view.all));
      base.addEventListener("keydown", (event) => {
        const keys = {
          ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5),
          "-": () => zoom(2), 0: () => span(...view.all),
        };
        if (keys[event.key] && !event.ctrlKey && !event.metaKey) {
          event.preventDefault();
          keys[event.key]();
        }
      });
      return self;

      function draw() {
        const context = prepare(base);
        if (!context) return;
        const style = getComputedStyle(document.documentElement);
        const colour = (variable) => style.getPropertyValue(variable).trim();
        const width = base.clientWidth;
        const height = base.clientHeight;
        let top = -Infinity;
        let bottom = self.lines.length ? 0 : Infinity;
        for (const line of self.lines) {
          const [from, to] = visible(line);
          for (let i = from; i < to; i++) if (line.y[i] > top) top = line.y[i];
        }
        if (!(top > 0)) top = 1;
        bottom = 0;
        const rows = ticks(bottom, top * 1.04, height < 200 ? 4 : 6);
        top = Math.max(top * 1.04, rows[rows.length - 1]);
        context.font = "12px system-ui, sans-serif";
        // The same in every plot, so that equal times stand below each other.
        const left = 56;
        const frame = { left, top: 8, width: width - left - 14, height: height - 32, high: top };
        self.frame = frame;
        const x = (t) => frame.left + ((t - view.from) / (view.to - view.from)) * frame.width;
        const y = (value) => frame.top + frame.height - (value / top) * frame.height;

        context.lineWidth = 1;
        context.textBaseline = "middle";
        context.textAlign = "right";
        for (const row of rows) {
          context.strokeStyle = colour("--line");
          stroke(context, frame.left, y(row), frame.left + frame.width, y(row));
          context.fillStyle = colour("--soft");
          context.fillText(label(row), frame.left - 5, y(row));
        }
        context.textBaseline = "top";
        context.textAlign = "center";
        const times = ticks(view.from, view.to, Math.max(3, Math.min(10, Math.floor(width / 90))));
        times.forEach((at, place) => {
          context.strokeStyle = colour("--line");
          stroke(context, x(at), frame.top, x(at), frame.top + frame.height);
          context.fillStyle = colour("--soft");
          const words = label(at) + (place === times.length - 1 ? " s" : "");
          const half = context.measureText(words).width / 2;
          context.fillText(words, Math.min(x(at), width - half - 1), frame.top + frame.height + 6);
        });

        context.save();
        context.beginPath();
        context.rect(frame.left, frame.top - 3, frame.width, frame.height + 5);
        context.clip();
        context.lineJoin = "round";
        for (const line of self.lines) {
          context.strokeStyle = colour(`--c${line.pen % COLOURS}`);
          context.globalAlpha = view.pointed === null || view.pointed === line.pen ? 1 : 0.15;
          context.lineWidth = (line.companion ? 1.1 : 1.6) * (view.pointed === line.pen ? 1.6 : 1);
          context.setLineDash(line.companion ? [1.5, 3] : DASHES[Math.floor(line.pen / COLOURS) % DASHES.length]);
          trace(context, line, x, y);
        }
        context.restore();
        const range = `${name} over time from ${label(view.from)} s to ${label(view.to)} s, ${self.lines.length} lines`;
        base.setAttribute("aria-label", self.lines.length ? `${range}, highest value ${label(top / 1.04)}` : `${unit}: nothing recorded`);
        base.dataset.from = view.from;
        base.dataset.to = view.to;
        base.dataset.lines = self.lines.length;
        command();
        point();
      }

      function trace(context, line, x, y) {
        const [from, to] = visible(line);
        const steps = line.panel === "cwnd" || line.panel === "queue";
        let pen = false;
        let last = 0;
        context.beginPath();
        for (let i = from; i < to; i++) {
          const value = line.y[i];
          if (Number.isNaN(value)) {
            pen = false;
            continue;
          }
          const at = x(line.t[i]);
          if (!pen) context.moveTo(at, y(value));
          else {
            if (steps) context.lineTo(at, last);
            context.lineTo(at, y(value));
          }
          pen = true;
          last = y(value);
        }
        context.stroke();
      }

      // Samples in the view, and one beyond each edge so that lines run to it.
      function visible(line) {
        return [Math.max(0, before(line.t, view.from)), Math.min(line.t.length, before(line.t, view.to) + 2)];
      }

      function point() {
        const context = prepare(overlay);
        const frame = self.frame;
        readout.textContent = "";
        if (!context || !frame || view.cursor === null) return;
        const style = getComputedStyle(document.documentElement);
        const x = (t) => frame.left + ((t - view.from) / (view.to - view.from)) * frame.width;
        if (view.drag) {
          context.globalAlpha = 0.18;
          context.fillStyle = style.getPropertyValue("--accent").trim();
          context.fillRect(x(view.drag[0]), frame.top, x(view.drag[1]) - x(view.drag[0]), frame.height);
          context.globalAlpha = 1;
        }
        context.strokeStyle = style.getPropertyValue("--soft").trim();
        stroke(context, x(view.cursor), frame.top, x(view.cursor), frame.top + frame.height);
        const values = [];
        for (const line of self.lines) {
          const at = before(line.t, view.cursor);
          if (line.companion || at < 0 || Number.isNaN(line.y[at])) continue;
          const several = self.lines.some((other) => other.run === line.run && other.name !== line.name);
          values.push(`${runs.get(line.run).label || `run ${number(line.run)}`}${several ? ` ${line.name}` : ""} ${label(line.y[at])}`);
          context.fillStyle = style.getPropertyValue(`--c${line.pen % COLOURS}`).trim();
          context.beginPath();
          context.arc(x(view.cursor), frame.top + frame.height - (line.y[at] / frame.high) * frame.height, 3.5, 0, 7);
          context.fill();
        }
        if (values.length) readout.textContent = `at ${view.cursor.toPrecision(5)} s: ${values.slice(0, 8).join(", ")}${values.length > 8 ? " …" : ""}`;
      }

      // What is shown, a row for each sample.
      function csv() {
        const quote = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
        const rows = [`run,label,line,time [s],${quote(unit)}`];
        for (const line of self.lines) {
          const head = [number(line.run), runs.get(line.run).label, `${line.name}${line.companion ? " (dotted)" : ""}`].map(quote).join(",");
          const [from, to] = visible(line);
          for (let i = from; i < to; i++) if (!Number.isNaN(line.y[i])) rows.push(`${head},${line.t[i]},${line.y[i]}`);
        }
        return `${rows.join("\n")}\n`;
      }

      function command() {
        const whole = view.from <= view.all[0] && view.to >= view.all[1];
        const window_ = whole ? "" : ` --window ${view.from.toPrecision(6)}:${view.to.toPrecision(6)}`;
        figure.querySelector(".command").textContent =
          `cwndlab plot ${data.directory} --kind ${self.kind} ${shown.map((id) => `--run ${number(id)}`).join(" ")}${window_} -o ${self.kind}.png`;
      }
    }
  }

  // Columns that a sheet of paper would cut off are made smaller; the sheets are turned round if that takes much.
  function fit(printing) {
    const [upright, turned] = [700, 960]; // CSS pixels between the margins of A4 or Letter
    const tables = [...document.querySelectorAll(".scroll > table")];
    for (const table of tables) table.style.zoom = "";
    const sheet = document.styleSheets[0];
    const last = sheet.cssRules.length - 1;
    if (sheet.cssRules[last] instanceof CSSPageRule) sheet.deleteRule(last);
    if (!printing) return;
    const widths = tables.map((table) => table.offsetWidth);
    const turn = Math.max(0, ...widths) > 1.25 * upright;
    if (turn) sheet.insertRule("@page { size: landscape; }", sheet.cssRules.length);
    tables.forEach((table, i) => {
      table.style.zoom = Math.min(1, (turn ? turned : upright) / widths[i]);
    });
  }

  function save(name, blob) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  function prepare(canvas) {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    if (!width || !height) return null;
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    return context;
  }

  function stroke(context, x1, y1, x2, y2) {
    context.beginPath();
    context.moveTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
    context.lineTo(Math.round(x2) + 0.5, Math.round(y2) + 0.5);
    context.stroke();
  }

  // Index of the last time at or before `at`, -1 if there is none.
  function before(times, at) {
    let [low, high] = [0, times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] <= at) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  function ticks(from, to, most) {
    const raw = (to - from) / most;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= raw * 0.999) || 10 * power;
    const found = [];
    for (let k = Math.ceil(from / step - 1e-9); k * step <= to + step * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
    return found;
  }

  function label(value) {
    return Number(value.toPrecision(5)).toLocaleString("en", { maximumSignificantDigits: 6, useGrouping: value >= 1e5 });
  }

  // The other half of pack.py: raw deflate of varints; see there for the codes.
  async function unpack(run, id) {
    const holder = Array.from(document.querySelectorAll("script.series")).find((each) => each.dataset.run === id);
    const packed = Uint8Array.from(atob(holder.textContent), (character) => character.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    let at = 0;
    const next = () => {
      let [value, scale] = [0, 1];
      for (;;) {
        const byte = bytes[at++];
        value += (byte & 0x7f) * scale;
        if (byte < 0x80) return value;
        scale *= 128;
      }
    };
    return run.lines.map((line) => {
      const t = new Float64Array(line.n);
      const y = new Float64Array(line.n);
      let sum = 0;
      for (let i = 0; i < line.n; i++) t[i] = (sum += next()) / 1e6;
      let last = 0;
      for (let i = 0; i < line.n; i++) {
        const code = next() - 1;
        if (code < 0) y[i] = NaN;
        else y[i] = (last += code % 2 ? -(code + 1) / 2 : code / 2) * line.unit;
      }
      return { ...line, t, y };
    });
  }

  // ---- box plots

  function boxPlots() {
    const { keys, metrics } = data.boxes;
    const holder = document.getElementById("boxes");
    const chooser = document.getElementById("box-metric");
    const filters = document.getElementById("box-filters");
    metrics.forEach((metric, place) => chooser.append(new Option(metric.label, place)));
    const chosen = keys.map((key) => {
      const select = document.createElement("select");
      if (!key.one) select.append(new Option("all", ""));
      key.values.forEach((value, place) => select.append(new Option(value, place)));
      const label = document.createElement("label");
      label.append(`${key.short} `, select);
      filters.append(label);
      select.addEventListener("change", draw);
      return select;
    });
    let drawnFor = 0;
    chooser.addEventListener("change", draw);
    new ResizeObserver(() => holder.clientWidth === drawnFor || draw()).observe(holder);
    draw();

    function draw() {
      drawnFor = holder.clientWidth;
      const metric = metrics[chooser.value];
      keys.forEach((key, place) => {
        const held = (value) => metric.rows.some((each, row) => each !== null && key.rows[row] === value);
        if (key.one && !held(Number(chosen[place].value))) chosen[place].value = key.values.findIndex((_, value) => held(value));
      });
      const wanted = keys.map((key, place) => ({ key, at: chosen[place].value })).filter((each) => each.at !== "");
      const rows = metric.rows.map((value, row) => ({ value, row }))
        .filter(({ value, row }) => value !== null && wanted.every(({ key, at }) => key.rows[row] === Number(at)));
      const where = wanted.map(({ key, at }) => ` --where ${quoted(`${key.key}=${key.written[at]}`)}`).join("");
      holder.replaceChildren();
      for (const over of keys) {
        if (wanted.some(({ key }) => key === over)) continue;
        const groups = over.values.map((name, place) => ({ name, ...box(rows.filter(({ row }) => over.rows[row] === place).map(({ value }) => value)) }));
        const known = groups.filter((group) => group.n > 0);
        if (known.length) {
          const made = document.createElement("figure");
          holder.append(made);
          boxFigure(made, metric, over, known, where);
        }
      }
      if (!holder.firstChild) holder.append("No run is left: choose fewer conditions.");
    }
  }

  // The same statistics as numeric.box in Python: quartiles interpolated linearly, whiskers after Tukey.
  function box(values) {
    const sorted = Float64Array.from(values).sort();
    const n = sorted.length;
    const quantile = (share) => {
      const at = share * (n - 1);
      const below = Math.floor(at);
      return sorted[below] + (at - below) * ((sorted[below + 1] ?? sorted[below]) - sorted[below]);
    };
    const [q1, median, q3] = [0.25, 0.5, 0.75].map(quantile);
    const reach = 1.5 * (q3 - q1);
    const inside = sorted.filter((value) => value >= q1 - reach && value <= q3 + reach);
    const step = Math.max(1, Math.ceil(n / 150));
    return {
      n, q1, median, q3,
      mean: sorted.reduce((sum, value) => sum + value, 0) / n,
      low: Math.min(inside[0], q1),
      high: Math.max(inside[inside.length - 1], q3),
      least: sorted[0],
      most: sorted[n - 1],
      dots: sorted.filter((value, place) => place % step === 0 || value < q1 - reach || value > q3 + reach),
    };
  }

  // A word for the shell, as Python's shlex.quote writes it.
  function quoted(word) {
    return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\"'\"'")}'`;
  }

  // Width of the widest of some names, in px, in the font of class "tick".
  function widest(names) {
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = `13px ${getComputedStyle(document.body).fontFamily}`;
    return Math.max(...names.map((name) => pen.measureText(name).width));
  }

  // Boxes stand side by side; where their names would not fit below them, they lie one below the other.
  function boxFigure(holder, metric, over, groups, where) {
    const width = holder.clientWidth || 560;
    const longest = widest(groups.map((group) => group.name));
    const lying = longest > (width - 72) / groups.length - 6;
    const named = lying && longest < 0.45 * width ? "beside" : lying ? "above" : "below";
    const slot = { beside: 26, above: 44, below: (width - 72) / groups.length }[named];
    const frame = lying
      ? { left: named === "beside" ? longest + 12 : 12, top: 10, height: slot * groups.length }
      : { left: 62, top: 10, height: 268 };
    frame.width = width - frame.left - (lying ? 26 : 10);
    const height = frame.top + frame.height + (lying ? 44 : 52);
    const low = Math.min(...groups.map((group) => group.least));
    const high = Math.max(...groups.map((group) => group.most));
    const margin = (high - low) * 0.06 || Math.abs(high) * 0.05 || 1;
    const rows = ticks(Math.max(low - margin, low >= 0 ? 0 : -Infinity), high + margin, lying ? Math.max(2, frame.width / 80) : 6);
    const [bottom, top] = [Math.min(rows[0], low - margin * 0.4), Math.max(rows[rows.length - 1], high + margin * 0.4)];
    const share = (value) => (value - bottom) / (top - bottom);
    const along = (value) => (lying ? frame.left + frame.width * share(value) : frame.top + frame.height * (1 - share(value)));
    // A place across the boxes and one along the values, as x and y.
    const xy = (across, at) => (lying ? [at, across] : [across, at]);
    const line = (name, [x1, y1], [x2, y2]) => svgElement("line", { class: name, x1, y1, x2, y2 });
    const [first, last] = lying ? [frame.top, frame.top + frame.height] : [frame.left, frame.left + frame.width];
    const svg = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
    const medians = groups.slice(0, 12).map((group) => `${group.name}: median ${label(group.median)} of ${group.n}`);
    svg.setAttribute("aria-label", `${metric.label} over ${over.key}. ${medians.join("; ")}`);
    for (const row of rows) {
      svg.append(line("grid", xy(first, along(row)), xy(last, along(row))));
      const place = lying ? { x: along(row), y: last + 18, "text-anchor": "middle" } : { x: frame.left - 7, y: along(row) + 4, "text-anchor": "end" };
      svg.append(svgText(label(row), { class: "tick", ...place }));
    }
    svg.append(line("axis", [frame.left, frame.top], [frame.left, frame.top + frame.height]));
    groups.forEach((group, place) => {
      const centre = first + slot * (place + 0.5) + (named === "above" ? 9 : 0);
      const half = named === "above" ? 9 : Math.min(slot * 0.32, 34);
      const level = (name, value, part) => line(name, xy(centre - half * part, along(value)), xy(centre + half * part, along(value)));
      const whisker = (a, b) => line("whisker", xy(centre, along(a)), xy(centre, along(b)));
      svg.append(whisker(group.low, group.q1), whisker(group.q3, group.high), level("whisker", group.low, 0.5), level("whisker", group.high, 0.5));
      const [from, to] = [along(group.q1), along(group.q3)].sort((a, b) => a - b);
      const [x, y] = xy(centre - half, from);
      const [thick, long] = [2 * half, Math.max(0.5, to - from)];
      svg.append(svgElement("rect", { class: "box", x, y, width: lying ? long : thick, height: lying ? thick : long }));
      svg.append(level("median", group.median, 1));
      group.dots.forEach((value, i) => {
        const offset = ((((i + 1) * 0.6180339887498949) % 1) - 0.5) * half * 1.4;
        const [cx, cy] = xy(centre + offset, along(value));
        svg.append(svgElement("circle", { class: "dot", cx, cy, r: 2.6 }));
      });
      const [mx, my] = xy(centre, along(group.mean));
      svg.append(svgElement("path", { class: "mean", d: `M${mx} ${my - 6}l6 6l-6 6l-6-6z` }));
      const at = {
        beside: { x: frame.left - 8, y: centre + 4, "text-anchor": "end" },
        above: { x: frame.left + 6, y: centre - 14 },
        below: { x: centre, y: frame.top + frame.height + 18, "text-anchor": "middle" },
      }[named];
      const tick = svgText(group.name, { class: "tick", ...at });
      const title = svgElement("title", {});
      title.textContent = `${group.name}: n ${group.n}, mean ${label(group.mean)}, quartiles ${label(group.q1)}, ${label(group.median)}, ${label(group.q3)}`;
      tick.append(title);
      svg.append(tick);
    });
    svg.append(svgText(lying ? metric.label : over.key, { class: "axis-name", x: frame.left + frame.width / 2, y: height - 6, "text-anchor": "middle" }));
    const caption = document.createElement("figcaption");
    const strong = document.createElement("strong");
    strong.textContent = `${metric.label} over ${over.short}`;
    caption.append(strong);
    const again = document.createElement("p");
    again.className = "again";
    const code = document.createElement("code");
    code.textContent = `cwndlab plot ${data.directory} --kind box --value ${metric.name} --by ${quoted(over.key)}${where} -o box.png`;
    again.append("Make it again: ", code);
    holder.append(caption, svg, again);
  }

  function svgElement(name, attributes) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  function svgText(words, attributes) {
    const made = svgElement("text", attributes);
    made.textContent = words;
    return made;
  }
})();
