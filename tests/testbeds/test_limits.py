"""What limits a sender, in cases built so that one thing does; recorded buffers, windows and rates."""

import itertools

import pytest
import short_runs

PATH = """\
experiment: limits
duration: 8s
hosts:
  a: {stack: STACK}
  b: {stack: linux-6.8, rcvbuf: 64MB}
network:
  dumbbell:
    left: [a]
    right: [b]
    access: {rate: 10gbit}
    bottleneck: {rate: 100mbit, delay: 40ms, queue: {kind: pfifo, limit: 2000p}}
flows: [{name: f, from: a, to: b, app: bulk}]
start_jitter: 0s
measure: {from: 3s}
"""
BDP = 100e6 * 0.08 / 8
"""Bytes that fill the path."""

STACKS = (
    "freebsd-9.2",
    "freebsd-11",
    "freebsd-13",
    "freebsd-13/rack",
    "freebsd-15-current",
    "freebsd-15-current/rack",
    "linux-3.9",
    "linux-6.8",
    "linux-6.18",
    "windows-7",
)

CASES = {
    "cwnd": {"network__dumbbell__bottleneck__queue__limit": "20p"},
    "rwnd": {"hosts__b__rcvbuf": "200KB", "hosts__a__sndbuf": "16MB"},
    "sndbuf": {"hosts__a__sndbuf": "200KB"},
    "app": {"flows__f__app": "{kind: rate-limited, rate: 5mbit, write: 10KB}"},
}
"""What is changed so that this limit binds, and no other."""


def path(stack: str) -> str:
    return PATH.replace("STACK", stack)


def shares(run: short_runs.Short) -> dict[str, float]:
    return {name: run.metrics["f"][f"limited_{name}_pct"] for name in CASES}


@pytest.mark.parametrize("limit", CASES)
@pytest.mark.parametrize("stack", STACKS)
def test_the_limit_that_binds_is_the_one_that_is_named(stack: str, limit: str) -> None:
    run = short_runs.run(path(stack), **CASES[limit])
    found = shares(run)
    assert found[limit] > 90, found
    assert sum(found.values()) == pytest.approx(100, abs=0.5)
    if limit in ("rwnd", "sndbuf"):
        assert run.metrics["f"]["goodput_mbps"] < 40, "the path is not filled"


FREEBSD = [stack for stack in STACKS if stack.startswith("freebsd")]
LARGEST = 2097152 * 2048 // 2304
"""What kern.ipc.maxsockbuf of 2 MiB leaves for a buffer."""


@pytest.mark.parametrize("stack", FREEBSD)
def test_freebsds_send_buffer_ends_below_maxsockbuf_and_is_what_limits(stack: str) -> None:
    run = short_runs.run(
        path(stack),
        hosts__a__sysctl="{net.inet.tcp.sendbuf_max: 2097152, kern.ipc.maxsockbuf: 2097152}",
        network__dumbbell__bottleneck__rate="1gbit",
    )
    buffers = [row["send_buffer_bytes"] for row in run.rows["tcp"]]
    # The last step that fitted: 8 KiB with the default stack, a fifth with RACK.
    step = 6 / 5 if "rack" in stack else (LARGEST + 8192) / LARGEST
    assert LARGEST / step < buffers[-1] <= LARGEST
    assert buffers == sorted(buffers)
    assert max(row["inflight_bytes"] for row in run.rows["tcp"]) <= buffers[-1]
    assert min(row["send_window_bytes"] for row in run.rows["tcp"][-100:]) > 2 * LARGEST
    assert shares(run)["sndbuf"] > 90, shares(run)


@pytest.mark.parametrize("stack", FREEBSD)
def test_freebsds_receive_buffer_ends_below_maxsockbuf(stack: str) -> None:
    run = short_runs.run(
        path("linux-6.8"),
        duration="16s",
        hosts__a__sndbuf="64MB",
        hosts__b=f"{{stack: {stack}}}",
        network__dumbbell__bottleneck__rate="1gbit",
    )
    buffers = [row["receive_buffer_bytes"] for row in run.rows["tcp"]]
    grows_by_half = not stack.startswith(("freebsd-9", "freebsd-11"))
    step = 3 / 2 if grows_by_half else (LARGEST + 16384) / LARGEST
    assert LARGEST / step < buffers[-1] <= LARGEST
    assert max(row["receive_window_bytes"] for row in run.rows["tcp"]) <= buffers[-1]


@pytest.mark.slow
def test_linuxs_send_buffer_at_the_end_of_tcp_wmem_is_what_limits() -> None:
    for stack in ("linux-3.9", "linux-6.8", "linux-6.18"):
        run = short_runs.run(
            path(stack),
            hosts__a__sysctl="{net.ipv4.tcp_wmem: 4096 16384 4194304}",
            network__dumbbell__bottleneck__rate="1gbit",
        )
        assert run.rows["tcp"][-1]["send_buffer_bytes"] == 4194304
        assert shares(run)["sndbuf"] > 90, (stack, shares(run))


def test_datagrams_are_limited_by_nothing_that_is_counted() -> None:
    run = short_runs.run(path("linux-6.8"), flows__f__app="ping")
    assert shares(run) == dict.fromkeys(CASES)


def test_the_retransmission_timeout_and_both_windows_are_recorded() -> None:
    run = short_runs.run(path("linux-6.8"))
    for row in run.rows["tcp"][10:]:
        assert row["rto_ns"] >= 200_000_000
        assert row["rto_ns"] >= row["srtt_ns"]
        assert 0 < row["receive_window_bytes"] <= row["receive_buffer_bytes"]
        assert row["inflight_bytes"] <= row["send_window_bytes"]


def test_what_arrives_never_exceeds_the_link_and_goodput_catches_up() -> None:
    run = short_runs.run(
        path("linux-3.9"),
        duration="60s",
        network__dumbbell__bottleneck__rate="2mbit",
        network__dumbbell__bottleneck__queue__limit="200p",
        record__tcp="per-ack",
    )
    rows = run.rows["tcp"]
    second, marks = 0, {name: [0] for name in ("arrived_bytes", "delivered_bytes")}
    for before, row in itertools.pairwise(rows):
        while row["t_ns"] > (second + 1) * 10**9:
            second += 1
            for name, totals in marks.items():
                totals.append(before[name])
    rates = {name: [8e-6 * (b - a) for a, b in itertools.pairwise(totals)] for name, totals in marks.items()}
    packet = 1514 * 8e-6
    assert max(rates["arrived_bytes"]) <= 2.0 + 2 * packet
    assert max(rates["delivered_bytes"]) > 2.5, "a hole is filled, and all behind it counts at once"
    assert sum(rates["arrived_bytes"]) >= sum(rates["delivered_bytes"])
