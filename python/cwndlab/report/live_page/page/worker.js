// The engine in a worker: carries a Scenario out in steps of some milliseconds, and posts what each step recorded.

import init, { Run } from './engine.js';

const STEP_MS = 20; // processor time of a step: so long a newer Scenario waits at most
const TCP = ['t_ns', 'flow', 'cwnd_bytes', 'ssthresh_bytes', 'srtt_ns', 'rtt_ns', 'inflight_bytes', 'delivered_bytes',
    'arrived_bytes', 'retransmits'];
const QUEUE = ['t_ns', 'backlog_packets', 'backlog_bytes', 'drops', 'ce_marks'];
const EVENTS = ['t_ns', 'flow', 'kind'];

const ready = init({ module_or_path: new URL('./engine_bg.wasm', import.meta.url) });
const turn = new MessageChannel();
let newest = 0;

onmessage = async ({ data }) => {
    newest = data.number;
    await ready;
    if (data.number === newest) await carryOut(data).catch((error) => post(data, { error: String(error.message ?? error) }));
};

async function carryOut(order) {
    const begin = performance.now();
    const run = new Run(JSON.stringify(order.scenario));
    try {
        const duration = order.scenario.duration_ns;
        let step = duration / 30;
        let until = step;
        for (;;) {
            const started = performance.now();
            const over = run.run_until(until > duration ? Number.MAX_SAFE_INTEGER : until);
            run.take();
            const columns = { tcp: columnsOf(run, 'tcp', TCP), queue: columnsOf(run, 'queue', QUEUE), events: columnsOf(run, 'events', EVENTS) };
            const kinds = run.names('events', 'kind');
            const buffers = Object.values(columns).flatMap((table) => Object.values(table).map((column) => column.buffer));
            post(order, { columns, kinds, until: Math.min(until, duration) }, buffers);
            if (over) break;
            step *= Math.min(4, Math.max(0.25, STEP_MS / Math.max(performance.now() - started, 0.5)));
            until += step;
            await pause();
            if (order.number !== newest) return;
        }
        const packets = run.packets();
        post(order, { summary: JSON.parse(run.summary()), packets, took: performance.now() - begin });
        await pause();
        if (order.number === newest) post(order, { hashes: JSON.parse(run.hashes()) });
    } finally {
        run.free();
    }
}

function columnsOf(run, table, names) {
    return Object.fromEntries(names.map((name) => [name, run.column(table, name)]));
}

function post(order, told, buffers = []) {
    postMessage({ number: order.number, ...told }, buffers);
}

/** Lets messages in that have arrived. */
function pause() {
    return new Promise((resolve) => {
        turn.port1.onmessage = resolve;
        turn.port2.postMessage(null);
    });
}
