"""The summary of a run. Made from crates/contract by `make contract`; not edited by hand."""

from __future__ import annotations

from typing import Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict


class Summary(TypedDict):
    """The summary of a run."""

    flows: list[FlowSummary]
    """Every flow of the experiment, in its order."""
    links: list[LinkSummary]
    """Links whose queues are observed."""
    events: int | None
    """Events of the engine. Null where no engine ran."""
    packets: int
    """Packets that entered a link; of a real testbed, those in `links`."""


class FlowSummary(TypedDict):
    """The metrics of a flow. One of background traffic stands for all its transfers."""

    flow: str
    """Name of the flow."""
    status: Status
    """Status of the flow at the end."""
    goodput_bytes: int
    """Payload read by the receiving application; of datagrams, the payload that arrived."""
    unacknowledged_bytes: int | None
    """Payload written and not acknowledged at the end. Null without a connection."""
    wire_bytes: int | None
    """Bytes that the sender's packets occupied at the bottleneck, with its overhead."""
    segments_sent: int | None
    """Data segments sent; of datagrams, those sent."""
    retransmits: int
    """Data segments that were sent again."""
    drops: int | None
    """Packets lost on the way, data and acknowledgements."""
    ce_marks: int | None
    """Packets marked."""
    rtos: int | None
    """Timeouts. Null where the sender does not tell."""
    fast_recoveries: int
    """Entries into fast recovery."""
    recovery_entries_ns: list[int]
    """Times in the run of entries into fast recovery."""
    slow_start_exit_ns: int | None
    """Time when slow start first ended, inside the window or not. Null if it never did."""
    goodput_seconds: GoodputSeconds
    """Payload read in each second of the whole run."""
    rtt: Times
    """Packet-pair round trips of every acknowledgement: on the path, from interface to interface."""
    srtt_mean_ns: int | None
    """Mean of the smoothed RTT as the sender's TCP holds it, over the time it was active. Null without
    one.
    """
    queue_delay: Times
    """Time that each data packet spent in queues, summed over the hops."""
    cwnd_mean_bytes: int | None
    """Mean congestion window over the time it was active. Null without one."""
    cwnd_max_bytes: int | None
    """Largest congestion window."""
    limited_ns: Limited
    """Limits of the flow, and for how long each held."""
    send_buffer: SocketBuffer | None
    """Send buffer of the flow's sender. Null where nobody tells."""
    receive_buffer: SocketBuffer | None
    """Receive buffer of the flow's receiver. Null where nobody tells."""
    completion: Times
    """Time from opening to the last byte read."""
    response: Times
    """Time from a request to the last byte of its response."""
    round: Times
    """Rounds of an incast, at the flow that answers last."""
    one_way: Times
    """One-way delays of datagrams."""
    stalls: int
    """Number of times that a player had nothing to show."""
    stalled_ns: int
    """Time in all that a player had nothing to show."""
    active_ns: int
    """Time of the window in which the flow was active."""
    completion_ns: int | None
    """Time from the flow's start to the last byte read. Null if it is not complete."""
    start_ns: int | None
    """Time when the flow was opened."""
    load: NotRequired[Load]
    """Observations of a loadlatency scenario. Absent for other flows."""
    one_way_error_ns: NotRequired[int]
    """Error that the clocks of the two machines may bring into one-way delays. Absent where one clock
    stamps both ends.
    """


class Times(TypedDict):
    """A distribution of times."""

    count: int
    """Number of values; with none there is nothing else."""
    max_ns: NotRequired[int]
    """The largest."""
    mean_ns: NotRequired[int]
    """Mean."""
    min_ns: NotRequired[int]
    """The smallest."""
    p50_ns: NotRequired[int]
    """The median."""
    p95_ns: NotRequired[int]
    """95th percentile."""


class GoodputSeconds(TypedDict):
    """Payload read in each whole second of a flow's life."""

    from_ns: int
    """Beginning of the first second."""
    bytes: list[int]
    """Bytes, a number for each."""


class Limited(TypedDict):
    """Time that each limit held, in ns. Null where the system does not tell. In the spirit of RFC 4898
    (section 3.2, SndLimTime), but a window, a buffer or pacing counts only while more of it would bring
    more.
    """

    cwnd: int | None
    """The congestion window."""
    rwnd: int | None
    """The peer's window."""
    sndbuf: int | None
    """The send buffer."""
    app: int | None
    """The application."""
    path: int | None
    """A link that the flow fills, behind one of the others that has no room left."""
    host: int | None
    """The processing of the sending or of the receiving host."""
    pacing: int | None
    """The pacing rate."""


class PingerLoad(TypedDict):
    """Observations of a pinger: the whole scenario and its metrics, with the idle round trips, whose times
    count from the first of them.
    """

    observed: LoadScenario
    """Observations of the scenario."""
    metrics: LoadMetrics
    """Metrics of the observations."""


class LoadMetrics(TypedDict):
    """The metrics of one scenario."""

    up_kib_s: float | None
    """n times the harmonic mean of the uploads' mean goodputs, KiB/s. None without uploads."""
    down_kib_s: float | None
    """n times the harmonic mean of the downloads' mean goodputs, KiB/s. None without downloads."""
    smoothness_hz: float
    """Smoothness: one over the longest gap between data arriving on any flow, in Hz; 0 if a flow was
    killed.
    """
    responsiveness_hz: float | None
    """Responsiveness: one over the pinger's longest round trip, in Hz. None without a ping."""
    goodput: list[GoodputOf]
    """Each flow's own mean goodput."""
    jain_up: float | None
    """Jain's fairness index of the uploads' goodputs (DEC-TR-301, 1984). None for fewer than two."""
    jain_down: float | None
    """Jain's index of the downloads."""
    loaded: Latency | None
    """The pinger's round trips under load. None without a ping."""
    idle: Latency | None
    """Latency of the idle link to compare with: just before the scenario, else before the first."""
    one_way: OneWayChange | None
    """Change of the two ways against the idle link. None without the server's clock."""
    rpm: Rpm | None
    """Round trips per minute. None where a kind of probe is missing."""
    bufferbloat: Bufferbloat | None
    """Additional time of round trips under load."""


class Bufferbloat(TypedDict):
    """The latency that load adds, and the school grade that the test of DSLReports gave it."""

    increase_ms: float
    """Mean round trip under load less that of the idle link, ms."""
    grade: str
    """`A+` to `F`."""


class GoodputOf(TypedDict):
    """Mean goodput of one flow over its lifetime."""

    flow: str
    """The flow."""
    kib_s: float
    """KiB/s; 0 if it was killed."""


class Latency(TypedDict):
    """A distribution of round trips or of changes of a one-way delay, ms. Percentiles are nearest ranks."""

    count: int
    """Number of samples."""
    min_ms: float
    """The smallest."""
    mean_ms: float
    """Mean, in ms."""
    p50_ms: float
    """The median."""
    p90_ms: float
    """90th percentile."""
    p95_ms: float
    """95th percentile."""
    p99_ms: float
    """99th percentile."""
    max_ms: float
    """The largest."""


class OneWayChange(TypedDict):
    """Additional time of either way over the smallest round trip of the idle link. The clocks' offset
    cancels out; their drift during the scenario does not.
    """

    up: Latency
    """Way from the client to the server."""
    down: Latency
    """Way from the server to the client."""
    off_ms: NotRequired[float]
    """How far both may be off, ms: what the clocks of two machines may drift apart in that time. None
    where one clock is at both ends, as in virtual time.
    """


class Rpm(TypedDict):
    """Round trips per minute under working conditions: draft-ietf-ippm-responsiveness-08, "Final
    Calculations", TCP only. `TM` is the mean without the largest 5 %, over the probes that ended in the
    last four seconds.
    """

    rpm: float
    """(foreign + loaded) / 2."""
    foreign: float
    """60000 / ((TM(tcp_f) + TM(http_f)) / 2)."""
    loaded: float
    """60000 / TM(http_l)."""
    tcp_f_ms: float
    """TM of opening a connection, ms."""
    http_f_ms: float
    """TM of the pinger's round trips, ms; the draft's are requests over HTTP on new connections."""
    http_l_ms: float
    """TM of round trips within the flows' connections, ms; the draft's are requests over HTTP there."""


class LoadScenario(TypedDict):
    """Scenario that was carried out: one mix of flows."""

    number: int
    """Place of the scenario among the nineteen, from 1; 0 for any other mix."""
    uploads: int
    """Number of flows from the client to the server."""
    downloads: int
    """Number of flows from the server to the client."""
    start_ns: int
    """Time when the scenario began, in ns after the first idle ping."""
    duration_ns: int
    """Duration of the scenario, in ns."""
    forced: bool
    """Whether the scenario had to be ended, after `MAX_NS`, without having become stable."""
    interrupted: bool
    """Whether the scenario was cut short, by its user or because an end was lost."""
    transfers: list[LoadTransfer]
    """A row per flow."""
    idle_pings: list[LoadPing]
    """Round trips just before the flows began, `t_ns` from the first of them; empty where there were none."""
    pings: list[LoadPing]
    """Round trips of the pinger while the flows ran, in order of their sending."""
    connects: list[LoadProbe]
    """Times that it took to open a new connection while the flows ran (`tcp_f` of the responsiveness
    draft).
    """
    in_band: list[LoadProbe]
    """Round trips within the flows' own connections (`http_l` of the responsiveness draft)."""


class LoadTransfer(TypedDict):
    """Flow of a scenario."""

    name: str
    """Name of the flow in tables and plots, such as `up1`."""
    direction: Direction
    """Direction of the data."""
    dscp: int
    """Differentiated services code point that the flow was sent with."""
    start_ns: int
    """Time when the flow was asked to begin, in ns: the first gap counts from here."""
    end_ns: int
    """Time when the flow was told to stop, or died, in ns."""
    bytes: int
    """Payload bytes the receiver read in between."""
    longest_gap_ns: int
    """The longest time without data, that before the first and that after the last byte included."""
    killed: str | None
    """Reason why the stack ended the flow before it was told to stop. None if it did not."""
    bins: list[int]
    """Payload bytes in each `BIN_NS` from `start_ns`."""
    sender: LoadEnd
    """The sending system."""
    receiver: LoadEnd
    """The receiving system."""


class LoadEnd(TypedDict):
    """Properties of an end of a connection, as the system says. None where it does not."""

    cc: str | None
    """Congestion control, by the system's own name (TCP_CONGESTION)."""
    ecn: bool | None
    """Whether ECN was negotiated (TCP_INFO, tcpi_options)."""


class DataLoad(TypedDict):
    """Observations of a flow of data."""

    longest_gap_ns: int
    """The longest time without data."""
    killed: str | None
    """Reason why the stack ended the flow before it was told to stop. Null if it did not."""


class SocketBuffer(TypedDict):
    """A buffer of a socket at the end of the window."""

    bytes: int
    """Size as the system counts: payload, of Linux memory."""
    held_by: str | None
    """Limit of the buffer's growth: a sysctl, or the socket option that set the size. Null: nothing limits
    it, or nobody tells.
    """


class LinkSummary(TypedDict):
    """The counters of a link."""

    link: str
    """Name of the link."""
    packets: int
    """Packets sent."""
    bytes: int
    """Bytes of these packets, with the link's overhead."""
    drops: int
    """Packets dropped."""
    ce_marks: int | None
    """Packets marked. Null where the kernel carries the link."""
    busy_ns: int | None
    """Time in which it was sending. Null where the kernel carries the link."""


Status: TypeAlias = Literal["complete", "unfinished", "failed", "not-started", "unreliable"]
"""Status of a flow at the end. `complete`: flow that did what it was asked to. `unfinished`: the run ended
first. `failed`: the connection broke. `not-started`: flow whose start lies after the end. `unreliable`:
flow whose path was not the one described, in real time only.
"""
Direction: TypeAlias = Literal["up", "down"]
"""Direction of data. `up`: data from the client to the server. `down`: data from the server to the client."""
LoadPing: TypeAlias = list[int | bool | None]
"""A round trip of the pinger."""
LoadProbe: TypeAlias = list[int]
"""A probe that knows only how long it took."""
Load: TypeAlias = PingerLoad | DataLoad
"""Observations of a connection of a loadlatency scenario."""
