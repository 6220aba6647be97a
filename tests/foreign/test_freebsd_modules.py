"""FreeBSD modules of our own writing as congestion controls: hooks, knobs, failures, sweeps, headers."""

import shutil
from pathlib import Path

import pytest

import cwndlab as api
from cwndlab.errors import InputError
from cwndlab.foreign.compilation import ABIS
from experiments import dumbbell

MODULES = Path(__file__).parent / "modules"

EXPERIMENT = dumbbell(
    "own",
    duration="4s",
    a="stack: freebsd-13, cc: new",
    b="stack: freebsd-13",
    c="stack: linux-6.18",
    bottleneck="rate: 20mbit, delay: 10ms, queue: {kind: pfifo, limit: 50p}",
    flow="name: f, from: a, to: b",
)

EVENTFUL = EXPERIMENT.replace("- {name: f, from: a, to: b}", "- {name: f, from: a, to: b, stop: 3s}").replace(
    "freebsd-13", "freebsd-15-current/rack"
)
"""What calls every hook: losses, round trips of RACK, ECN, an idle time, an end."""

LIMIT = "network.dumbbell.bottleneck.queue.limit"
EVERY = "net.inet.tcp.cc.every_one"
HOW = "hosts.a.sysctl.net.inet.tcp.cc.fails.how"


def own(name: str, abi: str = "freebsd-13") -> str:
    return f"new={MODULES / name},abi={abi}"


def rows(results, run=0):
    return results.rows(run).drop_columns(["run_id"]).to_pylist()


def run(tmp_path, module, more="", *, name="out", jobs=1, experiment=EXPERIMENT, sets=()):
    return api.load(experiment + more, ["repeat=1", *sets], cc=[module]).run(out=tmp_path / name, jobs=jobs)


@pytest.mark.parametrize("abi", [abi for abi in ABIS if abi.startswith("freebsd")])
@pytest.mark.slow
def test_a_module_with_every_hook_carries_a_transfer(tmp_path, abi):
    results = run(tmp_path, own("cc_every.c", abi))
    assert results.summary["goodput_mbps"][0] > 17


@pytest.mark.slow
def test_every_hook_is_called(tmp_path):
    hooks = ["cb_init", "cb_destroy", "conn_init", "ack_received", "cong_signal"]
    hooks += ["post_recovery", "after_idle", "ecnpkt_handler", "newround", "rttsample"]
    more = "  - {name: g, from: a, to: b, app: {kind: request-response, response: 100KB, think: 500ms}}\n"
    more += "  - {name: h, from: a, to: b, app: {kind: on-off, rate: 1mbit, on: 50ms, off: 900ms}}\n"
    sweep = f"sweep: [{{hosts.a.sysctl.{EVERY}.stop_at: {list(range(len(hooks) + 1))}}}]\n"
    ecn = ["hosts.a.ecn=on", "hosts.b.ecn=on"]
    results = run(tmp_path, own("cc_every.c", "freebsd-15"), more + sweep, experiment=EVENTFUL, sets=ecn)
    none, *stopped = results.records()
    assert none.status == "complete"
    for hook, record in zip(hooks, stopped, strict=True):
        assert (record.error or "").startswith(f"new: {hook} stopped: panic: as asked for, at "), hook


@pytest.mark.slow
def test_the_kernels_newreno_is_the_engines(tmp_path):
    foreign = run(tmp_path, own("cc_own_newreno.c"), name="foreign")
    built_in = api.load(EXPERIMENT, ["repeat=1", "hosts.a.cc=newreno"]).run(out=tmp_path / "built-in")
    assert rows(foreign) == rows(built_in)


@pytest.mark.slow
def test_newreno_of_15_is_made_of_its_steps(tmp_path):
    experiment = EXPERIMENT.replace("freebsd-13", "freebsd-15-current")
    bottleneck = "network.dumbbell.bottleneck"
    outage = f"{bottleneck}.schedule=[{{at: 2s, set: {{down: true}}}}, {{at: 2500ms, set: {{down: false}}}}]"
    sets = [outage, f"{bottleneck}.loss={{random: 0.5%}}"]
    foreign = run(tmp_path, own("cc_steps.c", "freebsd-15"), name="foreign", experiment=experiment, sets=sets)
    built_in = api.load(experiment, ["repeat=1", *sets, "hosts.a.cc=newreno"]).run(out=tmp_path / "built-in")
    assert rows(foreign) == rows(built_in)


@pytest.mark.parametrize("stack", ["freebsd-15-current", "freebsd-15-current/rack"])
@pytest.mark.slow
def test_what_main_has_since_15(tmp_path, stack):
    experiment = EXPERIMENT.replace("freebsd-13", stack)
    lossy = run(tmp_path, own("cc_newer.c", "freebsd-15"), name="lossy", experiment=experiment)
    assert lossy.complete
    assert lossy.summary["goodput_mbps"][0] > 8
    codel = ["network.dumbbell.bottleneck.queue={kind: codel, ecn: true}", "hosts.a.ecn=on", "hosts.b.ecn=on"]
    marked = run(tmp_path, own("cc_newer.c", "freebsd-15"), name="marked", experiment=experiment, sets=codel)
    assert marked.complete
    assert marked.summary["goodput_mbps"][0] > 8


@pytest.mark.slow
def test_knobs_are_swept_and_jobs_change_no_byte(tmp_path):
    sweep = f"sweep: [{{hosts.a.sysctl.{EVERY}.beta: [30, 80]}}, {{{LIMIT}: [20p, 50p]}}]"
    one = run(tmp_path, own("cc_every.c"), sweep, name="one")
    two = run(tmp_path, own("cc_every.c"), sweep, name="two", jobs=2)
    assert [rows(one, at) for at in range(4)] == [rows(two, at) for at in range(4)]
    assert rows(one, 0) != rows(one, 2)


@pytest.mark.slow
def test_a_knobs_default_is_what_the_module_has_when_it_is_loaded(tmp_path):
    as_is = run(tmp_path, own("cc_every.c"), name="as-is")
    asked = run(tmp_path, own("cc_every.c"), name="asked", sets=[f"hosts.a.sysctl.{EVERY}.beta=50"])
    assert rows(as_is) == rows(asked)


@pytest.mark.slow
def test_every_host_has_statics_of_its_own(tmp_path):
    more = "  - {{name: g, from: a, to: b, count: {}}}\n"
    assert run(tmp_path, own("cc_every.c"), more.format(3), name="four").complete
    refused = run(tmp_path, own("cc_every.c"), more.format(4), name="five")
    assert "new: cb_init returned 16" in (next(iter(refused.records())).error or "")


FAILURES = {
    1: "new: ack_received crashed (SIGSEGV), at 0.",
    2: "new: ack_received used more than 0.2 s of processor time, at 0.",
    3: "new: ack_received left a window of 0 bytes, at 0.",
    4: "new: ack_received left a window of 2147483648 bytes, at 0.",
    5: "new: ack_received crashed (SIGFPE), at 0.",
    6: "new: ack_received crashed (SIGSEGV), at 0.",
    7: "new: ack_received stopped: panic: how is %u, at 0.",
    8: "the worker died (signal 9) in ack_received of new, at 0.",
    9: "new: ack_received left a slow-start threshold of 0 bytes, at 0.",
    10: "new: cb_init returned 12, at 0.",
    11: "host a: new: net.inet.tcp.cc.fails.how = 11: refused",
}


@pytest.mark.slow
def test_a_failure_is_its_runs_alone(tmp_path):
    sweep = f"sweep: [{{{HOW}: {[0, *FAILURES]}}}]"
    results = run(tmp_path, own("cc_fails.c"), sweep, jobs=2)
    for record in results.records():
        wrong = FAILURES.get(int(record.cell[HOW]))
        assert record.status == ("complete" if wrong is None else "failed")
        assert (record.error or "").startswith(wrong or "")


@pytest.mark.parametrize(
    ("option", "line"),
    [
        (own("cc_lacking.c"), "tcp_of_another_release: the headers for freebsd-13 do not have it"),
        (f"new={MODULES}/cc_every.c", "compiles for freebsd-11, freebsd-13, freebsd-14, freebsd-15"),
        (own("cc_fails.c", "freebsd-14"), "newreno_cc_algo"),
        (own("cc_steps.c", "freebsd-14"), "ccsignal_t"),
        (f"cubic={MODULES}/cc_every.c,abi=freebsd-13", "has a congestion control of that name"),
        (own("tcp_every.c"), "fatal error: net/tcp.h: No such file or directory"),
    ],
)
@pytest.mark.slow
def test_what_is_refused(option, line):
    with pytest.raises(InputError, match=r".") as refused:
        api.load(EXPERIMENT, cc=[option])
    assert line in str(refused.value)


@pytest.mark.slow
def test_the_interface_is_guessed_where_one_alone_compiles(tmp_path):
    source = tmp_path / "cc_one.c"
    shutil.copy(MODULES / "cc_own_newreno.h", tmp_path)
    # CCF_DELACK went with 12, and newreno_cc_algo was there.
    text = (MODULES / "cc_own_newreno.c").read_text()
    source.write_text(text + "static int delayed(struct cc_var *v) { return (v->flags & CCF_DELACK); }\n")
    results = run(tmp_path, f"new={source}")
    assert next(iter(results.records())).versions["cc new"].startswith("freebsd-11 ")


@pytest.mark.slow
def test_other_families_do_not_have_it():
    with pytest.raises(InputError, match=r"linux-6\.18"):
        api.load(EXPERIMENT, ["hosts.c.cc=new"], cc=[own("cc_every.c")])
