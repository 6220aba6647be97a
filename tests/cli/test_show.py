"""`cwndlab show`: keys and metrics in the width there is, whatever is swept."""

from pathlib import Path

import pytest

from cwndlab import load

FILE = """\
experiment: buffers
duration: 500ms
hosts: {a: {stack: freebsd-15-current}, b: {stack: linux-6.8}}
network: {dumbbell: {left: [a], right: [b], bottleneck: {rate: 10mbit, delay: 1ms}}}
flows: [{name: f1, from: a, to: b, app: bulk}]
sweep:
  - name: acknowledgements
    values:
      as the file has them, which is every second segment: {}
      one for each segment: {hosts.b.ack_every.segments: 1}
  - hosts.a.sysctl:
      - {kern.ipc.maxsockbuf: 33554432, net.inet.tcp.sendbuf_max: 33554432, net.inet.tcp.abc_l_var: 2}
      - {kern.ipc.maxsockbuf: 33554432, net.inet.tcp.sendbuf_max: 33554432, net.inet.tcp.abc_l_var: 8}
  - hosts.b.sysctl.net.ipv4.tcp_rmem: [4096 131072 6291456, 4096 33554432 33554432]
record: {tcp: "off", queue: "off"}
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("show") / "results"
    load(FILE).run(out=place)
    return place


@pytest.mark.slow
@pytest.mark.parametrize("columns", [None, 60, 80, 120])
def test_keys_and_metrics_are_there_in_any_width(cwndlab, results, columns):
    ran = cwndlab("show", results, COLUMNS="" if columns is None else str(columns))
    lines = ran.out.splitlines()[1:]
    assert (columns or 80) - 12 < max(map(len, lines)) <= (columns or 80)
    words = ran.out.split()
    assert {"acknowledgements", "sysctl", "tcp_rmem", "goodput", "util"} <= set(words)
    assert words.count("abc_l_var") == 8 and words.count("33554432") == 8
    assert "{" not in ran.out and "…" not in ran.out


@pytest.mark.slow
def test_columns_asked_for_stand_behind_the_keys(cwndlab, results):
    ran = cwndlab("show", results, "--columns", "rtt_p50_ms,hosts.a.sysctl", COLUMNS="150")
    assert ran.out.splitlines()[0].split() == ["run", "acknowledgements", "sysctl", "tcp_rmem", "RTT", "p50"]
    assert [line.split("  ")[0] for line in ran.out.splitlines()[2:]] == list("01234567")


@pytest.mark.slow
def test_a_label_is_a_value_of_options(cwndlab, results):
    ran = cwndlab("compare", results, "--by", "acknowledgements", "--where", "sysctl=abc_l_var 8")
    same = "one for each segment and as the file has them, which is every second segment gave the same in"
    assert ran.code == 0 and ran.out.startswith(f"{same} every metric in all 2 combinations")
    ran = cwndlab("compare", results, "--by", "sysctl", "--baseline", "abc_l_var 9")
    assert (ran.code, ran.err) == (
        2,
        "error: hosts.a.sysctl: 'abc_l_var 9' does not exist; did you mean abc_l_var 8 or abc_l_var 2?\n",
    )
