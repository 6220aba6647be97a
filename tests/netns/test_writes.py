"""How our own sender writes."""

import select
import socket
import time
from contextlib import contextmanager

from cwndlab.testbeds.live.traffic import apps

BUFFER = 1 << 20


@contextmanager
def connection():
    """Over loopback; the receiver does not read by itself."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as sender:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER // 2)
        sender.connect(listener.getsockname())
        receiver, _ = listener.accept()
        with receiver:
            yield sender, receiver


def test_writes_fill_the_send_buffer_and_end_in_time() -> None:
    clock = apps.Clock((0, 0), 0, time.monotonic_ns())
    with connection() as (sender, _):
        began = clock.now()
        written = apps._write(sender, apps.NEVER, began + 200_000_000, clock, 4096)
        assert clock.now() - began > 0.19e9
    # One that polls before each write is told of room only while a third of the buffer is free.
    polled = 0
    with connection() as (sender, _):
        while select.select([], [sender], [], 0.1)[1]:
            polled += sender.send(bytes(4096))
    assert written > 1.2 * polled


def test_what_a_write_took_before_the_end_is_counted() -> None:
    clock = apps.Clock((0, 0), 0, time.monotonic_ns())
    with connection() as (sender, receiver):
        written = apps._write(sender, 10 * BUFFER, clock.now() + 200_000_000, clock, 10 * BUFFER)
        sender.shutdown(socket.SHUT_WR)
        read = 0
        while got := receiver.recv(1 << 16):
            read += len(got)
        assert read == written > 0
