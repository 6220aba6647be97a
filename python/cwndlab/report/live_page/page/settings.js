// What is set: from the address and back, its numbers by the names of templates, its experiment file, its Scenario.

import { format, parse, PACKETS, RATES, SHARES, SIZES, TIMES } from './units.js';

export const PACKET = 1514; // bytes of a full packet with its Ethernet header
const AVPKT = 1000; // RED's average packet
export const MAX_FLOWS = 4;

/** Keys of the address: units, least, most. */
const QUANTITIES = {
    rate: [RATES, 1e5, 1e10],
    rtt: [TIMES, 0, 2e9],
    buffer: [PACKETS, 1, 1e6],
    loss: [SHARES, 0, 5e8],
    buffers: [SIZES, 4096, 1 << 30],
    processing: [TIMES, 0, 1e8],
    rate_then: [RATES, 1e5, 1e10],
    rate_at: [TIMES, 0, 6e11],
    duration: [TIMES, 1e9, 6e11],
    measure: [TIMES, 0, 6e11],
    start_jitter: [TIMES, 0, 6e11],
    phase_jitter: [TIMES, 0, 6e11],
    access: [RATES, 1e6, 1e11],
    tcp: [TIMES, 1e6, 1e9],
    queue_every: [TIMES, 1e6, 1e9],
};
const COUNTS = { merge: [0, 10000], seed: [0, 2 ** 53 - 1] };
const ALWAYS = ['rate', 'rtt', 'buffer', 'queue'];
const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$/;

/** A quantity of a key, or NaN where the text is none or out of bounds. */
export function quantity(key, text) {
    if (key in COUNTS) {
        const [least, most] = COUNTS[key];
        const value = /^[0-9]{1,16}$/.test(text.trim()) ? Number(text) : NaN;
        return value >= least && value <= most ? value : NaN;
    }
    const [units, least, most] = QUANTITIES[key];
    const value = parse(text, units);
    return value >= least && value <= most ? value : NaN;
}

/** The text of a quantity. */
export function written(key, value) {
    return key in COUNTS ? String(value) : format(value, QUANTITIES[key][0]);
}

/** What a key may be, in words. */
export function bounds(key) {
    if (key in COUNTS) return `a whole number from ${COUNTS[key][0]} to ${COUNTS[key][1]}`;
    return `from ${written(key, QUANTITIES[key][1])} to ${written(key, QUANTITIES[key][2])}`;
}

/** What a text lacks to be the value of a key: its unit, or a value within bounds. */
export function fault(key, text) {
    const bare = Object.hasOwn(QUANTITIES, key) && /^[0-9]+(\.[0-9]+)?$/.test(text.trim());
    if (!bare) return bounds(key);
    const units = Object.keys(QUANTITIES[key][0]);
    const meant = { rate: 'mbit', rate_then: 'mbit', access: 'mbit', processing: 'us' }[key] ?? units.find((unit) => unit === 'ms' || unit === 'KB') ?? units[0];
    return `the unit is missing, such as ${text.trim()}${meant} (${units.join(', ')}); ${bounds(key)}`;
}

/** Settings of an address (the part after #), with sentences on what in it was not understood. */
export function fromAddress(address, templates) {
    const settings = { ...templates.defaults, flows: [] };
    const wrong = [];
    for (const piece of address.split('&').filter(Boolean)) {
        const at = piece.indexOf('=');
        const [key, text] = [piece.slice(0, at), decoded(piece.slice(at + 1))];
        if (!setKey(settings, key, text, templates)) wrong.push(Object.hasOwn(QUANTITIES, key) ? `${key}: ${text} (${fault(key, text)})` : `${key}: ${text}`);
    }
    if (!settings.flows.length) settings.flows.push(newFlow('linux-6.8', 'cubic'));
    settle(settings);
    if (!uniqueNames(settings)) {
        wrong.push('names that are there twice');
        for (const flow of settings.flows) flow.names = null;
    }
    return { settings, wrong };
}

/** Has what would begin behind the end begin at once, and no change of the rate there. */
export function settle(settings) {
    if (settings.measure >= settings.duration) settings.measure = 0;
    if (settings.rate_then === null || settings.rate_at >= settings.duration) Object.assign(settings, { rate_then: null, rate_at: 0 });
    for (const flow of settings.flows) if (flow.start >= settings.duration) flow.start = 0;
}

/** A piece of an address in clear; a bare % stands for itself. */
export function decoded(text) {
    try {
        return decodeURIComponent(text);
    } catch {
        return text;
    }
}

function setKey(settings, key, text, templates) {
    if (Object.hasOwn(QUANTITIES, key) || Object.hasOwn(COUNTS, key)) {
        const value = quantity(key, text);
        if (Number.isNaN(value)) return false;
        settings[key] = value;
        return true;
    }
    switch (key) {
    case 'queue':
        if (!Object.hasOwn(templates.yaml.queues, text)) return false;
        settings.queue = text;
        return true;
    case 'ecn':
        settings.ecn = text === 'on';
        return true;
    case 'experiment':
        if (!NAME.test(text)) return false;
        settings.experiment = text;
        return true;
    case 'f': {
        const flow = flowOf(text, templates);
        if (!flow || settings.flows.length >= MAX_FLOWS) return false;
        settings.flows.push(flow);
        return true;
    }
    default:
        return false;
    }
}

function flowOf(text, templates) {
    const [stack, cc, start = '0s', extra = '0s', receiver = '', ...names] = text.split(',');
    const known = templates.stacks.find((each) => each.name === stack);
    if (!known || !known.cc.includes(cc)) return null;
    if (receiver && !templates.stacks.some((each) => each.name === receiver)) return null;
    const flow = newFlow(stack, cc);
    flow.start = quantity('measure', start);
    flow.extra = quantity('rtt', extra);
    flow.receiver = receiver;
    if (names.length) {
        if (names.length !== 3 || !names.every((name) => NAME.test(name))) return null;
        flow.names = names;
    }
    return Number.isNaN(flow.start) || Number.isNaN(flow.extra) ? null : flow;
}

/** A flow from 0 s on, whose RTT is the path's. */
export function newFlow(stack, cc) {
    return { stack, cc, start: 0, extra: 0, receiver: '', names: null };
}

/** Names of the flow at a place, from 0, and of its ends. */
export function namesOf(settings, place) {
    return settings.flows[place].names ?? ['f', 'a', 'b'].map((letter) => `${letter}${place + 1}`);
}

function uniqueNames(settings) {
    const all = settings.flows.map((_, place) => namesOf(settings, place));
    const flows = all.map(([name]) => name);
    const hosts = all.flatMap(([, from, to]) => [from, to]);
    return new Set(flows).size === flows.length && new Set(hosts).size === hosts.length;
}

/** The address of settings; what is as usual is left out. */
export function toAddress(settings, templates) {
    const pieces = [];
    for (const [key, usual] of Object.entries(templates.defaults)) {
        const value = settings[key];
        if (value === usual && !ALWAYS.includes(key)) continue;
        const text = value === true ? 'on' : typeof value === 'string' ? value : written(key, value);
        pieces.push(`${key}=${encode(text)}`);
    }
    for (const flow of settings.flows) {
        const parts = [flow.stack, flow.cc, format(flow.start, TIMES), format(flow.extra, TIMES)];
        if (flow.receiver || flow.names) parts.push(flow.receiver, ...(flow.names ?? []));
        pieces.push(`f=${encode(parts.join(','))}`);
    }
    return pieces.join('&');
}

function encode(text) {
    return encodeURIComponent(text).replaceAll('%2C', ',').replaceAll('%2F', '/');
}

/** The numbers of the Scenario by their names in templates. */
export function numbers(settings) {
    const limitBytes = settings.buffer * PACKET;
    const redMax = Math.floor(limitBytes / 4);
    const redMin = Math.floor(redMax / 3);
    const all = {
        ...settings,
        delay: Math.floor(settings.rtt / 2),
        limit: settings.buffer,
        limit_bytes: limitBytes,
        memory: 2 * limitBytes,
        red_min: redMin,
        red_max: redMax,
        red_burst: Math.max(Math.floor((2 * redMin + redMax) / (3 * AVPKT)), Math.ceil(redMin / AVPKT)),
    };
    settings.flows.forEach((flow, place) => {
        all[`start${place + 1}`] = flow.start;
        all[`extra${place + 1}`] = Math.floor(flow.extra / 2);
    });
    return all;
}

/** The Scenario of settings, as the plan makes it of their experiment file. */
export function scenarioOf(settings, templates) {
    const values = numbers(settings);
    const words = { experiment: settings.experiment };
    settings.flows.forEach((flow, place) => {
        const [name, from, to] = namesOf(settings, place);
        Object.assign(words, { [`name${place + 1}`]: name, [`from${place + 1}`]: from, [`to${place + 1}`]: to });
        words[`cc${place + 1}`] = flow.cc;
    });
    const whole = filled(templates.bases[settings.flows.length - 1], values, words);
    const marks = settings.ecn && templates.yaml.withEcn.includes(settings.queue);
    const queue = filled(templates.queues[settings.queue + (marks ? '+ecn' : '')], values, words);
    for (const link of whole.links) {
        if (link.queue === '@queue') link.queue = queue;
        if (link.loss === '@loss') link.loss = settings.loss ? filled(templates.loss, values, words) : null;
    }
    if (settings.rate_then !== null) whole.schedule = filled(templates.change, values, words);
    whole.hosts = settings.flows.flatMap((flow, place) => {
        const [, from, to] = namesOf(settings, place);
        return [hostOf(settings, templates, values, flow.stack, from, false),
            hostOf(settings, templates, values, flow.receiver || flow.stack, to, true)];
    });
    const phases = whole.hosts.map(({ name }) => [`access.${name}`, settings.phase_jitter]);
    if (settings.phase_jitter) whole.phase_jitter_ns = Object.fromEntries(phases);
    return whole;
}

function hostOf(settings, templates, values, stack, host, receives) {
    const chosen = { ecn: settings.ecn, buffers: settings.buffers !== null, merge: receives && settings.merge > 0 };
    const key = [stack, ...Object.keys(chosen).filter((name) => chosen[name])].join('+');
    const made = filled(templates.hosts[key], values, { host });
    return settings.processing ? { ...made, noise: filled(templates.noise, values, {}) } : made;
}

function filled(template, values, words) {
    if (Array.isArray(template)) return template.map((each) => filled(each, values, words));
    if (typeof template === 'string') return fill(template, words);
    if (template === null || typeof template !== 'object') return template;
    if ('$' in template) return values[template.$];
    return Object.fromEntries(Object.entries(template).map(([key, each]) => [key, filled(each, values, words)]));
}

/** Puts values at their names in braces; other braces stay. */
function fill(text, values) {
    return text.replace(/\{([a-z_]+[0-9]?)\}/g, (whole, name) => (Object.hasOwn(values, name) ? values[name] : whole));
}

/** The experiment file of settings. */
export function yamlOf(settings, templates) {
    const text = templates.yaml;
    const families = Object.fromEntries(templates.stacks.map((stack) => [stack.name, stack.family]));
    const values = numbers(settings);
    const words = { experiment: settings.experiment, kind: settings.queue, seed: String(settings.seed) };
    for (const key of ['rate', 'access']) words[key] = format(values[key], RATES);
    for (const key of ['limit', 'red_burst']) words[key] = `${values[key]}p`;
    for (const key of ['limit_bytes', 'memory', 'red_min', 'red_max']) words[key] = format(values[key], SIZES);
    for (const key of ['delay', 'rate_at', 'duration', 'measure', 'start_jitter', 'phase_jitter', 'tcp', 'queue_every']) {
        words[key] = format(values[key], TIMES);
    }
    const named = settings.flows.map((_, place) => namesOf(settings, place));
    const own = settings.flows.map((flow, place) => ({
        name: named[place][0], from: named[place][1], to: named[place][2], cc: flow.cc,
        start: format(flow.start, TIMES), extra: format(Math.floor(flow.extra / 2), TIMES),
    }));
    const marks = settings.ecn && text.withEcn.includes(settings.queue);
    words.queue = fill(text.queues[settings.queue] + (marks ? ', ecn: true' : ''), words);
    words.loss = settings.loss ? fill(text.loss, { loss: format(settings.loss, SHARES) }) : '';
    if (settings.rate_then !== null) words.rate_then = format(settings.rate_then, RATES);
    words.change = settings.rate_then !== null ? fill(text.change, words) : '';
    words.left = named.map(([, from]) => from).join(', ');
    words.right = named.map(([, , to]) => to).join(', ');
    words.access_of = own.map((each) => fill(text.access, each)).join(', ');
    words.flows = own.map((each) => fill(text.flow, each)).join('');
    words.hosts = settings.flows.map((flow, place) => {
        const [, from, to] = named[place];
        const receiver = flow.receiver || flow.stack;
        return hostText(settings, text.host, from, flow.stack, families[flow.stack], false) +
            hostText(settings, text.host, to, receiver, families[receiver], true);
    }).join('');
    return fill(text.experiment, words);
}

function hostText(settings, text, name, stack, family, receives) {
    const sized = settings.buffers !== null;
    const wanted = { ecn: settings.ecn, buffers: sized, linux: sized && family === 'linux', merge: receives && settings.merge > 0, processing: settings.processing > 0 };
    const size = settings.buffers ?? 0;
    const words = { buffers: format(size, SIZES), buffers_bytes: String(size), merge: String(settings.merge), processing: format(settings.processing, TIMES) };
    const options = Object.keys(wanted).filter((key) => wanted[key]).map((key) => fill(text[key], words)).join('');
    return fill(text.plain, { name, stack, options });
}
