// Draws the four panels over one time axis: cwnd with ssthresh, RTT, queue, throughput; events in a strip above a panel.

import { PACKET } from './settings.js';

const MARGIN = { left: 50, right: 34, top: 4, bottom: 24 };
const HEAD = { cwnd: 27, rtt: 19, queue: 27, throughput: 19 }; // above a panel's area: the title, and where events are, their strip
const GAP = 7;
export const PANELS = ['cwnd', 'rtt', 'queue', 'throughput'];
const SHARE = { cwnd: 1.35, rtt: 1, queue: 1, throughput: 1 };

/** Where everything is in a picture of a size. */
export function layout(width, height) {
    const inner = height - MARGIN.top - MARGIN.bottom - (PANELS.length - 1) * GAP
        - PANELS.reduce((sum, name) => sum + HEAD[name], 0);
    const total = Object.values(SHARE).reduce((sum, share) => sum + share);
    let y = MARGIN.top;
    const panels = {};
    for (const name of PANELS) {
        y += HEAD[name];
        const tall = Math.floor(inner * SHARE[name] / total);
        panels[name] = { top: y, height: tall };
        y += tall + GAP;
    }
    return { width, height, left: MARGIN.left, right: width - MARGIN.right, bottom: height - MARGIN.bottom, panels };
}

/** The time at a place of the picture, and back. */
export function scaleX(place, { from, to }) {
    const factor = (place.right - place.left) / (to - from);
    return { x: (t) => place.left + (t - from) * factor, t: (x) => from + (x - place.left) / factor };
}

/** Draws runs, the one in front last: `{series, role}`, role `now`, `old` (what a newer run has not reached) or `pinned`. */
export function draw(surface, runs, view, place, theme) {
    surface.rect(0, 0, place.width, place.height, { fill: theme.paper });
    const time = scaleX(place, view);
    const pieces = runs.map((run) => ({ ...run, lines: linesOf(run, view, place) }));
    drawTimes(surface, view, place, theme, time);
    for (const name of PANELS) drawPanel(surface, name, pieces, view, place, theme, time);
}

function drawPanel(surface, name, runs, view, place, theme, time) {
    const { top, height } = place.panels[name];
    const lines = runs.flatMap((run) => run.lines.filter((line) => line.panel === name).map((line) => ({ ...line, role: run.role })));
    const most = Math.max(...lines.map((line) => highest(line, view)), 0);
    const unit = UNITS[name](most);
    const ticks = niceTicks(most / unit.size || 1, height);
    const above = ticks.at(-1) * unit.size;
    const y = (value) => top + height - (value / above) * height;
    for (const tick of ticks) {
        const at = Math.round(y(tick * unit.size)) + 0.5;
        surface.line({ x: [place.left, place.right], y: [at, at] }, { stroke: tick === 0 ? theme.axis : theme.grid, width: 1 });
        surface.text(place.left - 6, at + 3.5, String(tick), { fill: theme.soft, anchor: 'end' });
    }
    if (name === 'queue') drawWaits(surface, ticks, runs.at(-1).series, place, theme, y);
    surface.text(place.left, top - HEAD[name] + 13, unit.title, { fill: theme.text, bold: true, size: 12 });
    drawStrip(surface, name, runs, view, place, theme, time);
    surface.clip(place.left, top - 1, place.right - place.left, height + 2);
    for (const line of lines) {
        const points = thinned(line, view, time, y);
        const colour = line.flow === null ? theme.queue : theme.flows[line.flow];
        surface.line(points, { stroke: colour, ...STYLES[line.role], ...(line.dotted ? DOTTED : {}) });
    }
    surface.unclip();
    if (name === 'cwnd') label(surface, lines, view, place, theme, y);
}

/** How long so many full packets wait, beside the packets; not where the rate changes. */
function drawWaits(surface, ticks, { settings }, place, theme, y) {
    if (settings.rate_then !== null) return;
    for (const tick of ticks.slice(1)) {
        const ms = tick * PACKET * 8e3 / settings.rate;
        const text = ms < 10 ? String(Number(ms.toPrecision(2))) : ms.toFixed(0);
        surface.text(place.right + 4, y(tick) + 4, text, { fill: theme.soft });
    }
    surface.text(place.right + 4, place.panels.queue.top - HEAD.queue + 13, 'ms', { fill: theme.text, bold: true, size: 12 });
}

const STYLES = {
    now: { width: 1.7 },
    old: { width: 1.2, alpha: 0.3 },
    pinned: { width: 1.4, dash: [6, 4], alpha: 0.85 },
};
const DOTTED = { width: 1.1, dash: [1.5, 3] };

const UNITS = {
    cwnd: (most) => (most >= 2e6 ? { size: 1e6, title: 'cwnd, MB (dotted: ssthresh)' } : { size: 1e3, title: 'cwnd, kB (dotted: ssthresh)' }),
    rtt: (most) => (most < 2 ? { size: 1e-3, title: 'RTT, µs' } : { size: 1, title: 'RTT, ms' }),
    queue: () => ({ size: 1, title: 'queue, packets' }),
    throughput: () => ({ size: 1, title: 'throughput, Mbit/s' }),
};

/** The lines of a run: panel, flow (null: the link), times, values. */
function linesOf({ series, role, after = 0 }, view) {
    const lines = [];
    const window = windowLength(view, series.settings.tcp / 1e9);
    series.flows.forEach((flow, number) => {
        const add = (panel, t, values, dotted = false) => lines.push({ panel, flow: number, t, values, dotted, after });
        if (role !== 'old') add('cwnd', flow.t, flow.ssthresh, true);
        add('cwnd', flow.t, flow.cwnd);
        add('rtt', flow.t, flow.rtt);
        add('throughput', ...series.throughput(number, window, Math.floor(view.from / window) * window, view.to));
    });
    lines.push({ panel: 'queue', flow: null, t: series.queue.t, values: series.queue.packets, dotted: false, after });
    return lines;
}

/** About 120 windows of throughput, each a round number of samples. */
export function windowLength({ from, to }, sample) {
    const wanted = (to - from) / 120;
    const steps = [0.05, 0.1, 0.2, 0.25, 0.5, 1, 2, 5];
    return Math.max(steps.find((step) => step >= wanted) ?? 5, sample * 5);
}

/** The highest value in view; ssthresh counts only as far as cwnd reaches twice over, as it may begin at the sky. */
function highest({ t, values, dotted, after }, { from, to }) {
    if (dotted) return 0;
    let most = 0;
    for (let row = 0; row < t.length; row++) {
        if (t[row] >= from && t[row] <= to && t[row] >= after && values[row] > most) most = values[row];
    }
    return most;
}

/** First, lowest, highest and last point of each column of pixels. */
function thinned({ t, values, after }, { from, to }, time, y) {
    const points = { x: [], y: [] };
    let column = -1;
    let low = 0;
    let high = 0;
    let last = -1;
    const push = (row) => {
        points.x.push(time.x(t[row]));
        points.y.push(y(values[row]));
    };
    const close = () => {
        if (last < 0) return;
        for (const row of [...new Set([Math.min(low, high), Math.max(low, high), last])].sort((a, b) => a - b)) push(row);
    };
    for (let row = 0; row < t.length; row++) {
        if (t[row] < from - 1 || t[row] > to + 1 || t[row] < after) continue;
        const at = Math.floor(time.x(t[row]));
        if (at !== column || Number.isNaN(values[row])) {
            close();
            push(row);
            column = at;
            low = high = row;
            last = Number.isNaN(values[row]) ? -1 : row;
            continue;
        }
        if (last < 0) low = high = row;
        if (values[row] < values[low]) low = row;
        if (values[row] > values[high]) high = row;
        last = row;
    }
    close();
    return points;
}

/** Recoveries and timeouts above cwnd, drops and marks above the queue, each once in a column of pixels. */
function drawStrip(surface, name, runs, view, place, theme, time) {
    const kinds = { cwnd: ['recovery-in', 'rto'], queue: ['mark', 'drop'] }[name];
    const run = runs.find((each) => each.role === 'now');
    if (!kinds || !run) return;
    const seen = new Set();
    const base = place.panels[name].top - 2;
    for (const kind of kinds) {
        for (const event of run.series.events) {
            if (event.kind !== kind || event.t < view.from || event.t > view.to) continue;
            const x = Math.round(time.x(event.t));
            const key = `${kind} ${event.flow} ${kind === 'drop' || kind === 'mark' ? x : Math.round(x / 3)}`;
            if (seen.has(key)) continue;
            seen.add(key);
            SIGNS[kind](surface, x, base, theme.flows[event.flow] ?? theme.queue);
        }
    }
}

const SIGNS = {
    'recovery-in': (surface, x, y, fill) => surface.polygon({ x: [x - 4, x + 4, x], y: [y - 7, y - 7, y] }, { fill }),
    rto: (surface, x, y, fill) => surface.rect(x - 3.5, y - 7, 7, 7, { fill }),
    drop: (surface, x, y, fill) => surface.rect(x - 0.75, y - 7, 1.5, 7, { fill }),
    mark: (surface, x, y, fill) => surface.rect(x - 0.5, y - 3, 1, 3, { fill, alpha: 0.7 }),
};

/** Names of flows behind the ends of their windows, apart from each other. */
function label(surface, lines, view, place, theme, y) {
    const ends = lines.filter((line) => line.role === 'now' && !line.dotted && line.t.length)
        .map((line) => ({ flow: line.flow, at: y(line.values.at(-1)) }))
        .sort((a, b) => a.at - b.at);
    const { top, height } = place.panels.cwnd;
    let before = top - 12;
    for (const end of ends) before = end.at = Math.max(end.at + 4, before + 12, top + 8);
    let below = top + height + 16;
    for (const end of ends.reverse()) below = end.at = Math.min(end.at, below - 12);
    for (const { flow, at } of ends) surface.text(place.right + 5, at, theme.names[flow], { fill: theme.labels[flow], bold: true });
}

function drawTimes(surface, { from, to }, place, theme, time) {
    const ticks = niceTicks(to - from, (place.right - place.left) / 2, 0);
    const step = ticks[1] - ticks[0];
    for (let t = Math.ceil(from / step - 1e-9) * step; t <= to + 1e-9; t += step) {
        const x = Math.round(time.x(t)) + 0.5;
        for (const { top, height } of Object.values(place.panels)) {
            surface.line({ x: [x, x], y: [top, top + height] }, { stroke: theme.grid, width: 1 });
        }
        surface.text(x, place.bottom + 14, `${Number(t.toFixed(6))} s`, { fill: theme.soft, anchor: 'middle' });
    }
}

/** From 0 in steps of 1, 2, 2.5 or 5 to the first that is not below the most; so many as have room. */
function niceTicks(most, room) {
    const count = Math.max(1, Math.min(5, Math.floor(room / 28)));
    const rough = most / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
    const ticks = [];
    for (let number = 0; ; number++) {
        ticks.push(Number((number * step).toPrecision(12)));
        if (number * step >= most * 0.9999) return ticks;
    }
}
