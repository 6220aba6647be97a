"""Notes: what is surely not meant is said, and of a file without the fault nothing is."""

import pytest

from cwndlab import load
from cwndlab.experiment import suites
from experiments import dumbbell

HOSTS = {"a": "stack: linux-6.8, cc: cubic", "b": "stack: linux-6.8, cc: cubic"}
BOTTLENECK = "rate: 10mbit, delay: 20ms, queue: {kind: pfifo, limit: 50p}"


def notes(text: str, *overrides: str) -> list[str]:
    plan = load(text, overrides).plan()
    return list(dict.fromkeys(note for run in plan.runs for note in run.notes))


def one_flow(**changed: str) -> str:
    return dumbbell("x", **{"duration": "30s", "bottleneck": BOTTLENECK, **HOSTS, **changed})


GENERAL = """\
experiment: general
duration: 30s
hosts: {a: {stack: linux-6.8, cc: cubic}, b: {stack: linux-6.8, cc: cubic}}
network:
  nodes: [r, s]
  links:
    - {from: a, to: r, rate: 1gbit}
    - {from: s, to: b, rate: 1gbit}
    - {from: r, to: s, name: long, rate: 10mbit, delay: 20ms, loss: {random: 0.1%}}
flows:
  - {name: f1, from: a, to: b}
"""
CHAIN = """\
experiment: chain
duration: 30s
hosts: {a: {stack: linux-6.8, cc: cubic}, m: {stack: linux-6.8, cc: cubic}, b: {stack: linux-6.8, cc: cubic}}
network:
  chain:
    bottlenecks: [{rate: 10mbit, delay: 10ms}, {rate: 20mbit, delay: 10ms}]
    hosts: [[a], [m], [b]]
flows:
  - {name: f1, from: a, to: m}
"""
FREEBSD = "stack: freebsd-15-current, cc: cubic"
TRANSFERS = "{kind: background, load: 1mbit, size: 50KB}"
FIRST = "name: f1, from: a, to: b, stop: 10s"
MAXIMA = "{kern.ipc.maxsockbuf: 2097152, net.inet.tcp.recvbuf_max: 16777216}"

CASES = {
    "hosts on one side": (
        one_flow(c=HOSTS["a"], flow="name: f1, from: a, to: c"),
        one_flow(c=HOSTS["a"], flow="name: f1, from: c, to: b"),
        "flow f1: a and c are on the same side, so that its packets cross no bottleneck",
    ),
    "hosts at one router": (
        CHAIN.replace("hosts: [[a], [m], [b]]", "hosts: [[a, m], [], [b]]"),
        CHAIN,
        "flow f1: a and m are on the same side, so that its packets cross no bottleneck",
    ),
    "the wrong side": (
        one_flow(flow="name: f1, from: b, to: a"),
        one_flow(),
        "flow f1: its data, from b to a, passes bottleneck in the other direction, bottleneck.reverse",
    ),
    "the wrong side, with loss": (
        one_flow(flow="name: f1, from: b, to: a", bottleneck=f"{BOTTLENECK}, loss: {{random: 1%}}"),
        one_flow(bottleneck=f"{BOTTLENECK}, loss: {{random: 1%}}"),
        "flow f1: its data, from b to a, passes bottleneck in the other direction, bottleneck.reverse,"
        " without its loss",
    ),
    "the wrong direction of a cable": (
        GENERAL.replace("from: a, to: b}", "from: b, to: a}"),
        GENERAL,
        "flow f1: its data, from b to a, passes long in the other direction, long.reverse, without its loss",
    ),
    "a slow access": (
        one_flow(access="5mbit"),
        one_flow(access="10mbit"),
        "flow f1: access.a lets 5mbit pass, less than bottleneck, 10mbit: packets wait there, and not in the"
        " queue of bottleneck",
    ),
    "a slow egress": (
        one_flow(a="stack: linux-6.8, cc: cubic, egress: {rate: 2mbit}", b=HOSTS["b"]),
        one_flow(a="stack: linux-6.8, cc: cubic, egress: {rate: 20mbit}", b=HOSTS["b"]),
        "flow f1: the egress of a lets 2mbit pass, less than bottleneck, 10mbit: packets wait there, and not"
        " in the queue of bottleneck",
    ),
    "ECN without marks": (
        one_flow(a="stack: linux-6.8, cc: cubic, ecn: on"),
        one_flow(
            a="stack: linux-6.8, cc: cubic, ecn: on",
            bottleneck="rate: 10mbit, delay: 20ms, queue: {kind: codel, ecn: true}",
        ),
        "flow f1: ECN is on, and no queue on its way marks (pfifo at bottleneck)",
    ),
    "ECN that the queue leaves off": (
        one_flow(
            a="stack: linux-6.8, cc: cubic, ecn: on", bottleneck="rate: 10mbit, delay: 20ms, queue: codel"
        ),
        one_flow(
            a="stack: linux-6.8, cc: cubic, ecn: on", bottleneck="rate: 10mbit, delay: 20ms, queue: fq_codel"
        ),
        "flow f1: ECN is on, and no queue on its way marks (codel at bottleneck)",
    ),
    "ECN that the receiver does not accept": (
        one_flow(
            a="stack: linux-6.8, cc: cubic, ecn: on",
            b="stack: linux-6.8, ecn: off",
            bottleneck="rate: 10mbit, delay: 20ms, queue: fq_codel",
        ),
        one_flow(
            a="stack: linux-6.8, cc: cubic, ecn: on", bottleneck="rate: 10mbit, delay: 20ms, queue: fq_codel"
        ),
        "flow f1: ECN is on at a, and b does not accept it (ecn: off)",
    ),
    "datagrams with ECN": (
        one_flow(flow="name: f1, from: a, to: b, app: {kind: udp-cbr, rate: 1mbit, ecn: ect1}"),
        one_flow(flow="name: f1, from: a, to: b, app: {kind: udp-cbr, rate: 1mbit}"),
        "flow f1: ECN is on, and no queue on its way marks (pfifo at bottleneck)",
    ),
    "a buffer that Linux cuts": (
        one_flow(a="stack: linux-6.8, cc: cubic, sndbuf: 4MB, sysctl: {net.core.wmem_max: 1000000}"),
        one_flow(a="stack: linux-6.8, cc: cubic, sndbuf: 4MB"),
        "flow f1: sndbuf 4MB of a is cut to 1MB by its net.core.wmem_max",
    ),
    "a buffer that FreeBSD refuses": (
        one_flow(b=f"{FREEBSD}, rcvbuf: 2MB, sysctl: {{kern.ipc.maxsockbuf: 2097152}}"),
        one_flow(b=f"{FREEBSD}, rcvbuf: 2MB"),
        "flow f1: rcvbuf 2MB of b is refused, as its kern.ipc.maxsockbuf of 2MiB allows 1864135B: it stays as"
        " without rcvbuf",
    ),
    "autotuning that ends before its maximum": (
        one_flow(b=f"{FREEBSD}, sysctl: {MAXIMA}"),
        one_flow(b=f"{FREEBSD}, sysctl: {MAXIMA.replace('2097152', '33554432')}"),
        "flow f1: net.inet.tcp.recvbuf_max of b is 16MiB, and its kern.ipc.maxsockbuf of 2MiB ends autotuning"
        " at 1864135B or before",
    ),
    "an end before measure": (
        one_flow(flow="name: f1, from: a, to: b, stop: 5s", more="measure: {from: 10s}\n"),
        one_flow(flow="name: f1, from: a, to: b, stop: 11s", more="measure: {from: 10s}\n"),
        "flow f1: it stops at 5s, and `measure` begins at 10s: no metric covers it",
    ),
    "a start after measure": (
        one_flow(flow="name: f1, from: a, to: b, start: 25s", more="measure: {to: 20s}\n"),
        one_flow(flow="name: f1, from: a, to: b, start: 15s", more="measure: {to: 20s}\n"),
        "flow f1: it starts at 25s, and `measure` ends at 20s: no metric covers it",
    ),
    "a size that has arrived before measure": (
        one_flow(flow="name: f1, from: a, to: b, bytes: 1MB", more="measure: {from: 10s}\n"),
        one_flow(flow="name: f1, from: a, to: b, bytes: 10MB", more="measure: {from: 10s}\n"),
        "flow f1: its 1MB take 800ms at the rate of bottleneck, and `measure` begins at 10s, when all has"
        " arrived: it has no goodput and no RTT",
    ),
    "transfers that learn nothing": (
        one_flow(flow=f"name: f1, from: a, to: b, app: {TRANSFERS}"),
        one_flow(
            flow=f"name: f1, from: a, to: b, app: {TRANSFERS}",
            a=f"{HOSTS['a']}, sysctl: {{net.ipv4.tcp_no_metrics_save: 1}}",
        ),
        "flow f1: each of its transfers begins without what earlier connections of a have learnt; its system"
        " keeps that by default, as the sysctl net.ipv4.tcp_no_metrics_save: 0 does",
    ),
    "a connection that learns nothing": (
        one_flow(a=FREEBSD, flow=f"{FIRST}}}\n  - {{name: f2, from: a, to: b, start: 20s"),
        one_flow(a=FREEBSD, flow=f"{FIRST}}}\n  - {{name: f2, from: a, to: b, start: 5s"),
        "flow f2: it begins without what earlier connections of a have learnt; its system keeps that by"
        " default, as the sysctl net.inet.tcp.hostcache.enable: 1 does",
    ),
    "no time for a handshake": (
        one_flow(duration="30ms"),
        one_flow(duration="70ms"),
        "flow f1: it lasts 30ms; its handshake takes 40.2ms at least, and its first data 20ms more:"
        " nothing arrives",
    ),
    "a level twice": (
        one_flow(more="sweep:\n  - hosts.a.cc: [cubic, reno, cubic]\n"),
        one_flow(more="sweep:\n  - hosts.a.cc: [cubic, reno]\n"),
        "sweep: hosts.a.cc: cubic is there twice; each makes the same runs",
    ),
    "a level in two ways": (
        one_flow(more="sweep:\n  - hosts.a.cc: [reno, newreno, cubic]\n  - hosts.b.rcvbuf: [1MB, 2MB]\n"),
        one_flow(more="sweep:\n  - hosts.a.cc: [reno, cubic]\n  - hosts.b.rcvbuf: [1MB, 2MB]\n"),
        "sweep: hosts.a.cc: reno and newreno make the same runs",
    ),
    "two levels with one meaning": (
        one_flow(
            more="sweep: [{name: x, values: {plain: {}, same: {hosts.a.cc: cubic}, r: {hosts.a.cc: reno}}}]\n"
        ),
        one_flow(more="sweep:\n  - {name: x, values: {plain: {}, r: {hosts.a.cc: reno}}}\n"),
        "sweep: x: plain and same make the same runs",
    ),
    "an axis that changes nothing": (
        one_flow(more="sweep:\n  - hosts.b.cc: [reno, cubic]\n  - duration: [10s, 20s]\n"),
        one_flow(more="sweep:\n  - hosts.a.cc: [reno, cubic]\n  - duration: [10s, 20s]\n"),
        "sweep: hosts.b.cc: changes nothing, reno and cubic make the same runs",
    ),
}
"""By what is wrong: a file with it, the same without, and the note."""


@pytest.mark.parametrize("case", CASES)
def test_each_fault_has_its_note_and_no_other_file_has_one(case: str) -> None:
    wrong, right, note = CASES[case]
    assert notes(wrong) == [note]
    assert notes(right) == []


def test_a_size_that_may_still_be_on_its_way_has_none() -> None:
    size = {"flow": "name: f1, from: a, to: b, bytes: 1MB", "more": "measure: {from: 10s}\n"}
    assert len(notes(one_flow(**size))) == 1
    other = "name: f2, from: a, to: b"
    calls = f"{other}, app: {{kind: udp-cbr, rate: 9mbit}}"
    for flow in (other, calls):  # which may fill the queue, or leave little of the link
        assert not notes(one_flow(**size | {"flow": f"{size['flow']}}}\n  - {{{flow}"}))
    assert not notes(one_flow(**size, bottleneck=f"{BOTTLENECK}, loss: {{random: 5%}}"))
    assert not notes(one_flow(**size, b=f"{HOSTS['b']}, rcvbuf: 8KiB"))


def test_several_flows_share_a_sentence() -> None:
    text = one_flow(access="2mbit", flow="name: f, from: a, to: b, count: 6")
    (note,) = notes(text)
    assert note.startswith("flows f.1, f.2, f.3, f.4 and 2 more: access.a lets 2mbit pass")


def test_many_slow_hosts_fill_a_bottleneck() -> None:
    many = one_flow(a=f"{HOSTS['a']}, count: 4", access="5mbit", b=HOSTS["b"])
    assert (
        notes(
            many.replace("access: {rate: 5mbit}", "access: {rate: 5mbit}\n    access_of: {b: {rate: 1gbit}}")
        )
        == []
    )


def test_a_way_back_that_is_described_is_meant() -> None:
    download = one_flow(flow="name: f1, from: b, to: a").replace(
        "bottleneck: {", "reverse: {rate: 50mbit}\n    bottleneck: {"
    )
    assert notes(download) == []
    both = one_flow(more="  - {name: f2, from: b, to: a}\n", bottleneck=f"{BOTTLENECK}, loss: {{random: 1%}}")
    assert notes(both) == []


def test_what_the_schedule_changes_counts() -> None:
    later = "schedule: [{at: 10s, set: {queue: fq_codel}}]"
    asking = {"a": "stack: linux-6.8, cc: cubic, ecn: on", "access": "5mbit"}
    assert notes(one_flow(**asking, bottleneck=f"{BOTTLENECK}, {later}".replace("10mbit", "1mbit"))) == []
    slower = "schedule: [{at: 10s, set: {rate: 4mbit}}]"
    assert notes(one_flow(access="5mbit", bottleneck=f"{BOTTLENECK}, {slower}")) == []


def test_built_in_suites_are_meant_as_they_stand() -> None:
    for suite in suites.suites():
        assert notes(suite.path.read_text()) == [], suite.name
