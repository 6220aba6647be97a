// What can be taken along: the experiment file, the series as CSV, the picture as PNG or SVG.

import { draw, layout } from './plot.js';
import { CanvasSurface, SvgSurface } from './surface.js';

const SIZE = [1200, 820];

/** The series as CSV: a row for each flow and sample, then the queue's. */
export function csvOf(series) {
    const lines = ['t_s,flow,cwnd_bytes,ssthresh_bytes,srtt_ms,rtt_ms,inflight_bytes,delivered_bytes,arrived_bytes,retransmits,backlog_packets,backlog_bytes'];
    const cell = (value) => (Number.isNaN(value) ? '' : String(value));
    for (const flow of series.flows) {
        for (let row = 0; row < flow.t.length; row++) {
            const values = [flow.cwnd, flow.ssthresh, flow.srtt, flow.rtt, flow.inflight, flow.delivered, flow.arrived, flow.retransmits];
            lines.push([flow.t[row], flow.name, ...values.map((column) => cell(column[row])), '', ''].join(','));
        }
    }
    for (let row = 0; row < series.queue.t.length; row++) {
        lines.push([series.queue.t[row], ',,,,,,,', '', series.queue.packets[row], series.queue.bytes[row]].join(','));
    }
    return `${lines.join('\n')}\n`;
}

/** The picture as the text of an SVG file. */
export function svgOf(runs, view, theme, title) {
    const surface = new SvgSurface(...SIZE, title);
    draw(surface, runs, view, layout(...SIZE), theme);
    return surface.toString();
}

/** The picture as a PNG, at two pixels for one. */
export function pngOf(runs, view, theme) {
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = SIZE.map((length) => 2 * length);
    const context = canvas.getContext('2d');
    context.scale(2, 2);
    draw(new CanvasSurface(context), runs, view, layout(...SIZE), theme);
    return new Promise((resolve) => {
        canvas.toBlob(resolve, 'image/png');
    });
}

/** Has the browser keep a file. */
export function save(name, content, type) {
    const blob = content instanceof Blob ? content : new Blob([content], { type });
    const link = document.createElement('a');
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
