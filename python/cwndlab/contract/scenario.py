"""A Scenario: one run, fully resolved. Made from crates/contract by `make contract`; not edited by hand."""

from __future__ import annotations

from typing import Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from cwndlab.contract.app import App
from cwndlab.contract.queue import Queue


class Scenario(TypedDict):
    """Run of an experiment."""

    version: int
    """Always `VERSION`."""
    experiment: str
    """The experiment's name, for messages."""
    seed: int
    """Seed of every random stream, with `repeat`."""
    repeat: int
    """Number of the run among the repeats of its cell, from 0."""
    duration_ns: int
    """Length of the run."""
    start_jitter_ns: int
    """Each flow's start is drawn uniformly from `start_ns .. start_ns + start_jitter_ns`."""
    measure: Measure
    """The part of the run that summaries cover."""
    record: Record
    """Records to write."""
    hosts: list[Host]
    """End hosts, in the experiment's order, which is also the order of simultaneous events."""
    nodes: list[Node]
    """Routers and switches."""
    links: list[Link]
    """One-directional links; a cable is two of them. Routes are shortest paths in hops, ties by link
    order.
    """
    flows: list[Flow]
    """Flows in order."""
    schedule: list[Change]
    """Changes of links at given times, in order of time."""
    phase_jitter_ns: NotRequired[dict[str, int]]
    """By the name of a link, how much its delay is longer at most: a draw from 0 to below this, once a
    run, is added for all packets. Absent: nothing is.
    """


_FlowFrom = TypedDict("_FlowFrom", {"from": str})
"""Host that opens the connection and sends."""


class Flow(_FlowFrom):
    """Flow of an experiment."""

    name: str
    """Unique among flows."""
    to: str
    """Host that accepts and receives."""
    app: App
    """Application of the flow."""
    start_ns: int
    """Time when the connection is opened, before `start_jitter_ns`."""
    stop_ns: int | None
    """Time when the flow stops sending and closes. Null: the end of the run."""
    cc: str
    """Congestion control of the sender."""
    sndbuf: int | None
    """Sender's SO_SNDBUF. Null: autotuning."""
    rcvbuf: int | None
    """Receiver's SO_RCVBUF. Null: autotuning."""
    cc_params: NotRequired[CcParams | None]
    """Constants of the congestion control that the experiment changes. Absent: none."""


class CcParamsCubic(TypedDict):
    """CUBIC, of FreeBSD and of Linux."""

    kind: Literal["cubic"]
    beta: int | None
    """Part of the window that a loss leaves; K, fast convergence and the Reno-friendly window follow it."""
    c: int | None
    """C, which scales the cubic, in packets/s^3."""
    fast_convergence: bool | None
    """Whether W_max shrinks after a loss below the last one."""


class CcParamsNewreno(TypedDict):
    """NewReno of FreeBSD."""

    kind: Literal["newreno"]
    beta: int | None
    """Part of the window that a loss leaves, to a hundredth."""


class CcParamsReno(TypedDict):
    """Reno of Linux."""

    kind: Literal["reno"]
    beta: int | None
    """Part of the window that a loss leaves."""


class Host(TypedDict):
    """An end host."""

    name: str
    """Unique among hosts and nodes."""
    stack: str
    """A stack of the catalogue, such as `freebsd-9.2` or `linux-6.8`."""
    hz: int
    """Clock ticks per second of the system."""
    mss: int
    """The MSS announced in the SYN (on Ethernet 1460 with IPv4, 1440 with IPv6)."""
    ecn: Ecn
    """Explicit congestion notification."""
    sysctl: dict[str, int]
    """Sysctls by their real names, as integers; only those set."""
    nic: Nic
    """The network interface."""
    ack_every: int | None
    """A receiver that hands data to its stack in aggregates of this many segments, instead of what `nic`
    says; the next one is waited for as long as `nic.coalesce` says. Null: no.
    """
    noise: Noise | None
    """Time the host takes. Null: none."""
    egress: Egress | None
    """Impairments by `tc netem` at the host's egress, where it sees segments before segmentation offload.
    Null: none.
    """
    ingress: Ingress
    """Impairments at the host's ingress."""
    cheats: NotRequired[Cheat | None]
    """Way in which the host cheats those that send to it. Absent: it is honest."""
    ip: NotRequired[IpVersion]
    """IP version of its packets."""


class CheatAckDivision(TypedDict):
    """An acknowledgement of new data leaves as several, each of a further part of it."""

    kind: Literal["ack-division"]
    parts: int
    """Number of them, above zero; at most one for each byte."""


class CheatDuplicateAcks(TypedDict):
    """An acknowledgement leaves more than once, and the host offers no SACK, by which its senders would
    see that this says nothing.
    """

    kind: Literal["duplicate-acks"]
    copies: int
    """Number of duplicates behind each."""


class CheatOptimisticAcks(TypedDict):
    """Acknowledgements of data that did not come yet leave in the place of the stack's, at a rate. What is
    lost is acknowledged too.
    """

    kind: Literal["optimistic-acks"]
    rate_bps: int
    """Rate of the payload that is acknowledged, above zero."""


class Egress(TypedDict):
    """A host's egress as netem makes it."""

    limit_packets: int
    """Segments inside, those being delayed included."""
    delay_ns: int
    """Added delay."""
    jitter: Jitter | None
    """Variation of the delay."""
    loss: Loss | None
    """Loss."""
    duplicate_ppb: int
    """Probability that a segment is sent twice."""
    corrupt_ppb: int
    """Probability that a segment is damaged."""
    rate_bps: int | None
    """Rate, behind the delay. Null: none."""


class Jitter(TypedDict):
    """Variation of a link's delay, as netem's `delay TIME JITTER distribution KIND`. A delay never goes
    below zero.
    """

    kind: JitterKind
    """Distribution."""
    sd_ns: int
    """Standard deviation; of the uniform distribution, half its width, as in netem."""
    reorder: bool
    """Let packets overtake each other; if not, one that would waits for its predecessor."""
    table: list[int] | None
    """Deviations, equally likely, in units of `sd_ns` / 8192, as in netem's .dist files. For
    `JitterKind::Table`.
    """


class LossRandom(TypedDict):
    """Each packet independently."""

    kind: Literal["random"]
    probability_ppb: int
    """Probability, parts per billion."""


class LossNth(TypedDict):
    """Every n-th packet, as iptables' statistic module counts: index modulo `every` equals `packet`."""

    kind: Literal["nth"]
    every: int
    """Period, at least 1."""
    packet: int
    """Packet of the period that is lost, below `every`; 0 is the first."""
    min_payload: int
    """Only packets with at least this many payload bytes are counted and dropped."""
    dport: int | None
    """Only packets to this port. Null: any."""
    sport: int | None
    """Only packets from this port. Null: any."""


class LossGilbert(TypedDict):
    """Two-state Gilbert-Elliott chain, as netem's `loss gemodel p r 1-h 1-k`."""

    kind: Literal["gilbert"]
    p_ppb: int
    """Good to bad."""
    r_ppb: int
    """Bad to good."""
    loss_bad_ppb: int
    """Loss in the bad state."""
    loss_good_ppb: int
    """Loss in the good state."""


class LossList(TypedDict):
    """The packets with these indices (from 0, counting every packet that enters the link), ascending."""

    kind: Literal["list"]
    packets: list[int]
    """Indices."""


class Ingress(TypedDict):
    """Impairments at a host's ingress."""

    before_gro: IngressStage | None
    """Impairments on the wire. Null: none."""
    after_gro: IngressStage | None
    """Behind receive aggregation, as a rule in the INPUT chain. Null: none."""


class IngressStage(TypedDict):
    """Impairment at one place of a host's ingress, of the packets that match."""

    loss: Loss | None
    """Loss."""
    duplicate_ppb: int
    """Probability that a packet comes twice."""
    corrupt_ppb: int
    """Probability that a packet is damaged."""
    dport: int | None
    """Only packets to this port. Null: any."""
    sport: int | None
    """Only packets from this port. Null: any."""
    min_payload: int
    """Only packets with at least this many payload bytes."""


class Nic(TypedDict):
    """A network interface."""

    tx_queue: int
    """Transmit queue, packets waiting. Applies to the host's outgoing link."""
    full: WhenFull
    """Reaction of a full transmit queue."""
    tso: bool
    """Segmentation offload."""
    tso_max: int | None
    """Largest payload of a segment handed to the interface. Null: what an IP packet holds."""
    gro: bool
    """Receive aggregation by the stack (Linux GRO)."""
    lro: bool
    """Receive aggregation by the driver (FreeBSD LRO)."""
    coalesce: Coalesce | None
    """Interrupt moderation. Null: every frame interrupts, so that only what arrives at the same moment is
    aggregated.
    """
    veth: NotRequired[bool]
    """A veth, through which packets arrive in the buffers of their senders: Linux counts the memory of
    those.
    """


class Coalesce(TypedDict):
    """Interrupt moderation."""

    time_ns: int
    """Longest that a frame waits; 0: every frame interrupts."""
    frames: int
    """Frames that end the wait; 0: no such limit."""
    gro_flush_timeout_ns: int
    """Linux: time between passes of polling after an interrupt, in which aggregates are held; 0: none."""
    napi_defer_hard_irqs: int
    """Linux: passes without a frame before interrupts are switched on again."""


class Noise(TypedDict):
    """Processing-time and stall noise."""

    processing: Processing | None
    """Time for what is handed to the stack, one after the other. Null: none."""
    stall: Stall | None
    """Moments in which the host does nothing. Null: none."""


class Processing(TypedDict):
    """Time for one packet: a normal distribution, cut at zero."""

    mean_ns: int
    """Mean."""
    sd_ns: int
    """Standard deviation."""


class Stall(TypedDict):
    """Stalls: a Poisson process of exponential lengths."""

    every_ns: int
    """Mean time between two, above zero."""
    length_ns: int
    """Mean length."""


_LinkFrom = TypedDict("_LinkFrom", {"from": str})
"""Host or node at the sending end."""


class Link(_LinkFrom):
    """Direction of a cable: loss, duplication, corruption, then queue, rate, delay and jitter."""

    name: str
    """Unique among links."""
    to: str
    """Host or node at the receiving end."""
    rate_bps: int | None
    """Rate. Null: a packet takes no time."""
    delay_ns: int
    """One-way propagation delay."""
    queue: Queue
    """Queue discipline."""
    loss: Loss | None
    """Loss before the queue."""
    duplicate_ppb: int
    """Probability that a packet is sent twice."""
    corrupt_ppb: int
    """Probability that a packet is damaged, which the receiver drops."""
    jitter: Jitter | None
    """Variation of the delay."""
    shaper: Shaper | None
    """Limit of the link besides its rate."""
    mtu: int
    """Largest IP packet."""
    overhead: int
    """Bytes added to an IP packet where a rate or a byte limit counts it."""
    observe: bool
    """Whether the link's queue appears in the `queue` table."""
    bottleneck: bool
    """Whether this is a bottleneck whose rate the summary's utilisation refers to."""
    black_hole: NotRequired[bool]
    """The router ahead of the link drops larger packets without telling their sender by ICMP."""
    delay_first: NotRequired[bool]
    """The delay lies before the queue, as where netem has the queue behind it: packets that come at one
    instant are all in the queue before the first of them leaves.
    """


class ShaperTokenBucket(TypedDict):
    """Packets wait for tokens, as in tc-tbf(8). Of a queue that an AQM controls, the first of them is out
    of the discipline's hands, so that its limit counts those behind it.
    """

    kind: Literal["token-bucket"]
    rate_bps: int
    """Rate of the tokens."""
    burst_bytes: int
    """Bytes that may leave at once, with overhead; larger packets are dropped."""
    peak: Peak | None
    """A second bucket, of which a packet needs as many tokens (`peakrate` and `mtu` of tc-tbf(8))."""


class ShaperHtb(TypedDict):
    """A class of tc-htb(8): a packet leaves whenever neither bucket is overdrawn, whatever its size, and
    is then taken from both. Until it leaves it stays in the discipline.
    """

    kind: Literal["htb"]
    rate_bps: int
    """Rate of the tokens."""
    ceil_bps: int
    """Rate of the second bucket's tokens."""
    burst_bytes: int
    """Most bytes in the bucket."""
    cburst_bytes: int
    """Most bytes in the second bucket."""


class ShaperPolicer(TypedDict):
    """Packets that arrive and find no tokens are dropped, before the queue."""

    kind: Literal["policer"]
    rate_bps: int
    """Rate of the tokens."""
    burst_bytes: int
    """Bytes that may arrive at once, with overhead."""


class ShaperSlots(TypedDict):
    """Packets wait for slots, as behind the turns of a Wi-Fi station, the grants of a cable modem or the
    frames of a satellite's terminal: those that wait when a slot opens leave together at the link's rate,
    so many of them as the slot takes. What comes later waits for the next one.
    """

    kind: Literal["slots"]
    interval_ns: int
    """Time from one slot to the next; one opens at time 0."""
    packets: int | None
    """Packets of a slot at most. None: as many as wait."""
    bytes: int | None
    """Bytes of a slot at most, with overhead. The last packet may exceed them, and the slots behind it
    have so much less. None: no limit.
    """


class ShaperTrace(TypedDict):
    """Delivery opportunities as in a mahimahi trace, repeated for ever; the link has no other rate."""

    kind: Literal["trace"]
    opportunities_ns: list[int]
    """Times of the opportunities, ascending."""
    period_ns: int
    """Time when the trace starts again: at least the last of the opportunities."""
    bytes: int
    """Bytes that leave at each opportunity (1504 in mahimahi)."""


class Peak(TypedDict):
    """The second bucket of a token bucket."""

    rate_bps: int
    """Rate of its tokens."""
    burst_bytes: int
    """Bytes that may leave at once, with overhead; larger packets are dropped."""


class Measure(TypedDict):
    """The window `from_ns <= t < to_ns` of a run."""

    from_ns: int
    """Start of the window."""
    to_ns: int
    """End of the window, at most the duration."""
    time_to_bps: NotRequired[int | None]
    """The rate that the metric `time_to_rate_s` waits for; absent: none. The engine does not look at it."""


class Node(TypedDict):
    """A router or switch: forwards at once, queues on its outgoing links."""

    name: str
    """Unique among hosts and nodes."""
    switch: Switch | None
    """Memory that the node's outgoing links share, besides the limits of their queues. Null: no such
    limit.
    """


class Switch(TypedDict):
    """The memory of a switch."""

    buffer_bytes: int
    """Bytes for the packets of all ports, with each port's overhead. A packet holds its place from its
    arrival, which is when its last bit is in, until its last bit has left.
    """
    pause: Pause | None
    """Ask the neighbours to pause. Null: packets that find no place are dropped."""


class Pause(TypedDict):
    """Thresholds at which a switch asks its neighbours to pause (IEEE 802.3 annex 31B)."""

    stop_bytes: int
    """Bytes in the buffer from which neighbours are to stop. What is on its way must find room above."""
    go_bytes: int
    """Bytes in the buffer down to which they go on, at most `stop_bytes`."""


class Record(TypedDict):
    """Records of a run, besides events and samples, which are always written."""

    tcp: Sampling
    """Rows of the `tcp` table."""
    queue: Sampling
    """Rows of the `queue` table."""
    pcap: list[Capture]
    """Packet captures."""


class Capture(TypedDict):
    """Capture file."""

    at: str
    """A host's name (both directions, below segmentation, at its NIC) or a link's name (packets entering
    it).
    """
    snaplen: int
    """Bytes of each packet kept, from the IP header on."""


class SamplingOff(TypedDict):
    """Never."""

    kind: Literal["off"]


class SamplingPerAck(TypedDict):
    """After every ACK processed by the sender (tcp), on every change of the queue (queue)."""

    kind: Literal["per-ack"]


class SamplingInterval(TypedDict):
    """Multiples of an interval."""

    kind: Literal["interval"]
    interval_ns: int
    """The interval, above zero."""


class Change(TypedDict):
    """A change of a link at a given time."""

    at_ns: int
    """Time of the change, or from which on it waits for its event."""
    link: str
    """The link's name."""
    rate_bps: int | None
    """New rate. Null: unchanged."""
    delay_ns: int | None
    """New delay. Null: unchanged."""
    loss: Loss | None
    """New loss. Null: unchanged."""
    queue: Queue | None
    """New queue discipline, which takes over the packets that wait. Null: unchanged."""
    down: bool | None
    """Outage: packets entering while down are lost. Null: unchanged."""
    on: NotRequired[Occasion | None]
    """Event with the first of which, from then on, the change is made. Absent: it is made at its time."""


class Occasion(TypedDict):
    """Event of a flow that a change of a link waits for."""

    flow: str
    """The flow's name."""
    event: str
    """Kind of the event, one of those that endpoints tell."""


Sampling: TypeAlias = SamplingOff | SamplingPerAck | SamplingInterval
"""Times at which a row is written."""
Shaper: TypeAlias = ShaperTokenBucket | ShaperHtb | ShaperPolicer | ShaperSlots | ShaperTrace
"""Limit of a link besides its rate."""
WhenFull: TypeAlias = Literal["drop", "enobufs"]
"""Reaction of a full transmit queue to a packet. `drop`: drops the packet, and the stack does not know.
`enobufs`: refuses the packet: FreeBSD's stack sees ENOBUFS, Linux's a local congestion notice.
"""
IpVersion: TypeAlias = Literal["ipv4", "ipv6"]
"""Version of the Internet Protocol. `ipv4`: IPv4, without options. `ipv6`: IPv6, without extension
headers.
"""
Loss: TypeAlias = LossRandom | LossNth | LossGilbert | LossList
"""Loss of packets before the queue."""
JitterKind: TypeAlias = Literal["uniform", "normal", "pareto", "table"]
"""Distribution of jitter. `uniform`: uniform between -sd and sd. `normal`: normal. `pareto`: pareto with
shape 3, less its mean. `table`: given values.
"""
Ecn: TypeAlias = Literal["off", "accept", "on", "accurate", "on-accept-accurate", "accept-accurate"]
"""ECN of a host (RFC 3168, RFC 9768). `off`: neither asked for nor accepted. `accept`: accepted when the
peer asks (the default of most systems). `on`: asked for on outgoing connections, and accepted. `accurate`:
accurate ECN is asked for, and accepted like the ECN of RFC 3168. `on-accept-accurate`: the ECN of RFC 3168
is asked for, and Accurate ECN accepted too. `accept-accurate`: nothing is asked for, and Accurate ECN
accepted too.
"""
Cheat: TypeAlias = CheatAckDivision | CheatDuplicateAcks | CheatOptimisticAcks
"""Way in which a receiver has its senders believe more, by the acknowledgements that leave its host
(Savage et al., CCR 29(5), 1999).
"""
CcParams: TypeAlias = CcParamsCubic | CcParamsNewreno | CcParamsReno
"""Constants of a built-in congestion control that an experiment changes."""
