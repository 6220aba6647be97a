"""What the agent sends on this machine's loopback interface."""

import json
import socket
import subprocess
import sys
import time

import pytest

from cwndlab.testbeds.live.traffic.agents import PROGRAM


@pytest.mark.parametrize(("word", "field"), [("off", 0b00), ("ect0", 0b10), ("ect1", 0b01)])
def test_datagrams_carry_the_ecn_field_asked_for(word: str, field: int) -> None:
    """Codepoints of RFC 3168, section 5."""
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(30)
        app = {"kind": "udp-cbr", "rate_bps": 1_000_000, "payload_bytes": 200, "ecn": word}
        ends = {"source": "127.0.0.1", "source_port": 0, "target": "127.0.0.1"}
        told = {"flow": "f1", "app": app, "cc": "reno", **ends, "target_port": sock.getsockname()[1]}
        task = {**told, "start_ns": 0, "stop_ns": 1, "sndbuf": None, "rcvbuf": None, "seed": 1, "repeat": 0}
        window = {"measure": [0, 10**12], "duration_ns": 10**12}
        orders = [
            {"do": "prepare", **window, "sends": [task], "receives": []},
            {"do": "start", "zero_ns": time.monotonic_ns()},
        ]
        command = [sys.executable, "-m", PROGRAM, "test"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as agent:
            assert agent.stdin is not None
            assert agent.stdout is not None
            for order in orders:
                print(json.dumps(order), file=agent.stdin, flush=True)
                assert "error" not in json.loads(agent.stdout.readline())
            payload, beside, *_ = sock.recvmsg(2048, socket.CMSG_SPACE(1))
    assert len(payload) == 200
    assert beside == [(socket.IPPROTO_IP, socket.IP_TOS, bytes([field]))]
