"""Record what Linux's tbf with a pfifo or bfifo does to bursts of packets, for the tests to repeat.

Run it as root in this directory, on a quiet machine with sch_tbf: `python3 kernel.py`. Two network namespaces
are joined by a veth pair whose sending end is shaped; UDP datagrams are sent at known times, and their
arrivals noted. It writes ../vectors/kernel-CASE.txt with lines

    kernel RELEASE
    shaper JSON                      the configuration
    queue JSON
    sent AT_NS BYTES                 IP packets in order, with the time just before the kernel got them
    received AT_NS PACKET            when they came out of the pair (the kernel's time stamp), and which
"""

import json
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

HEADERS = 28
"""Bytes of the IPv4 and UDP headers."""


def tc(words: str) -> None:
    """Run an `ip` or `tc` command."""
    subprocess.run(words.split(), check=True)


def receive(seconds: float) -> None:
    """Print the arrival time and number of every datagram."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inbox:
        inbox.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        # SO_TIMESTAMPNS: two 64-bit numbers, seconds and nanoseconds of the wall clock, with every datagram.
        inbox.setsockopt(socket.SOL_SOCKET, 35, 1)
        ahead = time.time_ns() - time.monotonic_ns()
        inbox.bind(("10.9.9.2", 9999))
        inbox.settimeout(seconds)
        print("ready", flush=True)
        try:
            while True:
                data, control, _, _ = inbox.recvmsg(2048, 64)
                seconds, nanoseconds = struct.unpack("qq", control[0][2])
                print(seconds * 10**9 + nanoseconds - ahead, int.from_bytes(data[:4], "big"))
        except TimeoutError:
            pass


def send(plan: list[tuple[float, int]]) -> None:
    """Send datagrams, each (pause before it in s, bytes of the IP packet), and print when."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outbox:
        # SO_SNDBUFFORCE: a full socket buffer must not slow the sender down.
        outbox.setsockopt(socket.SOL_SOCKET, 32, 1 << 22)
        outbox.connect(("10.9.9.2", 9999))
        lines = []
        for number, (pause, size) in enumerate(plan):
            if pause:
                time.sleep(pause)
            lines.append(f"{time.monotonic_ns()} {size}")
            outbox.send(number.to_bytes(4, "big") + bytes(size - HEADERS - 4))
        print("\n".join(lines))


def record(name: str, rate: int, burst: int, queue: dict, plan: list[tuple[float, int]]) -> None:
    """Set up, send a plan, and write what happened."""
    tc("ip netns add cwlab-a")
    tc("ip netns add cwlab-b")
    try:
        tc("ip -n cwlab-a link add va type veth peer name vb netns cwlab-b")
        tc("ip -n cwlab-a link set va up address 02:00:00:00:00:0a")
        tc("ip -n cwlab-b link set vb up address 02:00:00:00:00:0b")
        tc("ip -n cwlab-a address add 10.9.9.1/24 dev va")
        tc("ip -n cwlab-b address add 10.9.9.2/24 dev vb")
        tc("ip -n cwlab-a neighbour add 10.9.9.2 lladdr 02:00:00:00:00:0b dev va nud permanent")
        bytes_limit = queue.get("limit_bytes", 1_000_000)
        tbf = f"tbf rate {rate}bit burst {burst} limit {bytes_limit}"
        tc(f"tc -n cwlab-a qdisc add dev va root handle 1: {tbf}")
        if queue["kind"] == "pfifo":
            tc(f"tc -n cwlab-a qdisc add dev va parent 1: handle 10: pfifo limit {queue['limit_packets']}")
        run = ["nice", "-n", "-20", "ip", "netns", "exec"]
        this = [sys.executable, "-B", __file__]
        inbox = subprocess.Popen([*run, "cwlab-b", *this, "receive"], stdout=subprocess.PIPE, text=True)
        assert inbox.stdout is not None
        inbox.stdout.readline()
        sender = [*run, "cwlab-a", *this, "send", json.dumps(plan)]
        sent = subprocess.run(sender, check=True, capture_output=True, text=True).stdout
        received = inbox.communicate()[0]
    finally:
        tc("ip netns del cwlab-a")
        tc("ip netns del cwlab-b")
    shaper = {"kind": "token-bucket", "rate_bps": rate, "burst_bytes": burst}
    lines = [f"kernel {os.uname().release}", f"shaper {json.dumps(shaper)}", f"queue {json.dumps(queue)}"]
    start = int(sent.split()[0])
    for word, text in (("sent", sent), ("received", received)):
        rows = [line.split() for line in text.splitlines()]
        lines += [f"{word} {int(at) - start} {what}" for at, what in rows]
    path = Path(__file__).parent.parent / "vectors" / f"kernel-{name}.txt"
    path.write_text("\n".join(lines) + "\n")
    print(f"{name}: {len(sent.splitlines())} sent, {len(received.splitlines())} received")


def main() -> None:
    """Record both cases: 200 kbit/s, so that a packet of 1000 bytes takes 40.6 ms.

    Pauses end halfway between two departures: which packets find room does not depend on a few milliseconds.
    """
    packet = 1014 * 8 / 200_000
    plan = [(0.0, 1000)] * 40
    for departures in (3.5, 1, 7, 12):
        plan += [(departures * packet, 1000), *[(0.0, 1000)] * 15]
    plan += [(2.0, 1400), *[(0.0, size) for size in (200, 1400, 60, 1400, 900) * 6]]
    record("tbf-pfifo", 200_000, 5070, {"kind": "pfifo", "limit_packets": 10}, plan)
    record("tbf-bfifo", 200_000, 3042, {"kind": "bfifo", "limit_bytes": 15_000}, plan)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    elif sys.argv[1] == "receive":
        receive(2.0)
    else:
        send(json.loads(sys.argv[2]))
