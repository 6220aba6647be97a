"""Modules of our own writing for Linux 3.9's hooks: when each is called and with what, Reno, the guess."""

import shutil
from itertools import pairwise
from pathlib import Path

import pytest

import cwndlab as api
from cwndlab.errors import InputError
from experiments import dumbbell

MODULES = Path(__file__).parent / "modules"

EXPERIMENT = dumbbell(
    "own",
    duration="8s",
    a="stack: linux-3.9, cc: new",
    b="stack: linux-3.9",
    bottleneck="rate: 20mbit, delay: 10ms, queue: {kind: pfifo, limit: 50p}",
    flow="name: f, from: a, to: b, stop: 6s",
)

BOTTLENECK = "network.dumbbell.bottleneck"
IDLE = ["flows.f.app={kind: request-response, response: 100KB, think: 500ms}"]
OUTAGE = [f"{BOTTLENECK}.schedule=[{{at: 2s, set: {{down: true}}}}, {{at: 3s, set: {{down: false}}}}]"]
REORDERING = [f"{BOTTLENECK}.jitter={{kind: normal, sd: 5ms, reorder: true}}"]


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """Runs the module that writes its calls down, with settings; the calls."""
    said = tmp_path / "said"
    monkeypatch.setenv("TCP_EVERY", str(said))

    def run(*sets):
        said.unlink(missing_ok=True)
        results = api.load(EXPERIMENT, list(sets), cc=[own("tcp_every_3_9.c")]).run(out=tmp_path / "out")
        assert next(iter(results.records())).error is None
        shutil.rmtree(tmp_path / "out")
        return said.read_text().splitlines()

    return run


def own(name, abi="linux-3.9"):
    return f"new={MODULES / name},abi={abi}"


def rows(results):
    return results.rows(0).drop_columns(["run_id"]).to_pylist()


def position(said, *following):
    """Where these lines follow each other."""
    size = len(following)
    return next(at for at in range(len(said)) if tuple(said[at : at + size]) == following)


@pytest.mark.slow
def test_every_hook_is_called_but_the_one_that_3_9_does_not_call(calls):
    said = {line.partition(" ")[0] for sets in (OUTAGE, REORDERING) for line in calls(*sets)}
    hooks = {"init", "release", "ssthresh", "cong_avoid", "set_state", "cwnd_event", "pkts_acked"}
    # min_cwnd is in the structure, and nobody calls it since 3.7.
    assert said == {*hooks, "undo_cwnd", "get_info"}


@pytest.mark.slow
def test_an_ack_is_an_event_then_packets_then_growth(calls):
    said = [line for line in calls() if line != "get_info"]
    assert said[:2] == ["init", "cwnd_event TX_START"]
    assert said[-1] == "release"
    assert said.count("init") == said.count("release") == 1
    for before, after in pairwise(said):
        if after.startswith("pkts_acked"):
            assert before in {"cwnd_event FAST_ACK", "cwnd_event SLOW_ACK"}
        if after.startswith("cong_avoid"):
            assert before.startswith("pkts_acked")
    assert "cwnd_event FAST_ACK" in said


@pytest.mark.slow
def test_growth_is_told_what_was_in_flight_before_the_ack(calls):
    said = [line for line in calls() if line != "get_info"]
    seen = 0
    for before, after in pairwise(said):
        if after.startswith("cong_avoid 0 "):
            was, now = map(int, after.split()[2:])
            assert was == now + int(before.split()[1])
            seen += 1
    assert seen > 1000


@pytest.mark.slow
def test_a_recovery_begins_with_a_threshold_and_ends_with_an_event(calls):
    said = calls()
    begun = position(said, "set_state 3")
    assert said[begun - 1].startswith("ssthresh ")
    assert position(said, "set_state 0", "cwnd_event COMPLETE_CWR") > begun


@pytest.mark.slow
def test_a_timeout_is_doubted_first_or_believed(calls):
    doubted = calls(*OUTAGE)
    at = position(doubted, "cwnd_event FRTO", "set_state 1")
    assert doubted[at - 1].startswith("ssthresh ")
    assert "set_state 4" in doubted[at:]
    assert "cwnd_event LOSS" not in doubted
    believed = calls(*OUTAGE, "hosts.a.sysctl.net.ipv4.tcp_frto=0")
    at = position(believed, "cwnd_event LOSS", "set_state 4")
    assert believed[at - 1].startswith("ssthresh ")
    assert "cwnd_event FRTO" not in believed


@pytest.mark.slow
def test_a_restart_after_an_idle_time_is_an_event(calls):
    position(calls(*IDLE), "cwnd_event CWND_RESTART", "cwnd_event TX_START")


@pytest.mark.slow
@pytest.mark.parametrize("hz", [1000, 250])
def test_round_trips_are_jiffies_unless_microseconds_are_asked_for(calls, hz):
    clock = f"hosts.a.hz={hz}"
    coarse = [line.split() for line in calls(clock) if line.startswith("pkts_acked")]
    assert all(int(rtt) == -1 or int(rtt) % (1_000_000 // hz) == 0 for _, _, rtt, _ in coarse)
    fine = calls(clock, "hosts.a.sysctl.module.tcp_every_3_9.stamped=1")
    samples = [int(line.split()[2]) for line in fine if line.startswith("pkts_acked")]
    assert any(rtt > 0 and rtt % 1000 for rtt in samples)
    # srtt is in jiffies.
    assert all(int(srtt) <= 0.2 * hz for *_, srtt in coarse)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sets",
    [[], OUTAGE, REORDERING, ["hosts.a.hz=250"], [f"{BOTTLENECK}.loss={{random: 1%}}"], IDLE],
    ids=["queue", "outage", "reordering", "hz", "loss", "idle"],
)
def test_the_kernels_reno_is_the_engines(tmp_path, sets):
    foreign = api.load(EXPERIMENT, sets, cc=[own("tcp_own_reno_3_9.c")]).run(out=tmp_path / "foreign")
    built_in = api.load(EXPERIMENT, [*sets, "hosts.a.cc=reno"]).run(out=tmp_path / "built-in")
    assert rows(foreign) == rows(built_in)


@pytest.mark.slow
def test_limited_slow_start_and_offload_are_the_hosts(tmp_path):
    sets = ["hosts.a.sysctl.net.ipv4.tcp_max_ssthresh=20", "hosts.a.sysctl.net.ipv4.tcp_tso_win_divisor=20"]
    foreign = api.load(EXPERIMENT, sets, cc=[own("tcp_own_reno_3_9.c")]).run(out=tmp_path / "foreign")
    built_in = api.load(EXPERIMENT, [*sets, "hosts.a.cc=reno"]).run(out=tmp_path / "built-in")
    usual = api.load(EXPERIMENT, ["hosts.a.cc=reno"]).run(out=tmp_path / "usual")
    assert rows(foreign) == rows(built_in) != rows(usual)


@pytest.mark.slow
def test_a_newer_stack_runs_it_and_has_no_events_of_old(calls):
    said = calls("hosts.a.stack=linux-6.18")
    assert sum(line.startswith("cong_avoid") for line in said) > 1000
    assert not {"cwnd_event FAST_ACK", "cwnd_event SLOW_ACK", "cwnd_event FRTO"} & set(said)
    assert not [line for line in said if line.startswith("pkts_acked 0 ")]


@pytest.mark.slow
def test_an_older_stack_tells_a_newer_module_no_events_of_old(tmp_path):
    # It stops at what its enumeration does not have.
    module = own("tcp_newer_events.c", "linux-6.12")
    results = api.load(EXPERIMENT, OUTAGE, cc=[module]).run(out=tmp_path / "out")
    assert next(iter(results.records())).error is None


@pytest.mark.parametrize(
    ("module", "line"),
    [
        (own("tcp_missing.c"), "tcp_of_another_kernel: the headers for linux-3.9 do not have it"),
        (own("tcp_own_reno.c"), "tcp_reno_undo_cwnd"),
        (own("tcp_own_reno_3_9.c", "linux-6.12"), "no member named 'min_cwnd'"),
        (
            f"new={MODULES}/tcp_two_meanings.c",
            "linux-6.12, linux-6.18, linux-7.2, which differ in what hooks mean; add ,abi=ABI",
        ),
        (f"new={MODULES}/tcp_missing.c", "for linux-7.2: tcp_of_another_kernel: the headers for linux-7.2"),
        (f"new={MODULES}/cc_lacking.c", "for freebsd-15: tcp_of_another_release: the headers for freebsd-15"),
    ],
)
@pytest.mark.slow
def test_what_is_refused(module, line):
    with pytest.raises(InputError, match=r".") as refused:
        api.load(EXPERIMENT, cc=[module])
    assert line in str(refused.value)


@pytest.mark.slow
def test_the_interface_is_guessed_where_it_alone_compiles(tmp_path):
    results = api.load(EXPERIMENT, cc=[f"new={MODULES}/tcp_own_reno_3_9.c"]).run(out=tmp_path / "out")
    assert next(iter(results.records())).versions["cc new"].startswith("linux-3.9 ")


@pytest.mark.parametrize(("system", "include"), [("linux-7.2", "net/tcp.h"), ("freebsd-15", "sys/param.h")])
@pytest.mark.slow
def test_a_header_that_is_missing_is_named_by_its_family(tmp_path, system, include):
    source = tmp_path / "tcp_lost.c"
    identity = '__FBSDID("as in sources of FreeBSD");\n' if system == "freebsd-15" else ""
    source.write_text(
        f"#include <sys/cdefs.h>\n{identity}#include <{include}>\n#include <netinet/cc/cc_lost.h>\n"
    )
    with pytest.raises(InputError, match=rf"for {system}: .*netinet/cc/cc_lost\.h: No such file"):
        api.load(EXPERIMENT, cc=[f"new={source}"])
