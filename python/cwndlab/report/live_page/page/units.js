// Quantities with units, as in an experiment file: text to whole numbers of the base unit, and back.

export const RATES = { bit: 1, kbit: 1e3, mbit: 1e6, gbit: 1e9 };
export const TIMES = { ns: 1, us: 1e3, ms: 1e6, s: 1e9 };
export const SIZES = { B: 1, KB: 1e3, MB: 1e6, GB: 1e9, KiB: 1024, MiB: 1048576, GiB: 1073741824 };
export const SHARES = { '%': 1e7 };
export const PACKETS = { p: 1 };

/** The whole number that a text is, or NaN: `10mbit`, `0.5 ms`. */
export function parse(text, units) {
    const found = /^([0-9]{1,12})(?:\.([0-9]{1,9}))?\s?([A-Za-z%]+)$/.exec(text.trim());
    if (!found) return NaN;
    const [, whole, part = '', name] = found;
    const unit = Object.keys(units).find((known) => known === name) ??
        Object.keys(units).find((known) => known.toLowerCase() === name.toLowerCase());
    if (unit === undefined) return NaN;
    const scaled = BigInt(whole + part) * BigInt(units[unit]);
    const scale = 10n ** BigInt(part.length);
    return scaled % scale === 0n ? Number(scaled / scale) : NaN;
}

/** The exact text of a whole number, in the largest of the units that it reaches; sizes in binary units where that is shorter. */
export function format(value, units) {
    if (value === 0 && units === TIMES) return '0s';
    if (units !== SIZES) return inUnits(value, Object.entries(units));
    const entries = Object.entries(SIZES);
    const decimal = inUnits(value, entries.filter(([unit]) => !unit.includes('i')));
    const binary = inUnits(value, entries.filter(([unit]) => unit.includes('i') || unit === 'B'));
    return binary.length < decimal.length - 1 ? binary : decimal;
}

function inUnits(value, entries) {
    const texts = entries.filter(([, size]) => value >= size).map(([unit, size]) => decimal(value, size) + unit)
        .filter((text) => parse(text, Object.fromEntries(entries)) === value);
    const [unit, size] = entries[0];
    return texts.at(-1) ?? decimal(value, size) + unit;
}

/** value / size with no more digits than it needs, at most nine behind the point. */
function decimal(value, size) {
    return String(Number((value / size).toFixed(9)));
}
