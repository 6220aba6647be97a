"""Congestion controls that know no kernel: classes of Python and shared libraries, on each family."""

import shutil
import subprocess
from pathlib import Path

import pytest

import cwndlab as api
from cwndlab.errors import InputError
from cwndlab.foreign import plain
from cwndlab.foreign.compilation import HERE
from experiments import dumbbell

MODULES = Path(__file__).parent / "modules"
EXAMPLES = Path(__file__).parents[2] / "examples" / "congestion-control"
PYTHON = f"new={EXAMPLES}/aimd.py:Aimd"

EXPERIMENT = dumbbell(
    "own",
    duration="4s",
    a="stack: linux-6.18, cc: new",
    b="stack: linux-6.18",
    bottleneck="rate: 20mbit, delay: 10ms, queue: {kind: pfifo, limit: 50p}",
    flow="name: f, from: a, to: b",
)

STACKS = ["linux-3.9", "linux-6.18", "freebsd-9.2", "freebsd-13", "freebsd-15-current/rack"]
LIMIT = "network.dumbbell.bottleneck.queue.limit"


def rows(results, run=0):
    return results.rows(run).drop_columns(["run_id"]).to_pylist()


def run(tmp_path, source, more="", name="out", jobs=1, **options):
    return api.load(EXPERIMENT + more, cc=[source], **options).run(out=tmp_path / name, jobs=jobs)


def compiled(tmp_path, command):
    library = tmp_path / "libaimd.so"
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]}")
    subprocess.run([*command, "-o", library], check=True)
    return f"new={library}"


def failing(tmp_path, how):
    file = MODULES / "library_fails.c"
    return compiled(tmp_path, ["cc", "-shared", "-fPIC", f"-DHOW={how}", f"-I{HERE / 'plain'}", file])


@pytest.mark.slow
def test_ten_lines_of_python_carry_a_transfer_on_every_stack(tmp_path):
    results = run(tmp_path, PYTHON, f"sweep: [{{hosts.a.stack: {STACKS}}}]")
    assert min(results.summary["goodput_mbps"]) > 18


@pytest.mark.slow
def test_python_and_libraries_are_the_same(tmp_path):
    sweep = "sweep: [{hosts.a.stack: [linux-6.18, freebsd-13]}]"
    python = run(tmp_path, PYTHON, sweep, name="python")
    headers = f"-I{HERE / 'plain'}"
    cpp = ["g++", "-std=c++17", "-O2", "-shared", "-fPIC", headers, EXAMPLES / "aimd.cpp"]
    rust = ["rustc", "--edition", "2021", "-O", "--crate-type", "cdylib", EXAMPLES / "aimd.rs"]
    for name, command in (("cpp", cpp), ("rust", rust)):
        (tmp_path / f"made-{name}").mkdir()
        own = run(tmp_path, compiled(tmp_path / f"made-{name}", command), sweep, name=name)
        assert [rows(own, at) for at in (0, 1)] == [rows(python, at) for at in (0, 1)]


@pytest.mark.slow
def test_jobs_change_no_byte(tmp_path):
    sweep = f"sweep: [{{{LIMIT}: [20p, 50p, 80p, 110p]}}]"
    one, two = (run(tmp_path, PYTHON, sweep, name=f"{jobs}", jobs=jobs) for jobs in (1, 2))
    assert [rows(one, at) for at in range(4)] == [rows(two, at) for at in range(4)]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("Raises", "new: on_ack raised KeyError: 'of\\nnothing' (plain_fails.py:"),
        ("Loops", "new: on_ack used more than 0.2 s of processor time, at 0.5"),
        ("Nothing", "new: on_ack left a slow-start threshold of NaN bytes, at 0.5"),
        ("Negative", "new: on_loss left a window of -1 bytes, at "),
        ("Word", "new: on_ack raised TypeError: "),
        ("Dies", "the worker died (signal 9) in on_ack of new, at 0.5"),
    ],
)
@pytest.mark.parametrize("stack", ["linux-6.18", "freebsd-13"])
@pytest.mark.slow
def test_a_failing_method_is_named(tmp_path, stack, name, wrong):
    results = run(tmp_path, f"new={MODULES}/plain_fails.py:{name}", set=[f"hosts.a.stack={stack}"])
    record = next(iter(results.records()))
    assert record.status == "failed"
    assert (record.error or "").startswith(wrong)
    assert not [path for path in (tmp_path / "out" / "runs").iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("stack", ["linux-3.9", "linux-6.18", "freebsd-9.2", "freebsd-13"])
@pytest.mark.slow
def test_timeouts_and_marks_are_told(tmp_path, stack):
    source = f"new={MODULES}/plain_fails.py:Events"
    outage = "network.dumbbell.bottleneck.schedule=[{at: 60ms, set: {down: true}}]"
    lost = run(tmp_path, source, name="lost", set=[f"hosts.a.stack={stack}", outage])
    error = next(iter(lost.records())).error
    assert error.startswith("new: on_rto raised RuntimeError: timeout with 1448 True True (plain_fails.py:")
    queue = "network.dumbbell.bottleneck.queue={kind: codel, ecn: true}"
    marked = [f"hosts.a.stack={stack}", "hosts.a.ecn=on", "hosts.b.ecn=on", queue]
    error = next(iter(run(tmp_path, source, name="marked", set=marked).records())).error
    assert error.startswith("new: on_ecn raised RuntimeError: a mark (plain_fails.py:")


@pytest.mark.slow
def test_every_host_of_every_run_has_a_copy(tmp_path):
    more = "  - {{name: g, from: a, to: b, count: {}}}\n"
    source = f"new={MODULES}/plain_fails.py:Statics"
    assert run(tmp_path, source, more.format(1) + f"sweep: [{{{LIMIT}: [20p, 50p]}}]", name="two").complete
    third = run(tmp_path, source, more.format(2), name="three")
    error = next(iter(third.records())).error
    assert error.startswith("new: create raised AssertionError: three (plain_fails.py:")


@pytest.mark.parametrize(
    ("how", "wrong"),
    [
        (1, "new: on_ack crashed (SIGSEGV), at 0.5"),
        (2, "new: on_ack used more than 0.2 s of processor time, at 0.5"),
        (3, "new: on_ack left a window of 0 bytes, at 0.5"),
        (4, "the worker died (signal 9) in on_ack of new, at 0.5"),
        (5, None),
    ],
)
@pytest.mark.slow
def test_a_failing_library_is_named(tmp_path, how, wrong):
    # Two runs of two connections each: statics are those of a host and a run.
    more = f"  - {{name: g, from: a, to: b}}\nsweep: [{{{LIMIT}: [40p, 50p]}}]"
    results = run(tmp_path, failing(tmp_path, how), more)
    for record in results.records():
        assert (record.status, (record.error or "").startswith(wrong or "-")) == (
            ("complete", False) if wrong is None else ("failed", True)
        )


@pytest.mark.slow
def test_a_failure_is_noticed_at_once(tmp_path):
    long = ["duration=3600s", "record.tcp=off", "record.queue=off"]
    source = f"new={MODULES}/plain_fails.py:Raises"
    record = next(iter(run(tmp_path, source, set=long).records()))
    assert record.status == "failed"
    assert record.wall_s < 5


@pytest.mark.slow
def test_what_is_kept(tmp_path):
    results = run(tmp_path, PYTHON)
    assert (results.path / "modules" / "new" / "aimd.py").read_bytes() == (EXAMPLES / "aimd.py").read_bytes()
    versions = next(iter(results.records())).versions
    assert versions["cc new"].startswith("python sha256 ")
    private = run(tmp_path, PYTHON, name="private", cc_private=True)
    assert [path.name for path in (private.path / "modules" / "new").iterdir()] == ["module.json"]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("new=nowhere.py:Aimd", "--cc new: nowhere.py: there is no such file"),
        ("new=nowhere.so", "--cc new: nowhere.so: there is no such file"),
        (f"new={EXAMPLES}/aimd.py:Bbr", "aimd.py: KeyError: 'Bbr'"),
        (
            f"new={MODULES}/plain_later.py:Later",
            "plain_later.py: is for version 2 of the interface, and this",
        ),
        (f"new={MODULES}/plain_fails.py:Incomplete", "Incomplete has no on_loss(self, flow)"),
        (f"new={MODULES}/tcp_fails.c:Aimd", "there is no such file"),
    ],
)
def test_what_is_refused(source, line):
    with pytest.raises(InputError) as refused:
        api.load(EXPERIMENT, cc=[source])
    assert line in str(refused.value)


@pytest.mark.slow
def test_a_library_of_another_version_is_refused(tmp_path):
    with pytest.raises(
        InputError, match=r"is for version 99 of cwndlab_cc\.h, and this cwndlab has version 1$"
    ):
        api.load(EXPERIMENT, cc=[failing(tmp_path, 6)])


def test_classes_and_libraries_have_one_version():
    header = (HERE / "plain" / "cwndlab_cc.h").read_text()
    assert f"#define CWNDLAB_CC_VERSION {plain.VERSION}\n" in header
