// The picture on the page, drawn as a run goes on, with a cursor that mouse, touch and keys move, and zoom.

import { draw, layout, scaleX, windowLength } from './plot.js';
import { placeOf, valueAt } from './series.js';
import { CanvasSurface } from './surface.js';
import { digits, rate, rateAt, time } from './words.js';

const APART_MS = 40; // between two drawings of a run that is going on: the processor is the engine's

export class Picture {
    constructor(plot, cursor, readout) {
        Object.assign(this, { plot, cursor, readout, runs: [], view: null, at: null, dragged: null, end: 1, due: null, next: 0 });
        this.colours();
        matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
            this.colours();
            this.draw();
        });
        new ResizeObserver(() => this.resize()).observe(plot);
        this.listen();
    }

    /** Shows runs that last so many seconds. */
    show(runs, end) {
        this.runs = runs;
        this.end = end;
        this.theme.names = runs.at(-1).series.flows.map((flow) => flow.name);
        this.due ??= setTimeout(() => requestAnimationFrame(() => this.draw()), this.next - performance.now());
    }

    /** What would be drawn now: runs, the span of time, colours. */
    content() {
        return [this.runs, this.span(), this.theme];
    }

    /** Shows all of the time. */
    whole() {
        this.view = null;
    }

    span() {
        return this.view && this.view.from < this.end ? { from: this.view.from, to: Math.min(this.view.to, this.end) } : { from: 0, to: this.end };
    }

    colours() {
        const style = getComputedStyle(document.documentElement);
        const of = (name) => style.getPropertyValue(`--${name}`).trim();
        const four = (name) => [1, 2, 3, 4].map((number) => of(`${name}-${number}`));
        this.theme = { ...this.theme, flows: four('flow'), labels: four('label') };
        for (const name of ['paper', 'text', 'soft', 'grid', 'axis', 'queue']) this.theme[name] = of(name);
    }

    resize() {
        const { clientWidth, clientHeight } = this.plot;
        this.place = layout(clientWidth, clientHeight);
        for (const canvas of [this.plot, this.cursor]) {
            canvas.width = Math.round(clientWidth * devicePixelRatio);
            canvas.height = Math.round(clientHeight * devicePixelRatio);
            canvas.getContext('2d').setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
        }
        this.draw();
    }

    draw() {
        if (!this.runs.length || !this.place) return;
        const begin = performance.now();
        clearTimeout(this.due);
        this.due = null;
        draw(new CanvasSurface(this.plot.getContext('2d')), this.runs, this.span(), this.place, this.theme);
        this.drawCursor();
        const { series } = this.runs.at(-1);
        this.plot.dataset.until = series.until;
        this.plot.dataset.took = (performance.now() - begin).toFixed(1);
        this.next = performance.now() + APART_MS;
        if (series.summary) this.plot.dataset.drawn = performance.now().toFixed(1);
    }

    drawCursor() {
        const context = this.cursor.getContext('2d');
        const { place, theme } = this;
        context.clearRect(0, 0, place.width, place.height);
        const x = scaleX(place, this.span());
        if (this.dragged) {
            const [from, to] = [this.dragged.from, this.dragged.to].map(x.x).sort((a, b) => a - b);
            context.fillStyle = theme.axis;
            context.globalAlpha = 0.25;
            context.fillRect(from, 0, to - from, place.bottom);
            context.globalAlpha = 1;
        }
        if (this.at === null) {
            this.readout.textContent = '';
            return;
        }
        context.strokeStyle = theme.soft;
        context.beginPath();
        const at = Math.round(x.x(this.at)) + 0.5;
        context.moveTo(at, place.panels.cwnd.top);
        context.lineTo(at, place.bottom);
        context.stroke();
        this.read();
    }

    read() {
        const { series } = this.runs.at(-1);
        const t = this.at;
        const window = windowLength(this.span(), series.settings.tcp / 1e9);
        const groups = [`${t.toFixed(2)} s`];
        series.flows.forEach((flow, number) => {
            const row = placeOf(flow.t, t);
            if (row < 0) return;
            const [, rates] = series.throughput(number, window, Math.max(0, t - window / 2), t + window / 2 + 1e-6);
            const parts = [`cwnd ${digits(flow.cwnd[row] / 1000)} kB`];
            if (!Number.isNaN(flow.rtt[row])) parts.push(`RTT ${time(flow.rtt[row])}`);
            if (rates.length) parts.push(rate(rates[0]));
            groups.push([flow.name, parts.join(', '), number]);
        });
        const waiting = valueAt(series.queue.t, series.queue.packets, t);
        if (!Number.isNaN(waiting)) {
            const bytes = valueAt(series.queue.t, series.queue.bytes, t);
            groups.push(['queue', `${waiting} packets, ${time(bytes * 8e3 / rateAt(series.scenario, t))}`, null]);
        }
        this.readout.replaceChildren(...groups.map((group) => {
            const span = document.createElement('span');
            span.className = 'group';
            if (typeof group === 'string') {
                span.textContent = group;
                return span;
            }
            const name = document.createElement('b');
            name.textContent = group[0];
            if (group[2] !== null) name.style.color = this.theme.labels[group[2]];
            span.append(name, ` ${group[1]}`);
            return span;
        }));
    }

    // ---- mouse, touch and keys

    listen() {
        const { cursor } = this;
        const timeOf = (event) => {
            const { from, to } = this.span();
            const t = scaleX(this.place, { from, to }).t(event.clientX - cursor.getBoundingClientRect().left);
            return Math.min(Math.max(t, from), to);
        };
        cursor.addEventListener('pointermove', (event) => {
            this.at = timeOf(event);
            if (this.dragged) this.dragged.to = this.at;
            if (this.runs.length) this.drawCursor();
        });
        cursor.addEventListener('pointerdown', (event) => {
            this.at = timeOf(event);
            if (event.pointerType === 'mouse') this.dragged = { from: this.at, to: this.at };
            if (this.runs.length) this.drawCursor();
        });
        cursor.addEventListener('pointerup', () => this.drop());
        cursor.addEventListener('pointerleave', () => {
            this.dragged = null;
            if (document.activeElement !== cursor) this.at = null;
            if (this.runs.length) this.drawCursor();
        });
        cursor.addEventListener('dblclick', () => this.zoom(null));
        cursor.addEventListener('keydown', (event) => this.key(event));
    }

    drop() {
        const { from, to } = this.dragged ?? { from: 0, to: 0 };
        this.dragged = null;
        if (Math.abs(to - from) > (this.span().to - this.span().from) / 100) {
            this.zoom({ from: Math.min(from, to), to: Math.max(from, to) });
        }
    }

    zoom(view) {
        this.view = view;
        this.draw();
    }

    key(event) {
        const { from, to } = this.span();
        const middle = this.at ?? (from + to) / 2;
        const step = (to - from) / (event.shiftKey ? 10 : 100);
        const moved = { ArrowLeft: -step, ArrowRight: step }[event.key];
        const factor = { '+': 0.5, '=': 0.5, '-': 2 }[event.key];
        if (moved !== undefined) {
            this.at = Math.min(Math.max(middle + moved, 0), this.end);
            if (this.view && (this.at < from || this.at > to)) this.view = { from: from + moved, to: to + moved };
        } else if (factor !== undefined) {
            const half = (to - from) / 2 * factor;
            this.view = half * 2 >= this.end ? null : { from: Math.max(0, middle - half), to: Math.max(0, middle - half) + 2 * half };
        } else if (event.key === '0' || event.key === 'Escape') {
            this.view = null;
            if (event.key === 'Escape') this.at = null;
        } else return;
        event.preventDefault();
        this.draw();
    }
}
