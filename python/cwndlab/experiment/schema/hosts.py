"""Hosts of the schema: their stack, interface, noise, and what happens to packets at their edge."""

from __future__ import annotations

from typing import Annotated, ClassVar

from cwndlab.experiment.schema.cc_params import CcParams
from cwndlab.experiment.schema.impairments import Jitter, Loss, Match
from cwndlab.experiment.schema.leaves import (
    MAX_COUNT,
    Buffer,
    Family,
    Flag,
    Interval,
    PacketCount,
    Rate,
    Share,
    Size,
    SysctlValue,
    Time,
    Word,
    byte_count,
    integer,
    ticks,
    word,
)
from cwndlab.experiment.schema.queues import Queue
from cwndlab.experiment.schema.section import OneOf, Section, about, required

ACCURATE = ("accurate", "on-accept-accurate", "accept-accurate")
"""Words of `ecn:` for a system with Accurate ECN."""


class Coalesce(Section):
    """Interrupt moderation of a network interface."""

    section: ClassVar[str] = "coalesce"
    time: Time | None = about("longest a frame waits for others")
    frames: Annotated[int, *integer(1, 65535)] | None = about("frames that end the wait")
    gro_flush_timeout: Time | None = about("Linux: time between passes of polling after an interrupt")
    napi_defer_hard_irqs: Annotated[int, *integer(0, 1000)] | None = about(
        "Linux: passes without a frame before interrupts are switched on again"
    )


class Nic(Section):
    """A host's network interface."""

    section: ClassVar[str] = "nic"
    rate: Rate | None = about("rate of the host's own cable, both ways, instead of the network's access rate")
    tx_queue: PacketCount | None = about(
        "transmit queue: packets waiting; default the link's queue, or 1000p"
    )
    qdisc: Queue | None = about(
        "queue discipline at it, in place of the transmit queue (Linux); fq paces the host's connections"
    )
    tso: Flag = about("segmentation offload", False)
    tso_max: Size | None = about("largest super-packet handed to the interface")
    gro: Flag = about("receive aggregation by the stack (Linux)", False)
    lro: Flag = about("receive aggregation by the driver (FreeBSD)", False)
    coalesce: Coalesce | None = about("interrupt moderation")
    full: Annotated[str, *word("drop", "enobufs")] | None = about("what a full transmit queue does")
    veth: Flag = about("packets arrive in the buffers of their senders, as between namespaces (Linux)", False)


class Processing(Section):
    """Time a host takes for one packet."""

    section: ClassVar[str] = "processing"
    mean: Time = required("mean")
    sd: Time = about("standard deviation", 0)


class Stall(Section):
    """Moments in which a host does nothing."""

    section: ClassVar[str] = "stall"
    every: Interval = required("mean time between stalls")
    length: Time = required("mean length of a stall")


class Noise(Section):
    """Processing-time and stall noise of a host."""

    section: ClassVar[str] = "noise"
    processing: Processing | None = about("time for one packet")
    stall: Stall | None = about("moments in which the host does nothing")


class AckEvery(Section):
    """A receiver that hands data to its stack in aggregates."""

    section: ClassVar[str] = "ack_every"
    segments: Annotated[int, *integer(1, 10_000)] = required("segments in an aggregate")


class Cheats(OneOf):
    """A receiver that has its senders believe more than what came (Savage et al., CCR 1999)."""

    section: ClassVar[str] = "cheats"
    ack_division: Annotated[int, *integer(2, 10_000)] | None = about("parts in which it acknowledges")
    duplicate_acks: Annotated[int, *integer(1, 10_000)] | None = about("duplicates behind an acknowledgement")
    optimistic_acks: Rate | None = about("rate at which it acknowledges what has not come")


class Egress(Section):
    """Settings of ``tc netem`` at a host's egress: it sees packets before segmentation."""

    section: ClassVar[str] = "egress"
    delay: Time | None = about("added delay")
    jitter: Jitter | None = about("variation of the delay")
    loss: Loss | None = about("loss")
    duplicate: Share | None = about("chance that a packet is sent twice")
    corrupt: Share | None = about("chance that a packet is damaged")
    rate: Rate | None = about("rate")
    limit: PacketCount | None = about("packets held, those being delayed included")


class IngressStage(Section):
    """Impairment at one place of a host's ingress."""

    section: ClassVar[str] = "ingress_stage"
    loss: Loss | None = about("loss")
    duplicate: Share | None = about("chance that a packet comes twice")
    corrupt: Share | None = about("chance that a packet is damaged")
    match: Match | None = about("only these packets are counted and touched")


class Ingress(Section):
    """Impairments at a host's ingress."""

    section: ClassVar[str] = "ingress"
    before_gro: IngressStage | None = about("on the wire")
    after_gro: IngressStage | None = about("behind receive aggregation, as a rule in the INPUT chain")


class Host(Section):
    """An end host."""

    section: ClassVar[str] = "host"
    stack: Word = required("operating system: freebsd-9.2, linux-6.8, freebsd-15-current/rack, or just linux")
    cc: Word | None = about("congestion control as the system names it; default the system's")
    cc_params: CcParams | None = about("constants of that congestion control, where it is built in")
    sndbuf: Buffer = about("SO_SNDBUF of its sockets; auto is autotuning within the sysctls", "auto")
    rcvbuf: Buffer = about("SO_RCVBUF of its sockets; auto is autotuning within the sysctls", "auto")
    mss: Annotated[int, *byte_count(88, 65495)] | None = about(
        "MSS announced; default MTU - 40, with IPv6 MTU - 60"
    )
    family: Family | None = about("IP version; default that of the network")
    ecn: Annotated[str, *word("off", "accept", "on", *ACCURATE)] | None = about(
        "ECN (RFC 3168), or Accurate ECN too (RFC 9768); default the system's"
    )
    hz: Annotated[int, *ticks()] | None = about("clock ticks per second; default the system's")
    sysctl: dict[str, SysctlValue] = about("sysctls by their real names", {})
    nic: Nic = about("network interface", Nic.unset())
    noise: Noise | None = about("processing-time and stall noise; off by default")
    ack_every: AckEvery | None = about("a receiver that aggregates this much")
    cheats: Cheats | None = about("a receiver whose acknowledgements say more than what came")
    egress: Egress | None = about("impairment as tc netem does it at this host's egress")
    ingress: Ingress | None = about("impairment at this host's ingress")
    count: Annotated[int, *integer(1, MAX_COUNT)] = about("copies of this host, named NAME.1, NAME.2, …", 1)
