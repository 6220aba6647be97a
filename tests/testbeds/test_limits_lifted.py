"""What limited a flow, proved by lifting it: more of what is named brings more, more of the rest does not."""

from typing import Any, NamedTuple

import pytest
import short_runs

TEXT = """\
experiment: lifted
duration: 8s
hosts:
  a: {stack: STACK, sndbuf: 2MB, noise: {processing: {mean: 2us, sd: 0us}}}
  b: {stack: OTHER, rcvbuf: 2MB, noise: {processing: {mean: 2us, sd: 0us}}}
network:
  dumbbell:
    left: [a]
    right: [b]
    access: {rate: 10gbit}
    bottleneck: {rate: 50mbit, delay: 10ms, queue: {kind: pfifo, limit: 100p}}
flows: [{name: f, from: a, to: b, app: bulk}]
start_jitter: 0s
measure: {from: 3s}
"""
"""A path of 50 Mbit/s and 20 ms, which 125 kB fill; hosts and buffers that let it be filled many times."""

ROOM = 1.05
"""What lies below is not more: docs/results.md."""

SLOW = "{mean: 600us, sd: 100us}"
"""A packet each 600 us: 19 Mbit/s of data; of acknowledgements, one for two segments, twice that."""


class Case(NamedTuple):
    stack: str
    limit: str
    binds: dict[str, str] = {}  # noqa: RUF012 - read only; a tuple's default is shared
    """What is changed so that this limit binds."""
    other: str = "linux-6.8"
    """The receiver's stack."""
    faster: str = "200mbit"
    """The rate of a path with more room."""


LIFTS = {
    "path": {},
    "rwnd": {"hosts__b__rcvbuf": "16MB"},
    "sndbuf": {"hosts__a__sndbuf": "16MB"},
    "app": {"flows__f__app": "bulk"},
    "host": {f"hosts__{host}__noise__processing": "{mean: 100ns, sd: 0us}" for host in "ab"},
    "pacing": {"hosts__a__stack": "freebsd-13"},
}

LONG = {"network__dumbbell__bottleneck__delay": "100ms"}
"""A path on which a small buffer is on its way in less than a twentieth of the round trip."""

FAST = {
    "network__dumbbell__bottleneck__rate": "10gbit",
    "network__dumbbell__bottleneck__delay": "1ms",
    "network__dumbbell__bottleneck__queue__limit": "10000p",
    "duration": "2s",
    "measure__from": "1s",
    **{f"hosts__{host}__noise__processing": "{mean: 1us, sd: 0us}" for host in "ab"},
    "hosts__a__sndbuf": "8MB",
    "hosts__b__rcvbuf": "8MB",
}

CASES = {
    "FreeBSD, congestion window": Case("freebsd-15-current", "path"),
    "Linux, congestion window": Case("linux-6.18", "path"),
    "Windows, congestion window": Case("windows-7", "path"),
    "FreeBSD, a window that fills the path": Case(
        "freebsd-13", "path", {"hosts__b__rcvbuf": "200KB"}, "freebsd-13"
    ),
    "FreeBSD, receiver's window": Case(
        "freebsd-15-current", "rwnd", {"hosts__b__rcvbuf": "60KB"}, "freebsd-15-current"
    ),
    "Windows, receiver's window": Case("windows-7", "rwnd", {"hosts__b__rcvbuf": "60KB"}, "windows-7"),
    "FreeBSD, send buffer": Case("freebsd-13", "sndbuf", {"hosts__a__sndbuf": "60KB"}),
    # A later Linux fills the windows whenever its writer is woken: the window limits it, and grows slowly.
    "Linux, send buffer": Case("linux-3.9", "sndbuf", {"hosts__a__sndbuf": "20KB", **LONG}),
    "Windows, application": Case(
        "windows-7", "app", {"flows__f__app": "{kind: rate-limited, rate: 20mbit, write: 10KB}"}
    ),
    "FreeBSD, receiving host": Case(
        "freebsd-9.2", "host", {"hosts__b__noise__processing": SLOW}, "freebsd-9.2"
    ),
    "Linux, sending host": Case("linux-6.18", "host", {"hosts__a__noise__processing": SLOW}, "freebsd-13"),
    "FreeBSD's RACK, pacing": Case("freebsd-13/rack", "pacing", FAST, faster="40gbit"),
}


def measured(case: Case, lifted: str | None = None) -> dict[str, Any]:
    text = TEXT.replace("STACK", case.stack).replace("OTHER", case.other)
    changed = {**case.binds, **LIFTS.get(lifted or "", {})}
    if lifted == "path":
        changed["network__dumbbell__bottleneck__rate"] = case.faster
    return short_runs.run(text, **changed).metrics["f"]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_what_is_named_brings_more_and_nothing_else_does(name: str) -> None:
    case = CASES[name]
    found = measured(case)
    assert found["limited_by"] == case.limit, found
    assert (
        found[f"limited_{case.limit}_pct"] + (found["limited_cwnd_pct"] if case.limit == "path" else 0) > 95
    )
    lifts = [lift for lift in LIFTS if lift != "pacing" or "rack" in case.stack]
    gain = {lift: measured(case, lift)["goodput_mbps"] / found["goodput_mbps"] for lift in lifts}
    assert gain.pop(case.limit) > ROOM, "the limit was lifted"
    assert max(gain.values()) < ROOM, gain
