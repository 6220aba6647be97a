"""Queue disciplines of the schema: parameters under their Linux tc names; None is the engine's default, which
is Linux's."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from cwndlab.experiment.schema.leaves import (
    Flag,
    Gain,
    Interval,
    PacketCount,
    QueueLimit,
    Rate,
    Share,
    Size,
    Time,
    byte_count,
    integer,
    word,
)
from cwndlab.experiment.schema.section import Section, about, kind_alone


class Pfifo(Section):
    """First in, first out, counted in packets."""

    section: ClassVar[str] = "queue"
    kind: Literal["pfifo"]
    limit: QueueLimit | None = about("packets waiting; one more is in service")


class Bfifo(Section):
    """First in, first out, counted in bytes."""

    section: ClassVar[str] = "queue"
    kind: Literal["bfifo"]
    limit: QueueLimit | None = about("bytes waiting")


class Red(Section):
    """Random early detection (Floyd and Jacobson 1993)."""

    section: ClassVar[str] = "queue"
    kind: Literal["red"]
    limit: QueueLimit | None = about("bytes waiting; must be given")
    min: Size | None = about("average at which marking starts; default a third of max")
    max: Size | None = about("average at which the probability is reached; default 3 min or limit / 4")
    avpkt: Annotated[int, *byte_count(1, 65535)] | None = about("average packet")
    burst: PacketCount | None = about("burst let through; default (2 min + max) / (3 avpkt)")
    probability: Share | None = about("marking probability at max")
    bandwidth: Rate | None = about("rate assumed while idle")
    ecn: Flag | None = about("mark instead of dropping")
    harddrop: Flag | None = about("drop above max even where ECN could mark")
    nodrop: Flag | None = about("with ecn: let pass what cannot be marked, instead of dropping it")
    adaptive: Flag | None = about("adapt the probability")


class Codel(Section):
    """CoDel (RFC 8289)."""

    section: ClassVar[str] = "queue"
    kind: Literal["codel"]
    limit: QueueLimit | None = about("packets waiting")
    target: Time | None = about("acceptable standing delay")
    interval: Interval | None = about("window over which the minimum is taken")
    ecn: Flag | None = about("mark instead of dropping")
    ce_threshold: Time | None = about("mark above this delay")


class FqCodel(Section):
    """Flow queues with CoDel (RFC 8290)."""

    section: ClassVar[str] = "queue"
    kind: Literal["fq_codel"]
    limit: QueueLimit | None = about("packets waiting")
    flows: Annotated[int, *integer(1, 65536)] | None = about("flow queues")
    target: Time | None = about("acceptable standing delay")
    interval: Interval | None = about("window over which the minimum is taken")
    quantum: Annotated[int, *byte_count(1, 1 << 20)] | None = about("bytes per round")
    ecn: Flag | None = about("mark instead of dropping")
    ce_threshold: Time | None = about("mark above this delay")
    memory_limit: Size | None = about("memory of all queues")
    drop_batch: Annotated[int, *integer(1, 65535)] | None = about("packets dropped at once on overload")


class Pie(Section):
    """PIE (RFC 8033)."""

    section: ClassVar[str] = "queue"
    kind: Literal["pie"]
    limit: QueueLimit | None = about("packets waiting")
    target: Time | None = about("reference delay")
    tupdate: Interval | None = about("interval of the probability's update")
    alpha: Annotated[int, *integer(0, 32)] | None = about("weight of the delay's distance from the target")
    beta: Annotated[int, *integer(0, 32)] | None = about("weight of the delay's trend")
    ecn: Flag | None = about("mark instead of dropping")
    bytemode: Flag | None = about("scale the probability by packet size")
    dq_rate_estimator: Flag | None = about("estimate delay from the departure rate")


class FqPie(Section):
    """Flow queues with PIE."""

    section: ClassVar[str] = "queue"
    kind: Literal["fq_pie"]
    limit: QueueLimit | None = about("packets waiting")
    flows: Annotated[int, *integer(1, 65536)] | None = about("flow queues")
    target: Time | None = about("reference delay")
    tupdate: Interval | None = about("interval of the probability's update")
    alpha: Annotated[int, *integer(0, 32)] | None = about("weight of the delay's distance from the target")
    beta: Annotated[int, *integer(0, 32)] | None = about("weight of the delay's trend")
    quantum: Annotated[int, *byte_count(1, 1 << 20)] | None = about("bytes per round")
    memory_limit: Size | None = about("memory of all queues")
    ecn_prob: Annotated[int, *integer(0, 100)] | None = about("per cent up to which marking is preferred")
    ecn: Flag | None = about("mark instead of dropping")
    bytemode: Flag | None = about("scale the probability by packet size")
    dq_rate_estimator: Flag | None = about("estimate delay from the departure rate")


class Cake(Section):
    """CAKE: shaper, AQM, flow and host fairness."""

    section: ClassVar[str] = "queue"
    kind: Literal["cake"]
    bandwidth: Rate | None = about("rate of its shaper")
    rtt: Interval | None = about("round-trip time its AQM expects")
    flow_mode: (
        Annotated[
            str,
            *word(
                "flowblind",
                "srchost",
                "dsthost",
                "hosts",
                "flows",
                "dual-srchost",
                "dual-dsthost",
                "triple-isolate",
            ),
        ]
        | None
    ) = about("fairness between flows and hosts")
    diffserv: (
        Annotated[str, *word("besteffort", "precedence", "diffserv3", "diffserv4", "diffserv8")] | None
    ) = about("priority layers")
    ack_filter: Flag | None = about("thin out acknowledgements")
    split_gso: Flag | None = about("split super-packets")
    memlimit: Size | None = about("memory of all queues")


class DualPi2(Section):
    """Dual-queue coupled PI2 (RFC 9332)."""

    section: ClassVar[str] = "queue"
    kind: Literal["dualpi2"]
    limit: QueueLimit | None = about("packets waiting")
    memlimit: Size | None = about("memory of both queues")
    target: Time | None = about("target delay of the classic queue")
    tupdate: Interval | None = about("interval of the probability's update")
    alpha: Gain | None = about("integral gain, Hz")
    beta: Gain | None = about("proportional gain, Hz")
    step_thresh: Time | None = about("delay above which L4S packets are marked")
    coupling_factor: Annotated[int, *integer(1, 255)] | None = about("coupling between the queues")
    drop_on_overload: Flag | None = about("drop on overload, instead of overflowing")
    classic_protection: Annotated[int, *integer(0, 100)] | None = about("per cent for the classic queue")
    split_gso: Flag | None = about("split super-packets")


AnyQueue = Pfifo | Bfifo | Red | Codel | FqCodel | Pie | FqPie | Cake | DualPi2
"""A queue discipline of any kind."""
Queue = Annotated[Annotated[AnyQueue, Field(discriminator="kind")], BeforeValidator(kind_alone)]
