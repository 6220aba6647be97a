"""The runs of a review: five paths of its own, or an experiment with both sides in the place of its
senders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from cwndlab.experiment.catalogue import Catalogue, Stack
from cwndlab.experiment.experiment import Experiment

BUFFERS: Mapping[str, Mapping[str, object]] = {
    "linux": {"net.ipv4.tcp_wmem": "4096 16384 67108864", "net.ipv4.tcp_rmem": "4096 131072 67108864"},
    "freebsd": {
        "kern.ipc.maxsockbuf": 67108864,
        "net.inet.tcp.sendbuf_max": 33554432,
        "net.inet.tcp.recvbuf_max": 33554432,
    },
}
"""Room for the windows of the long fat path, by family: the buffers are not what is judged."""

BASICS = ("goodput_mbps", "rtt_p95_ms", "retransmit_rate")
"""Metrics that judge one flow on a path. Each is one more comparison to correct for."""

SHARED = ("goodput_mbps", "jain", "rtt_p95_ms", "retransmit_rate")
"""Metrics that judge two flows together."""


@dataclass(frozen=True)
class Question:
    """Question to the runs of an arrangement."""

    where: str
    """The path, as tables name it."""
    old: str
    """Names of the arrangements that stand for the sides."""
    new: str
    metrics: tuple[str, ...]
    flow: str | None = None
    """Flow that is judged. None for all of them together."""


@dataclass(frozen=True)
class Arrangement:
    """An experiment to run once."""

    name: str
    """Name of the directory."""
    text: str
    side: str
    """Side whose machines carry the arrangement out."""


@dataclass(frozen=True)
class Picture:
    """Congestion windows that are shown over each other."""

    title: str
    about: str
    lines: tuple[tuple[str, str, str], ...]
    """Side, arrangement and flow of each line."""


@dataclass(frozen=True)
class Programme:
    """Arrangements and questions of a review."""

    arrangements: tuple[Arrangement, ...]
    questions: tuple[Question, ...]
    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class Path:
    """A path with one flow."""

    name: str
    title: str
    about: str
    duration_s: int
    bottleneck: Mapping[str, object]
    reverse: Mapping[str, object]
    access: Mapping[str, object]


PATHS = (
    Path(
        "patch-test",
        "1 Gbit/s, 41 ms",
        "the testbed of the CUBIC patch of FreeBSD, D49540: 1 Gbit/s, 41 ms, 1024 packets of queue",
        60,
        {"rate": "1gbit", "delay": "20ms", "overhead": 38, "queue": {"kind": "pfifo", "limit": "1024p"}},
        {"delay": "21ms"},
        {"rate": "10gbit"},
    ),
    Path(
        "dsl",
        "DSL line",
        "a download over 16 Mbit/s with 1 Mbit/s back, 30 ms, 64 packets of queue",
        120,
        {"rate": "16mbit", "delay": "15ms", "queue": {"kind": "pfifo", "limit": "64p"}},
        {"rate": "1mbit", "delay": "15ms"},
        {"rate": "1gbit"},
    ),
    Path(
        "lan",
        "LAN with loss",
        "1 Gbit/s, 1 ms, one packet of 10,000 lost at random",
        10,
        {
            "rate": "1gbit",
            "delay": "500us",
            "loss": {"random": "0.01%"},
            "queue": {"kind": "pfifo", "limit": "256p"},
        },
        {"delay": "500us"},
        {"rate": "1gbit"},
    ),
    Path(
        "long-fat",
        "Long and fat",
        "400 Mbit/s, 200 ms, a queue of a quarter of the bandwidth-delay product",
        90,
        {"rate": "400mbit", "delay": "100ms", "queue": {"kind": "pfifo", "limit": "1700p"}},
        {"delay": "100ms"},
        {"rate": "10gbit"},
    ),
)

COMPETITION = Path(
    "competition",
    "Competition",
    "two flows over 100 Mbit/s, 60 ms, a queue of one bandwidth-delay product",
    90,
    {"rate": "100mbit", "delay": "30ms", "queue": {"kind": "pfifo", "limit": "495p"}},
    {"delay": "30ms"},
    {"rate": "1gbit"},
)

ALIKE = {"old": "both-old", "new": "both-new"}
MIXED = "new-beside-old"


def of_review(
    stack: Stack, cc: Mapping[str, str], repeats: int, scale: float = 1.0, *, mixed: bool = True
) -> Programme:
    """The five paths; `cc` has what flows of each side call theirs, `scale` shortens the runs, `mixed` has
    both sides compete."""
    arrangements, questions, pictures = [], [], []
    for path in PATHS:
        names = {side: f"{path.name}-{side}" for side in cc}
        arrangements += [
            Arrangement(names[side], _text(path, stack, (cc[side],), repeats, scale), side) for side in cc
        ]
        questions.append(Question(path.title, names["old"], names["new"], BASICS))
        lines = tuple((side, names[side], "f1") for side in cc)
        pictures.append(Picture(path.title, path.about, lines))
    arrangements += [
        Arrangement(ALIKE[side], _text(COMPETITION, stack, (cc[side], cc[side]), repeats, scale), side)
        for side in cc
    ]
    questions.append(Question("beside itself", ALIKE["old"], ALIKE["new"], SHARED))
    pictures.append(
        Picture(
            "Beside itself",
            f"{COMPETITION.about}; the first flow of two old ones, and of two new ones",
            tuple((side, ALIKE[side], "f1") for side in cc),
        )
    )
    if not mixed:
        return Programme(tuple(arrangements), tuple(questions), tuple(pictures))
    text = _text(COMPETITION, stack, (cc["new"], cc["old"]), repeats, scale)
    arrangements.append(Arrangement(MIXED, text, "new"))
    questions += [
        Question("beside old", ALIKE["old"], MIXED, ("goodput_mbps",), "f1"),
        Question("old, beside new", ALIKE["old"], MIXED, ("goodput_mbps",), "f2"),
    ]
    beside = f"{COMPETITION.about}; one of each on the same path"
    pictures.append(Picture("New beside old", beside, (("old", MIXED, "f2"), ("new", MIXED, "f1"))))
    return Programme(tuple(arrangements), tuple(questions), tuple(pictures))


def _text(path: Path, stack: Stack, cc: tuple[str, ...], repeats: int, scale: float) -> str:
    """An experiment file."""
    host = {"stack": stack.name, "sysctl": dict(BUFFERS.get(stack.family, {}))}
    senders, receivers = ([f"{end}{number}" for number in range(1, len(cc) + 1)] for end in ("s", "r"))
    content = {
        "experiment": path.name,
        "description": path.about,
        "duration": f"{round(1000 * path.duration_s * scale)}ms",
        "hosts": {name: {**host, "cc": own} for name, own in zip(senders, cc, strict=True)}
        | dict.fromkeys(receivers, host),
        "network": {
            "dumbbell": {
                "left": senders,
                "right": receivers,
                "access": dict(path.access),
                "bottleneck": dict(path.bottleneck),
                "reverse": dict(path.reverse),
            }
        },
        "flows": [
            {"name": f"f{number}", "from": sender, "to": receiver}
            for number, (sender, receiver) in enumerate(zip(senders, receivers, strict=True), 1)
        ],
        "repeat": repeats,
        "record": {"tcp": "20ms", "queue": "off"},
    }
    return yaml.dump(content, sort_keys=False, Dumper=Plain)


class Plain(yaml.SafeDumper):
    """Writes no anchors, which experiment files may not have."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write everything out."""
        return True


def of_experiment(
    experiment: Experiment, stack: Stack, cc: Mapping[str, str], repeats: int | None, known: Catalogue
) -> Programme:
    """An experiment, run once for each side: its hosts are on the stack, and its TCP senders are that side's.

    Axes that sweep a stack or a congestion control are left out, with what is swept along with them, and
    what hosts set of a system of another family.
    """
    name, content = experiment.name, yaml.safe_load(experiment.as_yaml())
    for host in content["hosts"].values():
        own = known.stack(str(host["stack"]))
        if own is None or own.family != stack.family:
            for key in ("sysctl", "hz"):
                host.pop(key, None)
        host["stack"] = stack.name
    for flow in content["flows"]:
        flow.pop("cc", None)
    content["sweep"] = [axis for axis in content.get("sweep", []) if not _of_systems(axis)]
    for section in ("netns", "pause", "order", "emulator", "loggers"):
        content.pop(section, None)
    if repeats is not None:
        content["repeat"] = repeats
    texts = {}
    for side, own_cc in cc.items():
        for host in content["hosts"].values():
            host["cc"] = own_cc
        texts[side] = yaml.dump(content, sort_keys=False, Dumper=Plain)
    return _both(name, content, texts)


def of_whole(experiment: Experiment, repeats: int | None) -> Programme:
    """An experiment, run once on each kernel or with each guest, as it is."""
    content = yaml.safe_load(experiment.as_yaml())
    if repeats is not None:
        content["repeat"] = repeats
    text = yaml.dump(content, sort_keys=False, Dumper=Plain)
    return _both(experiment.name, content, {"old": text, "new": text})


def _both(name: str, content: Mapping[str, Any], texts: Mapping[str, str]) -> Programme:
    """Make one experiment for each side, each with its text."""
    arrangements = [Arrangement(f"{name}-{side}", text, side) for side, text in texts.items()]
    question = Question(name, f"{name}-old", f"{name}-new", BASICS)
    flows = [flow["name"] for flow in content["flows"]][:3]
    pictures = [
        Picture(f"{name}, {flow}", "its first run", tuple((side, f"{name}-{side}", flow) for side in texts))
        for flow in flows
    ]
    return Programme(tuple(arrangements), (question,), tuple(pictures))


def _of_systems(axis: Mapping[str, Any]) -> bool:
    """Whether an axis sweeps a stack or a congestion control."""
    levels = axis["values"].values() if "name" in axis else [axis.get("zip", axis)]
    return any(key.rpartition(".")[2] in ("stack", "cc") for level in levels for key in level)
