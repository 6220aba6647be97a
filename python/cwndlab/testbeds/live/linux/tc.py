"""A link of a Scenario as commands of tc(8), at the interface by which its packets leave.

HTB with one class has the rate, the link's queue is below it. Delay, jitter, loss, duplicates and damage are
netem's above it, so that they come before the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cwndlab.contract.scenario import Link

NETEM_LIMIT = 1_000_000
"""Packets that netem holds at most, far more than are on their way: its own default of 1000 drops packets of
a fast long path, and looks like a queue that nobody asked for."""
UNLIMITED_BPS = 1_000_000_000_000
"""Rate of a class whose link has none."""

_PACKETS = "limit_packets"


def commands(link: Link, interface: str) -> list[list[str]]:
    """What makes the link, in order; raises ValueError, one line, for what tc cannot make."""
    root = ["tc", "qdisc", "add", "dev", interface]
    impairments = netem(link)
    made, above = [], ["root"]
    if impairments:
        made.append([*root, "root", "handle", "3:", "netem", *impairments])
        above = ["parent", "3:1"]
    made.append([*root, *above, "handle", "1:", "htb", "default", "1"])
    made.append(_class("add", link["rate_bps"], link["mtu"], interface))
    made.append([*root, "parent", "1:1", "handle", "2:", *queue(link["queue"])])
    return made


def remove(interface: str) -> list[str]:
    """What takes the link back: the interface then has the system's own discipline again."""
    return ["tc", "qdisc", "del", "dev", interface, "root"]


def netem(link: Link) -> list[str]:
    """The parameters of the netem that a link needs, empty if it needs none."""
    loss, jitter = link["loss"], link["jitter"]
    if link["shaper"] is not None:
        raise ValueError(f"link {link['name']}: tc makes no shaper beside the link's rate here; leave it out")
    if jitter is not None:
        raise ValueError(f"link {link['name']}: jitter is not made with tc; leave it out")
    words = []
    if link["delay_ns"]:
        words += ["delay", f"{link['delay_ns'] / 1000:g}us"]
    if loss is not None:
        if loss["kind"] != "random":
            raise ValueError(f"link {link['name']}: netem has loss of kind random here, not {loss['kind']}")
        words += ["loss", "random", _percent(loss["probability_ppb"])]
    if link["duplicate_ppb"]:
        words += ["duplicate", _percent(link["duplicate_ppb"])]
    if link["corrupt_ppb"]:
        words += ["corrupt", _percent(link["corrupt_ppb"])]
    return ["limit", str(NETEM_LIMIT), *words] if words else []


def queue(told: Mapping[str, Any]) -> list[str]:
    """A queue discipline with its parameters, as tc-NAME(8) has them; raises ValueError for others."""
    kind = told["kind"]
    match kind:
        case "pfifo":
            return [kind, "limit", str(told[_PACKETS])]
        case "bfifo":
            return [kind, "limit", str(told["limit_bytes"])]
        case "codel":
            return [kind, "limit", str(told[_PACKETS]), *_times(told, "target", "interval"), *_ecn(told)]
        case "fq_codel":
            sizes = ["limit", str(told[_PACKETS]), "flows", str(told["flows"])]
            memory = ["memory_limit", str(told["memory_limit_bytes"]), "drop_batch", str(told["drop_batch"])]
            quantum = ["quantum", str(told["quantum_bytes"])]
            return [kind, *sizes, *quantum, *memory, *_times(told, "target", "interval"), *_ecn(told)]
        case "pie":
            gains = ["alpha", str(told["alpha"]), "beta", str(told["beta"])]
            times = _times(told, "target", "tupdate")
            flags = [*_ecn(told)[:1], _flag(told, "bytemode"), _flag(told, "dq_rate_estimator")]
            return [kind, "limit", str(told[_PACKETS]), *times, *gains, *flags]
        case "red":
            sizes = [
                word
                for name in ("limit", "min", "max", "avpkt")
                for word in (name, str(told[f"{name}_bytes"]))
            ]
            more = ["burst", str(told["burst_packets"]), "bandwidth", f"{told['bandwidth_bps']}bit"]
            flags = [name for name in ("ecn", "harddrop", "nodrop", "adaptive") if told[name]]
            return [kind, *sizes, *more, "probability", f"{told['probability_ppb'] / 1e9:g}", *flags]
    raise ValueError(f"queue {kind} is not made with tc here; pfifo, bfifo, codel, fq_codel, pie and red are")


def _class(action: str, rate_bps: int | None, mtu: int, interface: str) -> list[str]:
    rate = rate_bps or UNLIMITED_BPS
    packet = mtu + 14
    burst = str(max(packet, rate // 8000))
    words = ["rate", f"{rate}bit", "burst", burst, "cburst", burst, "quantum", str(min(packet, 60_000))]
    return ["tc", "class", action, "dev", interface, "parent", "1:", "classid", "1:1", "htb", *words]


def _times(told: Mapping[str, Any], *names: str) -> list[str]:
    return [word for name in names for word in (name, f"{told[f'{name}_ns'] // 1000}us")]


def _ecn(told: Mapping[str, Any]) -> list[str]:
    threshold = told.get("ce_threshold_ns")
    marks = [] if threshold is None else ["ce_threshold", f"{threshold // 1000}us"]
    return ["ecn" if told["ecn"] else "noecn", *marks]


def _flag(told: Mapping[str, Any], name: str) -> str:
    return name if told[name] else f"no_{name}" if name == "dq_rate_estimator" else f"no{name}"


def _percent(ppb: int) -> str:
    return f"{ppb / 1e7:g}%"
