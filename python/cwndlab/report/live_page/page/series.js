// What a run has recorded so far, by flow, and what is read from it at a time.

const SECOND = 1e9;

/** The series of a run, filled step by step with the worker's columns. */
export class Series {
    constructor(settings, scenario) {
        this.settings = settings;
        this.scenario = scenario;
        this.duration = scenario.duration_ns / SECOND;
        this.until = 0; // s that are there
        this.flows = scenario.flows.map((flow) => ({
            name: flow.name, t: [], cwnd: [], ssthresh: [], srtt: [], rtt: [], inflight: [], delivered: [], arrived: [], retransmits: [],
        }));
        this.queue = { t: [], packets: [], bytes: [], drops: [], marks: [] };
        this.events = []; // {t, flow, kind}
        this.summary = null;
        this.hashes = null;
    }

    /** Adds what a step of the worker recorded. */
    add({ columns, kinds, until }) {
        const { tcp, queue, events } = columns;
        for (let row = 0; row < tcp.t_ns.length; row++) {
            const flow = this.flows[tcp.flow[row]];
            flow.t.push(tcp.t_ns[row] / SECOND);
            flow.cwnd.push(tcp.cwnd_bytes[row]);
            flow.ssthresh.push(tcp.ssthresh_bytes[row]);
            flow.srtt.push(tcp.srtt_ns[row] / 1e6);
            flow.rtt.push(tcp.rtt_ns[row] / 1e6);
            flow.inflight.push(tcp.inflight_bytes[row]);
            flow.delivered.push(tcp.delivered_bytes[row]);
            flow.arrived.push(tcp.arrived_bytes[row]);
            flow.retransmits.push(tcp.retransmits[row]);
        }
        for (let row = 0; row < queue.t_ns.length; row++) {
            this.queue.t.push(queue.t_ns[row] / SECOND);
            this.queue.packets.push(queue.backlog_packets[row]);
            this.queue.bytes.push(queue.backlog_bytes[row]);
            this.queue.drops.push(queue.drops[row]);
            this.queue.marks.push(queue.ce_marks[row]);
        }
        for (let row = 0; row < events.t_ns.length; row++) {
            const kind = kinds[events.kind[row]];
            if (SHOWN.has(kind)) this.events.push({ t: events.t_ns[row] / SECOND, flow: events.flow[row], kind });
        }
        this.until = until / SECOND;
    }

    /** Mean throughput in Mbit/s of a flow in windows of some seconds, each at its middle, in an interval of time. */
    throughput(flow, length, from, to) {
        const { t, arrived } = this.flows[flow];
        const times = [];
        const rates = [];
        let before = valueAt(t, arrived, from) || 0;
        for (let end = from + length; end <= Math.min(to, this.until) + 1e-9; end += length) {
            const now = valueAt(t, arrived, end) || 0;
            times.push(end - length / 2);
            rates.push((now - before) * 8e-6 / length);
            before = now;
        }
        return [times, rates];
    }
}

/** Kinds of events that are drawn. */
const SHOWN = new Set(['drop', 'mark', 'recovery-in', 'rto']);

/** The newest value at a time; NaN before the first. */
export function valueAt(times, values, t) {
    const place = placeOf(times, t);
    return place < 0 ? NaN : values[place];
}

/** The place of the last time that is not after t, -1 if there is none. */
export function placeOf(times, t) {
    let low = 0;
    let high = times.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (times[middle] <= t) low = middle + 1;
        else high = middle;
    }
    return low - 1;
}
