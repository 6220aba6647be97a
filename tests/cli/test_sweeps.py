"""Sweeps on the engine: equal bytes from any number of workers, repeats, kill and resume, interruption."""

import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

import cwndlab as api
from command_line import SMALL, SWEEP
from patience import PATIENCE

pytestmark = pytest.mark.slow


def hashes(directory):
    results = api.open(directory)
    return {
        (record.cell["hosts.a.cc"], record.repeat): record.tables["tcp"].sha256
        for record in results.records()
    }


def test_one_and_two_workers_write_the_same_bytes(cwndlab, sweep, results_of):
    cwndlab.file("sweep.yaml", SWEEP)
    assert cwndlab("run", "sweep.yaml", "-o", "two", "--jobs", "2", "-q", "--no-report").code == 0
    one, two = results_of(sweep), results_of(cwndlab.directory / "two")
    assert one == two
    assert {"catalogue.parquet", "summary.csv", "experiment.yaml"} < set(one)
    assert sum(name.endswith("/tcp.parquet") for name in one) >= 4


def test_repeats_differ_and_the_seed_fixes_them(cwndlab, small):
    first = hashes(small)
    assert len(first) == 10
    assert len(set(first.values())) == 10

    cwndlab.file("small.yaml")
    assert cwndlab("run", "small.yaml", "-o", "again", "-q", "--no-report").code == 0
    assert hashes(cwndlab.directory / "again") == first

    assert cwndlab("run", "small.yaml", "-o", "other", "-q", "--no-report", "--set", "seed=2").code == 0
    other = hashes(cwndlab.directory / "other")
    assert set(other) == set(first)
    assert not set(other.values()) & set(first.values())


def test_rows_hash_to_what_was_recorded(small):
    api.open(small).verify()


def whole_parts(directory):
    return {path.name: path.stat().st_ino for path in (directory / "runs").glob("[0-9]*")}


def wait_for_a_part(process, directory, most):
    """Wait until a part is whole and others are not; returns the whole ones."""
    while process.poll() is None:
        if (directory / "runs").is_dir() and (whole := whole_parts(directory)):
            assert len(whole) < most, "the sweep is over already; make it longer"
            return whole
        time.sleep(0.002)
    raise AssertionError(f"the sweep ended by itself: {process.communicate()}")


def wait_for_nobody(group):
    """Wait until the last process of a group is gone."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    raise AssertionError("workers outlive the sweep they belong to")


def besides_progress(complaint):
    """Lines of stderr but those that say how far a sweep is, which a slow machine has time to write."""
    return [line for line in complaint.splitlines() if not re.match(r"(planned )?\d+ of \d+ runs, ", line)]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_killed_sweep_resumes_to_what_an_undisturbed_one_gives(cwndlab, sweep, results_of, jobs):
    cwndlab.file("sweep.yaml", SWEEP)
    out = cwndlab.directory / "out"
    process = cwndlab.start("run", "sweep.yaml", "-o", "out", "--jobs", jobs, "-q", "--no-report")
    wait_for_a_part(process, out, most=len(whole_parts(sweep)))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    wait_for_nobody(process.pid)
    kept = whole_parts(out)
    assert 0 < len(kept) < len(whole_parts(sweep))

    ran = cwndlab("run", "sweep.yaml", "-o", "out", "--jobs", jobs, "--resume", "-q", "--no-report")
    assert (ran.code, ran.err) == (0, "")
    assert results_of(out) == results_of(sweep)
    assert kept.items() <= whole_parts(out).items()  # what was whole was not run again
    recorded = [record.run_id for record in api.open(out).records()]
    assert recorded == list(range(2 * 640))
    assert [path.name for path in (out / "runs").glob(".*")] == []


def test_an_interrupted_sweep_keeps_what_is_whole_and_says_so(cwndlab, sweep, results_of):
    cwndlab.file("sweep.yaml", SWEEP)
    out = cwndlab.directory / "out"
    process = cwndlab.start("run", "sweep.yaml", "-o", "out", "--jobs", "2", "--no-report")
    wait_for_a_part(process, out, most=len(whole_parts(sweep)))
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C on a terminal
    printed, complaint = process.communicate(timeout=PATIENCE)
    wait_for_nobody(process.pid)
    assert (process.returncode, printed) == (130, "")
    kept = api.open(out).runs.filter(api.open(out).runs["status"] == "complete").height
    assert besides_progress(complaint) == [
        f"error: interrupted; {kept} of 1280 runs are kept in out, and --resume with -o does the others"
    ]
    assert 0 < kept < 1280
    assert [path.name for path in (out / "runs").glob(".*")] == []

    assert cwndlab("run", "sweep.yaml", "-o", "out", "--resume", "-q", "--no-report").code == 0
    assert results_of(out) == results_of(sweep)


def test_a_part_that_is_gone_is_made_again(cwndlab, small, results_of):
    cwndlab.file("small.yaml")
    out = cwndlab.directory / "out"
    shutil.copytree(small, out)
    part = next((out / "runs").glob("[0-9]*"))
    shutil.rmtree(part)
    (out / "runs" / ".0-9.12345").mkdir()  # what a killed worker leaves
    assert cwndlab("run", "small.yaml", "-o", "out", "--resume", "-q", "--no-report").code == 0
    assert results_of(out) == results_of(small)


@pytest.mark.parametrize(
    ("edit", "change"),
    [
        (("duration: 2s", "duration: 3s"), "duration was '2s', is '3s'"),
        (("[newreno, cubic]", "[cubic, newreno]"), "sweep[0].hosts.a.cc[0] was 'newreno', is 'cubic'"),
        (("repeat: 5", "repeat: 6"), "repeat was '5', is '6'"),
        (("seed: 1", "seed: 7"), "seed was '1', is '7'"),
        (("limit: 30p", "limit: 31p"), "network.dumbbell.bottleneck.queue.limit was '30p', is '31p'"),
    ],
)
def test_an_edited_experiment_is_not_resumed(cwndlab, small, results_of, edit, change):
    cwndlab.file("small.yaml", SMALL.replace(*edit))
    shutil.copytree(small, cwndlab.directory / "out")
    before = results_of(cwndlab.directory / "out")
    ran = cwndlab("run", "small.yaml", "-o", "out", "--resume")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"error: out: holds another experiment: {change}; resume with the one it was begun with\n"
    )
    assert results_of(cwndlab.directory / "out") == before


def test_results_are_dated_never_overwritten_and_latest_is_the_newest(cwndlab):
    cwndlab.file("small.yaml")
    for _ in range(2):
        ran = cwndlab("run", "small.yaml", "--no-report", "--set", "duration=200ms")
        assert ran.code == 0
    made = sorted(path for path in (cwndlab.directory / "results").iterdir() if not path.is_symlink())
    assert len(made) == 2
    assert (cwndlab.directory / "results/latest").resolve() == made[-1]
    assert ran.err == f"results: results/{made[-1].name}\n"
    assert cwndlab("show").out == ran.out


def test_resume_without_a_directory_takes_the_newest(cwndlab, results_of):
    cwndlab.file("small.yaml")
    assert cwndlab("run", "small.yaml", "-q", "--no-report").code == 0
    newest = (cwndlab.directory / "results/latest").resolve()
    whole = results_of(newest)
    shutil.rmtree(next((newest / "runs").glob("[0-9]*")))
    assert cwndlab("run", "small.yaml", "-q", "--no-report", "--resume").code == 0
    assert results_of(newest) == whole


def test_a_directory_has_one_writer(cwndlab, sweep):
    # Long enough that it is not over when its first part has been seen.
    cwndlab.file("sweep.yaml", SWEEP.replace("repeat: 640", "repeat: 5000"))
    process = cwndlab.start("run", "sweep.yaml", "-o", "out", "--jobs", "1", "-q", "--no-report")
    wait_for_a_part(process, cwndlab.directory / "out", most=len(whole_parts(sweep)))
    os.killpg(process.pid, signal.SIGSTOP)  # so that it is there, however late the second one comes
    second = cwndlab("run", "sweep.yaml", "-o", "out", "--resume")
    process.terminate()
    os.killpg(process.pid, signal.SIGCONT)
    assert (second.code, second.err) == (2, "error: out: another cwndlab is writing there\n")
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 130


def test_a_path_with_spaces_and_umlauts(cwndlab, small, results_of):
    cwndlab.file("my experiment ä.yaml")
    ran = cwndlab("run", "my experiment ä.yaml", "-o", "my results ä")
    assert ran.code == 0
    out = cwndlab.directory / "my results ä"
    assert results_of(out) == results_of(small)
    assert (out / "report.html").stat().st_size > 0
    assert ran.err.endswith("\nresults: my results ä\nreport:  my results ä/report.html\n")
    assert cwndlab("plot", "my results ä", "--kind", "cwnd", "-o", "my figure.png").out == "my figure.png\n"
    assert (cwndlab.directory / "my figure.png").read_bytes().startswith(b"\x89PNG")


def test_provenance_is_with_every_run(small):
    records = [
        json.loads(line) for file in small.rglob("runs.jsonl") for line in file.read_text().splitlines()
    ]
    assert len(records) == 10
    for record in records:
        assert record["status"] == "complete"
        assert record["scenario"]["seed"] == 1
        assert record["versions"].keys() == {"cwndlab", "engine"}
        # A checkout without git's history does not know its commit.
        told = record["machine"].keys() - {"cwndlab commit"}
        assert told == {"host", "system", "architecture", "python", "pyarrow"}
        assert record["tables"]["tcp"]["rows"] > 0


def test_the_python_api_gives_what_the_command_line_gives(cwndlab, small, results_of, monkeypatch):
    monkeypatch.chdir(cwndlab.directory)
    results = api.load(cwndlab.file("small.yaml")).run(testbed="sim", out=Path("api"))
    assert results_of(results.path) == results_of(small)
    series = results.series(0, flow="f1", table="tcp")
    assert series["t_s"].is_sorted()
    assert series.height > 100


def test_a_worker_that_dies_is_named_and_the_sweep_can_go_on(cwndlab, sweep, results_of):
    cwndlab.file("sweep.yaml", SWEEP)
    out = cwndlab.directory / "out"
    process = cwndlab.start("run", "sweep.yaml", "-o", "out", "--jobs", "2", "--no-report")
    wait_for_a_part(process, out, most=len(whole_parts(sweep)))
    asides = [path.name for path in (out / "runs").glob(".*")]
    while not asides:
        asides = [path.name for path in (out / "runs").glob(".*")]
    os.kill(int(asides[0].rsplit(".", 1)[1]), signal.SIGKILL)  # `.PART.PID` is being written by that worker
    printed, complaint = process.communicate(timeout=PATIENCE)
    assert (process.returncode, printed) == (1, "")
    (said,) = besides_progress(complaint)
    assert re.fullmatch(r"error: part [0-9]+-[0-9]+: the worker died \(signal 9\)", said)
    assert cwndlab("run", "sweep.yaml", "-o", "out", "--resume", "-q", "--no-report").code == 0
    assert results_of(out) == results_of(sweep)


def test_captures_are_kept_with_their_run(cwndlab):
    cwndlab.file("small.yaml", SMALL.replace("queue: 10ms}", "queue: 10ms, pcap: [a, bottleneck]}"))
    assert cwndlab("run", "small.yaml", "-o", "out", "-q", "--no-report", "--set", "repeat=1").code == 0
    results = api.open(cwndlab.directory / "out")
    for run in (0, 1):
        captures = results.captures(run)
        assert [path.name for path in captures] == [f"{run}-a.pcap", f"{run}-bottleneck.pcap"]
        for path in captures:
            assert path.read_bytes()[:4] in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d")  # nanosecond pcap
