"""Finds the recordings of real stacks in a directory and says what each of them is a recording of.

A directory is laid out as the recordings' own description says: `freebsd/stack/summary.csv` (a row per
run), `freebsd/lan-nth-drop.csv`, `freebsd/cc-vectors/*.jsonl.gz`, `linux-6.18/*.csv.gz`. What is not there is
left out.
"""

import csv
import gzip
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from cwndlab.errors import InputError
from tools.truth.fidelity.linux import linux_metrics
from tools.truth.fidelity.vectors import scores

Kind = Literal["module", "bulk", "noise", "cdg", "share", "rest", "gigabit", "lan", "linux", "kernel"]
"""What is compared: a congestion-control module's every event; one flow over a drop-tail queue; one flow
under random loss or marks; a flow of CDG; the first of two flows; a flow that rests, or whose path does;
one or two senders at 1 Gbit/s; a flow on a LAN that loses every n-th packet; Linux in real time; Linux in
virtual time."""

Metrics = Mapping[str, float]
"""Measured values by the names of `compare.BOUNDS`."""

BUFFER_BYTES = 4 << 20
"""Socket buffers of the FreeBSD recordings."""

LAN_BUFFER_BYTES = 10 << 20
"""Socket buffers of the recordings on a LAN."""

ETHERNET_BYTES = 14
"""Bytes of a packet besides IP that the rates of the FreeBSD recordings count."""

LOOK_MS = 20
"""How often the sender was looked at where a recording's own file does not say it."""

NIC_BPS = 1_000_000_000
"""The receiver's interface, and the sender's unless the recording says otherwise."""

LONG_LOOK_MS = 50
"""The same of runs of 300 s."""


@dataclass(frozen=True)
class Run:
    """A run to repeat: hosts and path. Times in nanoseconds, sizes in bytes."""

    stack: str
    ccs: tuple[str, ...]
    """Congestion control of each flow."""
    starts_s: tuple[float, ...]
    """When each starts."""
    rate_bps: int
    rtt_ns: int
    queue_packets: int
    duration_s: float
    """Since ESTABLISHED."""
    sender_sysctl: Mapping[str, int] = field(default_factory=dict)
    receiver_sysctl: Mapping[str, int] = field(default_factory=dict)
    buffer_bytes: int | None = BUFFER_BYTES
    """Socket buffers; None: autotuning."""
    overhead_bytes: int = ETHERNET_BYTES
    loss: float = 0.0
    """Probability that a data packet is lost."""
    drop_every: int | None = None
    """Every n-th data packet is dropped at the receiver's input, the first being the first."""
    mark_packets: int | None = None
    """Queue, with the packet in service, from which arrivals are marked."""
    ecn: bool = False
    nic_bps: int = NIC_BPS
    """The sender's interface."""
    hosts: bool = False
    """Each flow has a sending host of its own; otherwise all start at one."""
    outage_s: tuple[float, float] | None = None
    """From when to when the path loses all data."""
    burst: tuple[int, float] | None = None
    """Bytes that the application writes at a time, and how often, s."""
    look_ms: int = LOOK_MS
    """How often the recording looked at the sender."""


@dataclass(frozen=True)
class Module:
    """Events of a congestion-control module, or values of its functions, as they were played to ours."""

    stack: str
    cc: str
    equal: float
    """Share of the events after which cwnd and ssthresh are equal to the byte."""
    worst: float
    """Largest difference in segments."""


@dataclass(frozen=True)
class Cell:
    """A flow in a cell of an experiment that a kernel carried out."""

    file: Path
    """The experiment."""
    runs: tuple[int, ...]
    """The cell's repeats, by their place in the plan."""
    flow: str
    stack: str
    drawn: Mapping[str, tuple[float, ...]]
    """Recorded metrics of each of them."""


@dataclass(frozen=True)
class Recording:
    """One row of the table."""

    key: str
    """Names the row in the notes; the recording's name, and what it stands for where it is a proxy."""
    kind: Kind
    group: str
    """Stack and settings."""
    label: str
    proxy: bool
    """The recorded system is not the modelled one but its nearest relative: bounds are doubled."""
    what: Run | Module | Cell
    metrics: Metrics

    @property
    def stack(self) -> str:
        """The model that is compared."""
        return self.what.stack


def discover(directory: Path) -> list[Recording]:
    """Every recording of `directory` that a profile covers, in the table's order.

    Raises InputError, with one line, for what is no directory or a file that cannot be understood.
    """
    if not directory.is_dir():
        raise InputError(f"{directory}: no such directory of recordings")
    found = [*_modules(directory), *_stacks(directory), *_lan(directory), *_linux(directory)]
    order = list(get_args(Kind))
    return sorted(found, key=lambda each: (order.index(each.kind), each.group, each.proxy))


# --- freebsd/cc-vectors


def _modules(directory: Path) -> Iterator[Recording]:
    for score in scores(directory):
        stack, cc, worst = score["stack"], score["cc"], max(score["worst_cwnd"], score["worst_ssthresh"])
        label = f"{cc} window functions" if score["header"] else f"{cc} events"
        played = Module(stack, cc, score["equal"] / max(score["events"], 1), worst / 1460)
        yield Recording(score["file"], "module", stack, label, False, played, {"equal": 1.0, "worst": 0.0})


# --- freebsd/stack

_FREEBSD = {"11": "freebsd-11", "13": "freebsd-13"}
_PIPE = "net.inet.tcp.rfc6675_pipe"


def _stacks(directory: Path) -> Iterator[Recording]:
    for folder in ("stack", "stack2", "rack"):
        path = directory / "freebsd" / folder / "summary.csv"
        for line, row in _rows(path):
            # Recorded with timers that no FreeBSD has; the tests of `crates/tcp` compare with them.
            if row["stack"] == "rack" and folder != "rack":
                continue
            try:
                yield from _stack_row(path.parent, row)
            except (KeyError, ValueError) as error:
                raise InputError(f"{path}:{line}: {error}") from None


def _stack_row(folder: Path, row: Mapping[str, str]) -> Iterator[Recording]:
    name, extra = row["name"], _extra(row.get("extra") or "")
    rack = row["stack"] == "rack"
    second = re.search(r"mf_\w+?\+(\w+?)@(\d+)", name)
    cc, foreign = row["cc"], row["cc"].startswith("cubic1")
    stack = _FREEBSD[row["freebsd"]] + ("/rack" if rack else "")
    flows = [(cc, 0.0), (second[1], float(second[2]))] if second else extra.flows or [(cc, 0.0)]
    run = Run(
        stack=stack,
        ccs=tuple(name for name, _ in flows),
        starts_s=tuple(start for _, start in flows),
        rate_bps=round(float(row["rate_mbps"]) * 1e6),
        rtt_ns=round(float(row["rtt_ms"]) * 1e6),
        queue_packets=int(row["buf"]),
        duration_s=float(row["dur"]),
        sender_sysctl=extra.sender,
        receiver_sysctl=extra.receiver,
        loss=extra.loss,
        mark_packets=extra.mark_packets,
        ecn=extra.receiver.get("net.inet.tcp.ecn.enable") == 1,
        buffer_bytes=BUFFER_BYTES if row.get("bufmode", "big") == "big" else None,
        nic_bps=extra.nic_bps,
        hosts=bool(extra.flows),
        outage_s=extra.outage_s,
        burst=extra.burst,
        look_ms=_look_ms(folder / f"{name}.csv.gz", float(row["dur"])),
    )
    kind: Kind = "bulk"
    if second:
        kind = "share"
    elif extra.nic_bps != NIC_BPS:
        kind = "gigabit"
    elif run.outage_s or run.burst:
        kind = "rest"
    elif cc in ("cdg", "hd", "chd"):
        kind = "cdg"
    elif run.loss or run.ecn:
        kind = "noise"
    shown = "+".join(run.ccs) + f" {row['rate_mbps']}m {row['rtt_ms']}ms b{row['buf']}"
    shown += (
        (f" loss{run.loss:g}" if run.loss else "")
        + (f" ecn{run.mark_packets}" if run.mark_packets else "")
        + (" auto" if row.get("bufmode") == "auto" else "")
        + (" outage" if run.outage_s else "")
        + (" bursts" if run.burst else "")
    )
    options = {key: value for key, value in extra.sender.items() if key not in extra.receiver}
    settings = "".join(f", {key.rsplit('.', 1)[-1]} {value}" for key, value in options.items())
    metrics = {key: float(row[column]) for key, column in _COLUMNS.items() if row.get(column)}
    if extra.flows:
        delivered = sum(map(int, row["flow_delivered"].split("+")))
        metrics = {"goodput": delivered * 8 / run.duration_s / 1e6, "drops": metrics["drops"]}
    if not foreign:
        yield Recording(name, kind, stack + settings, shown, False, run, metrics)
    for proxy, sysctl in _proxies(name, row, extra.sender):
        ccs = tuple("cubic" if each.startswith("cubic1") else each for each in run.ccs)
        stands = Run(**{**vars(run), "stack": proxy, "sender_sysctl": sysctl, "ccs": ccs})
        yield Recording(
            f"{name} as {proxy}",
            kind,
            f"{proxy}, by proxy",
            shown.replace(cc, ccs[0], 1),
            True,
            stands,
            metrics,
        )


_COLUMNS = {
    "goodput": "goodput_mbps",
    "utilisation": "util",
    "share": "util",
    "period": "period_mean_s",
    "interval": "period_mean_s",
    "peak": "peak_cwnd_median",
    "trough": "trough_cwnd_median",
    "drops": "drops",
    "rtos": "rto",
}


def _proxies(
    name: str, row: Mapping[str, str], sysctl: Mapping[str, int]
) -> Iterator[tuple[str, dict[str, int]]]:
    """The stacks a recording stands for besides its own, with the sysctls that are left to set.

    13.0 with RFC 6675 pipe accounting is the nearest relative of 15, where 15's own CUBIC or what both
    releases share ran in it; 11 with the older initial window that of 9.x.
    """
    if row["freebsd"] == "13" and sysctl.get(_PIPE) == 1 and row["stack"] != "rack" and row["cc"] != "cubic":
        if row["cc"] != "cdg" and "cubic+" not in name and "+cubic@" not in name:
            yield "freebsd-15-current", {key: value for key, value in sysctl.items() if key != _PIPE}
    elif row["freebsd"] == "11" and sysctl.get("net.inet.tcp.initcwnd_segments") == 0:
        yield "freebsd-9.2", {}


_SETTINGS = ("loss", "ecnthr", "nic", "flows", "outage with outdur", "burst with period")


@dataclass
class _Extra:
    sender: dict[str, int]
    receiver: dict[str, int]
    loss: float = 0.0
    mark_packets: int | None = None
    nic_bps: int = NIC_BPS
    flows: list[tuple[str, float]] = field(default_factory=list)
    outage_s: tuple[float, float] | None = None
    burst: tuple[int, float] | None = None


def _extra(text: str) -> _Extra:
    """The last column: `ssysctl.NAME=V` (of the sender), `sysctl.NAME=V`, and what `_SETTINGS` lists."""
    extra = _Extra({}, {})
    settings = dict(word.partition("=")[::2] for word in text.split())
    if "outage" in settings:
        start = float(settings.pop("outage"))
        extra.outage_s = (start, start + float(settings.pop("outdur")))
    if "burst" in settings:
        extra.burst = (int(settings.pop("burst")), float(settings.pop("period")))
    for key, value in settings.items():
        if key == "loss":
            extra.loss = float(value)
        elif key == "nic":
            extra.nic_bps = round(float(value))
        elif key == "flows":
            extra.flows = [(cc, float(start)) for cc, start in (flow.split("@") for flow in value.split(","))]
        elif key == "ecnthr":
            extra.mark_packets = int(value)
        elif key.startswith("ssysctl."):
            extra.sender[key.removeprefix("ssysctl.")] = int(value)
        elif key.startswith("sysctl."):
            extra.sender[key.removeprefix("sysctl.")] = int(value)
            extra.receiver[key.removeprefix("sysctl.")] = int(value)
        else:
            raise ValueError(f"extra: found {key}; expected sysctl., ssysctl., {', '.join(_SETTINGS)}")
    return extra


def _look_ms(path: Path, duration_s: float) -> int:
    """How far apart the looks of a recording's file are."""
    if not path.is_file():
        return LONG_LOOK_MS if duration_s >= 300 else LOOK_MS
    with gzip.open(path, "rt", encoding="utf-8") as file:
        file.readline()
        first, second = (int(file.readline().split(",")[0]) for _ in range(2))
    return second - first


# --- freebsd/lan-nth-drop.csv

_LAN = re.compile(r"f(\d+)(rack)?_(\w+?)_lan([\d.]+)ms_nth(\d+)(_pipe6675)?")


def _lan(directory: Path) -> Iterator[Recording]:
    path = directory / "freebsd" / "lan-nth-drop.csv"
    for line, row in _rows(path):
        name = row.get("name") or ""
        match = _LAN.fullmatch(name.replace("f13cubic15_cubic15", "f13_cubic15"))
        if match is None or match[1] not in _FREEBSD:
            raise InputError(f"{path}:{line}: found {name!r}; expected fVERSION_CC_lanRTTms_nthN")
        version, rack, cc, rtt_ms, nth, pipe = match.groups()
        if rack:
            # Recorded with timers that no FreeBSD has.
            continue
        stack = _FREEBSD[version]
        run = Run(
            stack=stack,
            ccs=(cc,),
            starts_s=(0.0,),
            rate_bps=1_000_000_000,
            rtt_ns=round(float(rtt_ms) * 1e6),
            queue_packets=1000,
            duration_s=30.0,
            sender_sysctl={_PIPE: 1} if pipe else {},
            buffer_bytes=LAN_BUFFER_BYTES,
            drop_every=int(nth),
        )
        label, metrics = f"{cc} lan every {nth}th", {"goodput": float(row["goodput_mbps"])}
        settings = ", rfc6675_pipe 1" if pipe else ""
        if not cc.startswith("cubic1"):
            yield Recording(name, "lan", stack + settings, label, False, run, metrics)
        if pipe and cc != "cubic":
            proxy = "freebsd-15-current"
            plain = "cubic" if cc.startswith("cubic1") else cc
            stands = Run(**{**vars(run), "stack": proxy, "sender_sysctl": {}, "ccs": (plain,)})
            label = label.replace(cc, plain, 1)
            yield Recording(f"{name} as {proxy}", "lan", f"{proxy}, by proxy", label, True, stands, metrics)


# --- linux-6.18

_LINUX = re.compile(r"([cr])(\d+)(?:q(\d+))?")


def _linux(directory: Path) -> Iterator[Recording]:
    for path in sorted((directory / "linux-6.18").glob("*.csv.gz")):
        name = path.name.removesuffix(".csv.gz")
        match = _LINUX.fullmatch(name)
        if match is None:
            raise InputError(f"{path}: expected a name such as c10q50 or r2q90")
        cc, rate, queue = {"c": "cubic", "r": "reno"}[match[1]], int(match[2]), int(match[3] or 90)
        run = Run(
            stack="linux-6.18",
            ccs=(cc,),
            starts_s=(0.0,),
            rate_bps=rate * 1_000_000,
            rtt_ns=40_000_000,
            queue_packets=queue,
            duration_s=90.0,
            buffer_bytes=None,
            overhead_bytes=0,
        )
        label = f"{cc} {rate}m 40ms b{queue}"
        yield Recording(f"linux {name}", "linux", "linux-6.18", label, False, run, linux_metrics(path))


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a CSV file with their line numbers; none where there is no such file."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", newline="") as file:
        yield from enumerate(csv.DictReader(file), 2)
