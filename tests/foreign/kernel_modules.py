"""Tries the congestion controls of real kernels, from their sources: which compile and carry a transfer.

    .venv/bin/python tests/foreign/kernel_modules.py linux-6.12 DIR

prints a table of docs/evidence/modules.md. DIR is the folder of the kernel's tcp_*.c or cc_*.c.
"""

import sys
import tempfile
from pathlib import Path

import cwndlab
from cwndlab.errors import CwndlabError
from cwndlab.experiment.catalogue import catalogue
from cwndlab.foreign.compilation import ABIS
from cwndlab.report.interface import ResultSet

TOGETHER = {"tcp_yeah": ("tcp_yeah", "tcp_vegas")}
"""Modules of several files."""

MODELS = {
    "linux-3.9": "linux-3.9",
    **dict.fromkeys([abi for abi in ABIS if abi.startswith("linux-") and abi != "linux-3.9"], "linux-6.18"),
    "freebsd-11": "freebsd-11",
    "freebsd-13": "freebsd-13",
    "freebsd-14": "freebsd-15-current",
    "freebsd-15": "freebsd-15-current",
}
"""The stack that runs a module of each interface."""

REGISTRATION = {"linux": "tcp_register_congestion_control(&", "freebsd": "DECLARE_CC_MODULE("}
"""What a module has that registers one."""

EXPERIMENT = """\
experiment: modules
duration: 30s
hosts:
  a: {{stack: {stack}, cc: {cc}}}
  b: {{stack: {stack}}}
network:
  dumbbell:
    left: [a]
    right: [b]
    access: {{rate: 1gbit}}
    bottleneck: {{rate: 20mbit, delay: 20ms, queue: {{kind: {queue}, limit: 100p}}}}
flows: [{{name: f, from: a, to: b, stop: 29s}}]
record: {{tcp: 10ms}}
"""


def run(stack: str, cc: str, queue: str, own: tuple[str, ...], place: Path) -> ResultSet:
    """A transfer's results."""
    text = EXPERIMENT.format(stack=stack, cc=cc, queue=queue)
    return cwndlab.load(text, cc=own).run(out=place)


def series(results: ResultSet) -> list[tuple]:
    """cwnd, ssthresh, RTT, pacing and state over time."""
    columns = ["t_ns", "cwnd_bytes", "ssthresh_bytes", "srtt_ns", "pacing_bps", "state", "retransmits"]
    return list(zip(*(results.rows(0).column(name).to_pylist() for name in columns), strict=True))


def differs(ours: list[tuple], theirs: list[tuple]) -> str:
    """Where two series part."""
    for one, other in zip(ours, theirs, strict=False):
        if one != other:
            return f"from {one[0] / 1e9:.2f} s on: {other[1:]} beside {one[1:]}"
    return "the same series, to the byte" if len(ours) == len(theirs) else "one ends earlier"


def row(abi: str, file: Path, scratch: Path) -> str:
    """A line of the table."""
    files = [file.with_name(f"{name}.c") for name in TOGETHER.get(file.stem, (file.stem,))]
    own = (f"new={','.join(map(str, files))},abi={abi}",)
    stack = MODELS[abi]
    try:
        results = run(stack, "new", "pfifo", own, scratch / f"{file.stem}-own")
        goodput = f"{results.summary['goodput_mbps'][0]:.2f} Mbit/s"
    except CwndlabError as error:
        return f"| {file.stem}.c | {error} | | |"
    except (IndexError, TypeError):
        reason = next(iter(results.records())).error
        return f"| {file.stem}.c | yes | {reason} | |"
    same = ""
    built_in = file.stem.partition("_")[2]
    if built_in in catalogue().stacks[stack].cc:
        model = run(stack, built_in, "pfifo", (), scratch / f"{file.stem}-built-in")
        same = differs(series(model), series(results))
    return f"| {file.stem}.c | yes | {goodput} | {same} |"


def main() -> None:
    """Print the table."""
    abi, folder = sys.argv[1], Path(sys.argv[2])
    registration = REGISTRATION[abi.partition("-")[0]]
    found = [f for f in sorted(folder.glob("*_*.c")) if registration in f.read_text()]
    print("| module | compiles and loads | carries a transfer | beside the built-in one |")
    print("| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as scratch:
        for file in found:
            if file.stem != "tcp_cong":
                print(row(abi, file, Path(scratch)), flush=True)


if __name__ == "__main__":
    main()
