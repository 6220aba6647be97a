"""How fast captures are read, beside tshark and tcptrace on the same file: prints a table.

    python benches/captures.py DIRECTORY [--megabytes 500] [--snaplen 96]

A bulk transfer is simulated with its packets captured at the sender, repeated until the file is large enough,
and read by each program in turn, on one core: the best of three. cwndlab runs the example `counters` of
crates/trace, built by cargo.
"""

import argparse
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

from baseline import Baseline

import cwndlab

EXPERIMENT = """
experiment: captures
duration: 20s
hosts: {a: {stack: freebsd-13, cc: cubic}, b: {stack: freebsd-13}}
network:
  dumbbell:
    left: [a]
    right: [b]
    access: {rate: 1gbit}
    bottleneck: {rate: 200mbit, delay: 10ms, queue: {kind: pfifo, limit: 400p}, loss: {random: 0.01%}}
flows: [{from: a, to: b}]
record: {tcp: off, queue: off, pcap: [{at: a, snaplen: SNAPLEN}]}
"""

ROOT = Path(__file__).parent.parent


def main() -> None:
    """Make the file, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--snaplen", type=int, default=96)
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    file = capture(arguments.directory, arguments.megabytes * 10**6, arguments.snaplen)
    build = ["cargo", "build", "--release", "--locked", "-p", "cwndlab-trace", "--example", "counters"]
    subprocess.run(build, check=True, cwd=ROOT)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    commands = {
        "cwndlab, counters": [target / "release/examples/counters", "counters", file],
        "cwndlab, all series in memory": [target / "release/examples/counters", "series", file],
        "tcptrace -l": [shutil.which("tcptrace"), "-l", "-n", file],
        "tshark -q -z conv,tcp": [shutil.which("tshark"), "-n", "-q", "-z", "conv,tcp", "-r", file],
    }
    size = file.stat().st_size
    print(f"{size / 1e6:.0f} MB, {arguments.snaplen} bytes kept of each packet\n")
    print("| program | CPU s | MB/s | times as long | change |\n| --- | ---: | ---: | ---: | ---: |")
    baseline = Baseline("captures")
    first = None
    for name, command in commands.items():
        seconds = min(cpu_seconds(command) for _ in range(3))
        first = first or seconds
        ratio = seconds / first
        cells = f"{seconds:.2f} | {size / 1e6 / seconds:,.0f} | {ratio:.1f} | {baseline.change(name, ratio)}"
        print(f"| {name} | {cells} |", flush=True)
    baseline.write()


def cpu_seconds(command: list[object]) -> float:
    """CPU time of a command, its own and the kernel's for it."""
    if command[0] is None:
        raise SystemExit("tshark and tcptrace must be installed (make test installs them)")
    before = os.times()
    subprocess.run(
        [str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    after = os.times()
    return (after.children_user - before.children_user) + (after.children_system - before.children_system)


def capture(directory: Path, size: int, snaplen: int) -> Path:
    """A capture of about so many bytes: one simulated run again and again, each from another port."""
    results = directory / f"run-{int(time.time())}"
    run = cwndlab.load(EXPERIMENT.replace("SNAPLEN", str(snaplen))).run(out=results)
    data = run.captures(0)[0].read_bytes()
    header, records = data[:24], bytearray(data[24:])
    file = directory / "bench.pcap"
    ports = list(port_places(records))
    with file.open("wb") as out:
        out.write(header)
        for copy in range(max(size // len(records), 1)):
            for place in ports:
                struct.pack_into(">H", records, place, 20_000 + copy)
            out.write(records)
    shutil.rmtree(results)
    return file


def port_places(records: bytearray) -> list[int]:
    """Where the sender's port stands in each record: source of packets to 5201, destination of the others."""
    found, at = [], 0
    while at < len(records):
        kept = struct.unpack_from("<I", records, at + 8)[0]
        tcp = at + 16 + 4 * (records[at + 16] & 15)
        found.append(tcp if struct.unpack_from(">H", records, tcp + 2)[0] == 5201 else tcp + 2)
        at += 16 + kept
    return found


if __name__ == "__main__":
    main()
