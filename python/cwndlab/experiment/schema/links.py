"""Links of the schema, and the networks made of them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from cwndlab.experiment import units
from cwndlab.experiment.schema.impairments import Jitter, Loss
from cwndlab.experiment.schema.leaves import (
    Endpoint,
    Family,
    Flag,
    Name,
    Rate,
    Share,
    Size,
    Text,
    Time,
    byte_count,
    integer,
    word,
)
from cwndlab.experiment.schema.queues import Queue
from cwndlab.experiment.schema.section import Section, about, required
from cwndlab.experiment.units import BadValue


class Shaper(Section):
    """Limit of a link's rate besides a plain one."""

    section: ClassVar[str] = "shaper"
    kind: Annotated[str, *word("htb", "tbf", "policer", "slots", "trace")] = required(
        "class of HTB, token bucket, policer, slots or mahimahi trace"
    )
    rate: Rate | None = about("rate of the tokens")
    burst: Size | None = about("size of the bucket; of htb 1600B unless given")
    ceil: Rate | None = about("htb: rate of a second bucket; that of the first unless given")
    cburst: Size | None = about("htb: size of the second bucket; 1600B unless given")
    limit: Size | None = about("tbf: bytes that may wait, in place of a queue")
    peakrate: Rate | None = about("tbf: rate of a second bucket")
    mtu: Size | None = about("tbf: size of the second bucket; a full packet of the link unless given")
    interval: Time | None = about("slots: time from one to the next")
    packets: Annotated[int, *integer(1, units.MAX_PACKETS)] | None = about(
        "slots: packets of each at most; as many as wait unless given"
    )
    bytes: Size | None = about("slots: bytes of each at most; no limit unless given")
    file: Text | None = about("mahimahi trace, beside the experiment")


class Settings(Section):
    """Settings that a scheduled change makes."""

    section: ClassVar[str] = "change"
    rate: Rate | None = about("new rate")
    delay: Time | None = about("new one-way delay")
    loss: Loss | None = about("new loss")
    queue: Queue | None = about("new queue discipline")
    down: Flag | None = about("outage: packets that enter are lost")


class Occasion(Section):
    """An event of a flow."""

    section: ClassVar[str] = "on"
    flow: Text = required("name of the flow")
    event: Text = required("kind of the event, as in the table of events, of those that endpoints tell")


class Change(Section):
    """A change of a link at a given time, or with an event."""

    section: ClassVar[str] = "schedule"
    at: Time = required("when, from the start of the run")
    on: Occasion | None = about("event with the first of which, from `at` on, the change is made")
    set: Settings = required("what changes")


class Link(Section):
    """One direction of a cable: loss, duplication, corruption, then queue, rate, delay and jitter."""

    section: ClassVar[str] = "link"
    rate: Rate | None = about("rate; absent: a packet takes no time")
    delay: Time = about("one-way propagation delay", 0)
    queue: Queue | None = about("queue discipline; default pfifo as in Linux")
    loss: Loss | None = about("loss before the queue")
    duplicate: Share = about("chance that a packet is sent twice", 0)
    corrupt: Share = about("chance that a packet is damaged, which the receiver drops", 0)
    jitter: Jitter | None = about("variation of the delay")
    shaper: Shaper | None = about("token bucket, policer, slots or trace instead of a plain rate")
    mtu: Annotated[int, *byte_count(576, 65535)] = about("largest IP packet", 1500)
    icmp: Flag = about(
        "whether the router ahead of the link tells the sender of a larger packet, which it drops; else it"
        " is a black hole",
        True,
    )
    delay_first: Flag = about(
        "the delay is before the queue, as netem's is: of packets that come at one instant all are in the"
        " queue before the first leaves",
        False,
    )
    overhead: Annotated[int, *byte_count(0, 1000)] | None = about(
        "bytes added to an IP packet where a rate or a byte limit counts it: 14 as tc counts, 38 on the wire;"
        " default 14, with a trace 4 as mahimahi counts"
    )
    schedule: list[Change] = about("changes at given times", [])

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

    reverse: PartOfLink | None = about(
        "the other direction; what it does not set is as here, without impairments and schedule"
    )


class PartOfReversible(_OnlyWritten, Reversible):
    """Settings of a host's cable where they differ from those of all."""


class Dumbbell(Section):
    """Hosts left and right of one bottleneck."""

    section: ClassVar[str] = "dumbbell"
    left: list[Name] = required("hosts on the left")
    right: list[Name] = required("hosts on the right")
    access: Reversible = about("every host's cable, from the host; reverse is to it", Reversible.unset())
    access_of: dict[Name, PartOfReversible] = about("one host's cable where it differs", {})
    bottleneck: Link = required("the link from left to right")
    reverse: PartOfLink | None = about(
        "the link from right to left; what it does not set is as the bottleneck"
    )


class Switch(Section):
    """A switch with one output queue for each port."""

    section: ClassVar[str] = "switch"
    buffer: Size | None = about("packet memory")
    shared: Flag = about("whether the ports draw on one memory", True)
    pause: Flag = about("pause frames (IEEE 802.3x)", False)


class Star(Section):
    """All hosts on one switch."""

    section: ClassVar[str] = "star"
    switch: Switch = about("the switch", Switch.unset())
    link: Reversible = about("every host's cable, from the host; reverse is to it", Reversible.unset())
    link_of: dict[Name, PartOfReversible] = about("one host's cable where it differs", {})


class Chain(Section):
    """Routers in a row with a bottleneck between each two, and hosts at any of them."""

    section: ClassVar[str] = "chain"
    bottlenecks: list[Reversible] = required("links between the routers, in order")
    hosts: list[list[Name]] = required("hosts of each router, in order: one list more than bottlenecks")
    access: Reversible = about("every host's cable, from the host; reverse is to it", Reversible.unset())
    access_of: dict[Name, PartOfReversible] = about("one host's cable where it differs", {})


class Cable(Reversible):
    """A link of a general network."""

    section: ClassVar[str] = "cable"
    name: Name | None = about("name; default FROM-TO")
    from_: Endpoint = required("host or node at one end", alias="from")
    to: Endpoint = required("host or node at the other end")
    one_way: Flag = about("no other direction", False)
    bottleneck: Flag | None = about(
        "whether utilisation refers to it; default the slowest link of a flow's path"
    )


class Network(Section):
    """The path: one topology, or nodes and links."""

    section: ClassVar[str] = "network"
    dumbbell: Dumbbell | None = about("hosts left and right of one bottleneck")
    star: Star | None = about("all hosts on one switch")
    chain: Chain | None = about("several bottlenecks in a row")
    nodes: list[Name] | None = about("routers of a general network")
    links: list[Cable] | None = about("cables of a general network")
    switch_of: dict[Name, Switch] = about("nodes of a general network that are switches, by name", {})
    family: Family = about("IP version of hosts that say none", "ipv4")

    @model_validator(mode="after")
    def _one_form(self) -> Network:
        forms = [key for key, _ in self.written() if key not in {"nodes", "switch_of", "family"}]
        general = self.nodes is not None or bool(self.switch_of)
        if len(forms) != 1 or (general and self.links is None):
            found = " and ".join(key for key, _ in self.written()) or "nothing"
            raise BadValue(found, "exactly one of dumbbell, star, chain, or nodes and links")
        return self
