"""Guests as a user has them: a file with a stack `quinn`, its tables, and what is refused."""

from pathlib import Path

import pytest

import cwndlab
from command_line import CommandLine
from cwndlab.errors import CwndlabError
from cwndlab.experiment.catalogue import catalogue
from cwndlab.report.live_page.templates import families_of

FILE = """\
experiment: beside
duration: 4s
hosts:
  a: {stack: quinn, cc: cubic}
  b: {stack: quinn}
  c: {stack: linux-6.18, cc: cubic}
  d: {stack: linux-6.18}
network:
  dumbbell:
    left: [a, c]
    right: [b, d]
    access: {rate: 1gbit}
    bottleneck: {rate: 10mbit, delay: 15ms, queue: {kind: pfifo, limit: 25p}}
flows:
  - {name: quic, from: a, to: b, app: bulk}
  - {name: tcp, from: c, to: d, app: bulk}
repeat: 2
record: {tcp: 10ms}
"""
GUEST = catalogue().newest["quinn"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> cwndlab.ResultSet:
    """Two runs of quinn beside Linux."""
    return cwndlab.load(FILE).run(out=tmp_path_factory.mktemp("guests") / "results", jobs=2)


def test_both_flows_have_their_metrics(results: cwndlab.ResultSet) -> None:
    rows = {(row["flow"], row["repeat"]): row for row in results.summary.to_dicts()}
    assert len(rows) == 4
    for row in rows.values():
        assert row["goodput_mbps"] > 0.2
        assert row["srtt_mean_ms"] > 30
        assert row["cwnd_mean_bytes"] > 5_000
        assert (row["rtos"] is None) == (row["flow"] == "quic")
        assert (row["limited_by"] is None) == (row["flow"] == "quic")


def test_any_number_of_processes_writes_the_same(results: cwndlab.ResultSet, tmp_path: Path) -> None:
    again = cwndlab.load(FILE).run(out=tmp_path / "results", jobs=1)
    assert [brief.identity for brief in again.briefs] == [brief.identity for brief in results.briefs]


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("hosts.a.cc=vegas", f"hosts.a.cc: found 'vegas'; expected one of cubic, newreno, bbr on {GUEST}"),
        ("hosts.a.sysctl.net.ipv4.tcp_sack=0", f"expected a sysctl that {GUEST} models"),
        ("hosts.b.nic.gro=true", f"found gro on {GUEST}; expected false"),
        ("hosts.b.nic.tso=true", f"hosts.b.nic.tso: not for {GUEST}, which is no kernel's TCP"),
        ("hosts.a.sndbuf=600KB", f"hosts.a.sndbuf: not for {GUEST}"),
        ("hosts.b.rcvbuf=600KB", f"hosts.b.rcvbuf: not for {GUEST}"),
        ("hosts.b.ack_every.segments=4", f"hosts.b.ack_every: not for {GUEST}"),
        (
            "hosts.b.ecn=accept",
            f"hosts.b.ecn: found 'accept'; expected on or off, as {GUEST} agrees on nothing",
        ),
        ("flows.quic.to=d", f"flows.quic: leads from {GUEST} to linux-6.18, which speak different protocols"),
        ("flows.quic.sndbuf=600KB", f"sndbuf: {GUEST} does not have it"),
        ("network.dumbbell.access.mtu=1000", f"mss of {GUEST}: found 960; expected at least 1188"),
    ],
)
def test_what_a_guest_does_not_have_is_refused(setting: str, line: str, tmp_path: Path) -> None:
    cwndlab_in = CommandLine(tmp_path)
    ran = cwndlab_in("run", cwndlab_in.file("x.yaml", FILE), "--set", setting)
    assert ran.code == 2
    assert line in ran.err


def test_beside_real_kernels_there_is_no_guest_that_sends_packets() -> None:
    with pytest.raises(CwndlabError, match=r"hosts.a.stack: found 'smoltcp'; expected one of"):
        cwndlab.load(FILE.replace("stack: quinn", "stack: smoltcp"), [], "netns").plan()


def test_a_sweep_of_the_receiver_alone_is_checked() -> None:
    swept = FILE.replace("repeat: 2", "sweep: [{hosts.b.stack: [quinn, linux-6.18]}]")
    with pytest.raises(CwndlabError, match=r"leads from quinn-[0-9.]+ to linux-6.18, which speak different"):
        cwndlab.load(swept).plan()


def test_the_live_page_has_none() -> None:
    assert GUEST not in families_of(catalogue())
    assert set(families_of(catalogue())) == {
        name for name, stack in catalogue().stacks.items() if not stack.guest
    }
