// The page: settings from the address, runs in workers, the picture, the words, what is pinned and taken along.

import { Controls, element } from './controls.js';
import { Picture } from './picture.js';
import { Series } from './series.js';
import { decoded, fromAddress, scenarioOf, toAddress, yamlOf } from './settings.js';
import { csvOf, pngOf, save, svgOf } from './takeaway.js';
import { digits, index, metricsOf, percent, rate, sentences, time } from './words.js';

const START = 'rate=10mbit&rtt=40ms&buffer=90p&queue=pfifo&f=linux-6.8,cubic,0s,0s&f=freebsd-15-current,cubic,10s,0s';
const $ = (id) => document.getElementById(id);

/** A worker that carries out one run after another; a newer one ends the one before. */
class Runner {
    constructor(told) {
        this.worker = new Worker(new URL('./worker.js', import.meta.url), { type: 'module' });
        this.number = 0;
        this.worker.onmessage = ({ data }) => {
            if (data.number === this.number) this.take(data, told);
        };
        this.worker.onerror = (event) => told({ error: event.message || 'the engine could not be loaded' });
    }

    run(settings, templates) {
        const scenario = scenarioOf(settings, templates);
        this.series = new Series(structuredClone(settings), scenario);
        this.worker.postMessage({ number: ++this.number, scenario });
        return this.series;
    }

    take(data, told) {
        if (data.columns) this.series.add(data);
        for (const key of ['summary', 'hashes', 'took', 'packets']) if (key in data) this.series[key] = data[key];
        told(data, this.series);
    }
}

class Page {
    constructor(templates) {
        this.templates = templates;
        this.picture = new Picture($('plot'), $('cursor'), $('readout'));
        this.controls = new Controls(templates, () => this.changed());
        this.runner = new Runner((data) => this.advanced(data));
        this.complete = null; // the last run that came to its end
        this.pinned = null;
        this.pinRunner = null;
        this.showPresets();
        this.connect();
        addEventListener('hashchange', () => {
            if (location.hash.slice(1) !== this.address) this.load(location.hash.slice(1));
        });
        this.load(location.hash.slice(1) || START);
    }

    /** Shows the experiment of an address. */
    load(address, preset = null) {
        const { now, pin } = parted(address);
        const { settings, wrong } = fromAddress(now, this.templates);
        this.settings = settings;
        this.picture.whole();
        this.controls.show(settings);
        this.unpin();
        if (pin) this.pin(fromAddress(pin, this.templates).settings);
        this.describe(preset ?? this.templates.presets.find((each) => addressOf(each) === address) ?? null);
        this.trouble(wrong.length ? `The link has what this page does not know, and leaves it out: ${wrong.join('; ')}` : '');
        this.start();
    }

    changed() {
        this.describe(null);
        this.trouble('');
        this.start();
    }

    /** Begins the run of the settings. */
    start() {
        this.begun = performance.now();
        this.series = this.runner.run(this.settings, this.templates);
        this.redraw();
        clearTimeout(this.writing);
        this.writing = setTimeout(() => this.writeAddress(), 250);
    }

    writeAddress() {
        const pin = this.pinned ? `&pin=${encodeURIComponent(toAddress(this.pinned.settings, this.templates))}` : '';
        this.address = toAddress(this.settings, this.templates) + pin;
        history.replaceState(null, '', `#${this.address}`);
    }

    advanced(data) {
        if (data.error) this.trouble(`The engine says: ${data.error}`);
        if (data.summary) {
            this.complete = this.series;
            this.redraw();
            this.picture.draw(); // at once: it is what was waited for
            this.drawn = performance.now() - this.begun;
            this.say();
        } else if (data.hashes) this.sayHash();
        else this.redraw();
    }

    redraw() {
        const runs = [];
        if (this.pinned) runs.push({ series: this.pinned, role: 'pinned' });
        if (this.complete && this.series !== this.complete && !this.series.summary) {
            runs.push({ series: this.complete, role: 'old', after: this.series.until });
        }
        runs.push({ series: this.series, role: 'now' });
        $('pinned-sign').hidden = !this.pinned;
        this.picture.show(runs, Math.max(this.series.duration, this.pinned?.duration ?? 0));
    }

    // ---- comparing

    pin(settings) {
        this.pinRunner ??= new Runner((data) => {
            if (data.summary) this.say();
            this.redraw();
        });
        this.pinned = this.pinRunner.run(settings, this.templates);
        this.showPin();
    }

    unpin() {
        this.pinned = null;
        this.showPin();
    }

    showPin() {
        $('unpin').hidden = $('swap').hidden = !this.pinned;
        $('pin').textContent = this.pinned ? 'Pin this instead' : 'Pin this';
        if (this.series) {
            this.redraw();
            this.say();
            this.writeAddress();
        }
    }

    // ---- words

    trouble(words) {
        $('trouble').textContent = words;
        $('trouble').hidden = !words;
    }

    say() {
        if (!this.complete) return;
        const now = metricsOf(this.complete);
        const pinned = this.pinned?.summary ? metricsOf(this.pinned) : null;
        this.sayPublished(now, pinned);
        $('words').replaceChildren(...sentences(now, pinned).map((pieces) => element('p', {}, ...pieces.map(pieceOf))));
        document.querySelector('#numbers > div').replaceChildren(tableOf(now, pinned));
    }

    /** Beside what was published, the goodput of this run and of the pinned one. */
    sayPublished(now, pinned) {
        const { preset } = this;
        if (!preset?.published) return;
        const goodput = ({ flows }) => rate(flows.reduce((sum, flow) => sum + flow.goodput, 0));
        const seen = goodput(now) + (pinned ? ` (pinned: ${goodput(pinned)})` : '');
        $('published').textContent = `Published: ${preset.published}. Seen here: ${seen}, over ${digits(this.complete.duration)} s. ${preset.beside}.`;
    }

    sayHash() {
        const { hashes } = this.series;
        $('hash').textContent = hashes.result.slice(0, 16).replace(/(.{4})(?=.)/g, '$1 ');
        const name = this.settings.experiment;
        $('command').textContent = `cwndlab run ${name}.yaml -o results/${name}\ncwndlab show results/${name} --hashes`;
        $('scenario').textContent = `Scenario ${hashes.scenario}; result ${hashes.result}; ` +
            `${this.series.packets.toLocaleString('en')} packets in ${digits(this.series.took)} ms, drawn after ${digits(this.drawn)} ms.`;
        document.body.dataset.result = hashes.result;
    }

    describe(preset) {
        for (const [place, button] of [...$('presets').children].entries()) {
            button.setAttribute('aria-pressed', String(this.templates.presets[place] === preset));
        }
        this.preset = preset;
        $('look').hidden = !preset;
        $('published').textContent = '';
        $('published').hidden = !preset?.published;
        if (!preset) return;
        $('look').replaceChildren(preset.look, ' ', element('span', { className: 'soft' },
            `The suite ${preset.suite} has all of it (cwndlab run ${preset.suite}). Here: ${preset.differs}.`));
    }

    showPresets() {
        $('presets').replaceChildren(...this.templates.presets.map((preset) => {
            const button = element('button', { type: 'button', textContent: preset.name });
            button.addEventListener('click', () => this.load(addressOf(preset), preset));
            return button;
        }));
    }

    // ---- buttons

    connect() {
        const told = (words) => {
            $('told').textContent = words;
        };
        $('pin').addEventListener('click', () => {
            this.pin(structuredClone(this.settings));
            told('Pinned. Change one thing now and see both.');
        });
        $('unpin').addEventListener('click', () => this.unpin());
        $('swap').addEventListener('click', () => this.load(toAddress(this.pinned.settings, this.templates)));
        $('link').addEventListener('click', () => {
            this.writeAddress();
            navigator.clipboard.writeText(location.href).then(
                () => told('The link is in the clipboard: it is the whole experiment.'),
                () => told('This browser keeps its clipboard; the link is in the address bar.'),
            );
        });
        const name = () => this.settings.experiment;
        $('yaml').addEventListener('click', () => {
            save(`${name()}.yaml`, yamlOf(this.settings, this.templates), 'application/yaml');
            told(`Run it with: cwndlab run ${name()}.yaml`);
        });
        $('csv').addEventListener('click', () => save(`${name()}.csv`, csvOf(this.series), 'text/csv'));
        $('svg').addEventListener('click', () => save(`${name()}.svg`, svgOf(...this.picture.content(), location.href), 'image/svg+xml'));
        $('png').addEventListener('click', async () => save(`${name()}.png`, await pngOf(...this.picture.content())));
        $('controls').addEventListener('submit', (event) => event.preventDefault());
    }
}

/** An address without its pinned part, and that. */
function parted(address) {
    const pieces = address.split('&');
    const pin = pieces.find((piece) => piece.startsWith('pin='));
    return { now: pieces.filter((piece) => piece !== pin).join('&'), pin: pin ? decoded(pin.slice(4)) : '' };
}

function addressOf(preset) {
    return preset.address + (preset.pinned ? `&pin=${encodeURIComponent(preset.pinned)}` : '');
}

function pieceOf(piece) {
    if (typeof piece === 'string') return piece;
    const said = element('span', {}, element('b', {}, piece.value));
    if (piece.pinned !== null) said.append(' ', element('span', { className: 'pinned', title: 'pinned' }, piece.pinned));
    return said;
}

const COLUMNS = [
    ['goodput', (flow) => rate(flow.goodput)], ['RTT, median', (flow) => time(flow.rtt50)], ['95 %', (flow) => time(flow.rtt95)],
    ['mean cwnd', (flow) => (flow.cwnd === null ? '' : `${digits(flow.cwnd / 1000)} kB`)], ['sent again', (flow) => percent(flow.retransmitted)],
    ['recoveries', (flow) => String(flow.recoveries)], ['timeouts', (flow) => String(flow.timeouts)],
];

function tableOf(now, pinned) {
    const head = element('tr', {}, ...['flow', ...COLUMNS.map(([title]) => title)].map((title) => element('th', { scope: 'col' }, title)));
    const rows = now.flows.map((flow, place) => element('tr', {}, element('th', { scope: 'row' }, flow.name), ...COLUMNS.map(([, text]) => {
        const cell = element('td', {}, text(flow));
        if (pinned?.flows[place]) cell.append(element('span', { className: 'pinned', title: 'pinned' }, text(pinned.flows[place])));
        return cell;
    })));
    const caption = `Utilisation ${percent(now.utilisation)}` + (now.jain === null ? '' : `, Jain’s index ${index(now.jain)}`);
    return element('table', {}, element('caption', { className: 'soft' }, caption), element('thead', {}, head), element('tbody', {}, ...rows));
}

async function begin() {
    try {
        const answer = await fetch('templates.json');
        if (!answer.ok) throw new Error(`templates.json: ${answer.status}`);
        window.lab = new Page(await answer.json()); // has a name for tests, and for whoever opens the console
    } catch (error) {
        $('trouble').textContent = `The page is not whole: ${error.message}. In a clone of cwndlab, make web builds it.`;
        $('trouble').hidden = false;
    }
}

begin();
