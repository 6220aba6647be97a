"""Kernel modules of our own writing as congestion controls: hooks, knobs, failures, sweeps, what is kept."""

import json
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
    a="stack: linux-6.18, cc: new",
    b="stack: linux-6.18",
    c="stack: freebsd-13",
    bottleneck="rate: 20mbit, delay: 10ms, queue: {kind: pfifo, limit: 50p}",
    flow="name: f, from: a, to: b",
)

LIMIT = "network.dumbbell.bottleneck.queue.limit"


def own(name: str, abi: str = "linux-6.12") -> str:
    return f"new={MODULES / name},abi={abi}"


def rows(results, run=0):
    table = results.rows(run)
    return table.drop_columns(["run_id"]).to_pylist()


def run(tmp_path, module, more="", name="out", jobs=1, **options):
    loaded = api.load(EXPERIMENT + more, cc=[module], **options)
    return loaded.run(out=tmp_path / name, jobs=jobs)


@pytest.mark.parametrize("abi", [abi for abi in ABIS if abi.startswith(("linux-6", "linux-7"))])
@pytest.mark.slow
def test_a_module_with_every_hook_carries_a_transfer(tmp_path, abi):
    results = run(tmp_path, own("tcp_every.c", abi))
    assert results.summary["goodput_mbps"][0] > 17


@pytest.mark.slow
def test_the_kernels_reno_is_the_engines(tmp_path):
    foreign = run(tmp_path, own("tcp_own_reno.c"), name="foreign")
    built_in = api.load(EXPERIMENT, ["hosts.a.cc=reno"]).run(out=tmp_path / "built-in")
    assert rows(foreign) == rows(built_in)


@pytest.mark.slow
def test_knobs_are_swept_and_jobs_change_no_byte(tmp_path):
    sweep = f"sweep: [{{hosts.a.sysctl.module.tcp_every.beta: [300, 800]}}, {{{LIMIT}: [20p, 50p, 80p]}}]"
    one = run(tmp_path, own("tcp_every.c"), sweep, name="one")
    two = run(tmp_path, own("tcp_every.c"), sweep, name="two", jobs=2)
    assert [rows(one, at) for at in range(6)] == [rows(two, at) for at in range(6)]
    assert rows(one, 0) != rows(one, 3)


@pytest.mark.slow
def test_every_host_has_statics_of_its_own(tmp_path):
    # The module stops at the fifth connection that its statics have seen.
    more = "  - {{name: g, from: a, to: b, count: {}}}\n"
    first = run(tmp_path, own("tcp_every.c"), more.format(3), name="four")
    assert first.complete
    second = run(tmp_path, own("tcp_every.c"), more.format(4), name="five")
    assert not second.complete
    assert "init stopped: BUG_ON" in next(iter(second.records())).error


FAILURES = {
    1: "new: cong_avoid crashed (SIGSEGV), at 0.",
    2: "new: cong_avoid used more than 0.2 s of processor time, at 0.",
    3: "new: cong_avoid left a window of 0 packets, at 0.",
    4: "new: cong_avoid left a window of 2147483648 packets, at 0.",
    5: "new: cong_avoid crashed (SIGFPE), at 0.",
    6: "new: cong_avoid crashed (SIGSEGV), at 0.",
    7: "new: cong_avoid stopped: BUG_ON: how == 7, at 0.",
    8: "the worker died (signal 9) in cong_avoid of new, at 0.",
    9: "new: ssthresh returned 0 packets, at 0.",
    10: "host a: new: its init: refused",
}


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.slow
def test_a_failure_is_its_runs_alone(tmp_path, jobs):
    how = "hosts.a.sysctl.module.tcp_fails.how"
    sweep = f"sweep: [{{{how}: {[0, *FAILURES]}}}, {{{LIMIT}: [40p, 50p]}}]"
    results = run(tmp_path, own("tcp_fails.c"), sweep, jobs=jobs)
    for record in results.records():
        wrong = FAILURES.get(int(record.cell[how]))
        if wrong is None:
            assert record.status == "complete"
        else:
            assert record.status == "failed"
            assert (record.error or "").startswith(wrong)
    assert not [path for path in (tmp_path / "out" / "runs").iterdir() if path.name.startswith(".")]


@pytest.mark.slow
def test_what_is_kept(tmp_path):
    results = run(tmp_path, own("tcp_every.c"))
    place = results.path / "modules" / "new"
    assert (place / "tcp_every.c").read_bytes() == (MODULES / "tcp_every.c").read_bytes()
    told = json.loads((place / "module.json").read_text())
    assert (told["abi"], told["sources"]) == ("linux-6.12", ["tcp_every.c"])
    versions = next(iter(results.records())).versions
    assert versions["cc new"] == f"linux-6.12 sha256 {told['sha256']}"

    private = run(tmp_path, own("tcp_every.c"), name="private", cc_private=True)
    assert [path.name for path in (private.path / "modules" / "new").iterdir()] == ["module.json"]


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ("new", "--cc: found 'new'; expected NAME=FILE[,FILE...][,include=DIR][,abi=ABI]"),
        ("new=nowhere.c", "--cc new: nowhere.c: there is no such file"),
        (own("tcp_every.c", "linux-2.4"), "--cc new: abi: found 'linux-2.4'; expected one of linux-3.9"),
        (own("tcp_missing.c"), "tcp_of_another_kernel: the headers for linux-6.12 do not have it"),
        (f"cubic={MODULES}/tcp_every.c,abi=linux-6.12", "has a congestion control of that name"),
    ],
)
@pytest.mark.slow
def test_what_is_refused(option, line):
    with pytest.raises(InputError, match=r".") as refused:
        api.load(EXPERIMENT, cc=[option])
    assert line in str(refused.value)


@pytest.mark.slow
def test_the_interface_is_the_newest_of_those_that_mean_the_same(tmp_path):
    # For 3.9, whose hooks mean something else, it does not compile.
    results = run(tmp_path, f"new={MODULES}/tcp_own_reno.c")
    assert next(iter(results.records())).versions["cc new"].startswith("linux-7.2 ")


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (".undo_cwnd = other", r":\d+:\d+: error: .*incompatible pointer type"),
        ("other(1)", r":\d+:\d+: error: .*incompatible type for argument|integer without a cast"),
        (
            "absent(sk)",
            r": absent: the headers for linux-6\.12 do not have it.*tcp_own_reno\.c:\d+",
        ),
        ("sk = 7", r":\d+:\d+: error: .*pointer from integer without a cast"),
    ],
)
@pytest.mark.slow
def test_what_a_compiler_only_warns_of_is_an_error_with_its_place(tmp_path, wrong, line):
    text = (MODULES / "tcp_own_reno.c").read_text()
    other = "static void other(struct sock *sk) { (void)sk; }\n"
    if wrong.startswith("."):
        text = text.replace(".undo_cwnd = tcp_reno_undo_cwnd", wrong)
    else:
        other += f"static void wrong(struct sock *sk) {{ {wrong}; }}\nvoid *used = wrong;\n"
    (tmp_path / "tcp_own_reno.c").write_text(text.replace("static struct", other + "static struct", 1))
    with pytest.raises(InputError, match=line):
        api.load(EXPERIMENT, cc=[f"new={tmp_path}/tcp_own_reno.c,abi=linux-6.12"])


@pytest.mark.slow
def test_a_knob_has_the_bounds_of_its_type():
    with pytest.raises(InputError, match="from -2147483648 to 2147483647"):
        api.load(EXPERIMENT, ["hosts.a.sysctl.module.tcp_every.beta=2147483648"], cc=[own("tcp_every.c")])


@pytest.mark.slow
def test_other_families_do_not_have_it():
    with pytest.raises(InputError, match="freebsd-13"):
        api.load(EXPERIMENT, ["hosts.c.cc=new"], cc=[own("tcp_every.c")])


def test_a_file_names_no_module():
    with pytest.raises(InputError, match="new"):
        api.load(EXPERIMENT)
