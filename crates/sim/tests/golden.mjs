// Runs the golden scenarios on WebAssembly and compares with golden.txt: node golden.mjs golden.wasm golden.txt
import { readFileSync } from 'node:fs';

const [module, golden] = process.argv.slice(2);
const begin = performance.now();
const { exports } = (await WebAssembly.instantiate(readFileSync(module))).instance;
const text = () => new TextDecoder().decode(new Uint8Array(exports.memory.buffer, exports.text(), exports.length()));

let found = '';
const count = exports.count();
for (let number = 0; number < count; number++) {
    try {
        exports.run(number);
    } catch (trap) {
        console.error(`FAILED scenario ${number}: ${trap.message}: ${text()}`);
        process.exit(1);
    }
    found += text();
}

const expected = readFileSync(golden, 'utf8');
const differing = (lines, others) => lines.filter((line) => !others.has(line));
const [ours, theirs] = [found, expected].map((all) => all.split('\n'));
const missing = differing(theirs, new Set(ours));
const added = differing(ours, new Set(theirs));
for (const line of missing) console.log(`- ${line}`);
for (const line of added) console.log(`+ ${line}`);
const failed = new Set([...missing, ...added].map((line) => line.split(' ')[0])).size;
const seconds = ((performance.now() - begin) / 1000).toFixed(2);
if (found !== expected) {
    console.log(`FAILED golden.txt (-) and WebAssembly (+) differ`);
    console.log(`${Math.max(failed, 1)} failed, ${count - failed} passed in ${seconds}s`);
    process.exit(1);
}
console.log(`${count} passed in ${seconds}s`);
