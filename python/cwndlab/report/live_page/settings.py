"""The settings of the live lab, their experiment file, and their address: the part after `#` of a link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from urllib.parse import quote

from cwndlab.experiment import units

PACKET = 1514
"""Bytes of a full packet with its Ethernet header: of a buffer in packets, where bytes are counted."""
AVPKT = 1000
"""Bytes of RED's average packet (tc-red(8))."""

QUEUES: dict[str, str] = {
    "pfifo": "limit: {limit}",
    "bfifo": "limit: {limit_bytes}",
    "red": "limit: {limit_bytes}, min: {red_min}, max: {red_max}, burst: {red_burst}, bandwidth: {rate}",
    "codel": "limit: {limit}",
    "fq_codel": "limit: {limit}",
    "pie": "limit: {limit}",
    "fq_pie": "limit: {limit}",
    "cake": "memlimit: {limit_bytes}",
    "dualpi2": "limit: {limit}, memlimit: {memory}",
    "fq": "limit: {limit}",
}
"""Queue disciplines, and where the buffer's size goes."""
WITH_ECN = ("red", "codel", "fq_codel", "pie", "fq_pie")
"""Queue disciplines that mark instead of dropping only where they are told to."""

HOST = {
    "plain": "  {name}: {stack: {stack}{options}}\n",
    "ecn": ", ecn: on",
    "buffers": ", sndbuf: {buffers}, rcvbuf: {buffers}",
    "linux": ", sysctl: {net.core.rmem_max: {buffers_bytes}, net.core.wmem_max: {buffers_bytes}}",
    "merge": ", ack_every: {segments: {merge}}, nic: {coalesce: {time: 100us}}",
    "processing": ", noise: {processing: {mean: {processing}}}",
}
"""A host, and what may be added to it; Linux cuts socket buffers to a sysctl."""
FLOW = "  - {name: {name}, from: {from}, to: {to}, cc: {cc}, start: {start}}\n"
ACCESS = "{from}: {delay: {extra}}"
LOSS = ", loss: {random: {loss}}"
CHANGE = ", schedule: [{at: {rate_at}, set: {rate: {rate_then}}}]"

EXPERIMENT = """\
experiment: {experiment}
duration: {duration}
hosts:
{hosts}network:
  dumbbell:
    left: [{left}]
    right: [{right}]
    access: {rate: {access}}
    access_of: {{access_of}}
    bottleneck: {rate: {rate}, delay: {delay}, queue: {kind: {kind}, {queue}}{loss}{change}}
flows:
{flows}start_jitter: {start_jitter}
phase_jitter: {phase_jitter}
repeat: 1
seed: {seed}
measure: {from: {measure}}
record: {tcp: {tcp}, queue: {queue_every}}
"""
"""The experiment file of the lab. A name in braces stands for its value; whatever is chosen is written out,
so that nothing in the Scenario follows from several of them."""


@dataclass(frozen=True)
class Flow:
    """A flow: its sender's stack, its congestion control, its start and how much more RTT it has, in ns."""

    stack: str
    cc: str
    start: int = 0
    extra: int = 0
    receiver: str = ""
    """The receiver's stack; the sender's where it is empty."""
    names: tuple[str, str, str] | None = None
    """Names of the flow, its sender and its receiver. None stands for f1, a1 and b1 of the first."""

    def named(self, number: int) -> tuple[str, str, str]:
        """Return its names as the flow of this number, from 1."""
        return self.names or (f"f{number}", f"a{number}", f"b{number}")


@dataclass(frozen=True)
class Settings:
    """Settings of the live lab, in bit/s, ns, packets, bytes, parts per billion."""

    flows: tuple[Flow, ...]
    rate: int = 10_000_000
    rtt: int = 40_000_000
    buffer: int = 90
    queue: str = "pfifo"
    loss: int = 0
    ecn: bool = False
    buffers: int | None = None
    """Socket buffers at both ends; None: autotuning."""
    merge: int = 0
    """Segments that receivers hand to their stacks at once; 0: as they come."""
    processing: int = 0
    """Time that each host takes for a packet."""
    rate_then: int | None = None
    """Rate of the bottleneck on the way of the data from `rate_at` on; None: unchanged."""
    rate_at: int = 0
    duration: int = 60_000_000_000
    measure: int = 0
    """Start of the summary, in ns."""
    seed: int = 1
    start_jitter: int = 0
    phase_jitter: int = 0
    access: int = 10_000_000_000
    tcp: int = 10_000_000
    queue_every: int = 10_000_000
    experiment: str = "live-lab"


def numbers(settings: Settings) -> dict[str, int | None]:
    """Return the numbers of the Scenario by their names in templates."""
    limit_bytes = settings.buffer * PACKET
    red_max = limit_bytes // 4
    red_min = red_max // 3
    return {
        "rate": settings.rate,
        "delay": settings.rtt // 2,
        "limit": settings.buffer,
        "limit_bytes": limit_bytes,
        "memory": 2 * limit_bytes,
        "red_min": red_min,
        "red_max": red_max,
        "red_burst": max((2 * red_min + red_max) // (3 * AVPKT), -(-red_min // AVPKT)),
        "loss": settings.loss,
        "buffers": settings.buffers,
        "merge": settings.merge,
        "processing": settings.processing,
        "rate_then": settings.rate_then,
        "rate_at": settings.rate_at,
        "duration": settings.duration,
        "measure": settings.measure,
        "seed": settings.seed,
        "start_jitter": settings.start_jitter,
        "phase_jitter": settings.phase_jitter,
        "access": settings.access,
        "tcp": settings.tcp,
        "queue_every": settings.queue_every,
        **{f"start{n}": flow.start for n, flow in enumerate(settings.flows, 1)},
        **{f"extra{n}": flow.extra // 2 for n, flow in enumerate(settings.flows, 1)},
    }


def yaml_text(settings: Settings, families: Mapping[str, str]) -> str:
    """Return the experiment file; `families` has the family of each stack."""
    values = numbers(settings)
    words = {
        "rate": units.format_rate(settings.rate),
        "access": units.format_rate(settings.access),
        **{name: f"{values[name]}p" for name in ("limit", "red_burst")},
        "seed": str(settings.seed),
        "experiment": settings.experiment,
        "kind": settings.queue,
        **{
            name: units.format_size(values[name] or 0)
            for name in ("limit_bytes", "memory", "red_min", "red_max")
        },
        **{
            name: units.format_time(values[name] or 0)
            for name in (
                *("delay", "rate_at", "duration", "measure", "start_jitter", "phase_jitter"),
                *("tcp", "queue_every"),
            )
        },
    }
    if settings.rate_then is not None:
        words["rate_then"] = units.format_rate(settings.rate_then)
    queue = QUEUES[settings.queue] + (", ecn: true" if settings.ecn and settings.queue in WITH_ECN else "")
    named = [flow.named(number) for number, flow in enumerate(settings.flows, 1)]
    own = [
        {"name": name, "from": sender, "to": receiver, "cc": flow.cc,
         "start": units.format_time(flow.start), "extra": units.format_time(flow.extra // 2)}
        for flow, (name, sender, receiver) in zip(settings.flows, named, strict=True)
    ]  # fmt: skip
    hosts = "".join(
        _host(settings, name, stack, families[stack], receives=receives)
        for flow, (_, sender, receiver) in zip(settings.flows, named, strict=True)
        for name, stack, receives in (
            (sender, flow.stack, False),
            (receiver, flow.receiver or flow.stack, True),
        )
    )
    pieces = {
        "hosts": hosts,
        "left": ", ".join(sender for _, sender, _ in named),
        "right": ", ".join(receiver for _, _, receiver in named),
        "access_of": ", ".join(fill(ACCESS, each) for each in own),
        "queue": fill(queue, words),
        "loss": fill(LOSS, {"loss": units.format_share(settings.loss)}) if settings.loss else "",
        "change": fill(CHANGE, words) if settings.rate_then is not None else "",
        "flows": "".join(fill(FLOW, each) for each in own),
    }
    return fill(EXPERIMENT, {**words, **pieces})


def host_key(stack: str, settings: Settings, *, receives: bool) -> str:
    """Return the name of the template of a host."""
    chosen = {"ecn": settings.ecn, "buffers": settings.buffers is not None}
    chosen["merge"] = receives and settings.merge > 0
    return "+".join([stack, *(name for name, is_chosen in chosen.items() if is_chosen)])


def queue_key(settings: Settings) -> str:
    """Return the name of the template of the bottleneck's queue."""
    return settings.queue + ("+ecn" if settings.ecn and settings.queue in WITH_ECN else "")


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put values at their names in braces; braces of YAML itself stay."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _host(settings: Settings, name: str, stack: str, family: str, *, receives: bool) -> str:
    wanted = {
        "ecn": settings.ecn,
        "buffers": settings.buffers is not None,
        "linux": settings.buffers is not None and family == "linux",
        "merge": receives and settings.merge > 0,
        "processing": settings.processing > 0,
    }
    size = settings.buffers or 0
    words = {
        "options": "".join(HOST[option] for option, is_wanted in wanted.items() if is_wanted),
        "name": name,
        "stack": stack,
        "buffers": units.format_size(size),
        "buffers_bytes": str(size),
        "merge": str(settings.merge),
        "processing": units.format_time(settings.processing),
    }
    return fill(HOST["plain"], {"name": name, "stack": stack} | words)


_WRITTEN = {
    "rate": units.format_rate,
    "rtt": units.format_time,
    "buffer": lambda count: f"{count}p",
    "loss": units.format_share,
    "buffers": units.format_size,
    "processing": units.format_time,
    "rate_then": units.format_rate,
    "rate_at": units.format_time,
    "duration": units.format_time,
    "measure": units.format_time,
    "start_jitter": units.format_time,
    "phase_jitter": units.format_time,
    "access": units.format_rate,
    "tcp": units.format_time,
    "queue_every": units.format_time,
}


def address(settings: Settings) -> str:
    """Return the part after `#` of the link that opens these settings; what is as usual is left out."""
    written = []
    for field in fields(Settings):
        value = getattr(settings, field.name)
        always = field.name in {"rate", "rtt", "buffer", "queue"}
        if field.name == "flows" or (value == field.default and not always):
            continue
        text = "on" if value is True else _WRITTEN.get(field.name, str)(value)
        written.append(f"{field.name}={quote(text)}")
    for flow in settings.flows:
        parts = [flow.stack, flow.cc, units.format_time(flow.start), units.format_time(flow.extra)]
        if flow.receiver or flow.names:
            parts += [flow.receiver, *(flow.names or ())]
        written.append(f"f={quote(','.join(parts), safe=',/')}")
    return "&".join(written)
