// The form: sliders with their exact values beside them, and the flows. Says what changed; knows nothing of runs.

import { fault, MAX_FLOWS, namesOf, newFlow, quantity, settle, written } from './settings.js';

/** Values of sliders, as texts. */
const STEPS = {
    rate: ['500kbit', '1mbit', '1.5mbit', '2mbit', '3mbit', '4mbit', '5mbit', '6mbit', '8mbit', '10mbit', '12mbit', '15mbit', '20mbit',
        '25mbit', '30mbit', '40mbit', '50mbit', '60mbit', '80mbit', '100mbit', '150mbit', '200mbit', '300mbit', '500mbit', '750mbit', '1gbit'],
    rtt: ['0.2ms', '0.5ms', '1ms', '2ms', '3ms', '5ms', '7ms', '10ms', '15ms', '20ms', '25ms', '30ms', '35ms', '40ms', '45ms', '50ms', '60ms', '70ms',
        '80ms', '90ms', '100ms', '120ms', '140ms', '160ms', '180ms', '200ms', '250ms', '300ms', '400ms', '600ms'],
    buffer: ['2p', '4p', '6p', '8p', '10p', '15p', '20p', '25p', '30p', '40p', '50p', '60p', '75p', '90p', '100p', '125p', '150p', '180p', '220p', '270p',
        '330p', '400p', '500p', '650p', '800p', '1000p', '1500p', '2000p', '3000p', '5000p', '10000p'],
    loss: ['0%', '0.001%', '0.002%', '0.005%', '0.01%', '0.02%', '0.05%', '0.1%', '0.2%', '0.3%', '0.5%', '0.7%', '1%', '1.5%', '2%', '3%', '5%', '10%'],
    duration: ['2s', '5s', '10s', '15s', '20s', '30s', '45s', '60s', '90s', '120s', '180s', '300s'],
    start: ['0s', '0.5s', '1s', '2s', '3s', '5s', '7.5s', '10s', '15s', '20s', '25s', '30s', '40s', '50s', '60s', '90s', '120s'],
    extra: ['0s', '1ms', '2ms', '5ms', '10ms', '20ms', '30ms', '40ms', '60ms', '80ms', '100ms', '150ms', '200ms', '300ms'],
};
const BEFORE_END = new Set(['measure', 'rate_at']);
const LIKE = { start: 'measure', extra: 'rtt' }; // whose units and bounds they have

export class Controls {
    constructor(templates, changed) {
        this.templates = templates;
        this.changed = changed;
        this.rows = [];
        this.build();
    }

    /** Shows settings. */
    show(settings) {
        this.settings = settings;
        for (const row of this.rows) row.show();
        this.showFlows();
    }

    build() {
        const path = document.getElementById('path');
        const here = () => this.settings;
        const add = (parent, key, title, note) => {
            const row = quantityRow(key, title, here, () => this.tell(), note);
            this.rows.push(row);
            parent.append(row.element);
        };
        add(path, 'rate', 'Rate');
        add(path, 'rtt', 'RTT');
        add(path, 'buffer', 'Buffer', bufferNote);
        path.append(this.queueRow());
        add(path, 'loss', 'Loss');
        add(path, 'duration', 'Length');
        const more = document.querySelector('#more > div');
        more.append(this.checkRow('ecn', 'ECN', 'both ends ask for it'));
        more.append(this.textRow('buffers', 'Socket buffers', 'auto'), this.textRow('merge', 'Merged', '0', 'segments that a receiver hands up at once'));
        more.append(this.textRow('processing', 'Host time', '0s', 'that each host takes for a packet'));
        more.append(this.textRow('rate_then', 'New rate', 'unchanged', 'of the bottleneck, on the way of the data'));
        more.append(this.textRow('rate_at', 'New rate at', '0s'));
        more.append(this.textRow('measure', 'Sum from', '0s'), this.textRow('seed', 'Seed', '1'));
        document.getElementById('add').addEventListener('click', () => {
            const last = this.settings.flows.at(-1);
            this.settings.flows.push(newFlow(last.stack, last.cc));
            this.tell(true);
            document.querySelector('#flows fieldset:last-child select').focus();
        });
    }

    tell(flows = false) {
        const starts = this.settings.flows.map((flow) => flow.start);
        settle(this.settings);
        const moved = this.settings.flows.some((flow, place) => flow.start !== starts[place]);
        for (const row of this.rows) row.show();
        if (flows || moved) this.showFlows();
        this.changed();
    }

    queueRow() {
        const select = choice('queue', Object.keys(this.templates.yaml.queues));
        select.addEventListener('change', () => {
            this.settings.queue = select.value;
            this.tell();
        });
        const row = rowOf('queue', 'Discipline', select);
        this.rows.push({ element: row, show: () => { select.value = this.settings.queue; } });
        return row;
    }

    checkRow(key, title, words) {
        const input = element('input', { type: 'checkbox', id: key });
        const label = element('label', { className: 'wide' }, input, words);
        input.addEventListener('change', () => {
            this.settings[key] = input.checked;
            this.tell();
        });
        const row = element('div', { className: 'row' }, element('label', { htmlFor: key }, title), label);
        this.rows.push({ element: row, show: () => { input.checked = this.settings[key]; } });
        return row;
    }

    /** A value without a slider; `usual` stands for what it is when nothing is chosen. */
    textRow(key, title, usual, words) {
        const input = element('input', { type: 'text', id: key });
        const note = element('span', { className: 'note', id: `${key}-note` });
        const row = element('div', { className: 'row' }, element('label', { htmlFor: key }, title), element('span', { className: 'wide' }, input), note);
        input.setAttribute('aria-describedby', note.id);
        input.addEventListener('change', () => {
            const empty = input.value.trim() === '' || input.value.trim() === usual;
            const value = empty ? this.templates.defaults[key] : quantity(key, input.value);
            const fits = empty || (!Number.isNaN(value) && (!BEFORE_END.has(key) || value < this.settings.duration));
            input.setAttribute('aria-invalid', String(!fits));
            note.className = fits ? 'note' : 'note wrong';
            note.textContent = fits ? words ?? '' : `${usual}, or ${Number.isNaN(value) ? fault(key, input.value) : 'before the end of the run'}`;
            if (fits) {
                this.settings[key] = value;
                // A change that is new comes in the middle, where it is seen.
                if (key === 'rate_then' && !this.settings.rate_at) this.settings.rate_at = Math.floor(this.settings.duration / 2e9) * 1e9;
                this.tell();
            }
        });
        note.textContent = words ?? '';
        this.rows.push({ element: row, show: () => {
            const value = this.settings[key];
            if (input.getAttribute('aria-invalid') !== 'true') input.value = value === null ? usual : written(key, value);
        } });
        return row;
    }

    showFlows() {
        const { flows } = this.settings;
        document.getElementById('flows').replaceChildren(...flows.map((flow, place) => this.flowFields(flow, place)));
        document.getElementById('add').hidden = flows.length >= MAX_FLOWS;
    }

    flowFields(flow, place) {
        const [name] = namesOf(this.settings, place);
        const swatch = element('span', { className: 'swatch' });
        swatch.style.background = `var(--flow-${place + 1})`;
        const fields = element('fieldset', {}, element('legend', {}, swatch, name));
        const stacks = this.templates.stacks;
        const stack = choice(`stack${place}`, stacks.map((each) => each.name), stacks.map((each) => each.name + (each.inferred ? ' (inferred)' : '')));
        stack.value = flow.stack;
        stack.setAttribute('aria-label', `Stack of ${name}`);
        const cc = choice(`cc${place}`, stacks.find((each) => each.name === flow.stack).cc);
        cc.value = flow.cc;
        cc.setAttribute('aria-label', `Congestion control of ${name}`);
        stack.addEventListener('change', () => {
            const known = stacks.find((each) => each.name === stack.value).cc;
            Object.assign(flow, { stack: stack.value, cc: known.includes(flow.cc) ? flow.cc : known[0], receiver: '' });
            this.tell(true);
            document.getElementById(`stack${place}`).focus();
        });
        cc.addEventListener('change', () => {
            flow.cc = cc.value;
            this.tell();
        });
        fields.append(element('div', { className: 'pair' }, stack, cc));
        for (const [key, title] of [['start', 'Start'], ['extra', 'RTT more']]) {
            const row = quantityRow(key, title, () => flow, () => this.tell(), undefined, `${place}`, () => this.settings.duration);
            row.show();
            fields.append(row.element);
        }
        if (this.settings.flows.length > 1) fields.append(this.removeButton(place, name));
        return fields;
    }

    removeButton(place, name) {
        const button = element('button', { type: 'button', className: 'remove', textContent: 'Remove' });
        button.setAttribute('aria-label', `Remove ${name}`);
        button.addEventListener('click', () => {
            this.settings.flows.splice(place, 1);
            this.tell(true);
            document.getElementById('add').focus();
        });
        return button;
    }
}

/** A slider with its exact value beside it; `of()` is the object whose `key` it sets. */
function quantityRow(key, title, of, changed, note, suffix = '', end = () => Infinity) {
    const like = LIKE[key] ?? key;
    const steps = STEPS[key].map((text) => quantity(like, text));
    const id = key + suffix;
    const range = element('input', { type: 'range', min: 0, max: steps.length - 1, step: 1, id });
    const text = element('input', { type: 'text' });
    text.setAttribute('aria-label', `${title}, exactly`);
    const said = element('span', { className: 'note', hidden: !note });
    const row = element('div', { className: 'row' }, element('label', { htmlFor: id }, title), range, text, said);
    const fits = (value) => !Number.isNaN(value) && (key !== 'start' || value < end());
    const take = (value) => {
        of()[key] = value;
        changed();
    };
    const show = () => {
        const value = of()[key];
        range.value = nearest(steps, value);
        range.setAttribute('aria-valuetext', written(like, value));
        if (document.activeElement !== text) text.value = written(like, value);
        text.setAttribute('aria-invalid', 'false');
        said.className = 'note';
        said.hidden = !note;
        if (note) said.textContent = note(of());
    };
    range.addEventListener('input', () => {
        const value = steps[Number(range.value)];
        take(fits(value) ? value : of()[key]);
        show();
    });
    text.addEventListener('change', () => {
        const value = quantity(like, text.value);
        if (fits(value)) {
            take(value);
            text.value = written(like, value);
            return;
        }
        text.setAttribute('aria-invalid', 'true');
        said.className = 'note wrong';
        said.hidden = false;
        said.textContent = Number.isNaN(value) ? fault(like, text.value) : 'before the end of the run';
    });
    return { element: row, show };
}

function bufferNote({ buffer, rate, rtt }) {
    const bytes = buffer * 1514;
    const full = bytes * 8e3 / rate;
    const product = rate * rtt / 8e9;
    const times = product > 0 ? `${Number((bytes / product).toPrecision(2))} × bandwidth-delay product, ` : '';
    return `${times}${full < 10 ? full.toPrecision(2) : full.toFixed(0)} ms when full`;
}

function nearest(steps, value) {
    const far = (step) => Math.abs(Math.log((step + 1) / (value + 1)));
    return steps.reduce((best, step, place) => (far(step) < far(steps[best]) ? place : best), 0);
}

function rowOf(id, title, control) {
    return element('div', { className: 'row' }, element('label', { htmlFor: id }, title), element('span', { className: 'wide' }, control));
}

function choice(id, values, texts = values) {
    return element('select', { id }, ...values.map((value, place) => element('option', { value, textContent: texts[place] })));
}

export function element(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
}
