"""`cwndlab advise`: what it recommends, the lines to paste, and what it refuses."""

import json

import pytest

from cwndlab.analysis.advice import buffers, line
from cwndlab.experiment import units
from cwndlab.results import limits


def asked(rate: str, rtt: str, cc: str | None = None) -> buffers.Asked:
    return buffers.Asked(units.parse_rate(rate), units.parse_time(rtt), cc)


@pytest.mark.slow
def test_buffers_for_a_path(cwndlab):
    ran = cwndlab(
        "advise", "--rate", "100mbit", "--rtt", "200ms", "--stack", "freebsd-13,linux-6.8", "--json"
    )
    assert (ran.code, ran.err) == (0, "")
    freebsd, linux = map(json.loads, ran.out.splitlines())
    assert freebsd["bdp_bytes"] == 2_500_000
    installed, *_ = freebsd["tried"]
    taken = next(each for each in freebsd["tried"] if each["buffers"] == freebsd["take"])
    assert taken["goodput_mbps"] > 1.2 * installed["goodput_mbps"]
    assert freebsd["lines"][0] == "# /etc/sysctl.conf; then: service sysctl restart"
    assert f"net.inet.tcp.recvbuf_max={3 << 20}" in freebsd["lines"]
    assert f"kern.ipc.maxsockbuf={4 << 20}" in freebsd["lines"]
    assert (linux["take"], linux["lines"]) == ("as installed", [])


@pytest.mark.slow
def test_what_is_installed_may_do(cwndlab):
    ran = cwndlab("advise", "--rate", "10mbit", "--rtt", "10ms")
    assert "as installed" in ran.out
    assert "(nothing: what is installed will do)" in ran.out


def test_the_lines_choose_the_congestion_control():
    (stack,) = buffers.stacks("freebsd-13", "cubic")
    lines = buffers.lines(asked("1mbit", "1ms", "cubic"), stack, buffers.Setting("as installed", {}))
    assert lines[:2] == ["# /boot/loader.conf", 'cc_cubic_load="YES"']
    assert lines[-1] == "net.inet.tcp.cc.algorithm=cubic"


def test_linux_names_all_three_values():
    (stack,) = buffers.stacks("linux-6.8", None)
    setting = buffers.Setting("both", {"net.ipv4.tcp_rmem.max": 20971520})
    assert (
        buffers.lines(asked("1mbit", "1ms"), stack, setting)[1] == "net.ipv4.tcp_rmem = 4096 131072 20971520"
    )


def test_no_buffer_is_made_smaller_and_none_larger_than_the_system_takes():
    (stack,) = buffers.stacks("freebsd-13", None)
    assert [each.name for each in buffers.settings(stack, 10_000)] == ["as installed"]
    (*_, largest) = buffers.settings(stack, 1 << 40)
    assert "kern.ipc.maxsockbuf" in largest.sysctls
    assert largest.sysctls == {name: stack.sysctls[name].max for name in largest.sysctls}


@pytest.mark.slow
def test_disciplines_for_a_home_line(cwndlab):
    ran = cwndlab("advise", "--line", "50/10mbit", "--json")
    assert (ran.code, ran.err) == (0, "")
    found = [json.loads(row) for row in ran.out.splitlines()]
    assert [each["queue"] for each in found][-1] == "pfifo"
    assert found[0]["mos"] > 4.3
    assert found[-1]["mos"] < 2
    assert len(found) == len(line.DISCIPLINES)


def test_the_lines_shape_both_ways():
    home = line.parse("50/10mbit", "30ms")
    assert (home.down_bps, home.up_bps) == (50_000_000, 10_000_000)
    cake = line.commands(home, "cake")
    assert cake[0] == "tc qdisc replace dev WAN root cake bandwidth 9.5mbit"
    assert cake[-1] == "tc qdisc replace dev ifb-wan root cake bandwidth 47.5mbit ingress"
    assert "tc class replace dev ifb-wan parent 1: classid 1:1 htb rate 47.5mbit" in line.commands(
        home, "codel"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "error: give --rate and --rtt of a path, or --line\n"),
        (["--line", "50mbit"], "error: --line: found '50mbit', '30ms'; expected DOWN/UP such as 50/10mbit\n"),
        (["--line", "5/1mbit", "--cc", "x"], "error: --line: goes without --rate and --cc\n"),
        (["--rate", "1", "--rtt", "1ms"], "error: --rate: found '1' without a unit; expected a rate"),
        (["--rate", "1mbit", "--rtt", "x"], "error: --rtt: found 'x'; expected a time"),
        (
            ["--rate", "1mbit", "--rtt", "1ms", "--stack", "windows-7"],
            "error: --stack: windows-7 has no sysctls for its buffers; name a FreeBSD or a Linux\n",
        ),
        (
            ["--rate", "1mbit", "--rtt", "1ms", "--cc", "bb"],
            "error: --cc of linux-6.18: 'bb' does not exist; did",
        ),
    ],
)
@pytest.mark.slow
def test_what_is_refused(cwndlab, arguments, said):
    ran = cwndlab("advise", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(said)


@pytest.mark.slow
def test_a_full_link_is_held_back_by_itself_and_a_buffer_by_its_sysctl():
    path = asked("100mbit", "200ms")
    (stack,) = buffers.stacks("freebsd-13", None)
    found = {each.setting.name: each for each in buffers.compare(path, stack, 1)}
    assert found["as installed"].held_by == "kern.ipc.maxsockbuf"
    assert found["receive alone, 5 MiB"].held_by == "net.inet.tcp.sendbuf_max"
    full = [each.held_by for each in found.values() if each.utilisation > 0.98]
    assert full
    assert set(full) <= {"the link", "congestion control"}


def test_limits_of_which_none_is_the_main_one_are_told_with_their_shares():
    row = dict.fromkeys((f"limited_{kind}_pct" for kind in limits.KINDS), 0.0)
    row |= {"limited_cwnd_pct": 30.0, "limited_path_pct": 5.0}
    row |= {"limited_rwnd_pct": 45.0, "limited_app_pct": 20.0}
    row |= {"limited_by": limits.main(row), "utilisation": 0.7, "held_by": None}
    assert row["limited_by"] == limits.SEVERAL
    assert buffers._held_by(row) == "the receiver's window 45 %, the path 35 %, the application 20 %"
