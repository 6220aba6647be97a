"""Flows of the schema, and the applications that send them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from cwndlab.errors import shown
from cwndlab.experiment import units
from cwndlab.experiment.schema.leaves import (
    MAX_COUNT,
    Buffer,
    Endpoint,
    Factor,
    Interval,
    Name,
    Rate,
    SomeBytes,
    Time,
    Word,
    byte_count,
    integer,
    word,
)
from cwndlab.experiment.schema.section import Section, about, kind_alone, required
from cwndlab.experiment.units import BadValue


class Bulk(Section):
    """Writes as fast as the socket takes it."""

    section: ClassVar[str] = "app"
    kind: Literal["bulk"]
    write: SomeBytes | None = about("size of one write")
    report: Interval | None = about("interval of the tool's own report")
    tool: Annotated[str, *word("iperf3", "iperf2", "own")] | None = about("what sends on live testbeds")


class Fixed(Section):
    """One transfer of a fixed size, whose completion time counts."""

    section: ClassVar[str] = "app"
    kind: Literal["fixed"]
    size: SomeBytes = required("bytes of the transfer")
    write: SomeBytes | None = about("size of one write")


class RateLimited(Section):
    """Writes at a steady rate."""

    section: ClassVar[str] = "app"
    kind: Literal["rate-limited"]
    rate: Rate = required("rate of the application")
    write: SomeBytes | None = about("size of one write")


class OnOff(Section):
    """Sends for a while, rests for a while."""

    section: ClassVar[str] = "app"
    kind: Literal["on-off"]
    on: Interval = required("length of sending")
    off: Interval = required("length of resting")
    rate: Rate | None = about("rate while on; absent: as fast as the socket takes it")
    write: SomeBytes | None = about("size of one write")
    distribution: Annotated[str, *word("fixed", "exponential")] | None = about("of both lengths")


class RequestResponse(Section):
    """Asks, waits for the answer, thinks."""

    section: ClassVar[str] = "app"
    kind: Literal["request-response"]
    requests: Annotated[int, *integer(1, 1_000_000_000)] | None = about("number; absent: until stopped")
    request: SomeBytes | None = about("size of a request")
    response: SomeBytes = required("size of a response")
    think: Time | None = about("time between a response and the next request")


class Incast(Section):
    """Many answer one at the same moment."""

    section: ClassVar[str] = "app"
    kind: Literal["incast"]
    size: SomeBytes = required("bytes from each sender in a round")
    request: SomeBytes | None = about("size of a request")
    rounds: Annotated[int, *integer(1, 1_000_000_000)] | None = about("number; absent: until stopped")
    think: Time | None = about("time between rounds")


EcnField = Annotated[str, *word("off", "ect0", "ect1")]
"""The ECN field of what is not TCP: ECT(0) is classic ECN (RFC 3168), ECT(1) is L4S (RFC 9331)."""


class Cbr(Section):
    """UDP at a constant rate."""

    section: ClassVar[str] = "app"
    kind: Literal["udp-cbr"]
    rate: Rate = required("rate of the payload")
    payload: Annotated[int, *byte_count(1, 65507)] | None = about("payload of a datagram")
    ecn: EcnField | None = about("ECN field of a datagram")


class Voip(Section):
    """UDP like a voice call."""

    section: ClassVar[str] = "app"
    kind: Literal["voip"]
    frame: Interval | None = about("time between datagrams")
    payload: Annotated[int, *byte_count(1, 65507)] | None = about("payload of a datagram")
    ecn: EcnField | None = about("ECN field of a datagram")


class Ping(Section):
    """A probe beside the load."""

    section: ClassVar[str] = "app"
    kind: Literal["ping"]
    interval: Interval | None = about("time between probes")
    payload: Annotated[int, *byte_count(0, 65507)] | None = about("payload of a probe")


class Video(Section):
    """Fetches paced chunks as a video player does."""

    section: ClassVar[str] = "app"
    kind: Literal["video"]
    rate: Rate = required("rate of the video")
    chunk: Interval | None = about("play time of a chunk")
    buffer: Interval | None = about("play time held ahead")
    request: SomeBytes | None = about("size of the request for a chunk")


LOAD_SCENARIOS = 19
"""How many scenarios the loadlatency tool has."""


class LoadLatency(Section):
    """A scenario of the loadlatency tool: uploads and downloads at once, and a pinger beside them."""

    section: ClassVar[str] = "app"
    kind: Literal["loadlatency"]
    scenario: Annotated[int, *integer(1, LOAD_SCENARIOS)] = required(
        "which of the tool's scenarios, counted from 1"
    )
    write: SomeBytes | None = about("size of one write of a flow of data")
    ping: SomeBytes | None = about("payload of a ping, and of its answer")
    interval: Interval | None = about("time from one ping to the next at least; one at a time")
    idle: Interval | None = about("how long the pinger is alone, before the load")


class Background(Section):
    """Cross traffic: Poisson arrivals of heavy-tailed transfers."""

    section: ClassVar[str] = "app"
    kind: Literal["background"]
    load: Rate = required("mean rate of all transfers together")
    size: SomeBytes | None = about("mean size of a transfer")
    shape: Factor | None = about("shape of the Pareto distribution of sizes, above 1")
    connections: Annotated[int, *integer(1, MAX_COUNT)] | None = about(
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
    BeforeValidator(kind_alone),
]


class Flow(Section):
    """One flow, or several alike."""

    section: ClassVar[str] = "flow"
    name: Name | None = about("name; default f1, f2, … by its place in the list")
    from_: Endpoint = required("host that opens the connection and sends", alias="from")
    to: Endpoint = required("host that accepts and receives")
    app: App = about("what the application does", Bulk(kind="bulk"))
    start: Time = about("when the connection is opened, before start_jitter", 0)
    stop: Time | None = about("when it stops sending; default the end of the run")
    bytes: SomeBytes | None = about("payload bytes after which it stops")
    cc: Word | None = about("congestion control of the sender; default the host's")
    sndbuf: Buffer | None = about("SO_SNDBUF of the sender; default the host's")
    rcvbuf: Buffer | None = about("SO_RCVBUF of the receiver; default the host's")
    count: Annotated[int, *integer(1, MAX_COUNT)] = about("flows of this kind, named NAME.1, NAME.2, …", 1)
    stagger: Time = about("time between the starts of these flows", 0)

    @model_validator(mode="after")
    def _stops_after_start(self) -> Flow:
        if self.stop is not None and self.stop <= self.start:
            raise BadValue(
                shown(units.format_time(self.stop)),
                f"a time after start, {units.format_time(self.start)}",
                key="stop",
            )
        return self
