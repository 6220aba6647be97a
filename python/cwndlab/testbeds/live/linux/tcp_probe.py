"""A row for each segment that arrives at a sender, as Linux's tracepoint tcp:tcp_probe tells it.

The tracepoint is read through an instance of tracefs of its own, so that nobody else's traces are touched. It
tells the state before the segment is processed (net/ipv4/tcp_input.c, `tcp_rcv_established`): windows, the
smoothed RTT and sequence numbers. What it does not tell is of the connection's nearest sample of TCP_INFO.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import polars as pl
import pyarrow as pa

from cwndlab.contract.scenario import Scenario
from cwndlab.errors import RunError
from cwndlab.testbeds.live.addresses import Ends
from cwndlab.testbeds.live.lab import Lab, Reach, Sampler

INFINITE = 0x7FFF_FFFF
"""TCP_INFINITE_SSTHRESH (include/net/tcp.h)."""

BUFFER_KB = 8192
"""Room for events of each processor until they are read, KiB: 60,000 events of 136 bytes."""

MOST_PORTS = 100
"""Ports that the kernel's filter names; with more flows every connection of the machine is told, and left out
here."""

PIECE, TAIL = 1 << 22, 2000
"""Bytes that are read at a time, and those at the end in which lost events are counted."""

SCRIPT = """\
for D in /sys/kernel/tracing /sys/kernel/debug/tracing; do [ -d $D/events/tcp/tcp_probe ] && break; done
[ -d $D/events/tcp/tcp_probe ] || { echo 'tracefs shows no tracepoint tcp:tcp_probe'; exit 1; }
I=$D/instances/cwndlab-$$
mkdir $I && echo mono > $I/trace_clock && echo $2 > $I/buffer_size_kb || exit 1
[ -z "$1" ] || echo "$1" > $I/events/tcp/tcp_probe/filter || exit 1
trap : INT TERM
cat $I/trace_pipe &
reader=$!
nsenter --net=/proc/$PPID/ns/net sh -c "$3" $$ $reader $I < /dev/null > /dev/null 2>&1 &
cleaner=$!
echo 1 > $I/events/tcp/tcp_probe/enable || exit 1
wait $reader
echo 0 > $I/events/tcp/tcp_probe/enable
echo 0 > $I/tracing_on
{ sleep 1; kill $reader; } > /dev/null 2>&1 &
wait $reader
cat $I/per_cpu/cpu*/stats | grep overrun
rmdir $I && kill $cleaner
"""
"""Script for sh that prints events until it is interrupted, and then how many were lost for want of room."""

CLEANER = """\
while kill -0 $0; do sleep 1; done
kill $1
echo 0 > $2/events/tcp/tcp_probe/enable
while [ -d $2 ] && ! rmdir $2; do sleep 1; done
"""
"""Script for sh that waits for the end of the first, also of one that was killed, and has nothing traced from
then on. It is where the process is that began all this: what is in a namespace of a run ends with the run."""

_EVENT = (
    r" (?<time>\d+\.\d+): tcp_probe: (?:family=\w+ )?src=\[?(?<source>[0-9a-f.:]+?)\]?:(?<local_port>\d+)"
    r" dest=\[?(?<target>[0-9a-f.:]+?)\]?:(?<remote_port>\d+) .*?snd_nxt=0x(?<next>[0-9a-f]+)"
    r" snd_una=0x(?<first>[0-9a-f]+) snd_cwnd=(?<cwnd>\d+) ssthresh=(?<ssthresh>\d+) snd_wnd=(?<window>\d+)"
    r" srtt=(?<srtt>\d+)(?:.* sock_cookie=(?<cookie>[0-9a-f]+))?"
)

_CONNECTION = ["source", "local_port", "target", "remote_port"]


_FOLDERS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
"""Places where tracefs is mounted."""


LATE_S = 600.0
"""Time beyond the run's length after which the script is killed, s."""


def check(scenario: Scenario, reach: Reach, host: str) -> None:
    """Raises ValueError, with one line, where a host does not show the tracepoint that a Scenario needs."""
    if scenario["record"]["tcp"]["kind"] != "per-ack":
        return
    if not reach.files(*(f"{folder}/events/tcp/tcp_probe/id" for folder in _FOLDERS)):
        raise ValueError(
            f"record.tcp: per-ack needs the tracepoint tcp:tcp_probe in {_FOLDERS[0]}, which {host} does not"
            " show; give an interval such as 10ms"
        )


class Probed:
    """A sampler, and beside its rows one of the senders for each segment that arrives there."""

    def __init__(
        self, sampler: Sampler, lab: Lab, scenario: Scenario, flows: Mapping[str, Sequence[Ends]]
    ) -> None:
        """Nothing runs yet; `flows` are those that the kernel of each host in it tells of."""
        self._sampler, self._lab, self._flows = sampler, lab, flows
        self._limit_s = scenario["duration_ns"] / 1e9 + LATE_S
        self._ends: dict[str, Callable[[], bytes]] = {}
        self._zero_ns = 0
        self.troubles: list[str] = []
        self.at_acks: pa.Table | None = None

    def start(self) -> None:
        """Start sampling, and what prints the events."""
        for host, flows in self._flows.items():
            self._ends[host] = self._lab.log(host, command(flows), self._limit_s)
        self._sampler.start()

    def mark_start(self, zero_ns: int) -> None:
        """The run begins at this CLOCK_MONOTONIC time."""
        self._zero_ns = zero_ns
        self._sampler.mark_start(zero_ns)

    def stop(self) -> tuple[pa.Table, pa.Table]:
        """End it: samples of the senders, and of the receivers."""
        found = self._sampler.stop()
        texts = {
            host: (end(), self._zero_ns + self._lab.clock_offset(host)) for host, end in self._ends.items()
        }
        self.at_acks, troubles = rows(texts, found[0], self._lab.addresses.flows)
        self.troubles = [*self._sampler.troubles, *troubles]
        return found


def command(flows: Iterable[Ends]) -> list[str]:
    """The words that print the events of the senders of flows, for a shell at their host."""
    ports = dict.fromkeys(ends.target_port for ends in flows)
    told = " || ".join(f"dport == {port}" for port in ports) if len(ports) <= MOST_PORTS else ""
    return ["sh", "-c", SCRIPT, "sh", told, str(BUFFER_KB), CLEANER]


def rows(
    texts: Mapping[str, tuple[bytes, int]], senders: pa.Table, flows: Mapping[str, Ends]
) -> tuple[pa.Table, list[str]]:
    """The rows of senders at each event, with the columns that their samples have, and what to warn of.

    `texts` has what the script printed at each host, and the run's beginning by that host's clock in ns.
    Raises RunError where a script could not begin.
    """
    troubles: list[str] = []
    told = []
    for host, (printed, zero_ns) in texts.items():
        lost = re.findall(rb"^overrun: (\d+)$", printed[-TAIL:], re.MULTILINE)
        if not lost:
            said = " ".join(printed[-TAIL:].decode("utf-8", "replace").split())
            raise RunError(
                f"host {host}: record.tcp: per-ack: the tracepoint was not read to its end: {said}"
            )
        if missing := sum(map(int, lost)):
            troubles.append(f"tcp_probe at host {host}: {missing} events were lost for want of room")
        told.append(_events(printed, zero_ns))
    events = pl.concat(told)
    whose = _flows(events, flows)
    shared = events.group_by(_CONNECTION).agg(pl.col("cookie").n_unique()).filter(pl.col("cookie") > 1)
    troubles += [
        f"tcp_probe: {row['source']}:{row['local_port']} is a port of {row['cookie']} connections, as other"
        " runs go on here; they are left out"
        for row in shared.sort(_CONNECTION).iter_rows(named=True)
    ]
    events = events.join(shared, on=_CONNECTION, how="anti").join(whose, on=_CONNECTION, how="inner")
    if not senders.num_rows:
        return senders, troubles
    return _with_samples(events, senders), troubles


def _events(printed: bytes, zero_ns: int) -> pl.DataFrame:
    """The events that were printed, in order of time: times in ns of the run, sizes as counted."""
    told = [_of_lines(b"", zero_ns)]
    rest = memoryview(printed)
    while rest:
        end = len(rest) if len(rest) <= PIECE else bytes(rest[:PIECE]).rfind(b"\n") + 1 or len(rest)
        told.append(_of_lines(bytes(rest[:end]), zero_ns))
        rest = rest[end:]
    return pl.concat(told).filter(pl.col("t_ns") >= 0).sort("t_ns", maintain_order=True)


def _of_lines(printed: bytes, zero_ns: int) -> pl.DataFrame:
    lines = pl.Series("line", printed.decode("utf-8", "replace").split("\n"), pl.String)
    lines = lines.filter(lines.str.contains(" tcp_probe: ", literal=True))
    found = lines.str.extract_groups(_EVENT).struct.unnest().drop_nulls("time")
    when = pl.col("time").str.split_exact(".", 1)
    seconds = when.struct[0].cast(pl.Int64)
    fraction = when.struct[1].str.pad_end(9, "0").str.slice(0, 9).cast(pl.Int64)
    hexadecimal = (pl.col(name).str.to_integer(base=16, dtype=pl.Int64) for name in ("next", "first"))
    decimal = (pl.col(name).cast(pl.Int64) for name in ("cwnd", "ssthresh", "window", "srtt"))
    ports = (pl.col(name).cast(pl.UInt16) for name in ("local_port", "remote_port"))
    words = (pl.col(name).cast(pl.Categorical) for name in ("source", "target", "cookie"))
    at = (seconds * 10**9 + fraction - zero_ns).alias("t_ns")
    return found.with_columns(at, *hexadecimal, *decimal, *ports, *words).drop("time")


def _flows(events: pl.DataFrame, flows: Mapping[str, Ends]) -> pl.DataFrame:
    """The flow of each connection that has one."""
    found = list(_owned(events.select(_CONNECTION).unique(maintain_order=True), flows))
    schema: dict[str, pl.DataType | type[pl.String]] = {name: events.schema[name] for name in _CONNECTION}
    schema["flow"] = pl.String
    return pl.DataFrame(found, schema=schema, orient="row")


def _owned(connections: pl.DataFrame, flows: Mapping[str, Ends]) -> Iterator[tuple[object, ...]]:
    for source, local, target, remote in connections.iter_rows():
        for name, ends in flows.items():
            there = (ends.source, ends.target, ends.target_port) == (source, target, remote)
            if there and ends.source_port in (None, local):
                yield source, local, target, remote, name
                break


def _with_samples(events: pl.DataFrame, senders: pa.Table) -> pa.Table:
    """The rows of events, with what they do not tell from the nearest sample of the connection."""
    ends = ["flow", "local_port", "remote_port"]
    known = pl.from_arrow(senders)
    assert isinstance(known, pl.DataFrame)  # of a table
    known = known.with_columns(pl.col("flow").cast(pl.String), pl.col("t_ns").cast(pl.Int64)).sort("t_ns")
    events = events.with_columns(pl.col(name).cast(known.schema[name]) for name in ends)
    joined = events.join_asof(known, on="t_ns", by=ends, strategy="nearest", check_sortedness=False)
    joined = joined.drop_nulls("mss_bytes")
    mss = pl.col("mss_bytes").cast(pl.Int64)
    step = pl.col("first").diff().fill_null(0).over(ends) & 0xFFFF_FFFF
    # An older number is of a segment that came late.
    forward = pl.when(step < 2**31).then(step).otherwise(step - 2**32)
    flight = (pl.col("next") - pl.col("first")) & 0xFFFF_FFFF
    finite, smoothed = pl.col("ssthresh") < INFINITE, pl.col("srtt") > 0
    told = joined.with_columns(
        cwnd_bytes=pl.col("cwnd") * mss,
        ssthresh_bytes=pl.when(finite).then(pl.col("ssthresh") * mss),
        srtt_ns=pl.when(smoothed).then(pl.col("srtt") * 1000),
        rtt_ns=pl.lit(None, pl.Int64),
        inflight_bytes=pl.when(flight < 2**31).then(flight),
        delivered_bytes=forward.cum_sum().over(ends),
        send_window_bytes=pl.col("window"),
    )
    return told.select(senders.column_names).to_arrow().cast(senders.schema)
