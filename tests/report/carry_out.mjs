// Does with addresses, or Scenarios, one a line, what the page does: node carry_out.mjs PAGE; answers with a line of JSON for each.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { createInterface } from 'node:readline';

const page = pathToFileURL(`${process.argv[2]}/`);
const { initSync, Run } = await import(new URL('engine.js', page));
const { fromAddress, scenarioOf, toAddress, yamlOf } = await import(new URL('settings.js', page));
const { limitWords, metricsOf } = await import(new URL('words.js', page));
initSync({ module: readFileSync(new URL('engine_bg.wasm', page)) });
const templates = JSON.parse(readFileSync(new URL('templates.json', page)));

for await (const line of createInterface({ input: process.stdin })) {
    const { settings, wrong } = fromAddress(line.startsWith('{') ? '' : line, templates);
    const scenario = line.startsWith('{') ? JSON.parse(line) : scenarioOf(settings, templates);
    const run = new Run(JSON.stringify(scenario));
    // In steps as the page does: where they are cut must not matter.
    for (let step = 1; !run.run_until(step * 0.3e9); step++) run.take();
    run.take();
    const hashes = JSON.parse(run.hashes());
    const metrics = metricsOf({ scenario, summary: JSON.parse(run.summary()) });
    run.free();
    console.log(JSON.stringify({ wrong, again: toAddress(settings, templates), yaml: yamlOf(settings, templates), scenario, hashes, metrics, limits: metrics.flows.map(limitWords) }));
}
