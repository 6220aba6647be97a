"""Queue disciplines in a Scenario. Made from crates/contract by `make contract`; not edited by hand."""

from __future__ import annotations

from typing import Literal, TypeAlias

from typing_extensions import TypedDict


class QueuePfifo(TypedDict):
    """First in, first out; an arrival that finds so many packets waiting is dropped."""

    kind: Literal["pfifo"]
    limit_packets: int
    """Packets waiting; one more is in service."""


class QueueBfifo(TypedDict):
    """First in, first out; an arrival that would make more bytes wait is dropped."""

    kind: Literal["bfifo"]
    limit_bytes: int
    """Bytes waiting, with the link's overhead per packet."""


class QueueRed(TypedDict):
    """RED (Floyd and Jacobson 1993)."""

    kind: Literal["red"]
    limit_bytes: int
    """Bytes waiting."""
    min_bytes: int
    """Average queue below which nothing is dropped."""
    max_bytes: int
    """Average queue from which everything is dropped, above min."""
    avpkt_bytes: int
    """Size of an average packet."""
    burst_packets: int
    """Packets of a burst that passes unharmed: `tc` derives the averaging weight from it."""
    probability_ppb: int
    """Drop probability when the average reaches max."""
    bandwidth_bps: int
    """Rate from which the average after an idle time is computed."""
    ecn: bool
    """Mark ECN-capable packets instead of dropping them."""
    harddrop: bool
    """Drop ECN-capable packets too when the average is at max."""
    nodrop: bool
    """Let packets that cannot be marked pass where they would be dropped, with `ecn`."""
    adaptive: bool
    """Adapt the probability between 1 % and 50 % (Floyd, Gummadi, Shenker 2001)."""
    nonlinear: bool
    """Probability of 1.5 times `probability` times the square of (average - min) / (max - min) (NLRED:
    Zhou, Yeung, Li 2006).
    """


class QueueCodel(TypedDict):
    """CoDel (RFC 8289)."""

    kind: Literal["codel"]
    limit_packets: int
    """Packets waiting."""
    target_ns: int
    """Acceptable standing sojourn time."""
    interval_ns: int
    """Window over which the minimum is taken."""
    ecn: bool
    """Mark ECN-capable packets instead of dropping them."""
    ce_threshold_ns: int | None
    """Mark every ECN-capable packet that waited longer, if this is set."""


class QueueFqCodel(TypedDict):
    """FQ-CoDel (RFC 8290): flow queues with CoDel."""

    kind: Literal["fq_codel"]
    limit_packets: int
    """Packets waiting, over all flows."""
    flows: int
    """Queues that flows are hashed to."""
    target_ns: int
    """Acceptable standing sojourn time."""
    interval_ns: int
    """Window over which the minimum is taken."""
    quantum_bytes: int
    """Bytes that a flow may send in a round."""
    ecn: bool
    """Mark ECN-capable packets instead of dropping them."""
    ce_threshold_ns: int | None
    """Mark every ECN-capable packet that waited longer, if this is set."""
    ce_threshold_selector: int
    """Marks of that threshold are only for packets whose DS field, under the mask, is this: 1 with a mask
    of 3 is ECT(1).
    """
    ce_threshold_mask: int
    """Bits of the DS field that are compared with the selector; 0: every packet."""
    memory_limit_bytes: int
    """Memory of all packets, as Linux accounts for it."""
    drop_batch: int
    """Packets dropped at most when the limit is exceeded, from the flow with the most bytes."""


class QueuePie(TypedDict):
    """PIE (RFC 8033)."""

    kind: Literal["pie"]
    limit_packets: int
    """Packets waiting."""
    target_ns: int
    """Queueing delay aimed at."""
    tupdate_ns: int
    """Time between updates of the drop probability, to which Linux's timer adds a tick of 1 ms."""
    alpha: int
    """Weight of the distance from the target, in sixteenths per second."""
    beta: int
    """Weight of the delay's change, in sixteenths per second."""
    ecn: bool
    """Mark ECN-capable packets instead of dropping them while the probability is at most 10 %."""
    bytemode: bool
    """Drop small packets less often."""
    dq_rate_estimator: bool
    """Estimate the delay from the departure rate (RFC 8033 section 4.3) instead of measuring it (section
    5.2).
    """


class QueueFqPie(TypedDict):
    """FQ-PIE: flow queues with PIE."""

    kind: Literal["fq_pie"]
    limit_packets: int
    """Packets waiting, over all flows."""
    flows: int
    """Queues that flows are hashed to."""
    target_ns: int
    """Queueing delay aimed at."""
    tupdate_ns: int
    """Time between updates of the drop probability, to which Linux's timer adds a tick of 1 ms."""
    alpha: int
    """Weight of the distance from the target, in sixteenths per second."""
    beta: int
    """Weight of the delay's change, in sixteenths per second."""
    quantum_bytes: int
    """Bytes that a flow may send in a round."""
    memory_limit_bytes: int
    """Memory of all packets, as Linux accounts for it."""
    ecn_prob: int
    """Highest drop probability, in percent, at which packets are marked instead."""
    ecn: bool
    """Mark ECN-capable packets instead of dropping them."""
    bytemode: bool
    """Drop small packets less often."""
    dq_rate_estimator: bool
    """Estimate the delay from the departure rate (RFC 8033 section 4.3) instead of measuring it (section
    5.2).
    """


class QueueCake(TypedDict):
    """CAKE: shaper, AQM, fairness between flows and hosts."""

    kind: Literal["cake"]
    bandwidth_bps: int | None
    """Rate of CAKE's own shaper, if it has one."""
    rtt_ns: int
    """Round trip time: COBALT's interval; its target is a twentieth."""
    flow_mode: FlowMode
    """Rule by which shares are fair."""
    memlimit_bytes: int
    """Memory of all packets, as Linux accounts for it."""


class QueueDualpi2(TypedDict):
    """DualPI2, the dual-queue coupled AQM for L4S (RFC 9332)."""

    kind: Literal["dualpi2"]
    limit_packets: int
    """Packets waiting, over both queues."""
    target_ns: int
    """Queueing delay aimed at."""
    tupdate_ns: int
    """Time between updates of the base probability."""
    alpha_ppb: int
    """Weight of the distance from the target: probability per second of delay, Hz."""
    beta_ppb: int
    """Weight of the delay's change, in the same unit."""
    memlimit_bytes: int
    """Memory of both queues, as Linux accounts for it."""
    step_thresh_ns: int
    """L4S packets that waited longer are marked always."""
    step_packets: int | None
    """L4S packets are marked while more packets are left in the L queue, in place of `step_thresh`."""
    min_qlen_step_packets: int
    """The step is for L4S packets that find at least so many in the L queue."""
    coupling_factor: int
    """L4S packets are marked with so many times the base probability."""
    drop_on_overload: bool
    """Drop from both queues when L4S marking saturates (tc: `overflow` keeps marking and lets the limit
    drop).
    """
    drop_enqueue: bool
    """Decide on drops and marks of the base probability when a packet comes, not when it leaves."""
    any_ect: bool
    """Put all ECN-capable packets into the L queue, also those of ECT(0)."""
    classic_protection: int
    """Share of the classic queue while both have packets, percent."""
    split_gso: bool
    """Cut super-packets of live hosts before they are queued; packets of the model are none."""


class QueueChoke(TypedDict):
    """CHOKe (Pan, Prabhakar, Psounis 2000): RED that drops two packets of a flow at once."""

    kind: Literal["choke"]
    limit_packets: int
    """Packets waiting."""
    min_packets: int
    """Average queue up to which nothing is dropped."""
    max_packets: int
    """Average queue above which everything is dropped, above min."""
    avpkt_bytes: int
    """Size of an average packet."""
    burst_packets: int
    """Packets of a burst that passes unharmed: `tc` derives the averaging weight from it."""
    probability_ppb: int
    """Drop probability when the average reaches max."""
    bandwidth_bps: int
    """Rate from which the average after an idle time is computed."""
    ecn: bool
    """Mark ECN-capable packets instead of dropping them, unless one of their flow was found."""


class QueueFq(TypedDict):
    """FQ, Linux's fair queue of flows: without an AQM, and with a threshold of marks."""

    kind: Literal["fq"]
    limit_packets: int
    """Packets waiting in each of three bands, without those of the fast path."""
    flow_limit_packets: int
    """Packets waiting of a flow."""
    quantum_bytes: int
    """Bytes that a flow may send in a round."""
    initial_quantum_bytes: int
    """Bytes that a flow may send at first."""
    maxrate_bps: int | None
    """Rate of each flow at most."""
    low_rate_threshold_bps: int
    """A flow with a `maxrate` up to this sends packet by packet."""
    refill_delay_ns: int
    """Idle time after which a flow has a quantum to send again."""
    orphan_mask: int
    """Bits of a flow's hash that tell it from others; packets are forwarded, so that no socket does."""
    ce_threshold_ns: int | None
    """Mark every ECN-capable packet that waited longer, if this is set."""
    horizon_ns: int
    """Time until which a sender may ask for a packet to be kept."""
    horizon_drop: bool
    """Drop packets beyond the horizon, or send them at it."""


class QueueNetem(TypedDict):
    """A host's egress as `tc netem` makes it: the link's delay and jitter come before its rate, and the
    limit counts every packet that has not left, those in the delay line too. No packet waits for an event.
    """

    kind: Literal["netem"]
    limit_packets: int
    """Packets inside (1000 unless told otherwise, in Linux)."""


FlowMode: TypeAlias = Literal[
    "flowblind",
    "srchost",
    "dsthost",
    "hosts",
    "flows",
    "dual-srchost",
    "dual-dsthost",
    "triple-isolate",
]
"""Between whom CAKE shares the link. `flowblind`: nobody: one queue. `srchost`: sending hosts. `dsthost`:
receiving hosts. `hosts`: pairs of hosts. `flows`: flows. `dual-srchost`: sending hosts, and each one's
flows. `dual-dsthost`: receiving hosts, and each one's flows. `triple-isolate`: fair shares for hosts of
both ends, and flows.
"""
Queue: TypeAlias = (
    QueuePfifo
    | QueueBfifo
    | QueueRed
    | QueueCodel
    | QueueFqCodel
    | QueuePie
    | QueueFqPie
    | QueueCake
    | QueueDualpi2
    | QueueChoke
    | QueueFq
    | QueueNetem
)
"""A queue discipline and all its parameters, under their Linux `tc` names with the unit added."""
