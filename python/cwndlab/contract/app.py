"""Applications in a Scenario. Made from crates/contract by `make contract`; not edited by hand."""

from __future__ import annotations

from typing import Literal, TypeAlias

from typing_extensions import TypedDict


class AppBulk(TypedDict):
    """Writes as fast as the socket takes it."""

    kind: Literal["bulk"]
    bytes: int | None
    """Bytes to send, after which it closes. Null: no limit."""
    write_bytes: int
    """Size of one write."""


class AppFixed(TypedDict):
    """Sends one transfer of a fixed size, whose completion time counts."""

    kind: Literal["fixed"]
    size_bytes: int
    """Bytes of the transfer."""
    write_bytes: int
    """Size of one write."""


class AppRateLimited(TypedDict):
    """Writes blocks at a steady rate, the first at once, and catches up when it was blocked."""

    kind: Literal["rate-limited"]
    rate_bps: int
    """Rate of the application."""
    write_bytes: int
    """Size of one write."""


class AppOnOff(TypedDict):
    """Sends for a while, rests for a while."""

    kind: Literal["on-off"]
    on_ns: int
    """Length of sending."""
    off_ns: int
    """Length of resting."""
    rate_bps: int | None
    """Rate while on."""
    write_bytes: int
    """Size of one write."""
    distribution: Distribution
    """Distribution of both lengths."""


class AppRequestResponse(TypedDict):
    """The receiver asks, waits for the answer, thinks."""

    kind: Literal["request-response"]
    requests: int | None
    """Number of requests."""
    request_bytes: int
    """Size of a request."""
    response_bytes: int
    """Size of a response."""
    think_ns: int
    """Time between a response and the next request."""


class AppIncast(TypedDict):
    """The receiver asks all senders of the flow at once, and waits for all; they are as many as the copies
    of their host.
    """

    kind: Literal["incast"]
    group: str
    """Flows of one group are asked together."""
    size_bytes: int
    """Bytes from each sender in a round."""
    request_bytes: int
    """Size of a request."""
    rounds: int | None
    """Number of rounds."""
    think_ns: int
    """Time between rounds."""


class AppUdpCbr(TypedDict):
    """Datagrams at a constant rate."""

    kind: Literal["udp-cbr"]
    rate_bps: int
    """Rate of the payload."""
    payload_bytes: int
    """Payload of a datagram."""
    ecn: EcnField
    """ECN field of the IP header."""


class AppVoip(TypedDict):
    """Datagrams as of a voice call (G.711)."""

    kind: Literal["voip"]
    frame_ns: int
    """Time between datagrams."""
    payload_bytes: int
    """Payload of a datagram."""
    ecn: EcnField
    """ECN field of the IP header."""


class AppUdpVbr(TypedDict):
    """Datagrams whose sizes and intervals follow distributions, or are those of a file."""

    kind: Literal["udp-vbr"]
    size: Draws
    """Payload of a datagram."""
    interval: Draws
    """Time from one datagram to the next."""
    least_bytes: int
    """Payload of the smallest; what is drawn below it is as large."""
    payload_bytes: int
    """Payload of the largest; what is drawn above it is as large."""
    ecn: EcnField
    """ECN field of the IP header."""


class AppMedia(TypedDict):
    """Real-time media in datagrams, whose congestion control decides how much an encoder makes; reports
    come back.
    """

    kind: Literal["media"]
    controller: Controller
    """Congestion control: SCReAM (RFC 8298) or Google's (draft-ietf-rmcat-gcc-02)."""
    min_bps: int
    """Least target rate."""
    max_bps: int
    """Largest target rate."""
    start_bps: int | None
    """Target rate at first."""
    fps: int
    """Frames a second."""
    variation_ppb: int
    """Mean deviation of a frame's size from its share of the target rate."""
    payload_bytes: int
    """Payload of a packet at most."""
    feedback_ns: int | None
    """Time between two reports of the receiver."""
    ecn: EcnField
    """ECN field of the IP header; scream reacts to marks."""


class AppPing(TypedDict):
    """A probe that the receiver sends back."""

    kind: Literal["ping"]
    interval_ns: int
    """Time between probes."""
    payload_bytes: int
    """Payload of a probe."""


class AppVideo(TypedDict):
    """A player, the receiver, fetches chunks until its buffer is full, then one whenever there is room."""

    kind: Literal["video"]
    rate_bps: int
    """Rate of the video."""
    chunk_ns: int
    """Play time of a chunk."""
    buffer_ns: int
    """Play time held at most."""
    request_bytes: int
    """Size of the request for a chunk."""


class AppBackground(TypedDict):
    """Cross traffic: Poisson arrivals of transfers, each with a connection of its own, whose sizes follow
    a distribution.
    """

    kind: Literal["background"]
    load_bps: int
    """Mean rate of all transfers together."""
    size_bytes: int
    """Mean size of a transfer, where `sizes` is not given."""
    shape_milli: int
    """Shape of the Pareto distribution of sizes, where `sizes` is not given."""
    sizes: Draws | None
    """Distribution of sizes; of a file each is one of its sizes, as likely as any other."""
    connections: int
    """Transfers at a time at most; one that finds so many waits for its turn."""


class AppLoadlatency(TypedDict):
    """A scenario of the loadlatency tool: uploads and downloads at once, and a pinger beside them."""

    kind: Literal["loadlatency"]
    group: str
    """Name of the experiment's flow, which is that of its pinger."""
    part: LoadPart
    """Part of the flow in the scenario."""
    scenario: int
    """Number of the tool's scenario, counted from 1."""
    write_bytes: int
    """Size of one write of a flow of data."""
    ping_bytes: int
    """Payload of a ping, and of its answer."""
    interval_ns: int
    """Least time from one ping to the next; one at a time."""


class DrawsConstant(TypedDict):
    """Always the same."""

    kind: Literal["constant"]
    value: int
    """The number."""


class DrawsUniform(TypedDict):
    """Uniform: every number between two is as likely."""

    kind: Literal["uniform"]
    low: int
    """The smallest."""
    high: int
    """The largest."""


class DrawsExponential(TypedDict):
    """Exponential."""

    kind: Literal["exponential"]
    mean: int
    """The mean."""


class DrawsNormal(TypedDict):
    """Normal, cut off at 0."""

    kind: Literal["normal"]
    mean: int
    """The mean."""
    deviation: int
    """The standard deviation."""


class DrawsLognormal(TypedDict):
    """Lognormal."""

    kind: Literal["lognormal"]
    mean: int
    """The mean, of the numbers and not of their logarithms."""
    deviation: int
    """The standard deviation, of the numbers and not of their logarithms."""


class DrawsPareto(TypedDict):
    """Pareto."""

    kind: Literal["pareto"]
    mean: int
    """The mean."""
    shape_milli: int
    """The shape, in thousandths, above 1000."""


class DrawsExtreme(TypedDict):
    """The largest-extreme-value distribution (Gumbel), as games are described by."""

    kind: Literal["extreme"]
    mode: int
    """The most likely number."""
    scale: int
    """The scale."""


class DrawsList(TypedDict):
    """Numbers of a list, one after the other, and again from the first."""

    kind: Literal["list"]
    values: list[int]
    """The numbers."""


LoadPart: TypeAlias = Literal["pinger", "upload", "download"]
"""A connection's part in a scenario of the loadlatency tool. `pinger`: short requests with NODELAY, which
its sender asks and times. `upload`: data from the client. `download`: data to the client.
"""
Controller: TypeAlias = Literal["scream", "gcc"]
"""The congestion control of media. `scream`: SCReAM (RFC 8298): a window and a rate from the queueing
delay, losses and marks. `gcc`: google Congestion Control (draft-ietf-rmcat-gcc-02): a rate from the
gradient of the delay, and from losses.
"""
Draws: TypeAlias = (
    DrawsConstant
    | DrawsUniform
    | DrawsExponential
    | DrawsNormal
    | DrawsLognormal
    | DrawsPareto
    | DrawsExtreme
    | DrawsList
)
"""Distribution of bytes or nanoseconds."""
EcnField: TypeAlias = Literal["off", "ect0", "ect1"]
"""The ECN field of a datagram as it is sent; nobody reacts to its marks. `off`: not ECN-capable. `ect0`:
ECT(0), classic ECN (RFC 3168). `ect1`: ECT(1), L4S (RFC 9331).
"""
Distribution: TypeAlias = Literal["fixed", "exponential"]
"""Distribution of lengths of time. `fixed`: always the same. `exponential`: exponential."""
App: TypeAlias = (
    AppBulk
    | AppFixed
    | AppRateLimited
    | AppOnOff
    | AppRequestResponse
    | AppIncast
    | AppUdpCbr
    | AppVoip
    | AppUdpVbr
    | AppMedia
    | AppPing
    | AppVideo
    | AppBackground
    | AppLoadlatency
)
"""Application of a flow."""
