// Where a plot is drawn: a canvas, or the text of an SVG file. Both know lines, areas, texts and rectangles.

export class CanvasSurface {
    constructor(context) {
        this.context = context;
    }

    clip(x, y, width, height) {
        this.context.save();
        this.context.beginPath();
        this.context.rect(x, y, width, height);
        this.context.clip();
    }

    unclip() {
        this.context.restore();
    }

    /** A line through points, broken where one is NaN. */
    line(points, { stroke, width = 1.5, dash = [], alpha = 1 }) {
        const { context } = this;
        context.beginPath();
        trace(points, (x, y) => context.moveTo(x, y), (x, y) => context.lineTo(x, y));
        context.strokeStyle = stroke;
        context.lineWidth = width;
        context.lineJoin = 'round';
        context.setLineDash(dash);
        context.globalAlpha = alpha;
        context.stroke();
        context.globalAlpha = 1;
    }

    rect(x, y, width, height, { fill, alpha = 1 }) {
        this.context.globalAlpha = alpha;
        this.context.fillStyle = fill;
        this.context.fillRect(x, y, width, height);
        this.context.globalAlpha = 1;
    }

    polygon(points, { fill }) {
        const { context } = this;
        context.beginPath();
        trace(points, (x, y) => context.moveTo(x, y), (x, y) => context.lineTo(x, y));
        context.fillStyle = fill;
        context.fill();
    }

    text(x, y, words, { fill, size = 11, anchor = 'start', bold = false }) {
        const { context } = this;
        context.font = `${bold ? '600 ' : ''}${size}px ${FONT}`;
        context.fillStyle = fill;
        context.textAlign = anchor === 'middle' ? 'center' : anchor;
        context.fillText(words, x, y);
    }
}

export class SvgSurface {
    constructor(width, height, title) {
        this.size = [width, height];
        this.title = title;
        this.parts = [];
        this.clips = 0;
    }

    clip(x, y, width, height) {
        const id = `c${this.clips++}`;
        this.parts.push(`<clipPath id="${id}"><rect x="${x}" y="${y}" width="${width}" height="${height}"/></clipPath>`,
            `<g clip-path="url(#${id})">`);
    }

    unclip() {
        this.parts.push('</g>');
    }

    line(points, { stroke, width = 1.5, dash = [], alpha = 1 }) {
        const dashes = dash.length ? ` stroke-dasharray="${dash.join(' ')}"` : '';
        this.parts.push(`<path d="${pathOf(points)}" fill="none" stroke="${stroke}" stroke-width="${width}"` +
            ` stroke-linejoin="round" opacity="${alpha}"${dashes}/>`);
    }

    rect(x, y, width, height, { fill, alpha = 1 }) {
        this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}"` +
            ` fill="${fill}" opacity="${alpha}"/>`);
    }

    polygon(points, { fill }) {
        this.parts.push(`<path d="${pathOf(points)}Z" fill="${fill}"/>`);
    }

    text(x, y, words, { fill, size = 11, anchor = 'start', bold = false }) {
        this.parts.push(`<text x="${short(x)}" y="${short(y)}" fill="${fill}" font-size="${size}" text-anchor="${anchor}"` +
            `${bold ? ' font-weight="600"' : ''}>${escaped(words)}</text>`);
    }

    toString() {
        const [width, height] = this.size;
        return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"` +
            ` font-family="${escaped(FONT)}" role="img"><title>${escaped(this.title)}</title>\n${this.parts.join('\n')}\n</svg>\n`;
    }
}

const FONT = "system-ui, 'Helvetica Neue', Arial, sans-serif";

function trace({ x, y }, move, draw) {
    let broken = true;
    for (let place = 0; place < x.length; place++) {
        if (Number.isNaN(y[place])) broken = true;
        else if (broken) {
            move(x[place], y[place]);
            broken = false;
        } else draw(x[place], y[place]);
    }
}

function pathOf(points) {
    const parts = [];
    trace(points, (x, y) => parts.push(`M${short(x)} ${short(y)}`), (x, y) => parts.push(`L${short(x)} ${short(y)}`));
    return parts.join('');
}

function short(value) {
    return String(Math.round(value * 10) / 10);
}

function escaped(text) {
    return text.replace(/[&<>"]/g, (sign) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[sign]);
}
