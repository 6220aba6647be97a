"""The schema of experiment files: every key, its type, its meaning.

Files arrive here as text, lists and dictionaries (`yaml_nodes.plain`); models hold integers in the base
units of `units`. The schema is complete whether or not a testbed carries a key out: `support` says which
do. Names that come from the engine (stacks, congestion controls, sysctls) are checked by `resolve`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import WithJsonSchema

from cwndlab.errors import nearest, one_of, shown
from cwndlab.experiment import units
from cwndlab.experiment.units import BadValue, Limit

MAX_COUNT = 10_000
"""Most copies of one host or flow."""
MAX_REPEAT = 10_000
"""Most repeats of a cell."""


# Leaves -----------------------------------------------------------------------------------------------


def _leaf(
    parse: Callable[[str], Any], write: Callable[[Any], Any], schema: dict[str, Any]
) -> tuple[Any, ...]:
    """Annotations of a leaf: parsed from text, written back as text, described to editors."""

    def validate(value: object) -> Any:
        if not isinstance(value, str):
            raise BadValue(_shape(value), f"a single value: {schema['description']}")
        return parse(value)

    return PlainValidator(validate), PlainSerializer(write), WithJsonSchema(schema)


def _quantity(
    parse: Callable[[str], int], write: Callable[[int], str], names: dict[str, int], what: str
) -> Any:
    pattern = f"^{units.NUMBER} ?({'|'.join(names)})$"
    return _leaf(parse, write, {"type": "string", "pattern": pattern, "description": what})


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise BadValue(shown(text) if text else "nothing", "a name: " + NAME_RULE)
    return text


def _integer(low: int, high: int) -> Any:
    schema = {
        "type": "integer",
        "minimum": low,
        "maximum": high,
        "description": f"a whole number from {low} to {high}",
    }
    return _leaf(lambda text: units.parse_integer(text, low, high), int, schema)


def _hz() -> Any:
    """Ticks per second that make a tick a whole number of nanoseconds."""

    def parse(text: str) -> int:
        hz = units.parse_integer(text, 10, 10_000)
        if 10**9 % hz:
            raise BadValue(shown(text), "ticks per second that divide 10^9, such as 100, 250 or 1000")
        return hz

    schema = {"type": "integer", "minimum": 10, "maximum": 10_000, "description": "ticks per second"}
    return _leaf(parse, int, schema)


def _bytes(low: int, high: int) -> Any:
    """Bytes of a packet, with or without the unit, as tools write MTU and MSS."""

    def parse(text: str) -> int:
        bare = re.fullmatch("[0-9]{1,9}", text, re.ASCII)
        value = int(text) if bare else units.parse_size(text)
        if not low <= value <= high:
            raise BadValue(shown(text), f"bytes from {low} to {high}")
        return value

    return _leaf(parse, int, {"type": ["integer", "string"], "description": f"bytes from {low} to {high}"})


def _word(*words: str) -> Any:
    """One of some words."""

    def parse(text: str) -> str:
        if text not in words:
            raise BadValue(shown(text) if text else "nothing", one_of(words), nearest(text, words))
        return text

    return _leaf(parse, str, {"enum": list(words), "description": one_of(words)})


def _packets(text: str) -> int:
    limit = units.parse_limit(text) if text else None
    if not isinstance(limit, units.Packets):
        raise BadValue(shown(text) if text else "nothing", "a number of packets such as 1000p")
    return limit.count


def _buffer(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    size = units.parse_size(text)
    if size == 0:
        raise BadValue(shown(text), "a size above 0, or auto")
    return size


def _sampling(text: str, each: str) -> int | str:
    if text in {"off", each}:
        return text
    if not text[:1].isdigit():
        raise BadValue(shown(text) if text else "nothing", f"{each}, off or an interval such as 10ms",
                       nearest(text, ["off", each]))  # fmt: skip
    interval = units.parse_time(text)
    if interval == 0:
        raise BadValue(shown(text), f"{each}, off or an interval above 0")
    return interval


def _some_bytes(text: str) -> int:
    size = units.parse_size(text)
    if size == 0:
        raise BadValue(shown(text), "a size above 0")
    return size


def _above_zero(text: str) -> int:
    time = units.parse_time(text)
    if time == 0:
        raise BadValue(shown(text), "a time above 0")
    return time


MAX_GAIN = 256
"""Largest gain of DualPI2's controller, Hz (tc-dualpi2(8))."""


def _gain(text: str) -> Fraction:
    gain = units.parse_factor(text)
    if gain > MAX_GAIN:
        raise BadValue(shown(text), f"a number from 0 to {MAX_GAIN}")
    return gain


def _free_text(text: str) -> str:
    if len(text) > 4000:
        raise BadValue(f"{len(text)} characters", "at most 4000")
    return text


def _address(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.:_-]{0,254}", text, re.ASCII):
        raise BadValue(shown(text) if text else "nothing", "a host name or an IP address")
    return text


def _sysctl_value(text: str) -> str:
    if not re.fullmatch(r"-?[0-9]{1,19}(\s+-?[0-9]{1,19}){0,2}|true|false|on|off", text, re.ASCII):
        raise BadValue(
            shown(text) if text else "nothing", "a whole number, true, false or three whole numbers"
        )
    return " ".join(text.split())


def _shape(value: object) -> str:
    if isinstance(value, str):
        return shown(value) if value else "nothing"
    return "a list" if isinstance(value, list) else "a mapping"


def _sampling_leaf(each: str) -> Any:
    schema = {"type": "string", "pattern": f"^(off|{each}|{units.NUMBER} ?({'|'.join(units.TIMES)}))$",
              "description": f"{each}, off or an interval such as 10ms"}  # fmt: skip
    return _leaf(
        lambda text: _sampling(text, each),
        lambda v: v if isinstance(v, str) else units.format_time(v),
        schema,
    )


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", re.ASCII)
"""Names of hosts, nodes, links and flows: safe in file names, interface names and shell words."""
NAME_RULE = "letters, digits, '-' and '_', starting with a letter or digit, at most 32"
ENDPOINT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}(\.[1-9][0-9]{0,4})?", re.ASCII)
"""A host's name, or one of its copies: ``a`` or ``a.3``."""


def _endpoint(text: str) -> str:
    if not ENDPOINT.fullmatch(text):
        raise BadValue(shown(text) if text else "nothing", "the name of a host")
    return text


Name = Annotated[
    str, *_leaf(_name, str, {"type": "string", "pattern": f"^{NAME.pattern}$", "description": NAME_RULE})
]
Endpoint = Annotated[
    str,
    *_leaf(
        _endpoint, str, {"type": "string", "pattern": f"^{ENDPOINT.pattern}$", "description": "a host's name"}
    ),
]
Text = Annotated[str, *_leaf(_free_text, str, {"type": "string", "description": "free text"})]
Word = Annotated[str, *_leaf(_free_text, str, {"type": "string", "description": "a name the engine knows"})]
Address = Annotated[
    str, *_leaf(_address, str, {"type": "string", "description": "a host name or an IP address"})
]
SysctlValue = Annotated[
    str,
    *_leaf(_sysctl_value, str, {"type": ["integer", "boolean", "string"], "description": "a sysctl's value"}),
]
Flag = Annotated[bool, *_leaf(units.parse_bool, bool, {"type": "boolean", "description": "true or false"})]
Rate = Annotated[int, *_quantity(units.parse_rate, units.format_rate, units.RATES, "a rate such as 10mbit")]
Time = Annotated[int, *_quantity(units.parse_time, units.format_time, units.TIMES, "a time such as 40ms")]
Interval = Annotated[int, *_quantity(_above_zero, units.format_time, units.TIMES, "a time above 0")]
Size = Annotated[int, *_quantity(units.parse_size, units.format_size, units.SIZES, "a size such as 600KB")]
SomeBytes = Annotated[int, *_quantity(_some_bytes, units.format_size, units.SIZES, "a size above 0")]
Share = Annotated[
    int, *_quantity(units.parse_share, units.format_share, units.PERCENT, "a percentage such as 1%")
]
PacketCount = Annotated[
    int, *_quantity(_packets, lambda count: f"{count}p", {"p": 1}, "a number of packets such as 1000p")
]
QueueLimit = Annotated[
    Limit,
    *_quantity(units.parse_limit, str, {"p": 1, "bdp": 1, **units.SIZES}, "a limit: 90p, 125KB or 2bdp"),
]
Buffer = Annotated[
    int | Literal["auto"],
    *_leaf(
        _buffer,
        lambda value: value if value == "auto" else units.format_size(value),
        {
            "type": "string",
            "pattern": f"^(auto|{units.NUMBER} ?({'|'.join(units.SIZES)}))$",
            "description": "a size such as 600KB, or auto for autotuning",
        },
    ),
]
Factor = Annotated[
    Fraction,
    *_leaf(
        units.parse_factor, units.format_factor, {"type": "number", "description": "a number such as 0.5"}
    ),
]
Gain = Annotated[
    Fraction,
    *_leaf(
        _gain,
        units.format_factor,
        {"type": "number", "minimum": 0, "maximum": MAX_GAIN, "description": "a number such as 0.16"},
    ),
]


# Sections ---------------------------------------------------------------------------------------------


class Section(BaseModel):
    """A mapping of known keys. ``section`` names it in what a testbed publishes as carried out."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True, populate_by_name=False)
    section: ClassVar[str] = ""

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            raise BadValue(_shape(value), f"a mapping with {one_of(cls.known_keys())}")
        for key in value:
            if key not in cls.known_keys():
                raise BadValue(
                    f"the unknown key {shown(key)}",
                    one_of(cls.known_keys()),
                    nearest(key, cls.known_keys()),
                    key=key,
                )
        return value

    @classmethod
    def known_keys(cls) -> tuple[str, ...]:
        """Return the keys a file may use here, in order."""
        return tuple(_keys_by_name(cls).values())

    def written(self) -> list[tuple[str, Any]]:
        """Return the keys the file wrote and their values, in the order of the schema."""
        there = self.model_fields_set
        return [
            (key, getattr(self, name)) for name, key in _keys_by_name(type(self)).items() if name in there
        ]


@functools.cache
def _keys_by_name(section: type[Section]) -> dict[str, str]:
    """The keys of a section as a file writes them, by the names of the fields; asked for in every cell."""
    return {name: spec.alias or name for name, spec in section.model_fields.items()}


def _about(text: str, default: Any = None, **more: Any) -> Any:
    return Field(default=default, description=text, **more)


def _required(text: str, **more: Any) -> Any:
    return Field(description=text, **more)


class Coalesce(Section):
    """Interrupt moderation of a network interface."""

    section: ClassVar[str] = "coalesce"
    time: Time | None = _about("longest a frame waits for others")
    frames: Annotated[int, *_integer(1, 65535)] | None = _about("frames that end the wait")
    gro_flush_timeout: Time | None = _about("Linux: time between passes of polling after an interrupt")
    napi_defer_hard_irqs: Annotated[int, *_integer(0, 1000)] | None = _about(
        "Linux: passes without a frame before interrupts are switched on again"
    )


class Nic(Section):
    """A host's network interface."""

    section: ClassVar[str] = "nic"
    rate: Rate | None = _about(
        "rate of the host's own cable, both ways, instead of the network's access rate"
    )
    tx_queue: PacketCount | None = _about(
        "transmit queue: packets waiting; default the link's queue, or 1000p"
    )
    tso: Flag = _about("segmentation offload", False)
    tso_max: Size | None = _about("largest super-packet handed to the interface")
    gro: Flag = _about("receive aggregation by the stack (Linux)", False)
    lro: Flag = _about("receive aggregation by the driver (FreeBSD)", False)
    coalesce: Coalesce | None = _about("interrupt moderation")
    full: Annotated[str, *_word("drop", "enobufs")] | None = _about("what a full transmit queue does")


class Processing(Section):
    """Time a host takes for one packet."""

    section: ClassVar[str] = "processing"
    mean: Time = _required("mean")
    sd: Time = _about("standard deviation", 0)


class Stall(Section):
    """Moments in which a host does nothing."""

    section: ClassVar[str] = "stall"
    every: Interval = _required("mean time between stalls")
    length: Time = _required("mean length of a stall")


class Noise(Section):
    """Processing-time and stall noise of a host."""

    section: ClassVar[str] = "noise"
    processing: Processing | None = _about("time for one packet")
    stall: Stall | None = _about("moments in which the host does nothing")


class AckEvery(Section):
    """A receiver that hands data to its stack in aggregates."""

    section: ClassVar[str] = "ack_every"
    segments: Annotated[int, *_integer(1, 10_000)] = _required("segments in an aggregate")


class Match(Section):
    """Which packets a rule is about."""

    section: ClassVar[str] = "match"
    dport: Annotated[int, *_integer(1, 65535)] | None = _about("destination port")
    sport: Annotated[int, *_integer(1, 65535)] | None = _about("source port")
    min_payload: Annotated[int, *_bytes(0, 65535)] | None = _about("payload bytes at least")


class NthLoss(Section):
    """Every n-th packet, as iptables' statistic module counts."""

    section: ClassVar[str] = "nth"
    every: Annotated[int, *_integer(1, 1_000_000_000)] = _required("period in packets")
    packet: Annotated[int, *_integer(0, 999_999_999)] = _about(
        "phase: which of the period is lost; 0 is the first", 0
    )
    min_payload: Annotated[int, *_bytes(0, 65535)] = _about(
        "count and lose only packets with so many payload bytes", 0
    )
    match: Match | None = _about("count and lose only these packets")

    @model_validator(mode="after")
    def _within_period(self) -> NthLoss:
        if self.packet >= self.every:
            raise BadValue(
                shown(str(self.packet)), f"a packet of the period: 0 to {self.every - 1}", key="packet"
            )
        return self


class GilbertLoss(Section):
    """Two-state Gilbert-Elliott chain, as netem's ``loss gemodel p r 1-h 1-k``."""

    section: ClassVar[str] = "gilbert"
    p: Share = _required("chance to go from the good to the bad state, per packet")
    r: Share = _required("chance to go from the bad to the good state, per packet")
    loss_bad: Share = _about("loss in the bad state", 10**9)
    loss_good: Share = _about("loss in the good state", 0)


class _OneOf(Section):
    """A mapping with exactly one of its keys."""

    @model_validator(mode="after")
    def _exactly_one(self) -> _OneOf:
        if len(self.model_fields_set) != 1:
            found = " and ".join(key for key, _ in self.written()) or "nothing"
            raise BadValue(found, f"exactly {one_of(self.known_keys())}")
        return self


class Loss(_OneOf):
    """Loss of packets before the queue."""

    section: ClassVar[str] = "loss"
    random: Share | None = _about("each packet independently")
    nth: NthLoss | None = _about("every n-th packet")
    gilbert: GilbertLoss | None = _about("bursts: Gilbert-Elliott chain")
    packets: list[Annotated[int, *_integer(0, 10**18)]] | None = _about(
        "exactly these packets, counted from 0", alias="list"
    )


class Jitter(Section):
    """Variation of a link's delay."""

    section: ClassVar[str] = "jitter"
    kind: Annotated[str, *_word("uniform", "normal", "pareto", "file")] = _about("distribution", "normal")
    sd: Time | None = _about("standard deviation")
    reorder: Flag = _about("whether packets may overtake each other", False)
    file: Text | None = _about("distribution table as tc netem reads it, beside the experiment")


class Egress(Section):
    """What ``tc netem`` does at a host's egress: it sees packets before segmentation."""

    section: ClassVar[str] = "egress"
    delay: Time | None = _about("added delay")
    jitter: Jitter | None = _about("variation of the delay")
    loss: Loss | None = _about("loss")
    duplicate: Share | None = _about("chance that a packet is sent twice")
    corrupt: Share | None = _about("chance that a packet is damaged")
    rate: Rate | None = _about("rate")
    limit: PacketCount | None = _about("packets held, those being delayed included")


class IngressStage(Section):
    """Impairment at one place of a host's ingress."""

    section: ClassVar[str] = "ingress_stage"
    loss: Loss | None = _about("loss")
    duplicate: Share | None = _about("chance that a packet comes twice")
    corrupt: Share | None = _about("chance that a packet is damaged")
    match: Match | None = _about("only these packets are counted and touched")


class Ingress(Section):
    """Impairments at a host's ingress."""

    section: ClassVar[str] = "ingress"
    before_gro: IngressStage | None = _about("on the wire")
    after_gro: IngressStage | None = _about("behind receive aggregation, as a rule in the INPUT chain")


class Ssh(Section):
    """How to reach a real host; keys and their passwords are the SSH client's own business."""

    section: ClassVar[str] = "ssh"
    host: Address = _required("name or address of the management interface")
    user: Name | None = _about("user name")
    port: Annotated[int, *_integer(1, 65535)] = _about("port", 22)


class Host(Section):
    """An end host."""

    section: ClassVar[str] = "host"
    stack: Word = _required(
        "operating system: freebsd-9.2, linux-6.8, freebsd-15-current/rack, or just linux"
    )
    cc: Word | None = _about("congestion control as the system names it; default the system's")
    sndbuf: Buffer = _about("SO_SNDBUF of its sockets; auto is autotuning within the sysctls", "auto")
    rcvbuf: Buffer = _about("SO_RCVBUF of its sockets; auto is autotuning within the sysctls", "auto")
    mss: Annotated[int, *_bytes(88, 65495)] | None = _about("MSS announced; default MTU - 40")
    ecn: Annotated[str, *_word("off", "accept", "on")] | None = _about("ECN (RFC 3168); default the system's")
    hz: Annotated[int, *_hz()] | None = _about("clock ticks per second; default the system's")
    sysctl: dict[str, SysctlValue] = _about("sysctls by their real names", {})
    nic: Nic = _about("network interface", Nic())
    noise: Noise | None = _about("processing-time and stall noise; off by default")
    ack_every: AckEvery | None = _about("a receiver that aggregates this much")
    egress: Egress | None = _about("impairment as tc netem does it at this host's egress")
    ingress: Ingress | None = _about("impairment at this host's ingress")
    address: Address | None = _about("address on the test network (real hosts)")
    ssh: Ssh | None = _about("how to reach it (real hosts)")
    count: Annotated[int, *_integer(1, MAX_COUNT)] = _about("copies of this host, named NAME.1, NAME.2, …", 1)


# Queue disciplines: parameters under their Linux tc names; None is the engine's default (as in Linux) ---


class Pfifo(Section):
    """First in, first out, counted in packets."""

    section: ClassVar[str] = "queue"
    kind: Literal["pfifo"]
    limit: QueueLimit | None = _about("packets waiting; one more is in service")


class Bfifo(Section):
    """First in, first out, counted in bytes."""

    section: ClassVar[str] = "queue"
    kind: Literal["bfifo"]
    limit: QueueLimit | None = _about("bytes waiting")


class Red(Section):
    """Random early detection (Floyd and Jacobson 1993)."""

    section: ClassVar[str] = "queue"
    kind: Literal["red"]
    limit: QueueLimit | None = _about("bytes waiting; must be given")
    min: Size | None = _about("average at which marking starts; default a third of max")
    max: Size | None = _about("average at which the probability is reached; default 3 min or limit / 4")
    avpkt: Annotated[int, *_bytes(1, 65535)] | None = _about("average packet")
    burst: PacketCount | None = _about("burst let through; default (2 min + max) / (3 avpkt)")
    probability: Share | None = _about("marking probability at max")
    bandwidth: Rate | None = _about("rate assumed while idle")
    ecn: Flag | None = _about("mark instead of dropping")
    harddrop: Flag | None = _about("drop above max even where ECN could mark")
    nodrop: Flag | None = _about("with ecn: let pass what cannot be marked, instead of dropping it")
    adaptive: Flag | None = _about("adapt the probability")


class Codel(Section):
    """CoDel (RFC 8289)."""

    section: ClassVar[str] = "queue"
    kind: Literal["codel"]
    limit: QueueLimit | None = _about("packets waiting")
    target: Time | None = _about("acceptable standing delay")
    interval: Interval | None = _about("window over which the minimum is taken")
    ecn: Flag | None = _about("mark instead of dropping")
    ce_threshold: Time | None = _about("mark above this delay")


class FqCodel(Section):
    """Flow queues with CoDel (RFC 8290)."""

    section: ClassVar[str] = "queue"
    kind: Literal["fq_codel"]
    limit: QueueLimit | None = _about("packets waiting")
    flows: Annotated[int, *_integer(1, 65536)] | None = _about("flow queues")
    target: Time | None = _about("acceptable standing delay")
    interval: Interval | None = _about("window over which the minimum is taken")
    quantum: Annotated[int, *_bytes(1, 1 << 20)] | None = _about("bytes per round")
    ecn: Flag | None = _about("mark instead of dropping")
    ce_threshold: Time | None = _about("mark above this delay")
    memory_limit: Size | None = _about("memory of all queues")
    drop_batch: Annotated[int, *_integer(1, 65535)] | None = _about("packets dropped at once on overload")


class Pie(Section):
    """PIE (RFC 8033)."""

    section: ClassVar[str] = "queue"
    kind: Literal["pie"]
    limit: QueueLimit | None = _about("packets waiting")
    target: Time | None = _about("reference delay")
    tupdate: Interval | None = _about("interval of the probability's update")
    alpha: Annotated[int, *_integer(0, 32)] | None = _about("weight of the delay's distance from the target")
    beta: Annotated[int, *_integer(0, 32)] | None = _about("weight of the delay's trend")
    ecn: Flag | None = _about("mark instead of dropping")
    bytemode: Flag | None = _about("scale the probability by packet size")
    dq_rate_estimator: Flag | None = _about("estimate delay from the departure rate")


class FqPie(Section):
    """Flow queues with PIE."""

    section: ClassVar[str] = "queue"
    kind: Literal["fq_pie"]
    limit: QueueLimit | None = _about("packets waiting")
    flows: Annotated[int, *_integer(1, 65536)] | None = _about("flow queues")
    target: Time | None = _about("reference delay")
    tupdate: Interval | None = _about("interval of the probability's update")
    alpha: Annotated[int, *_integer(0, 32)] | None = _about("weight of the delay's distance from the target")
    beta: Annotated[int, *_integer(0, 32)] | None = _about("weight of the delay's trend")
    quantum: Annotated[int, *_bytes(1, 1 << 20)] | None = _about("bytes per round")
    memory_limit: Size | None = _about("memory of all queues")
    ecn_prob: Annotated[int, *_integer(0, 100)] | None = _about("per cent up to which marking is preferred")
    ecn: Flag | None = _about("mark instead of dropping")
    bytemode: Flag | None = _about("scale the probability by packet size")
    dq_rate_estimator: Flag | None = _about("estimate delay from the departure rate")


class Cake(Section):
    """CAKE: shaper, AQM, flow and host fairness."""

    section: ClassVar[str] = "queue"
    kind: Literal["cake"]
    bandwidth: Rate | None = _about("rate of its shaper")
    rtt: Interval | None = _about("round-trip time its AQM expects")
    flow_mode: (
        Annotated[
            str,
            *_word(
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
    ) = _about("fairness between flows and hosts")
    diffserv: (
        Annotated[str, *_word("besteffort", "precedence", "diffserv3", "diffserv4", "diffserv8")] | None
    ) = _about("priority layers")
    ack_filter: Flag | None = _about("thin out acknowledgements")
    split_gso: Flag | None = _about("split super-packets")
    memlimit: Size | None = _about("memory of all queues")


class DualPi2(Section):
    """Dual-queue coupled PI2 (RFC 9332)."""

    section: ClassVar[str] = "queue"
    kind: Literal["dualpi2"]
    limit: QueueLimit | None = _about("packets waiting")
    memlimit: Size | None = _about("memory of both queues")
    target: Time | None = _about("target delay of the classic queue")
    tupdate: Interval | None = _about("interval of the probability's update")
    alpha: Gain | None = _about("integral gain, Hz")
    beta: Gain | None = _about("proportional gain, Hz")
    step_thresh: Time | None = _about("delay above which L4S packets are marked")
    coupling_factor: Annotated[int, *_integer(1, 255)] | None = _about("coupling between the queues")
    drop_on_overload: Flag | None = _about("drop on overload, instead of overflowing")
    classic_protection: Annotated[int, *_integer(0, 100)] | None = _about("per cent for the classic queue")
    split_gso: Flag | None = _about("split super-packets")


def _kind_alone(value: Any) -> Any:
    """Let ``codel`` stand for ``{kind: codel}``."""
    if isinstance(value, str) and value:
        return {"kind": value}
    if not isinstance(value, dict):
        raise BadValue(_shape(value), "a kind, or a mapping with a kind")
    return value


AnyQueue = Pfifo | Bfifo | Red | Codel | FqCodel | Pie | FqPie | Cake | DualPi2
"""A queue discipline of any kind."""
Queue = Annotated[Annotated[AnyQueue, Field(discriminator="kind")], BeforeValidator(_kind_alone)]


# The path -----------------------------------------------------------------------------------------------


class Shaper(Section):
    """What limits a link besides a plain rate."""

    section: ClassVar[str] = "shaper"
    kind: Annotated[str, *_word("tbf", "policer", "trace")] = _required(
        "token bucket, policer or mahimahi trace"
    )
    rate: Rate | None = _about("rate of the tokens")
    burst: Size | None = _about("size of the bucket")
    file: Text | None = _about("mahimahi trace, beside the experiment")


class Settings(Section):
    """What a scheduled change sets."""

    section: ClassVar[str] = "change"
    rate: Rate | None = _about("new rate")
    delay: Time | None = _about("new one-way delay")
    loss: Loss | None = _about("new loss")
    queue: Queue | None = _about("new queue discipline")
    down: Flag | None = _about("outage: packets that enter are lost")


class Change(Section):
    """A change of a link at a given time."""

    section: ClassVar[str] = "schedule"
    at: Time = _required("when, from the start of the run")
    set: Settings = _required("what changes")


class Link(Section):
    """One direction of a cable: loss, duplication, corruption, then queue, rate, delay and jitter."""

    section: ClassVar[str] = "link"
    rate: Rate | None = _about("rate; absent: a packet takes no time")
    delay: Time = _about("one-way propagation delay", 0)
    queue: Queue | None = _about("queue discipline; default pfifo as in Linux")
    loss: Loss | None = _about("loss before the queue")
    duplicate: Share = _about("chance that a packet is sent twice", 0)
    corrupt: Share = _about("chance that a packet is damaged, which the receiver drops", 0)
    jitter: Jitter | None = _about("variation of the delay")
    shaper: Shaper | None = _about("token bucket, policer or trace instead of a plain rate")
    mtu: Annotated[int, *_bytes(576, 65535)] = _about("largest IP packet", 1500)
    overhead: Annotated[int, *_bytes(0, 1000)] | None = _about(
        "bytes added to an IP packet where a rate or a byte limit counts it: 14 as tc counts, 38 on the wire;"
        " default 14, with a trace 4 as mahimahi counts"
    )
    schedule: list[Change] = _about("changes at given times", [])

    @property
    def has_trace(self) -> bool:
        """Whether a trace takes the place of the rate."""
        return self.shaper is not None and self.shaper.kind == "trace"


class _OnlyWritten(Link):
    """Settings of a link where they differ from another's; written back without defaults."""

    @model_serializer(mode="wrap")
    def _only_written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in write(self).items() if key in self.model_fields_set}


class PartOfLink(_OnlyWritten):
    """Settings of one direction of a cable where they differ."""


class Reversible(Link):
    """A link whose other direction has settings of its own."""

    reverse: PartOfLink | None = _about(
        "the other direction; what it does not set is as here, without impairments and schedule"
    )


class PartOfReversible(_OnlyWritten, Reversible):
    """Settings of a host's cable where they differ from those of all."""


class Dumbbell(Section):
    """Hosts left and right of one bottleneck."""

    section: ClassVar[str] = "dumbbell"
    left: list[Name] = _required("hosts on the left")
    right: list[Name] = _required("hosts on the right")
    access: Reversible = _about("every host's cable, from the host; reverse is to it", Reversible())
    access_of: dict[Name, PartOfReversible] = _about("one host's cable where it differs", {})
    bottleneck: Link = _required("the link from left to right")
    reverse: PartOfLink | None = _about(
        "the link from right to left; what it does not set is as the bottleneck"
    )


class Switch(Section):
    """A switch with one output queue for each port."""

    section: ClassVar[str] = "switch"
    buffer: Size | None = _about("packet memory")
    shared: Flag = _about("whether the ports draw on one memory", True)
    pause: Flag = _about("pause frames (IEEE 802.3x)", False)


class Star(Section):
    """All hosts on one switch."""

    section: ClassVar[str] = "star"
    switch: Switch = _about("the switch", Switch())
    link: Reversible = _about("every host's cable, from the host; reverse is to it", Reversible())
    link_of: dict[Name, PartOfReversible] = _about("one host's cable where it differs", {})


class Chain(Section):
    """Routers in a row with a bottleneck between each two, and hosts at any of them."""

    section: ClassVar[str] = "chain"
    bottlenecks: list[Reversible] = _required("links between the routers, in order")
    hosts: list[list[Name]] = _required("hosts of each router, in order: one list more than bottlenecks")
    access: Reversible = _about("every host's cable, from the host; reverse is to it", Reversible())
    access_of: dict[Name, PartOfReversible] = _about("one host's cable where it differs", {})


class Cable(Reversible):
    """A link of a general network."""

    section: ClassVar[str] = "cable"
    name: Name | None = _about("name; default FROM-TO")
    from_: Endpoint = _required("host or node at one end", alias="from")
    to: Endpoint = _required("host or node at the other end")
    one_way: Flag = _about("no other direction", False)
    bottleneck: Flag | None = _about(
        "whether utilisation refers to it; default the slowest link of a flow's path"
    )


class Network(Section):
    """The path: one topology, or nodes and links."""

    section: ClassVar[str] = "network"
    dumbbell: Dumbbell | None = _about("hosts left and right of one bottleneck")
    star: Star | None = _about("all hosts on one switch")
    chain: Chain | None = _about("several bottlenecks in a row")
    nodes: list[Name] | None = _about("routers of a general network")
    links: list[Cable] | None = _about("cables of a general network")
    switch_of: dict[Name, Switch] = _about("nodes of a general network that are switches, by name", {})

    @model_validator(mode="after")
    def _one_form(self) -> Network:
        forms = [key for key, _ in self.written() if key not in {"nodes", "switch_of"}]
        general = self.nodes is not None or bool(self.switch_of)
        if len(forms) != 1 or (general and self.links is None):
            found = " and ".join(key for key, _ in self.written()) or "nothing"
            raise BadValue(found, "exactly one of dumbbell, star, chain, or nodes and links")
        return self


# Flows --------------------------------------------------------------------------------------------------


class Bulk(Section):
    """Writes as fast as the socket takes it."""

    section: ClassVar[str] = "app"
    kind: Literal["bulk"]
    write: SomeBytes | None = _about("size of one write")
    report: Interval | None = _about("interval of the tool's own report")
    tool: Annotated[str, *_word("iperf3", "iperf2", "own")] | None = _about("what sends on real testbeds")


class Fixed(Section):
    """One transfer of a fixed size, whose completion time counts."""

    section: ClassVar[str] = "app"
    kind: Literal["fixed"]
    size: SomeBytes = _required("bytes of the transfer")
    write: SomeBytes | None = _about("size of one write")


class RateLimited(Section):
    """Writes at a steady rate."""

    section: ClassVar[str] = "app"
    kind: Literal["rate-limited"]
    rate: Rate = _required("rate of the application")
    write: SomeBytes | None = _about("size of one write")


class OnOff(Section):
    """Sends for a while, rests for a while."""

    section: ClassVar[str] = "app"
    kind: Literal["on-off"]
    on: Interval = _required("length of sending")
    off: Interval = _required("length of resting")
    rate: Rate | None = _about("rate while on; absent: as fast as the socket takes it")
    write: SomeBytes | None = _about("size of one write")
    distribution: Annotated[str, *_word("fixed", "exponential")] | None = _about("of both lengths")


class RequestResponse(Section):
    """Asks, waits for the answer, thinks."""

    section: ClassVar[str] = "app"
    kind: Literal["request-response"]
    requests: Annotated[int, *_integer(1, 1_000_000_000)] | None = _about("number; absent: until stopped")
    request: SomeBytes | None = _about("size of a request")
    response: SomeBytes = _required("size of a response")
    think: Time | None = _about("time between a response and the next request")


class Incast(Section):
    """Many answer one at the same moment."""

    section: ClassVar[str] = "app"
    kind: Literal["incast"]
    size: SomeBytes = _required("bytes from each sender in a round")
    request: SomeBytes | None = _about("size of a request")
    rounds: Annotated[int, *_integer(1, 1_000_000_000)] | None = _about("number; absent: until stopped")
    think: Time | None = _about("time between rounds")


EcnField = Annotated[str, *_word("off", "ect0", "ect1")]
"""The ECN field of what is not TCP: ECT(0) is classic ECN (RFC 3168), ECT(1) is L4S (RFC 9331)."""


class Cbr(Section):
    """UDP at a constant rate."""

    section: ClassVar[str] = "app"
    kind: Literal["udp-cbr"]
    rate: Rate = _required("rate of the payload")
    payload: Annotated[int, *_bytes(1, 65507)] | None = _about("payload of a datagram")
    ecn: EcnField | None = _about("ECN field of a datagram")


class Voip(Section):
    """UDP like a voice call."""

    section: ClassVar[str] = "app"
    kind: Literal["voip"]
    frame: Interval | None = _about("time between datagrams")
    payload: Annotated[int, *_bytes(1, 65507)] | None = _about("payload of a datagram")
    ecn: EcnField | None = _about("ECN field of a datagram")


class Ping(Section):
    """A probe beside the load."""

    section: ClassVar[str] = "app"
    kind: Literal["ping"]
    interval: Interval | None = _about("time between probes")
    payload: Annotated[int, *_bytes(0, 65507)] | None = _about("payload of a probe")


class Video(Section):
    """Fetches paced chunks as a video player does."""

    section: ClassVar[str] = "app"
    kind: Literal["video"]
    rate: Rate = _required("rate of the video")
    chunk: Interval | None = _about("play time of a chunk")
    buffer: Interval | None = _about("play time held ahead")
    request: SomeBytes | None = _about("size of the request for a chunk")


LOAD_SCENARIOS = 19
"""How many scenarios the loadlatency tool has."""


class LoadLatency(Section):
    """A scenario of the loadlatency tool: uploads and downloads at once, and a pinger beside them."""

    section: ClassVar[str] = "app"
    kind: Literal["loadlatency"]
    scenario: Annotated[int, *_integer(1, LOAD_SCENARIOS)] = _required(
        "which of the tool's scenarios, counted from 1"
    )
    write: SomeBytes | None = _about("size of one write of a flow of data")
    ping: SomeBytes | None = _about("payload of a ping, and of its answer")
    interval: Interval | None = _about("time from one ping to the next at least; one at a time")
    idle: Interval | None = _about("how long the pinger is alone, before the load")


class Background(Section):
    """Cross traffic: Poisson arrivals of heavy-tailed transfers."""

    section: ClassVar[str] = "app"
    kind: Literal["background"]
    load: Rate = _required("mean rate of all transfers together")
    size: SomeBytes | None = _about("mean size of a transfer")
    shape: Factor | None = _about("shape of the Pareto distribution of sizes, above 1")
    connections: Annotated[int, *_integer(1, MAX_COUNT)] | None = _about(
        "transfers at a time at most; further ones wait"
    )


App = Annotated[
    Annotated[
        Bulk
        | Fixed
        | RateLimited
        | OnOff
        | RequestResponse
        | Incast
        | Cbr
        | Voip
        | Ping
        | Video
        | LoadLatency
        | Background,
        Field(discriminator="kind"),
    ],
    BeforeValidator(_kind_alone),
]


class Flow(Section):
    """One flow, or several alike."""

    section: ClassVar[str] = "flow"
    name: Name | None = _about("name; default f1, f2, … by its place in the list")
    from_: Endpoint = _required("host that opens the connection and sends", alias="from")
    to: Endpoint = _required("host that accepts and receives")
    app: App = _about("what the application does", Bulk(kind="bulk"))
    start: Time = _about("when the connection is opened, before start_jitter", 0)
    stop: Time | None = _about("when it stops sending; default the end of the run")
    bytes: SomeBytes | None = _about("payload bytes after which it stops")
    cc: Word | None = _about("congestion control of the sender; default the host's")
    sndbuf: Buffer | None = _about("SO_SNDBUF of the sender; default the host's")
    rcvbuf: Buffer | None = _about("SO_RCVBUF of the receiver; default the host's")
    count: Annotated[int, *_integer(1, MAX_COUNT)] = _about("flows of this kind, named NAME.1, NAME.2, …", 1)
    stagger: Time = _about("time between the starts of these flows", 0)

    @model_validator(mode="after")
    def _stops_after_start(self) -> Flow:
        if self.stop is not None and self.stop <= self.start:
            raise BadValue(
                shown(units.format_time(self.stop)),
                f"a time after start, {units.format_time(self.start)}",
                key="stop",
            )
        return self


# What is measured ---------------------------------------------------------------------------------------


class Measure(Section):
    """What the summary covers."""

    section: ClassVar[str] = "measure"
    from_: Time = _about("start of the window", 0, alias="from")
    to: Time | None = _about("end of the window; default the end of the run")


class CapturePoint(Section):
    """A packet capture."""

    section: ClassVar[str] = "capture"
    at: Annotated[
        str,
        *_leaf(_free_text, str, {"type": "string", "description": "a host, or a link such as bottleneck"}),
    ] = _required("host or link")
    snaplen: Annotated[int, *_integer(40, 65535)] = _about(
        "bytes kept of each packet, from the IP header on", 128
    )


def _capture_points(value: Any) -> Any:
    """Let ``true`` stand for every host, ``false`` for none, and a name for its capture point."""
    if isinstance(value, str):
        return [{"at": "*"}] if units.parse_bool(value) else []
    if not isinstance(value, list):
        raise BadValue(_shape(value), "true, false or a list of hosts and links")
    return [{"at": item} if isinstance(item, str) else item for item in value]


class Record(Section):
    """What is recorded, besides events and samples, which always are."""

    section: ClassVar[str] = "record"
    tcp: Annotated[int | str, *_sampling_leaf("per-ack")] = _about("rows of the tcp table", 10**7)
    queue: Annotated[int | str, *_sampling_leaf("per-change")] = _about("rows of the queue table", 10**7)
    pcap: Annotated[list[CapturePoint], BeforeValidator(_capture_points)] = _about(
        "packet captures: true for all hosts, or a list of hosts and links", []
    )


Logger = Annotated[
    str,
    *_word(
        "tcp_info", "siftr", "siftr2", "tcp_probe", "web10g", "ss", "queue", "pcap", "iperf3", "ping", "cpu"
    ),
]


class KernelPart(Section):
    """How testbed netns takes part in an experiment whose hosts are not all Linux."""

    section: ClassVar[str] = "netns"
    stacks: dict[str, Word] = _about(
        "stacks that this machine's kernel stands for, with its name (linux); rows with others are left out",
        {},
    )
    analogues: dict[str, list[Word]] = _about(
        "sysctls that Linux does not have, with those of Linux that get their values instead", {}
    )
    without: list[Word] = _about("keys that only a model has, left out", [])


class Spec(Section):
    """An experiment file without its sweep."""

    section: ClassVar[str] = "experiment"
    experiment: Name = _required("name of the experiment")
    description: Text | None = _about("what it asks, in a sentence or two")
    duration: Interval = _required("length of a run")
    hosts: dict[Name, Host] = _required("end hosts")
    network: Network = _required("the path between them")
    flows: list[Flow] = _required("flows")
    repeat: Annotated[int, *_integer(1, MAX_REPEAT)] = _about("runs of each cell", 1)
    seed: Annotated[int, *_integer(0, 2**63 - 1)] = _about("seed of every random stream", 1)
    start_jitter: Time | None = _about(
        "a flow's start is drawn from start … start + this; default one base RTT"
    )
    measure: Measure = _about("what the summary covers; default all", Measure())
    record: Record = _about("what is recorded", Record())
    loggers: list[Logger] | None = _about("what runs beside the traffic on real testbeds")
    pause: Time | None = _about("time between runs on real testbeds")
    order: Annotated[str, *_word("randomised", "listed")] | None = _about("order of runs on real testbeds")
    emulator: Annotated[str, *_word("own", "kernel")] | None = _about(
        "what emulates the path on testbed netns"
    )
    netns: KernelPart | None = _about("how testbed netns takes part; nothing to other testbeds")

    @classmethod
    def known_keys(cls) -> tuple[str, ...]:
        """Return the keys a file may use, with the sweep, which is taken out before."""
        return (*super().known_keys(), "sweep")

    @model_validator(mode="after")
    def _something_to_do(self) -> Spec:
        for key, value in (("hosts", self.hosts), ("flows", self.flows)):
            if not value:
                raise BadValue("none", "at least one", key=key)
        return self
