"""The Scenario of a recorded run: the path and the hosts of the recordings' description."""

import functools
import json

from cwndlab import _native
from cwndlab.contract.app import App
from cwndlab.contract.catalogue import Catalogue, Stack
from cwndlab.contract.scenario import Change, Flow, Host, Link, Sampling, Scenario
from tools.truth.fidelity.recordings import NIC_BPS, Run

REVERSE_PACKETS = 1000
"""Queue of the way back."""

PLENTY = 1_000_000
"""Packets of a queue that never overflows."""

NEVER_NS = 10_000_000_000_000_000
"""A target that CoDel never reaches, so that it does nothing but mark by its threshold."""

OFFSETS_NS = 1_000_000_000
"""The start of the second of two flows moves by up to this: its place in the first one's cycle is chance."""

DRAWS_OF_STARTS = 20
"""How many starts of the second flow are tried."""

BURST_NS = 1_000_000
"""How long the application of a burst takes to write it."""

FULL_BYTES = 1500
"""Largest IP packet."""

WRITE_BYTES = 1 << 17
"""Size of the application's writes."""


def scenario(run: Run, kind: str, draw: int) -> Scenario:
    """The Scenario, as the engine wants it (JSON types). `draw` seeds losses and the hosts' clocks."""
    # t = 0 of a recording is the sender entering ESTABLISHED, one round trip after its SYN.
    duration_ns = round(run.duration_s * 1e9) + (run.rtt_ns if kind != "linux" else 0)
    windows: Sampling = {"kind": "per-ack"} if kind in ("bulk", "cdg", "linux") else {"kind": "off"}
    return {
        "version": 1,
        "experiment": "fidelity",
        "seed": draw + 1,
        "repeat": 0,
        "duration_ns": duration_ns,
        "start_jitter_ns": 0,
        "measure": {"from_ns": 0, "to_ns": duration_ns},
        "record": {"tcp": windows, "queue": {"kind": "off"}, "pcap": []},
        "hosts": [_host(run, name) for name in (*_senders(run), "b")],
        "nodes": [{"name": "r1", "switch": None}, {"name": "r2", "switch": None}],
        "links": _links(run, kind),
        "flows": [_flow(run, index, draw) for index in range(len(run.ccs))],
        "schedule": _outage(run),
    }


def _senders(run: Run) -> tuple[str, ...]:
    return ("a", "c")[: len(run.ccs)] if run.hosts else ("a",)


def _outage(run: Run) -> list[Change]:
    """All data is lost for a while."""
    if run.outage_s is None:
        return []
    return [
        {
            "at_ns": run.rtt_ns + round(second * 1e9),
            "link": "bottleneck",
            "rate_bps": None,
            "delay_ns": None,
            "loss": {"kind": "random", "probability_ppb": lost},
            "queue": None,
            "down": None,
        }
        for second, lost in zip(run.outage_s, (1_000_000_000, 0), strict=True)
    ]


def _host(run: Run, name: str) -> Host:
    sysctl = run.receiver_sysctl if name == "b" else run.sender_sysctl
    facts = _stacks()[run.stack]
    return {
        "name": name,
        "stack": run.stack,
        "hz": facts["hz"],
        "mss": 1460,
        "ecn": "on" if run.ecn else facts["ecn"],
        "sysctl": dict(sysctl),
        "nic": {
            "tx_queue": PLENTY,
            "full": "enobufs",
            "tso": False,
            "tso_max": None,
            "gro": False,
            "lro": False,
            "coalesce": None,
        },
        "ack_every": None,
        "noise": None,
        "egress": None,
        "ingress": {"before_gro": None, "after_gro": None},
    }


def covered(run: Run) -> bool:
    """Whether the engine has the stack and all its congestion controls."""
    facts = _stacks().get(run.stack)
    return facts is not None and set(run.ccs) <= set(facts["cc"])


@functools.cache
def _stacks() -> dict[str, Stack]:
    known: Catalogue = json.loads(_native.catalogue())
    return {stack["name"]: stack for stack in known["stacks"]}


def _links(run: Run, kind: str) -> list[Link]:
    nic = run.nic_bps if kind != "linux" else None
    forth = _link(
        run, "bottleneck", "r1-r2", rate_bps=run.rate_bps, delay_ns=run.rtt_ns // 2, limit=run.queue_packets
    )
    forth["observe"] = forth["bottleneck"] = True
    if run.mark_packets is not None:
        # An arrival that finds n packets waits longer than n - 1 of them take, for one of them is in service.
        packet_ns = (FULL_BYTES + run.overhead_bytes) * 8 * 1_000_000_000 // run.rate_bps
        forth["queue"] = {
            "kind": "codel",
            "limit_packets": run.queue_packets,
            "target_ns": NEVER_NS,
            "interval_ns": NEVER_NS,
            "ecn": True,
            "ce_threshold_ns": (run.mark_packets - 1) * packet_ns,
        }
    if run.loss:
        forth["loss"] = {"kind": "random", "probability_ppb": round(run.loss * 1e9)}
    into = _link(run, "r2-b", "r2-b")
    if run.drop_every is not None:
        into["loss"] = {
            "kind": "nth",
            "every": run.drop_every,
            "packet": 0,
            "min_payload": 1,
            "dport": None,
            "sport": None,
        }
    senders = _senders(run)
    return [
        *(_link(run, f"{name}-r1", f"{name}-r1", rate_bps=nic) for name in senders),
        forth,
        into,
        _link(run, "b-r2", "b-r2", rate_bps=NIC_BPS if kind != "linux" else None),
        _link(
            run,
            "reverse",
            "r2-r1",
            rate_bps=run.rate_bps,
            delay_ns=run.rtt_ns // 2,
            limit=REVERSE_PACKETS,
        ),
        *(_link(run, f"r1-{name}", f"r1-{name}") for name in senders),
    ]


def _link(
    run: Run, name: str, ends: str, *, rate_bps: int | None = None, delay_ns: int = 0, limit: int = PLENTY
) -> Link:
    source, sink = ends.split("-")
    return {
        "name": name,
        "from": source,
        "to": sink,
        "rate_bps": rate_bps,
        "delay_ns": delay_ns,
        "queue": {"kind": "pfifo", "limit_packets": limit},
        "loss": None,
        "duplicate_ppb": 0,
        "corrupt_ppb": 0,
        "jitter": None,
        "shaper": None,
        "mtu": FULL_BYTES,
        "overhead": run.overhead_bytes,
        "observe": False,
        "bottleneck": False,
    }


def _app(run: Run) -> App:
    if run.burst is None:
        return {"kind": "bulk", "bytes": None, "write_bytes": WRITE_BYTES}
    size, period_s = run.burst
    return {
        "kind": "on-off",
        "on_ns": BURST_NS,
        "off_ns": round(period_s * 1e9) - BURST_NS,
        "rate_bps": size * 8 * 1_000_000_000 // BURST_NS,
        "write_bytes": size,
        "distribution": "fixed",
    }


def _flow(run: Run, index: int, draw: int) -> Flow:
    # The second of two flows starts at an offset of its own in each draw.
    offset = draw * OFFSETS_NS // DRAWS_OF_STARTS if index and not run.hosts else 0
    return {
        "name": f"f{index + 1}",
        "from": _senders(run)[index if run.hosts else 0],
        "to": "b",
        "app": _app(run),
        "start_ns": round(run.starts_s[index] * 1e9) + offset,
        "stop_ns": None,
        "cc": run.ccs[index],
        "sndbuf": run.buffer_bytes,
        "rcvbuf": run.buffer_bytes,
    }
