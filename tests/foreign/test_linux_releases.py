"""Modules for Linux as they are written out of tree, through the interface of each release since 4.4."""

import re
from pathlib import Path

import pytest

import cwndlab as api
from cwndlab.errors import InputError
from cwndlab.foreign import sources
from cwndlab.foreign.compilation import ABIS
from experiments import dumbbell

MODULES = Path(__file__).parent / "modules"
RELEASES = [abi for abi in ABIS if abi.startswith("linux-") and abi not in ("linux-3.9", "linux-4.4")]

EXPERIMENT = dumbbell(
    "own",
    duration="3s",
    a="stack: linux-6.18, cc: new",
    b="stack: linux-6.18",
    bottleneck="rate: 20mbit, delay: 10ms, queue: {kind: pfifo, limit: 50p}",
    flow="name: f, from: a, to: b",
)


def rows(results):
    return results.rows(0).drop_columns(["run_id"]).to_pylist()


def run(tmp_path, file, abi, *sets):
    loaded = api.load(EXPERIMENT, list(sets), cc=[f"new={MODULES}/{file},abi={abi}"])
    return loaded.run(out=tmp_path / "out")


def error(results):
    return next(iter(results.records())).error


@pytest.mark.parametrize("abi", RELEASES)
@pytest.mark.slow
def test_reno_out_of_tree_is_the_engines_and_reads_the_peers_timestamps(tmp_path, abi):
    foreign = run(tmp_path, "tcp_out_of_tree.c", abi)
    assert error(foreign) is None
    assert rows(foreign) == rows(api.load(EXPERIMENT, ["hosts.a.cc=reno"]).run(out=tmp_path / "built-in"))


@pytest.mark.slow
def test_what_waits_to_be_sent_is_seen(tmp_path):
    failed = run(tmp_path, "tcp_out_of_tree.c", "linux-5.10", "hosts.a.sysctl.module.tcp_out_of_tree.fails=1")
    assert "pkts_acked stopped: BUG_ON" in error(failed)


@pytest.mark.slow
def test_without_timestamps_there_are_none(tmp_path):
    without = run(tmp_path, "tcp_out_of_tree.c", "linux-5.10", "hosts.b.sysctl.net.ipv4.tcp_timestamps=0")
    assert "pkts_acked stopped: BUG_ON: own->acks == 500 && own->stamped < own->acks" in str(error(without))


@pytest.mark.parametrize("abi", RELEASES)
@pytest.mark.slow
def test_a_rate_of_its_own_is_kept(tmp_path, abi):
    paced = run(tmp_path, "tcp_paced.c", abi)
    assert error(paced) is None
    # 1,000,000 bytes of payload a second, and the first two segments at once.
    assert 7.9 < paced.summary["goodput_mbps"][0] < 8.1


MARKED = "hosts.a.sysctl.module.tcp_marks.stops"


@pytest.mark.parametrize("abi", ["linux-4.19", "linux-6.1", "linux-6.18"])
@pytest.mark.slow
def test_a_sample_has_the_marks(tmp_path, abi):
    ecn = ["hosts.a.ecn=on", "hosts.b.ecn=on", "network.dumbbell.bottleneck.queue={kind: codel, ecn: true}"]
    assert error(run(tmp_path / "fine", "tcp_marks.c", abi, *ecn)) is None
    stopped = error(run(tmp_path / "stopped", "tcp_marks.c", abi, *ecn, f"{MARKED}=100"))
    assert "cong_control stopped: BUG_ON: stops && own->most >= stops" in stopped
    assert error(run(tmp_path / "without", "tcp_marks.c", abi, f"{MARKED}=1")) is None


@pytest.mark.parametrize("abi", ["linux-5.10", "linux-6.18"])
@pytest.mark.slow
def test_a_module_asks_for_ecn_and_tells_of_each_mark_as_the_engines_dctcp(tmp_path, abi):
    marks = "network.dumbbell.bottleneck.queue={kind: codel, ecn: true, target: 1ms, interval: 20ms}"
    foreign = run(tmp_path, "tcp_tells.c", abi, marks)
    assert error(foreign) is None
    assert foreign.summary["ce_marks"][0] > 20
    assert rows(foreign) == rows(
        api.load(EXPERIMENT, ["hosts.a.cc=dctcp", marks]).run(out=tmp_path / "built-in")
    )


@pytest.mark.parametrize("file", ["tcp_out_of_tree.c", "tcp_paced.c"])
@pytest.mark.slow
def test_the_newest_release_is_taken(file):
    (module,) = sources.build(f"new={MODULES}/{file}")
    assert module.abi == RELEASES[-1]


@pytest.mark.slow
def test_an_interface_before_4_7_has_the_state_that_modules_ask_for(tmp_path):
    (module,) = sources.build(f"new={MODULES}/tcp_idle.c,abi=linux-4.4")
    assert module.abi == "linux-4.4"
    assert error(run(tmp_path, "tcp_idle.c", "linux-4.4")) is None
    slow = "hosts.a.sysctl.net.ipv4.tcp_slow_start_after_idle=0"
    stopped = error(run(tmp_path / "off", "tcp_idle.c", "linux-4.4", slow))
    assert "BUG_ON: !sock_net(sk)->ipv4.sysctl_tcp_slow_start_after_idle" in stopped


@pytest.mark.slow
def test_a_hook_without_a_type_is_no_guess(tmp_path):
    source = (MODULES / "tcp_paced.c").read_text()
    (tmp_path / "tcp_paced.c").write_text(re.sub(r"(\.cong_control\s*=\s*)", r"\1(void *)", source))
    with pytest.raises(
        InputError, match=r"compiles for linux-4\.4, .* linux-7\.2, as a hook has lost its type at"
    ):
        sources.build(f"new={tmp_path}/tcp_paced.c")
    (module,) = sources.build(f"new={tmp_path}/tcp_paced.c,abi=linux-6.8")
    assert module.abi == "linux-6.8"


@pytest.mark.slow
def test_a_refusal_is_of_an_interface_whose_hooks_the_source_has(tmp_path):
    # A hook of 4.9 to 6.8; and what no release has.
    text = (MODULES / "tcp_own_reno.c").read_text()
    line = "static void rate(struct sock *sk, const struct rate_sample *rs) { }\n"
    text = text.replace("static struct", line + "static struct", 1)
    wrong = text.replace(".name", ".cong_control = rate, .min_tso_segs = nothing, .name", 1)
    (tmp_path / "tcp_wrong.c").write_text(wrong)
    with pytest.raises(InputError, match=r"for linux-6\.8: .*'nothing' undeclared"):
        sources.build(f"new={tmp_path}/tcp_wrong.c")


CORE = "what is not here of the kernel's core needs a real kernel (--testbed kernel)"


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("#include <trace/events/tcp.h>", r"trace/events/tcp\.h: No such file"),
        ("#include <linux/fs.h>", r"tcp_core\.c:\d+: linux/fs\.h is here as programs see it"),
        ("int f(struct tcp_sock *tp) { return tp->fast_ack_mode; }", "has no member named 'fast_ack_mode'"),
        ("int f(struct net_device *d) { return d->mtu; }", "undefined type 'struct net_device'"),
        (
            "char f[ICSK_CA_PRIV_SIZE == 104 ? 1 : -1]; BUILD_BUG_ON(144 > ICSK_CA_PRIV_SIZE);",
            "ICSK_CA_PRIV_SIZE",
        ),
        (
            "void f(void) { tcp_push_pending_frames(0); }",
            "tcp_push_pending_frames: the headers for linux-6.12",
        ),
    ],
)
@pytest.mark.slow
def test_what_needs_the_core_is_refused_by_a_line_that_says_what(tmp_path, line, wrong):
    text = (MODULES / "tcp_own_reno.c").read_text()
    (tmp_path / "tcp_core.c").write_text(text.replace("static struct", line + "\nstatic struct", 1))
    with pytest.raises(InputError, match=wrong) as refused:
        sources.build(f"new={tmp_path}/tcp_core.c,abi=linux-6.12")
    assert CORE in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_a_refusal_is_the_newest_releases_though_an_older_one_came_further(tmp_path):
    # 3.9 has the first member and not the second.
    text = (MODULES / "tcp_own_reno.c").read_text()
    members = "".join(
        f"int {name}_of(struct tcp_sock *tp) {{ return tp->{name}; }}\n" for name in ("srtt", "nothing")
    )
    (tmp_path / "tcp_wrong.c").write_text(text.replace("static struct", f"{members}static struct", 1))
    with pytest.raises(InputError, match=r"for linux-7\.2: .*no member named 'srtt'"):
        sources.build(f"new={tmp_path}/tcp_wrong.c")
