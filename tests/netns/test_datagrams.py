"""Our own sender on real sockets of this machine's loopback interface."""

import socket
import time

import pytest

from cwndlab.testbeds.live.traffic import apps


@pytest.mark.parametrize(("word", "field"), [("off", 0b00), ("ect0", 0b10), ("ect1", 0b01)])
def test_datagrams_carry_the_ecn_field_asked_for(word: str, field: int) -> None:
    """Codepoints of RFC 3168, section 5."""
    clock = apps.Clock((0, apps.NEVER), apps.NEVER, zero_ns=time.monotonic_ns())
    clock.begun.set()
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(30)
        app = {"kind": "udp-cbr", "rate_bps": 1_000_000, "payload_bytes": 200, "ecn": word}
        ends = {"source": "127.0.0.1", "source_port": 0, "target": "127.0.0.1"}
        task = {"flow": "f1", "app": app, **ends, "target_port": sock.getsockname()[1]}
        metrics, send = apps.send({**task, "start_ns": 0, "stop_ns": 1}, clock)
        send()
        assert (metrics.sent_in_window, metrics.error) == (1, None)
        payload, beside, *_ = sock.recvmsg(2048, socket.CMSG_SPACE(1))
    assert len(payload) == 200
    assert beside == [(socket.IPPROTO_IP, socket.IP_TOS, bytes([field]))]
