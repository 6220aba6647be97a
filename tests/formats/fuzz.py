"""Feeds damaged files of every format to its parser: by hand for as long as asked, in the tests for a moment.

    python tests/formats/fuzz.py FORMAT|all --seconds 600 [--seed 1]

A file is one of the samples with a few random changes: bytes and numbers replaced, pieces cut out, doubled,
moved or taken from another sample. A parser may refuse it with one line (InputError) or read it into tables
that hold together; anything else is a failure, and the file is left in the directory `fuzz-failures` with the
seed in its name. Once mended, it belongs in `tests/formats/found`: files there are tried first, each time.
"""

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Called by hand, nothing else puts the tests' own modules in the way.
sys.path.insert(0, str(Path(__file__).parents[1]))

import logs
import qlogs

import mvfst
from cwndlab import _native
from cwndlab.errors import InputError
from cwndlab.formats import (
    ack_stream,
    base,
    capture,
    flent,
    iperf3,
    iperf_text,
    loadlatency,
    qlog,
    siftr,
    siftr2,
    ss,
)
from cwndlab.testbeds.tables import SCHEMAS, conform
from cwndlab_teacup import config as teacup_config
from cwndlab_teacup import extracted, tcp_probe, ttprobe, web10g
from patience import PATIENCE

NUMBERS = (
    b"0",
    b"-1",
    b"1e400",
    b"nan",
    b"4294967296",
    b"18446744073709551616",
    b"9" * 40,
    b"0x",
    b"",
    b"3.5",
    b"1e18",
)
"""What takes the place of a number."""

FLENT = b"""{"version": 4, "metadata": {"NAME": "tcp_nup", "TITLE": "x", "HOST": "h"},
"x_values": [0, 0.2, 0.4, 0.6], "results": {"TCP upload::1": [1.5, null, 9.5, 8],
"TCP upload sum": [1, 2, 3, 4], "TCP upload::1::tcp_cwnd": [10, null, 12, 11],
"TCP upload::1::tcp_rtt": [40, 41, 42, 43], "TCP upload::1::tcp_pacing_rate": [1, 2, 3, 4],
"Ping (ms) ICMP": [40, 41, 42, 43]}, "raw_values": {"TCP upload::1": [
{"t": 1.0, "val": 3, "tcp_rtt": 40.5, "tcp_cwnd": 10}, {"t": 1.3, "tcp_rtt": 41}]}}"""

ACKS = ack_stream.HEADER + "".join(
    f"\n0.{n:03},{'loss' if n % 9 == 8 else 'ack'},1448,40.5,{n * 1448},{n * 1448}" for n in range(40)
)

FOUND = Path(__file__).with_name("found")
"""Files that a parser once failed on: `FORMAT-SEED-NUMBER.SUFFIX`."""

SLOWEST_S = 20.0
"""A file that takes longer than this on a machine at rest is a failure of its own."""


@dataclass(frozen=True)
class Target:
    """A parser and samples of what it reads."""

    read: Callable[[Path], list[base.Recording]]
    samples: Callable[[Path], list[bytes]]
    suffix: str = ".log"


def text(*makers: Callable[[], str | bytes]) -> Callable[[Path], list[bytes]]:
    """Samples that are made of nothing."""
    contents = [maker() for maker in makers]
    return lambda _: [content.encode() if isinstance(content, str) else content for content in contents]


def packets(directory: Path) -> list[bytes]:
    """Captures of both ends of a short simulated run, as pcap and pcapng."""
    import cwndlab

    experiment = """
experiment: fuzz
duration: 300ms
hosts: {a: {stack: freebsd-13}, b: {stack: linux-6.8}}
network:
  dumbbell: {left: [a], right: [b], bottleneck: {rate: 10mbit, delay: 5ms, loss: {random: 2%}}}
flows: [{from: a, to: b}]
record: {pcap: [{at: a, snaplen: 80}, {at: b, snaplen: 80}]}
"""
    results = cwndlab.load(experiment).run(out=directory / "results")
    found = []
    for path in results.captures(0):
        ng = directory / f"{path.name}ng"
        subprocess.run(["editcap", "-F", "pcapng", path, ng], check=True, timeout=PATIENCE)
        found += [path.read_bytes()[:20_000], ng.read_bytes()[:20_000]]
    return found


def load_document() -> str:
    """A document of loadlatency with a scenario and a staircase."""
    pings = [[k * 20_000_000, 10_000_000 + k, 5_000_000 + k, 5_000_000 - k, True] for k in range(30)]

    def scenario(number: int, starts: list[int]) -> dict[str, object]:
        transfers = [
            {
                "name": f"{way}{place}",
                "direction": way,
                "dscp": 8 * place,
                "start_ns": start,
                "end_ns": 4 * 10**9,
                "bytes": 4000,
                "longest_gap_ns": 10**8,
                "bins": [100] * 30,
                "sender": {"cc": "cubic", "ecn": False},
                "receiver": {"cc": None, "ecn": None},
            }
            for place, start in enumerate(starts)
            for way in ("up", "down")
        ]
        mix = {"number": number, "uploads": len(starts), "downloads": len(starts)}
        times = {"start_ns": 10**9, "duration_ns": 4 * 10**9}
        probes = {"pings": pings, "idle_pings": pings[:3], "connects": [[5, 7]], "in_band": [[5, 7]]}
        return {**mix, **times, "transfers": transfers, **probes}

    observed = {"idle_pings": pings, "scenarios": [scenario(4, [0]), scenario(0, [0, 2 * 10**9])]}
    conditions = {"status": "complete", "message": None, "started_unix_s": 1_790_000_000, "facts": {"a": "b"}}
    return _native.loadlatency_document(json.dumps(observed), json.dumps(conditions))


def pair(path: Path) -> list[base.Recording]:
    """The damaged capture, alone and beside a whole one of the same connection."""
    recordings = capture.read_all([path], capture.Options())
    whole = path.with_name("whole.pcap")
    return recordings + capture.read_all([path, whole], capture.Options()) if whole.exists() else recordings


def configuration(path: Path) -> list[base.Recording]:
    """A configuration has no recording; what it says must fit its runs."""
    converted = teacup_config.convert(path)
    assert converted.test_ids and all(finding.kind in teacup_config.KINDS for finding in converted.findings)
    return []


BASELINE = Path(__file__).parent / "teacup" / "baseline.py"
COMPUTED = b"""env.password = 'x'
rates = [2, 6, 10]
TPCONF_names = ','.join(map(str, rates)) + ','.join(str(x) for x in rates[1:] if x > 2)
TPCONF_power_admin_pw = env.password
TPCONF_more = [[x] * y for x in range(3) for y in (1, 2)][::2]
"""
"""What configurations are computed with, put before one."""

IPERF = Path(__file__).parent / "iperf"
MVFST = [mvfst.Sender(newer=newer, packets=40).run for newer in (False, True)]


def stored(pattern: str) -> Callable[[Path], list[bytes]]:
    """Samples that other tools wrote."""
    return lambda _: [file.read_bytes() for file in sorted(IPERF.glob(pattern))]


TARGETS = {
    "siftr": Target(
        siftr.read, text(logs.siftr9, logs.siftr_manual, logs.siftr_ertt, logs.siftr13, logs.siftr15)
    ),
    "siftr2": Target(siftr2.read, text(logs.siftr2_text, logs.siftr25_text, logs.siftr25_binary)),
    "web10g": Target(web10g.read, text(logs.web10g, logs.web10g_bare)),
    "estats": Target(web10g.read, text(logs.estats)),
    "ttprobe": Target(ttprobe.read, text(logs.ttprobe_text, logs.ttprobe_binary)),
    "tcp_probe": Target(tcp_probe.read, text(logs.tcp_probe_old, logs.tcp_probe_trace)),
    "extracted": Target(extracted.read, text(logs.psiz, logs.rtts, logs.extracted_cwnd)),
    "ss": Target(ss.read, text(logs.ss)),
    "qlog": Target(qlog.read, text(*qlogs.ALL.values(), *MVFST), ".qlog"),
    "acks": Target(ack_stream.read, text(lambda: ACKS), ".csv"),
    "flent": Target(flent.read, text(lambda: FLENT)),
    "loadlatency": Target(loadlatency.read, text(load_document), ".json"),
    "iperf3": Target(iperf3.read, stored("*.json"), ".json"),
    "iperf_text": Target(iperf_text.read, stored("*[0-9e].[ct]*"), ".txt"),
    "capture": Target(pair, packets, ".pcap"),
    "teacup": Target(
        configuration, text(BASELINE.read_bytes, lambda: COMPUTED + BASELINE.read_bytes()), ".py"
    ),
}


def damaged(sample: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """The sample with one to eight changes."""
    data = bytearray(sample)
    for _ in range(rng.randint(1, 8)):
        if not data:
            break
        start = rng.randrange(len(data))
        end = min(len(data), start + rng.choice((1, 2, 4, 8, 40, 200, 2000)))
        match rng.randrange(9):
            case 0:
                data[start] = rng.randrange(256)
            case 1:
                data[start] ^= 1 << rng.randrange(8)
            case 2:
                del data[start:end]
            case 3:
                data[start:start] = data[start:end]
            case 4:
                other = rng.choice(others)
                at = rng.randrange(len(other))
                data[start:end] = other[at : at + rng.choice((1, 8, 100, 1000))]
            case 5:
                del data[start:]
            case 6:
                data[start:end] = bytes(rng.randrange(256) for _ in range(end - start))
            case 7:
                data[start:start] = rng.choice(
                    (b"\n", b",", b"\t", b"\0", b"\xff", b"\r\n", b"'", b"(", b"]")
                )
            case _:
                found = list(re.finditer(rb"[0-9]+", bytes(data[start : start + 300])))
                if found:
                    number = rng.choice(found)
                    data[start + number.start() : start + number.end()] = rng.choice(NUMBERS)
    return bytes(data)


def check(recordings: list[base.Recording]) -> None:
    """Fail unless the tables hold together: columns, order, names of flows."""
    for recording in recordings:
        assert recording.flows and len(set(recording.flows)) == len(recording.flows)
        for table, rows in recording.tables.items():
            assert rows.schema.names == SCHEMAS[table].names
            whole = rows.read()
            for batch in whole.to_batches():
                conform(table, batch)
            times = whole["t_ns"].to_numpy()
            assert (times[1:] >= times[:-1]).all(), "in order of time"
            assert set(whole["flow"].cast("string").drop_null().to_pylist()) <= set(recording.flows)
        for metrics in recording.metrics.values():
            assert all(isinstance(value, float | int) for value in metrics.values())


def fuzz(name: str, seconds: float, seed: int, most: int = 10**12) -> tuple[int, int]:
    """Files tried, and how many of them were read; raises what a parser raised."""
    target = TARGETS[name]
    rng = random.Random(f"{name} {seed}")
    tried = read = 0
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        samples = target.samples(directory)
        if name == "capture":
            (directory / "whole.pcap").write_bytes(samples[2])
        file = directory / f"damaged{target.suffix}"
        for found in sorted(FOUND.glob(f"{name}-*")):
            is_read(target, file, found.read_bytes())
        until = time.monotonic() + seconds
        while time.monotonic() < until and tried < most:
            content = damaged(rng.choice(samples), samples, rng)
            tried += 1
            began = time.monotonic()
            try:
                read += is_read(target, file, content)
            except BaseException:
                kept = Path("fuzz-failures")
                kept.mkdir(exist_ok=True)
                (kept / f"{name}-{seed}-{tried}{target.suffix}").write_bytes(content)
                raise
            if time.monotonic() - began > SLOWEST_S:
                print(f"slow: {time.monotonic() - began:.1f} s, {name} seed {seed} file {tried}", flush=True)
    return tried, read


def is_read(target: Target, file: Path, content: bytes) -> bool:
    """Whether the parser reads the content; otherwise it refuses it with one line."""
    file.write_bytes(content)
    try:
        with warnings.catch_warnings():
            # One of Python's or numpy's would reach a user's terminal.
            warnings.simplefilter("error")
            check(target.read(file))
    except InputError as error:
        assert "\n" not in str(error) and str(error).strip()
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("format", choices=[*TARGETS, "all"])
    parser.add_argument("--seconds", type=float, default=600, help="of each format")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for name in TARGETS if arguments.format == "all" else [arguments.format]:
        tried, read = fuzz(name, arguments.seconds, arguments.seed)
        print(f"{name}: {tried} files in {arguments.seconds:g} s, {read} read, no failure", flush=True)


if __name__ == "__main__":
    sys.exit(main())
