// The sum of a run: its metrics as the command line has them, and in words.

/** Metrics of a run, as `cwndlab show` has them; null where there is none. */
export function metricsOf(series) {
    const { scenario, summary } = series;
    const flows = summary.flows.map((flow) => ({
        name: flow.flow,
        goodput: ratio(flow.goodput_bytes * 8e3, flow.active_ns),
        rtt50: ratio(flow.rtt.p50_ns, 1e6),
        rtt95: ratio(flow.rtt.p95_ns, 1e6),
        wait50: ratio(flow.queue_delay.p50_ns, 1e6),
        wait95: ratio(flow.queue_delay.p95_ns, 1e6),
        retransmitted: ratio(flow.retransmits, flow.segments_sent),
        retransmits: flow.retransmits,
        segments: flow.segments_sent ?? 0,
        wire: flow.wire_bytes ?? 0,
        cwnd: flow.cwnd_mean_bytes,
        limits: limitsOf(flow),
        recoveries: flow.fast_recoveries,
        timeouts: flow.rtos,
    }));
    const sum = (key) => flows.reduce((total, flow) => total + flow[key], 0);
    return {
        flows,
        utilisation: sum('wire') * 8 / capacity(scenario),
        wait50: Math.max(...flows.map((flow) => flow.wait50 ?? 0)),
        wait95: Math.max(...flows.map((flow) => flow.wait95 ?? 0)),
        jain: jain(flows.map((flow) => flow.goodput).filter((goodput) => goodput !== null)),
        retransmitted: ratio(sum('retransmits'), sum('segments')),
        drops: summary.links.reduce((total, link) => total + link.drops, 0),
        marks: summary.links.reduce((total, link) => total + (link.ce_marks ?? 0), 0),
        recoveries: sum('recoveries'),
        timeouts: sum('timeouts'),
    };
}

/** Rates of the bottleneck and from when on, ns: as it begins, and as its schedule changes it. */
function rates(scenario) {
    const { rate_bps } = scenario.links.find((link) => link.name === 'bottleneck');
    return [{ at_ns: 0, rate_bps }, ...scenario.schedule];
}

/** The rate of the bottleneck at a time in s, bit/s. */
export function rateAt(scenario, t) {
    return rates(scenario).findLast((each) => each.at_ns <= t * 1e9).rate_bps;
}

/** Bits that the bottleneck can carry in the measurement window. */
function capacity(scenario) {
    const { from_ns, to_ns } = scenario.measure;
    return rates(scenario).reduce((bits, { at_ns, rate_bps }, place, all) => {
        const until = Math.min(all[place + 1]?.at_ns ?? to_ns, to_ns);
        return bits + rate_bps * Math.max(0, until - Math.max(at_ns, from_ns)) / 1e9;
    }, 0);
}

/** What limited a flow, most of the time first: `[what, share of the time, its buffer]`. */
function limitsOf(flow) {
    // The congestion window follows the path; a full link needs none to follow it.
    const { cwnd, path, ...others } = flow.limited_ns ?? {};
    const all = Object.entries({ path: (cwnd ?? 0) + (path ?? 0), ...others }).filter(([, ns]) => ns);
    const buffers = { sndbuf: flow.send_buffer, rwnd: flow.receive_buffer };
    return all.map(([what, ns]) => [what, ns / flow.active_ns, buffers[what] ?? null]).sort((a, b) => b[1] - a[1]);
}

const LIMITS = {
    path: 'the path',
    rwnd: 'the receiver’s window',
    sndbuf: 'the send buffer',
    app: 'the application',
    host: 'the processing of a host',
    pacing: 'pacing',
};
const LEAST = 0.05; // share of the time from which a second limit is named

/** What limited a flow, in words; empty where nothing tells. */
export function limitWords({ limits }) {
    return limits.filter(([, share], place) => !place || share >= LEAST).map(([what, share, buffer], place) => {
        const held = buffer?.held_by ? ` (a buffer of ${buffer.bytes.toLocaleString('en')} bytes, held by ${buffer.held_by})` : '';
        const words = `${LIMITS[what]}${held}`;
        return `${words} ${share > 0.995 ? 'all of the time' : `${(share * 100).toFixed(0)} %${place ? '' : ' of the time'}`}`;
    }).join(', then ');
}

function ratio(part, whole) {
    return part === undefined || part === null || !whole ? null : part / whole;
}

function jain(rates) {
    const squares = rates.reduce((sum, rate) => sum + rate * rate, 0);
    if (rates.length < 2 || squares === 0) return null;
    return rates.reduce((sum, rate) => sum + rate) ** 2 / (rates.length * squares);
}

/** Sentences, each a list of pieces: text, or `{value, pinned}`, two texts of which the second may be missing. */
export function sentences(now, pinned) {
    const of = (pick) => ({ value: pick(now), pinned: pinned ? pick(pinned) : null });
    const number = (key, one, many) => ({ value: counted(now[key], one, many), pinned: pinned && String(pinned[key]) });
    const several = now.flows.length > 1;
    const all = [
        ['The link is used to ', of((m) => percent(m.utilisation)), several ? '.' : '; the application gets ',
            ...(several ? [] : [of((m) => rate(m.flows[0].goodput)), '.'])],
        ['A packet waits ', of((m) => time(m.wait50)), ' in the queue in the median; one in twenty waits longer than ',
            of((m) => time(m.wait95)), '.'],
    ];
    if (several) {
        all.push(['Of the link, ', ...now.flows.flatMap((flow, place) => [
            place ? ', ' : '', `${flow.name} gets `,
            { value: rate(flow.goodput), pinned: pinned?.flows[place] ? rate(pinned.flows[place].goodput) : null },
        ]), ': Jain’s fairness index is ', { value: index(now.jain), pinned: pinned && pinned.jain !== null ? index(pinned.jain) : null }, ' (1 is even shares).']);
    }
    all.push(['Of all segments, ', of((m) => percent(m.retransmitted)), ' are sent again; ',
        number('drops', 'packet'), ' dropped', ...(now.marks ? [', ', of((m) => String(m.marks)), ' marked'] : []),
        ', ', number('recoveries', 'recovery', 'recoveries'), ', ', number('timeouts', 'timeout'), '.']);
    now.flows.forEach((flow, place) => {
        if (!flow.limits.length) return;
        const before = pinned?.flows[place];
        all.push([`What limited ${flow.name}: `, { value: limitWords(flow), pinned: before?.limits.length ? limitWords(before) : null }, '.']);
    });
    return all;
}

export function percent(share) {
    if (share === null) return 'none';
    const value = share * 100;
    return `${value === 0 ? '0' : value < 0.1 ? value.toPrecision(1) : value < 10 ? value.toFixed(2) : value.toFixed(1)} %`;
}

export function rate(mbps) {
    if (mbps === null) return 'nothing';
    return `${digits(mbps)} Mbit/s`;
}

export function time(ms) {
    if (ms === null) return 'no time';
    return ms < 1 ? `${digits(ms * 1000)} µs` : `${digits(ms)} ms`;
}

export function index(value) {
    return value === null ? 'none' : value.toFixed(3);
}

/** Three digits. */
export function digits(value) {
    if (value >= 100) return value.toFixed(0);
    return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function counted(count, one, many = `${one}s`) {
    return `${count} ${count === 1 ? one : many}`;
}
