"""Links of a Scenario as queue disciplines of a kernel: their messages, and what cannot be.

    netem (delay, loss, duplicates, damage) ── htb with one class, or tbf ── the link's queue
    at the next node, of a link with jitter: netem (delay, jitter)

    at a host itself, of a link of its own with FQ: htb with one class, or tbf ── fq

What a link has not is left out. A fixed delay comes before the queue: netem hands all packets of an instant
to the queue before it asks for one, which the models do where a link says `delay_first`. A delay that varies
comes behind the queue, as packets reach it otherwise out of order and at other times.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, get_args

from cwndlab.contract.queue import FlowMode
from cwndlab.contract.scenario import Change, Link
from cwndlab.experiment.scenario.path_state import ETHERNET_HEADER
from cwndlab.testbeds.kernel import netlink
from cwndlab.testbeds.kernel.netlink import attributes
from cwndlab.testbeds.live.linux import tc

_HTB, _CLASS, _QUEUE, _NETEM, _BELOW_NETEM, _TBF, _BELOW_TBF = (
    *(0x10000, 0x10001, 0x20000),
    *(0x30000, 0x30001, 0x40000, 0x40001),
)
NETEM_LIMIT = 1_000_000
"""Packets that netem holds at most: more than are ever on their way; the queue is behind it."""
WHOLE = 0xFFFFFFFF
"""A probability of 1 (netem)."""
NORMAL = tuple(
    max(-32767, min(32767, round(8192 * NormalDist().inv_cdf((place + 0.5) / 4096)))) for place in range(4096)
)
"""A normal distribution as netem has them: equally likely deviations in 8192ths of the standard deviation."""
_FLOW_MODES = get_args(FlowMode)
"""Flow modes in the order of the kernel's numbers (linux/pkt_sched.h, CAKE_FLOW_NONE and so on)."""


@dataclass(frozen=True)
class Places:
    """Handles of the queue disciplines in which a link's queue and losses are read."""

    queue: int
    netem: int | None


def paces(link: Link) -> bool:
    """Whether a link of a host has the queue discipline that keeps packets until TCP wants them to leave."""
    return link["queue"]["kind"] == "fq"


def paced(link: Link) -> tuple[Link, Link]:
    """Split a host's link with FQ into what is at the host itself, rate and queue, and all behind it, where
    packets of that rate do not wait.
    """
    own: Any = {
        **{**link, "delay_ns": 0, "jitter": None, "loss": None},
        **{"duplicate_ppb": 0, "corrupt_ppb": 0},
    }
    behind: Any = {**link, "queue": {"kind": "pfifo", "limit_packets": NETEM_LIMIT}}
    return own, behind


AT_HOST = Places(_QUEUE, None)
"""Handles of what `paced` leaves at a host."""


def needs(link: Link, *, changing: bool = False, at_host: bool = False) -> list[str]:
    """The kinds of queue disciplines that a link consists of; none where it only passes packets on.

    `changing`: its delay or loss may change in mid-run. `at_host`: it is what `paced` leaves at a host.
    """
    kinds = []
    if changing or _impaired(link):
        kinds.append("netem")
    if link["shaper"] is not None:
        kinds.append("htb" if link["shaper"]["kind"] == "htb" else "tbf")
    elif link["rate_bps"] is not None:
        kinds.append("htb")
    elif link["queue"]["kind"] == "cake" and link["queue"]["bandwidth_bps"]:
        kinds.append("cake")
        return kinds
    if at_host or kinds[-1:] in (["htb"], ["tbf"]):
        kinds.append(link["queue"]["kind"])
    return kinds


def divided(link: Link) -> tuple[Link, Link | None]:
    """A link up to where its packets have left the queue, and beyond: a link of delay and jitter. None beyond
    where the delay is fixed or nothing waits.
    """
    if link["jitter"] is None or not set(needs(link)) - {"netem"}:
        return link, None
    queue: Any = {**link, "delay_ns": 0, "jitter": None}
    wire: Any = {
        **{**link, "loss": None, "duplicate_ppb": 0, "corrupt_ppb": 0},
        **{"rate_bps": None, "shaper": None, "queue": {"kind": "pfifo", "limit_packets": NETEM_LIMIT}},
    }
    return queue, wire


def divided_change(change: Change) -> tuple[Change, Change | None]:
    """Split a change of a divided link into that of its queue and that of its wire. None where nothing is."""
    queue: Any = {**change, "delay_ns": None}
    if change["delay_ns"] is None:
        return queue, None
    wire: Any = {**change, **dict.fromkeys(("rate_bps", "loss", "queue", "down"))}
    return queue, wire


def refusal(link: Link, *, of_host: bool = False) -> str | None:
    """Reason why a link, from a host or from another node, cannot be queue disciplines. None where it can."""
    loss, shaper, queue = link["loss"], link["shaper"], link["queue"]
    if loss is not None and loss["kind"] not in ("random", "gilbert"):
        return f"loss {loss['kind']}: netem loses at random, or by a Gilbert-Elliott chain"
    if link["jitter"] is not None and link["jitter"]["kind"] == "pareto":
        return "jitter pareto: netem's own table of it is another; give one by kind: file"
    made = shaper is None or shaper["kind"] in ("token-bucket", "htb")
    if not made or (shaper is not None and link["rate_bps"] is not None):
        return "a shaper other than a token bucket or htb alone, without a rate of the link"
    if queue["kind"] == "netem":
        return "a queue of kind netem, which is a host's egress"
    if queue["kind"] == "red" and (queue["nonlinear"] or (queue["adaptive"] and queue["nodrop"])):
        return "red with nonlinear" if queue["nonlinear"] else "red with adaptive and nodrop"
    return None if of_host else tc.in_one_kernel(queue)


def change_refusal(link: Link, change: Change, *, of_host: bool = False) -> str | None:
    """Reason why a link, of a host or of another node, cannot be changed so in mid-run. None where it can."""
    if of_host and paces(link) and (change["rate_bps"], change["queue"]) != (None, None):
        return "a change of the rate or the queue of a host's link with fq"
    if change["rate_bps"] is not None and link["rate_bps"] is None:
        return "a change of the rate of a link that begins without one"
    if change["queue"] is not None and change["queue"]["kind"] not in needs(link)[-1:]:
        return f"a change to {change['queue']['kind']}: of a queue only its parameters can change"
    if change["loss"] is not None and change["loss"]["kind"] not in ("random", "gilbert"):
        return f"loss {change['loss']['kind']}: netem loses at random, or by a Gilbert-Elliott chain"
    return None


def changed(link: Link, change: Change) -> Link:
    """A link after a change, an outage aside."""
    told: Mapping[str, Any] = dict(change)
    new = {key: told[key] for key in ("rate_bps", "delay_ns", "loss", "queue") if told[key] is not None}
    after: Any = {**link, **new}
    found: Link = after
    return found


def change_messages(link: Link, change: Change, index: int, *, down: bool) -> Iterator[bytes]:
    """The messages that make a link what it is after a change; `down`: it loses everything then."""
    extra, kinds = link["overhead"] - ETHERNET_HEADER, needs(link, changing=True)
    if (change["delay_ns"], change["loss"], change["down"]) != (None, None, None):
        yield netlink.qdisc(index, "netem", _netem(link, down=down), handle=_NETEM, overhead=extra, new=False)
    if change["rate_bps"] is not None:
        buckets = _one_packet(change["rate_bps"], link)
        yield netlink.htb_class(index, *buckets, handle=_CLASS, parent=_HTB, new=False)
    if change["queue"] is not None:
        parent = _CLASS if "htb" in kinds else _BELOW_TBF if "tbf" in kinds else _BELOW_NETEM
        options = _queue(change["queue"])
        yield netlink.qdisc(index, change["queue"]["kind"], options, handle=_QUEUE, parent=parent, new=False)


def messages(link: Link, index: int, *, changing: bool = False, at_host: bool = False) -> Iterator[bytes]:
    """The messages that put a link's queue disciplines at an interface."""
    parent = netlink.ROOT
    extra = link["overhead"] - ETHERNET_HEADER
    if changing or _impaired(link):
        yield netlink.qdisc(index, "netem", _netem(link), handle=_NETEM, overhead=extra)
        parent, extra = _BELOW_NETEM, 0
    kinds = needs(link, changing=changing, at_host=at_host)
    shaper: Mapping[str, Any] = dict(link["shaper"] or {})
    if "tbf" in kinds:
        peak = netlink.Bucket.of(shaper["peak"]) if shaper["peak"] else None
        options = netlink.tbf(netlink.Bucket.of(shaper), peak, 1 << 30)
        yield netlink.qdisc(index, "tbf", options, handle=_TBF, parent=parent, overhead=extra)
        parent, extra = _BELOW_TBF, 0
    elif "htb" in kinds:
        yield netlink.qdisc(index, "htb", netlink.htb(), handle=_HTB, parent=parent, overhead=extra)
        if shaper:
            ceil = netlink.Bucket(shaper["ceil_bps"] // 8, shaper["cburst_bytes"])
            buckets = netlink.Bucket.of(shaper), ceil, link["mtu"] + link["overhead"]
        else:
            buckets = _one_packet(link["rate_bps"] or 0, link)
        yield netlink.htb_class(index, *buckets, handle=_CLASS, parent=_HTB)
        parent, extra = _CLASS, 0
    queue = link["queue"]
    if kinds[-1:] == [queue["kind"]]:
        yield netlink.qdisc(index, queue["kind"], _queue(queue), handle=_QUEUE, parent=parent, overhead=extra)


def places(link: Link, *, changing: bool = False) -> Places | None:
    """Return the handles at which a link's queue and losses are read. None for a link without a queue
    discipline.
    """
    kinds = needs(link, changing=changing)
    if not kinds:
        return None
    if kinds == ["netem"]:
        return Places(_NETEM, None)
    return Places(_QUEUE, _NETEM if changing or link["loss"] is not None else None)


def _one_packet(rate_bps: int, link: Link) -> tuple[netlink.Bucket, netlink.Bucket, int]:
    """The class of a link with a plain rate: both buckets hold one packet. Behind them, its quantum."""
    size = link["mtu"] + link["overhead"]
    bucket = netlink.Bucket(rate_bps // 8, size)
    return bucket, bucket, size


def _impaired(link: Link) -> bool:
    return bool(
        link["delay_ns"] or link["loss"] or link["duplicate_ppb"] or link["corrupt_ppb"] or link["jitter"]
    )


def _part(ppb: int) -> int:
    """A probability in parts of 2**32."""
    return min(WHOLE, round(ppb * 2**32 / 10**9))


def _netem(link: Link, *, down: bool = False) -> netlink.Options:
    loss, jitter = link["loss"], link["jitter"]
    gilbert, lost = None, WHOLE if down else 0
    if loss is not None and loss["kind"] == "random" and not down:
        lost = _part(loss["probability_ppb"])
    if loss is not None and loss["kind"] == "gilbert" and not down:
        gilbert = (
            _part(loss["p_ppb"]),
            _part(loss["r_ppb"]),
            WHOLE - _part(loss["loss_bad_ppb"]),
            _part(loss["loss_good_ppb"]),
        )
    table = None
    if jitter is not None and jitter["kind"] != "uniform":
        table = tuple(jitter["table"] or NORMAL)
    return netlink.netem(
        delay_ns=link["delay_ns"],
        limit=NETEM_LIMIT,
        loss=lost,
        duplicate=_part(link["duplicate_ppb"]),
        corrupt=_part(link["corrupt_ppb"]),
        jitter_ns=jitter["sd_ns"] if jitter is not None else 0,
        in_order=jitter is not None and not jitter["reorder"],
        table=table,
        gilbert=gilbert,
    )


def _queue(queue: Mapping[str, Any]) -> netlink.Options:
    """The options of a link's queue."""
    kind = queue["kind"]
    if kind in ("pfifo", "bfifo"):
        return struct.pack("=I", queue["limit_packets" if kind == "pfifo" else "limit_bytes"])
    if kind in ("red", "choke"):
        return _red(queue)
    if kind not in _FIELDS:
        raise ValueError(f"queue {kind} is not one that testbed kernel makes")
    told = {number: _told(field, queue[field]) for field, number in _FIELDS[kind].items()}
    if kind == "dualpi2":
        step = queue["step_packets"]
        told |= {8: _told("step_thresh_ns", queue["step_thresh_ns"])} if step is None else {7: step}
        told[14] = bytes([_ANY_ECT if queue["any_ect"] else _L4S_ECT])
    return attributes(dict(sorted(told.items())))


_FIELDS: Mapping[str, Mapping[str, int]] = {
    "codel": {"target_ns": 1, "limit_packets": 2, "interval_ns": 3, "ecn": 4, "ce_threshold_ns": 5},
    "fq_codel": {
        **{"target_ns": 1, "limit_packets": 2, "interval_ns": 3, "ecn": 4, "flows": 5, "quantum_bytes": 6},
        **{"ce_threshold_ns": 7, "drop_batch": 8, "memory_limit_bytes": 9},
        **{"ce_threshold_selector": 10, "ce_threshold_mask": 11},
    },
    "pie": {
        **{"target_ns": 1, "limit_packets": 2, "tupdate_ns": 3, "alpha": 4, "beta": 5, "ecn": 6},
        **{"bytemode": 7, "dq_rate_estimator": 8},
    },
    "fq_pie": {
        **{"limit_packets": 1, "flows": 2, "target_ns": 3, "tupdate_ns": 4, "alpha": 5, "beta": 6},
        **{"quantum_bytes": 7, "memory_limit_bytes": 8, "ecn_prob": 9, "ecn": 10, "bytemode": 11},
        **{"dq_rate_estimator": 12},
    },
    "fq": {
        **{"limit_packets": 1, "flow_limit_packets": 2, "quantum_bytes": 3, "initial_quantum_bytes": 4},
        **{"maxrate_bps": 7, "refill_delay_ns": 9, "orphan_mask": 10, "low_rate_threshold_bps": 11},
        **{"ce_threshold_ns": 12, "horizon_ns": 14, "horizon_drop": 15},
    },
    "cake": {"bandwidth_bps": 2, "flow_mode": 5, "rtt_ns": 7, "memlimit_bytes": 10},
    "dualpi2": {
        **{"limit_packets": 1, "memlimit_bytes": 2, "target_ns": 3, "tupdate_ns": 4, "alpha_ppb": 5},
        **{"beta_ppb": 6, "min_qlen_step_packets": 9, "coupling_factor": 10, "drop_on_overload": 11},
        **{"drop_enqueue": 12, "classic_protection": 13, "split_gso": 15},
    },
}
"""Attributes of each discipline that are its fields in a Scenario (linux/pkt_sched.h)."""
_L4S_ECT, _ANY_ECT = 1, 3
"""Masks of the ECN field by which dualpi2 knows packets of its L queue (linux/pkt_sched.h)."""
_BYTES = (
    *("ce_threshold_selector", "ce_threshold_mask", "horizon_drop"),
    *("coupling_factor", "drop_on_overload", "drop_enqueue", "classic_protection", "split_gso"),
)
"""Fields that are one byte each."""


def _told(field: str, value: Any) -> bytes | int | None:
    """A field as the kernel takes it: times in microseconds, rates in bytes per second, gains in 256ths of a
    Hz.
    """
    if value is None:
        return None
    if field in _BYTES:
        return bytes([value])
    if field in ("alpha_ppb", "beta_ppb"):
        return int((value * 256 + 5 * 10**8) // 10**9)
    if field.endswith("_bps"):
        return struct.pack("=Q" if field == "bandwidth_bps" else "=I", value // 8)
    if field == "flow_mode":
        return _FLOW_MODES.index(value)
    return int(value // 1000 if field.endswith("_ns") else value)


def _red(queue: Mapping[str, Any]) -> netlink.Options:
    """struct tc_red_qopt and what goes with it, with the averaging weight that `tc` derives (tc-red(8)).

    CHOKe has its limit and thresholds in packets.
    """
    unit, packet = ("bytes", 1) if queue["kind"] == "red" else ("packets", queue["avpkt_bytes"])
    limit, low, high = (queue[f"{name}_{unit}"] for name in ("limit", "min", "max"))
    probability = queue["probability_ppb"] / 1e9
    weight = _red_weight(low * packet, queue["burst_packets"], queue["avpkt_bytes"])
    slope = _red_slope(low * packet, high * packet, probability)
    idle, cell = _red_idle(weight, queue["avpkt_bytes"], queue["bandwidth_bps"])
    switches = ("ecn", "harddrop", "adaptive", "nodrop")
    flags = sum(bool(queue.get(name)) << bit for bit, name in enumerate(switches))
    parameters = struct.pack("=IIIBBBB", limit, low, high, weight, slope, cell, flags & 0x7)
    return attributes(
        {
            1: parameters,
            2: idle,
            3: min(WHOLE, round(probability * 2**32)),
            4: struct.pack("=II", flags, 0xF) if flags & 0x8 else None,
        }
    )


def _red_weight(low: int, burst: int, packet: int) -> int:
    """-log2 of the weight with which the average forgets (iproute2, tc_red_eval_ewma)."""
    exponent, weight, burst_bytes = 1, 0.5, burst + 1 - low / packet
    while exponent < 32:
        if burst_bytes <= (1 - (1 - weight) ** burst) / weight:
            return exponent
        exponent, weight = exponent + 1, weight / 2
    return exponent


def _red_slope(low: int, high: int, probability: float) -> int:
    """-log2 of the probability over the distance of both thresholds (iproute2, tc_red_eval_P)."""
    if high == low:
        return 0
    slope = probability / (high - low)
    return next((exponent for exponent in range(32) if slope * 2**exponent > 1), 31)


def _red_idle(weight: int, packet: int, rate_bps: int) -> tuple[bytes, int]:
    """Damping of the average in idle times, and -log2 of its unit (iproute2, tc_red_eval_idle_damping)."""
    ticks = packet * 8 * 10**9 / rate_bps / 64
    logarithm = -math.log(1 - 1 / 2**weight) / ticks
    most, cell = 31 / logarithm, 0
    while cell < 32:
        cell += 1
        if most / 2**cell < 512:
            break
    table = bytearray(256)
    table[255] = 31
    for place in range(1, 255):
        table[place] = min(31, int((place << cell) * logarithm))
    return bytes(table), cell
