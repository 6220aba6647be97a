"""Our own sender and receiver: both ends of every app of the experiment file, over sockets of this host.

They do what the simulator's application models do (crates/host/src/app): data goes from `from` to `to`; where
somebody asks for it, `to` asks over the connection that `from` opened. All times are of CLOCK_MONOTONIC.
"""

import json
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cwndlab import _native

SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
"""As SO_SNDBUF and SO_RCVBUF without the system's maximum, for those with the rights (socket(7))."""
READ_BYTES = 1 << 18
"""Size of one read."""
WRITE_BYTES = 131_072
"""Size of one write where the app does not set it."""
SECOND = 10**9
STAMP = struct.Struct("!QQ")
"""What a datagram begins with: its number and when it was sent, ns."""
ECN_FIELDS = {"off": 0, "ect0": 2, "ect1": 1}
"""The ECN field of the IP header (RFC 3168 section 5, RFC 9331), the last two bits of IP_TOS (ip(7))."""
NEVER = 1 << 62
LONGEST_WAIT_NS = 1000 * SECOND
TIMEVAL = struct.Struct("@ll")
"""Value of SO_SNDTIMEO (socket(7))."""


@dataclass
class Clock:
    """The run's time: `zero_ns` is CLOCK_MONOTONIC at t = 0, set when the run begins."""

    measure: tuple[int, int]
    duration_ns: int
    zero_ns: int = 0
    begun: threading.Event = field(default_factory=threading.Event)

    def now(self) -> int:
        """ns since the start of the run."""
        return time.monotonic_ns() - self.zero_ns

    def sleep_until(self, at_ns: int) -> None:
        """Wait for a time of the run."""
        self.begun.wait()
        while (left := at_ns - self.now()) > 0:
            time.sleep(left / 1e9)


@dataclass
class Metrics:
    """What one end of a flow saw; times in ns of the run."""

    flow: str
    role: str
    """`from` or `to`."""
    clock: Clock
    opened_ns: int | None = None
    """When the connection was asked for (`from`)."""
    ended_ns: int | None = None
    """When everything up to the end of the stream had been read (`to`)."""
    error: str | None = None
    read: int = 0
    """Payload bytes."""
    read_in_window: int = 0
    sent_in_window: int = 0
    """Datagrams or echoes."""
    missing: set[int] = field(default_factory=set)
    """Numbers of datagrams or echoes found missing in the window, as a later one came instead."""
    expected: int = 0
    """The number of the next one."""
    samples: list[tuple[int, str, int, int]] = field(default_factory=list)
    """When, what, its value, and the payload read by then."""
    seconds: dict[int, int] = field(default_factory=dict)
    """Payload bytes read in each second."""

    def took(self, count: int) -> int:
        """Count payload that was read; returns when."""
        now = self.clock.now()
        self.read += count
        if self.clock.measure[0] <= now < self.clock.measure[1]:
            self.read_in_window += count
        self.seconds[now // SECOND] = self.seconds.get(now // SECOND, 0) + count
        return now

    def arrived(self, number: int) -> None:
        """Note that a datagram or echo came, and which are missing before it; one that comes late is missing
        no more, and one that comes twice changes nothing."""
        if self.clock.measure[0] <= self.clock.now() < self.clock.measure[1]:
            self.missing.update(range(self.expected, number))
        self.missing.discard(number)
        self.expected = max(self.expected, number + 1)

    def sample(self, kind: str, value: int, at: int | None = None) -> None:
        """Note a row for the `samples` table."""
        self.samples.append((self.clock.now() if at is None else at, kind, value, self.read))

    def as_json(self) -> dict[str, Any]:
        """Everything but the clock."""
        names = ("flow", "role", "opened_ns", "ended_ns", "error", "read", "read_in_window", "sent_in_window")
        return {name: getattr(self, name) for name in names} | {
            "missing_in_window": len(self.missing),
            "samples": list(self.samples),
            "seconds": sorted(self.seconds.items()),
        }


End = Callable[[], None]


def send(task: Mapping[str, Any], clock: Clock) -> tuple[Metrics, End]:
    """The `from` end of a flow: its metrics, and what to call in a thread of its own."""
    metrics = Metrics(task["flow"], "from", clock)
    work = _SENDERS[task["app"]["kind"]]
    return metrics, _guarded(lambda: work(task, metrics), metrics)


def receive(task: Mapping[str, Any], clock: Clock) -> tuple[Metrics, End]:
    """The `to` end of a flow, likewise; it listens when this returns."""
    metrics = Metrics(task["flow"], "to", clock)
    work = _RECEIVERS[task["app"]["kind"]](task, metrics)
    return metrics, _guarded(work, metrics)


def gather(tasks: list[Mapping[str, Any]], clock: Clock) -> tuple[list[Metrics], End]:
    """The `to` ends of the flows of one incast, which are asked together."""
    everyone = [Metrics(task["flow"], "to", clock) for task in tasks]
    listeners = [_listener(task) for task in tasks]
    return everyone, _guarded(lambda: _rounds(tasks, listeners, everyone), *everyone)


def ping(target: str, count: int, interval_ns: int) -> list[int]:
    """Round-trip times of ICMP echoes, ns; those without a reply within a second after the last are left
    out."""
    metrics = Metrics("", "", Clock((0, 0), 0, time.monotonic_ns()))
    _echoes(target, 56, interval_ns, count * interval_ns, metrics, linger_ns=SECOND)
    return [value for _, _, value, _ in metrics.samples]


def _guarded(work: End, *metrics: Metrics) -> End:
    def run() -> None:
        try:
            work()
        except Exception as error:
            for one in metrics:
                one.error = f"{type(error).__name__}: {error}"

    return run


# Connections --------------------------------------------------------------------------------------------


def _connect(task: Mapping[str, Any], metrics: Metrics, port: int | None = None) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, task["cc"].encode())
    if task["sndbuf"] is not None:
        sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, task["sndbuf"])
    sock.bind((task["source"], task["source_port"] if port is None else port))
    if metrics.opened_ns is None:
        metrics.opened_ns = metrics.clock.now()
    sock.connect((task["target"], task["target_port"]))
    return sock


def _listener(task: Mapping[str, Any]) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if task["rcvbuf"] is not None:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, task["rcvbuf"])
    sock.bind((task["target"], task["target_port"]))
    sock.listen(128)
    return sock


def _opened(task: Mapping[str, Any], metrics: Metrics) -> socket.socket:
    metrics.clock.sleep_until(task["start_ns"])
    return _connect(task, metrics)


def _write(sock: socket.socket, count: int, until: int, clock: Clock, size: int = WRITE_BYTES) -> int:
    """Write so many bytes, in writes of `size`, until then; returns how many the socket took.

    The writes block, as a plain sender's do: one that polled for room before each would be woken only while
    a third of the send buffer is free, and never fill it.
    """
    block = memoryview(bytes(min(size, count)))
    written = 0
    sock.settimeout(None)
    while written < count and (left := until - clock.now()) > 0:
        seconds, rest = divmod(min(left, LONGEST_WAIT_NS) // 1000 or 1, 1_000_000)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, TIMEVAL.pack(seconds, rest))
        try:
            written += sock.send(block[: min(size, count - written)])
        except BlockingIOError:
            continue
    return written


def _close(sock: socket.socket) -> None:
    """End the stream, and wait until the other end has ended its own."""
    sock.settimeout(None)
    sock.shutdown(socket.SHUT_WR)
    while sock.recv(READ_BYTES):
        pass
    sock.close()


def _drain(sock: socket.socket, metrics: Metrics) -> int | None:
    """Read to the end of the stream; returns when its last byte came, or None if the run was over before it
    ended."""
    sock.settimeout(None)
    buffer = bytearray(READ_BYTES)
    now = metrics.clock.now()
    while count := sock.recv_into(buffer):
        now = metrics.took(count)
    sock.close()
    return now if metrics.clock.now() < metrics.clock.duration_ns else None


def _read(sock: socket.socket, count: int, metrics: Metrics) -> int | None:
    """Read so many bytes; returns when the last came, or None if the stream ended before."""
    sock.settimeout(None)
    buffer, now = bytearray(READ_BYTES), 0
    while count:
        got = sock.recv_into(buffer, min(count, READ_BYTES))
        if not got:
            return None
        now = metrics.took(got)
        count -= got
    return now


# Senders ------------------------------------------------------------------------------------------------


def _bulk(task: Mapping[str, Any], metrics: Metrics) -> None:
    app = task["app"]
    sock = _opened(task, metrics)
    count = app.get("size_bytes") or app.get("bytes") or NEVER
    _write(sock, count, task["stop_ns"], metrics.clock, app["write_bytes"])
    _close(sock)


def _rate_limited(task: Mapping[str, Any], metrics: Metrics) -> None:
    sock = _opened(task, metrics)
    _paced(sock, task["app"], (metrics.clock.now(), task["stop_ns"]), metrics.clock)
    _close(sock)


def _paced(
    sock: socket.socket, app: Mapping[str, Any], span: tuple[int, int], clock: Clock, rest: int = 0
) -> int:
    """Write blocks at a steady rate from the beginning of a span of time, the first at once; one that blocks
    catches up as fast as it can.

    Never more than the rate sends in the span: the last block is as small as that asks. `rest`, in bits times
    10^9, is what earlier spans were too short for; returns the new one.
    """
    (started, until), rate_bps, size = span, app["rate_bps"], app["write_bytes"]
    budget, rest = divmod(max(until - started, 0) * rate_bps + rest, 8 * SECOND)
    written = 0
    while written < budget and clock.now() < until:
        blocks = max(clock.now() - started, 0) * rate_bps // (8 * SECOND) // size + 1
        due = min(blocks * size, budget)
        if due > written:
            written += _write(sock, due - written, until, clock, size)
        else:
            clock.sleep_until(min(until, started - (-due * 8 * SECOND // rate_bps)))
    return rest


def _on_off(task: Mapping[str, Any], metrics: Metrics) -> None:
    app, clock, until = task["app"], metrics.clock, task["stop_ns"]
    draws = _draws(task)
    sock = _opened(task, metrics)
    begin, rest = clock.now(), 0
    while clock.now() < until:
        on, off = draws.draw()
        end = min(begin + on, until)
        if app["rate_bps"] is None:
            _write(sock, NEVER, end, clock, app["write_bytes"])
        else:
            rest = _paced(sock, app, (begin, end), clock, rest)
        begin += on + off
        clock.sleep_until(min(begin, until))
    _close(sock)


def _draws(task: Mapping[str, Any]) -> _native.Draws:
    """What the simulator draws for the same flow."""
    return _native.Draws(json.dumps(task["app"]), task["seed"], task["repeat"], task["flow"])


def _answers(task: Mapping[str, Any], metrics: Metrics) -> None:
    """Answer requests over one connection, so many or until told to stop."""
    app, clock = task["app"], metrics.clock
    request, response = app["request_bytes"], _response_bytes(app)
    limit = app.get("requests") or app.get("rounds") or NEVER
    sock = _opened(task, metrics)
    heard = answered = 0
    while answered < limit and (left := task["stop_ns"] - clock.now()) > 0:
        sock.settimeout(left / 1e9)
        try:
            got = sock.recv(READ_BYTES)
        except TimeoutError:
            break
        if not got:
            break
        heard += len(got)
        while heard >= request:
            heard -= request
            answered += 1
            _write(sock, response, NEVER, clock)
    _close(sock)


def _response_bytes(app: Mapping[str, Any]) -> int:
    match app["kind"]:
        case "request-response":
            return int(app["response_bytes"])
        case "incast":
            return int(app["size_bytes"])
        case _:
            return int(app["rate_bps"] * app["chunk_ns"] // (8 * SECOND))


def _background(task: Mapping[str, Any], metrics: Metrics) -> None:
    """Poisson arrivals of transfers, each over a connection of its own, of Pareto-distributed sizes."""
    app, clock = task["app"], metrics.clock
    draws = _draws(task)
    free = threading.Semaphore(app["connections"])

    def transfer(arrived: int, size: int) -> None:
        with free, _connect(task, metrics, port=0) as sock:
            stamp = STAMP.pack(size, arrived)
            sock.sendall(stamp[: min(size, STAMP.size)])
            _write(sock, max(size - STAMP.size, 0), NEVER, clock)
            _close(sock)

    after, size = draws.draw()
    at = task["start_ns"] + after
    while at < task["stop_ns"]:
        clock.sleep_until(at)
        one = Metrics("", "", clock)
        threading.Thread(target=_guarded(partial(transfer, at, size), one), daemon=True).start()
        after, size = draws.draw()
        at += after


def _datagrams(task: Mapping[str, Any], metrics: Metrics) -> None:
    app, clock = task["app"], metrics.clock
    size = app["payload_bytes"]
    # ns between two, as a fraction, so that the rate is exact.
    interval, parts = (app["frame_ns"], 1) if app["kind"] == "voip" else (size * 8 * SECOND, app["rate_bps"])
    clock.sleep_until(task["start_ns"])
    metrics.opened_ns = clock.now()
    rest = bytes(size - STAMP.size)
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ECN_FIELDS[app["ecn"]])
        sock.bind((task["source"], task["source_port"]))
        sock.connect((task["target"], task["target_port"]))
        for number in range(NEVER):
            at = task["start_ns"] + -(-number * interval // parts)
            if at >= task["stop_ns"]:
                return
            clock.sleep_until(at)
            sock.send(STAMP.pack(number, clock.now()) + rest)
            if clock.measure[0] <= clock.now() < clock.measure[1]:
                metrics.sent_in_window += 1


def _probes(task: Mapping[str, Any], metrics: Metrics) -> None:
    app, clock = task["app"], metrics.clock
    clock.sleep_until(task["start_ns"])
    metrics.opened_ns = clock.now()
    _echoes(task["target"], app["payload_bytes"], app["interval_ns"], task["stop_ns"], metrics, linger_ns=0)


def _echoes(target: str, size: int, interval: int, until: int, metrics: Metrics, *, linger_ns: int) -> None:
    """Send ICMP echo requests (RFC 792) at an interval and note when replies come; the other end's kernel
    answers."""
    clock, identifier = metrics.clock, os.getpid() & 0xFFFF
    sent: dict[int, tuple[int, int]] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sock:
        sock.connect((target, 0))
        due, number = clock.now(), 0
        while clock.now() < until + linger_ns and (sent or due < until):
            if due < until and clock.now() >= due:
                sent[number & 0xFFFF] = number, clock.now()
                sock.send(_echo_request(identifier, number & 0xFFFF, size))
                if clock.measure[0] <= clock.now() < clock.measure[1]:
                    metrics.sent_in_window += 1
                due, number = due + interval, number + 1
            wait = (due if due < until else until + linger_ns) - clock.now()
            if not select.select([sock], [], [], max(wait, 0) / 1e9)[0]:
                continue
            packet, now = sock.recv(65535), clock.now()
            message = packet[(packet[0] & 15) * 4 :]
            kind, _, _, whose, which = struct.unpack_from("!BBHHH", message)
            if kind == 0 and whose == identifier and (echo := sent.pop(which, None)) is not None:
                metrics.arrived(echo[0])
                metrics.sample("probe-rtt", now - echo[1], now)
                metrics.took(size)


def _echo_request(identifier: int, number: int, size: int) -> bytes:
    """An ICMP echo request with its checksum (RFC 792, RFC 1071)."""
    packet = struct.pack("!BBHHH", 8, 0, 0, identifier, number) + bytes(size)
    total = sum(struct.unpack(f"!{len(packet) // 2}H", packet[: len(packet) // 2 * 2]))
    total = (total >> 16) + (total & 0xFFFF)
    return packet[:2] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + packet[4:]


# Receivers ----------------------------------------------------------------------------------------------


def _sink(task: Mapping[str, Any], metrics: Metrics) -> End:
    listener = _listener(task)

    def work() -> None:
        sock, _ = listener.accept()
        metrics.ended_ns = _drain(sock, metrics)

    return work


def _asks(task: Mapping[str, Any], metrics: Metrics) -> End:
    listener = _listener(task)
    app, clock = task["app"], metrics.clock

    def work() -> None:
        sock, _ = listener.accept()
        left = app["requests"] or NEVER
        while left and clock.now() < task["stop_ns"]:
            asked = clock.now()
            sock.sendall(bytes(app["request_bytes"]))
            done = _read(sock, app["response_bytes"], metrics)
            if done is None:
                break
            metrics.sample("response", done - asked, done)
            left -= 1
            if app["think_ns"] and left:
                clock.sleep_until(min(done + app["think_ns"], task["stop_ns"]))
        metrics.ended_ns = _drain(sock, metrics)

    return work


def _rounds(tasks: list[Mapping[str, Any]], listeners: list[socket.socket], everyone: list[Metrics]) -> None:
    """Ask all senders at once, wait for all, think, ask again."""
    app, clock = tasks[0]["app"], everyone[0].clock
    sockets = {listener.accept()[0]: metrics for listener, metrics in zip(listeners, everyone, strict=True)}
    left = app["rounds"] or NEVER
    while left and clock.now() < tasks[0]["stop_ns"]:
        asked = last = clock.now()
        missing = dict.fromkeys(sockets, app["size_bytes"])
        for sock in sockets:
            sock.sendall(bytes(app["request_bytes"]))
        slowest = everyone[0]
        while missing:
            for sock in select.select(list(missing), [], [])[0]:
                got = len(sock.recv(min(missing[sock], READ_BYTES)))
                if not got:
                    raise ConnectionError("a sender closed before it had answered")
                last = sockets[sock].took(got)
                missing[sock] -= got
                if not missing[sock]:
                    del missing[sock]
                    slowest = sockets[sock]
                    slowest.sample("response", last - asked, last)
        slowest.sample("round", last - asked, last)
        left -= 1
        if left:
            clock.sleep_until(min(last + app["think_ns"], tasks[0]["stop_ns"]))
    for sock, metrics in sockets.items():
        metrics.ended_ns = _drain(sock, metrics)


def _player(task: Mapping[str, Any], metrics: Metrics) -> End:
    """Fetch chunk after chunk until the buffer is full, then one whenever there is room; play from the first
    on."""
    listener = _listener(task)
    app, clock = task["app"], metrics.clock
    chunk, held = app["chunk_ns"], max(app["buffer_ns"], app["chunk_ns"])

    def work() -> None:
        sock, _ = listener.accept()
        played_out: int | None = None
        while clock.now() < task["stop_ns"]:
            asked = clock.now()
            sock.sendall(bytes(app["request_bytes"]))
            done = _read(sock, _response_bytes(app), metrics)
            if done is None:
                break
            metrics.sample("response", done - asked, done)
            empty_since = done if played_out is None else played_out
            if empty_since < done:
                metrics.sample("stall", done - empty_since, done)
            played_out = max(empty_since, done) + chunk
            clock.sleep_until(min(played_out + chunk - held, task["stop_ns"]))
        metrics.ended_ns = _drain(sock, metrics)

    return work


def _sinks(task: Mapping[str, Any], metrics: Metrics) -> End:
    """Take one transfer after the other; each says at its beginning when it was opened."""
    listener = _listener(task)

    def transfer(sock: socket.socket) -> None:
        stamp = sock.recv(STAMP.size, socket.MSG_WAITALL)
        metrics.took(len(stamp))
        ended = _drain(sock, metrics)
        if len(stamp) == STAMP.size and ended is not None:
            metrics.sample("completion", ended - STAMP.unpack(stamp)[1], ended)

    def work() -> None:
        while True:
            sock, _ = listener.accept()
            one = Metrics("", "", metrics.clock)
            threading.Thread(target=_guarded(partial(transfer, sock), one), daemon=True).start()

    return work


def _datagram_sink(task: Mapping[str, Any], metrics: Metrics) -> End:
    sock = socket.socket(type=socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)
    sock.bind((task["target"], task["target_port"]))

    def work() -> None:
        while True:
            data = sock.recv(65535)
            now = metrics.took(len(data))
            number, sent = STAMP.unpack_from(data)
            metrics.arrived(number)
            metrics.sample("one-way-delay", now - sent, now)

    return work


def _nobody(task: Mapping[str, Any], metrics: Metrics) -> End:
    return lambda: None


_SENDERS: Mapping[str, Callable[[Mapping[str, Any], Metrics], None]] = {
    "bulk": _bulk,
    "fixed": _bulk,
    "rate-limited": _rate_limited,
    "on-off": _on_off,
    "request-response": _answers,
    "incast": _answers,
    "video": _answers,
    "background": _background,
    "udp-cbr": _datagrams,
    "voip": _datagrams,
    "ping": _probes,
}

_RECEIVERS: Mapping[str, Callable[[Mapping[str, Any], Metrics], End]] = {
    "bulk": _sink,
    "fixed": _sink,
    "rate-limited": _sink,
    "on-off": _sink,
    "request-response": _asks,
    "video": _player,
    "background": _sinks,
    "udp-cbr": _datagram_sink,
    "voip": _datagram_sink,
    "ping": _nobody,
}
