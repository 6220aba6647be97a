"""The engine, written in Rust (crates/python); docs/architecture.md says what crosses."""

from collections.abc import Callable
from os import PathLike
from typing import Any, NoReturn, final

NotUsed = tuple[list[tuple[str, int]], int, int, int, bool]
"""Packets: not TCP by what they are, fragments, cut short, malformed; whether a record is cut."""

@final
class Reference:
    """A congestion control of a stack, fed with what another sender saw."""

    def __new__(cls, cc: str, stack: str, mss: int, told: bool) -> Reference:
        """`mss` bytes are a packet; `told`: the other sender says when a recovery is over.

        Raises ValueError where `references` has no CC@STACK.
        """

    def feed(self, rows: bytes) -> list[tuple[str, int, int, int, int, int, int, int | None, bool]]:
        """Take in rows of ten numbers of 64 bits: time in ns, notice, bytes acknowledged or lost, round
        trip in ns, least bytes in flight before, window and slow-start threshold after, smoothed round trip
        in ns, bytes in flight after, and most bytes in flight before; 2^64 - 1: not known.

        Notices: 0 ACK, 1 loss, 2 timeout, 3 ECN echo, 4 recovery over, 5 reduction taken back, 6 slow start
        left without congestion, 7 application-limited, 8 ACK of an amount that is not known well, 9 ACK of
        which it is not known whether it acknowledged data. Returns what has come to an end, and what is
        compared at it: `slow-start`, `avoidance`, `loss`, `ecn`, `timeout`, `threshold` or `exit`; beginning
        and end in ns; the window before, the other sender's and the reference's after; bytes acknowledged
        between; the reference's slow-start threshold, and whether it took the window for one that was never
        used up.
        """

def references() -> list[str]:
    """Congestion controls that can be references, as CC@STACK."""

@final
class Capture:
    """A pcap or pcapng file in memory; raises ValueError, with one line, when it cannot be read.

    A stream is a connection's number and a direction: `backward` is towards the side that opened it. Rows
    have times in ns by the capture's clock. IndexError for a connection that does not exist.
    """

    def __new__(cls, path: str, pairs: bool, beside: str | None = None) -> Capture:
        """`pairs` keeps what finding packets in another capture needs; `beside` is a file by the same clock
        that makes one capture with the first, as where each holds one direction."""

    @property
    def span(self) -> tuple[int, int] | None:
        """First and last time in ns, None without a TCP packet."""

    def skipped(self) -> NotUsed:
        """What was not used."""

    def connections(self) -> list[dict[str, Any]]:
        """Ends as the side that opened sees them, first_ns, last_ns, counters of both directions."""

    def data(self, connection: int, backward: bool) -> RecordBatch:
        """Data segments: t_ns, offset, bytes, repeated_bytes, flight_bytes."""

    def acks(self, connection: int, backward: bool) -> RecordBatch:
        """Acknowledgements for that data: t_ns, acked, window_bytes, duplicate, flight_bytes."""

    def sacks(self, connection: int, backward: bool) -> RecordBatch:
        """SACK blocks for that data: t_ns, offset, bytes, duplicate (D-SACK)."""

    def rounds(
        self, connection: int, backward: bool, mss: int
    ) -> tuple[RecordBatch, RecordBatch, RecordBatch]:
        """Round trips (ns), segments per acknowledgement, flight per round trip (bytes): t_ns and value."""

    def throughput(
        self, connection: int, backward: bool, count: str, width_ns: int, step_ns: int
    ) -> RecordBatch:
        """Bytes in sliding windows: t_ns, the centre, and value.

        `count` is `payload`, `ip`, `frame` or `acked`. ValueError, with one line, where the width is not a
        multiple of the step, or there are too many windows.
        """

    def pairs(
        self,
        connection: int,
        backward: bool,
        other: Capture,
        other_connection: int,
        turned: bool,
        same_clock: bool,
    ) -> dict[str, Any]:
        """The packets of a connection here, at the sender, and in `other`: docs/formats.md, Captures."""

@final
class RecordBatch:
    """Rows of one table; `pyarrow.record_batch()` and `polars.from_arrow()` take it without a copy."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __len__(self) -> int: ...

@final
class Simulation:
    """One run of a Scenario (JSON); raises ValueError, with one line, if the engine refuses it.

    `modules`: congestion controls and guests from outside, a JSON list of {name, family, file, sha256, kind,
    knobs: [{name, default, min, max}], guest}. Their code runs here. Where one of them crashes, takes too
    long or returns nonsense, `advance` and `run_until` raise RuntimeError, with one line.
    """

    def __new__(cls, scenario: str, run_id: int, modules: str = "[]") -> Simulation: ...
    @property
    def now_ns(self) -> int:
        """Virtual time reached, nanoseconds."""

    def advance(self, events: int) -> bool:
        """Run at most so many events, with the GIL released. True when the run is over."""

    def run_until(self, t_ns: int) -> bool:
        """Carry out every event before `t_ns` and none at it. True when the run is over."""

    def observe(self, flow: str) -> dict[str, int | str | None] | None:
        """What TCP_INFO would say of a flow's sender now, by the names of the `tcp` table's columns.

        None before the flow has opened a connection, and for flows without one. Raises ValueError for an
        unknown name.
        """

    def take(self) -> list[tuple[str, RecordBatch]]:
        """Record batches finished since the last call: (table, rows)."""

    def captures(self) -> list[tuple[str, bytes]]:
        """Bytes of captures finished since the last call: (capture point, bytes to append to its file)."""

    def summary(self) -> str:
        """JSON: counters and distributions of each flow and link over the measurement window."""

@final
class Emulator:
    """The links of a Scenario in real time between interfaces of this host (Linux only); needs CAP_NET_RAW.

    `config` is JSON, every key required, unknown ones refused (crates/live/src/emulator/config.rs):

    - `run_id`: of the records.
    - `netns`: the namespace that holds all interfaces below, a name under /run/netns or a path; null: the
      caller's.
    - `scenario`: the run's Scenario, whole and unchanged. Used are seed, repeat, record.queue, measure,
      nodes (shared memory of switches), links, schedule, the flows' names, and each host's `egress` and
      `ingress.before_gro` (`after_gro` is not the emulator's).
    - `cables`: `[{"a": ifname, "b": ifname, "forward": link or null, "reverse": link or null}]`. Packets
      that come in at interface `a` go through the Scenario's link `forward` and out of `b`, and the other
      way through `reverse`; null: they cross at once. A link in no cable is left alone.
    - `flows`: `[{"flow": name, "src": address, "dst": address, "sport": port or null, "dport": port or
      null}]`: which packets, in both directions, are a flow's in the `events` table; the first that
      matches.
    - `captures`: `[{"at": link, "snaplen": bytes, "file": path}]`: pcap of what enters a link, timed from
      t = 0.
    - `threads`: at least 1; on two cores, 1.
    - `real_time`: ask for SCHED_FIFO and locked memory, where the rights are there.

    The interfaces must be up, without addresses and with IPv6 disabled; their namespace forwards nothing
    itself. Switch offloads off at both ends of every cable (`set_offloads`) unless the experiment sets
    them: then super-packets are cut to the link's MTU as a NIC does it, before they enter the link. Raises
    ValueError with one line if the configuration is wrong.
    """

    def __new__(cls, config: str) -> Emulator: ...
    def start(self) -> int:
        """Open the sockets, start the threads, let packets through; raises OSError with one line.

        Returns the CLOCK_MONOTONIC time, ns, that is t = 0 of the records and of the schedule.
        """

    def mark_start(self, t0_ns: int) -> None:
        """Move t = 0 to this CLOCK_MONOTONIC time (a little ahead, or just past), once.

        Records before it are dropped, counters and loss rules start again from there, and the schedule
        counts from it.
        """

    def stats(self) -> str:
        """JSON, while it runs: {"t_ns", "packets", "bytes", "late_max_ns", "socket_drops",
        "unintended_drops"}."""

    def stop(self) -> tuple[list[tuple[str, RecordBatch]], str]:
        """End it: record batches (`queue` and `events`, schemas and hop names as the simulator's) and a
        report (JSON).

        {"health": {"unreliable": bool, "reason": str or null, "packets", "bytes",
                    "late": {"count", "p50_ns", "p99_ns", "p999_ns", "max_ns"}, "late_over_1ms",
                    "socket_drops", "unintended_drops", "backlog_drops", "stolen_ns", "other_frames",
                    "real_time": bool},
         "links": as in the simulator's summary, over the Scenario's measurement window,
         "flows": [{"flow", "drops", "ce_marks", "wire_bytes", "queue_delay": {...}}], as there}

        `unreliable` if a packet left more than 1 ms after its time, or was lost to the emulator itself (a
        full socket, no memory, an interface that took no more) or to this machine's receive backlog: the
        metrics are then not those of the path described. `stolen_ns` is processor time that the machine
        below a virtual one gave to others, a usual reason. Dropping the object ends it too. Nothing is left
        in the kernel however the process ends.
        """

@final
class TcpSampler:
    """TCP_INFO of live sockets at an interval, through sock_diag, in any number of namespaces (Linux only).

    `config` is JSON, every key required:

    - `run_id`, `interval_ns`.
    - `flows`: names, in the experiment's order.
    - `sockets`: `[{"flow": name, "netns": name, path or null, "local_port": port or null, "remote_port":
      port or null}]`: which sockets are a flow's; null is any port. A socket that matches nothing is not
      recorded; of several entries that match the first counts. Sockets may come and go.

    Rows of the `tcp` table have the simulator's columns first (`cwnd_bytes`, `ssthresh_bytes`,
    `inflight_bytes` are packets times MSS, `delivered_bytes` what was acknowledged, `rtt_ns` and
    `arrived_bytes` always null, windows and buffers those of the socket's own end), then `local_port`,
    `remote_port`, `mss_bytes`, `rttvar_ns`, `min_rtt_ns`, `delivery_bps`, `busy_ns`, `rwnd_limited_ns`,
    `sndbuf_limited_ns`, `lost_packets`, `reordering_packets`, `sent_bytes`, `sent_segments`,
    `retransmitted_bytes`, `notsent_bytes`, `received_bytes`, `received_segments`, `delivered_ce_packets`,
    `bbr_bandwidth_bps`, `bbr_min_rtt_ns` (null without BBR, or where the kernel is too old to tell).
    """

    def __new__(cls, config: str) -> TcpSampler: ...
    def start(self) -> int:
        """Start sampling; returns the CLOCK_MONOTONIC time, ns, that is t = 0. Raises OSError with one
        line."""

    def mark_start(self, t0_ns: int) -> None:
        """Move t = 0 to this CLOCK_MONOTONIC time; rows before it are dropped."""

    def stop(self) -> tuple[list[tuple[str, RecordBatch]], str]:
        """End it: batches of `tcp`, and JSON {"samples", "missed": intervals skipped, "late_max_ns",
        "walk_ns": what finding sockets takes, "errors": [...]}."""

def set_offloads(netns: str | None, interface: str, *, tso: bool, gro: bool) -> None:
    """Switch offloads of an interface on or off (Linux only).

    `tso` is segmentation (TSO and GSO) with the checksums and scattered buffers it needs, `gro` receive
    aggregation with the checking of checksums. Raises OSError with one line.
    """

def catalogue() -> str:
    """JSON: every stack, congestion control, sysctl, queue kind, loss kind and app the engine knows."""

def schemas() -> str:
    """JSON Schema of the Scenario, the summary and the catalogue: `cwndlab.contract` is made from it."""

def check(scenario: str, modules: str = "[]") -> None:
    """Raise ValueError, with one line, if the engine would refuse this Scenario (JSON).

    `modules`, as `Simulation` takes them, are not loaded.
    """

def controller_inside() -> int:
    """Return the number of the method of a controller in Python that runs now; 0 where none does."""

class Flow:
    """A connection as a controller in Python sees it: windows are bytes, times seconds."""

    cwnd: float
    """Congestion window; may be set."""
    ssthresh: float
    """Slow-start threshold, infinite before the first reduction; may be set by `on_ack`."""
    @property
    def now(self) -> float:
        """Time of the run."""
    @property
    def mss(self) -> float:
        """Payload of a full segment."""
    @property
    def srtt(self) -> float:
        """Smoothed round trip; 0: none yet."""
    @property
    def min_rtt(self) -> float:
        """Smallest round trip; 0: none yet."""
    @property
    def rtt(self) -> float:
        """Newest round trip; 0: none yet."""
    @property
    def acked(self) -> float:
        """Bytes that this ACK newly acknowledges."""
    @property
    def in_flight(self) -> float:
        """Bytes in flight."""
    @property
    def seed(self) -> int:
        """Seeds whatever is drawn: of this connection, the same whenever the run is repeated."""

def watch_modules(file: str | PathLike[str]) -> None:
    """Have `file` say from now on which hook of a congestion control from outside runs in this process."""

def watched_module(file: str | PathLike[str]) -> tuple[int, bool, str] | None:
    """Return which hook ran when the process that wrote `file` died, and when; None: none did."""

def describe_module(file: str | PathLike[str], sha256: str) -> str:
    """Load a compiled congestion control or guest, initialise it, and return what it is as JSON.

    Raises ValueError, with one line.
    """

def check_live_app(app: str, over_guest: bool = False) -> None:
    """Raise ValueError, with one line, if live hosts cannot carry out this app (JSON, as in a Scenario), over
    a guest or over the kernel's TCP.

    Their messages have content: what a request asks for, a datagram's number and time stand in it.
    """

def agent(arguments: list[str]) -> NoReturn:
    """Be the agent of a host, as the program `cwndlab-agent` with these arguments (crates/agent).

    Orders come from standard input, and this process ends when that does.
    """

def start_times(scenario: str) -> list[int]:
    """When each flow of a Scenario starts, ns of the run, in their order.

    Raises ValueError, with one line, where it is no Scenario.
    """

def phases(scenario: str) -> dict[str, int]:
    """Delays that the run of a Scenario adds to links, ns, by their names.

    Raises ValueError, with one line, where it is no Scenario.
    """

def run_script(
    text: str,
    name: str,
    stack: str,
    defines: list[tuple[str, str]],
    tolerance_usecs: int | None = None,
    *,
    end_unseen: bool = False,
) -> tuple[int, str | None, list[str]]:
    """Run the packetdrill script `text`, called `name` in messages, against a modelled stack or `live`.

    `tolerance_usecs` takes the place of the script's; with `end_unseen` packets behind the last event are not
    looked at. Returns (exit code, message or None, printed lines); the exit code is 0 if it passed, 1 if the
    stack did something else, 2 if the script or the stack's name is wrong.
    """

def script_needs(text: str, kernel: bool) -> list[str]:
    """Names of what a packetdrill script needs and a model lacks; with `kernel`, what `live` lacks."""

def loadlatency_document(observed: str, conditions: str) -> str:
    """The JSON document of a loadlatency run from what was observed and under which conditions, both JSON.

    docs/loadlatency.md describes all three. Raises ValueError, with one line, if one cannot be read.
    """

def loadlatency_read(document: str) -> str:
    """The JSON document of a loadlatency run with every figure made anew of what was observed.

    Raises ValueError, with one line, if it is none.
    """

def loadlatency_scenarios(text: str) -> list[int]:
    """Scenarios by number from a list such as `1,3-5`; raises ValueError with one line."""

def loadlatency_run(options: str, print: Callable[[str], object]) -> tuple[str, str, str | None]:
    """Measure against a loadlatency server, with the GIL released.

    `options` is JSON, its keys those of the Rust struct `client::Options`. `print` gets pieces of the classic
    output as they come to be. Returns the JSON document, today's metrics as text, and why the run was cut
    short, or None. An interrupt ends the run early; what was measured until then is returned. Raises
    ValueError for wrong options and OSError if the server cannot be reached or refuses, both with one line.
    """

def loadlatency_serve(options: str, say: Callable[[str], object]) -> None:
    """Serve loadlatency clients until interrupted, or until the first one is done if asked so.

    `options` is JSON, its keys those of the Rust struct `server::Options`; `say` gets a line for whatever
    happens. Raises ValueError for wrong options and OSError if an address cannot be listened on.
    """

def loadlatency_overall(text: str) -> tuple[float, float, float | None, float]:
    """The metrics under the scenario lines of a loadlatency run in its classic form, rounded down.

    (upload capacity and download capacity in KiB/s, responsiveness and smoothness in Hz); responsiveness is
    None, as those lines do not give it. Lines of other kinds are passed over; a scenario's line that cannot
    be read raises ValueError.
    """

def version() -> str:
    """Version of the engine, and whether it was built with overflow checks and assertions."""

def annotate(
    points: list[tuple[str, str]], fates: list[tuple[int, str, int, int, bool, str]], program: str, path: str
) -> tuple[int, int]:
    """Write the captures of several points, each a name and a file, as one pcapng file with comments.

    `fates` are what no capture shows: t_ns, place, port of the opening side, offset, whether it was a mark,
    and why, empty where that is not known.
    Raises ValueError with one line when a capture cannot be read or the file not be written. Returns the
    numbers of packets and of comments.
    """

def packet_text(
    path: str, flights: bool, limit: int | None, write: Callable[[str], object]
) -> tuple[int, NotUsed]:
    """Hand the TCP packets of a capture file to `write` as tcpdump prints them, a line each, some at a time.

    At most `limit` lines; `flights` makes one line of data that follows in sequence. Raises ValueError with
    one line, and whatever `write` raises. Returns the number of lines, and what was passed over.
    """
