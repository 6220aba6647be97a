"""A sweep on a Dask cluster of this machine: the same bytes, whoever is killed meanwhile."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import cwndlab as api
from command_line import SWEEP
from dask_cluster import WORKERS, DaskCluster
from patience import PATIENCE

pytest.importorskip("distributed", reason="Dask is an extra")

pytestmark = pytest.mark.slow


LOCAL = Path(__file__).parents[2] / "examples" / "cluster" / "local.sh"


@pytest.fixture
def cluster(tmp_path, request):
    place = tmp_path / "dask"
    place.mkdir()
    made = DaskCluster(place, *getattr(request, "param", ()))
    try:
        made.wait_for_workers()
        yield made
    finally:
        made.close()


def complaint(text):
    return [line for line in text.splitlines() if not re.match(r"(planned )?\d+ of \d+ runs, ", line)]


def wait_for_a_part(process, out):
    deadline = time.monotonic() + PATIENCE
    while not list(out.glob("runs/[0-9]*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_three_workers_write_the_bytes_of_one_machine_though_one_dies(cwndlab, sweep, results_of, cluster):
    cwndlab.file("sweep.yaml", SWEEP)
    arguments = ("run", "sweep.yaml", "--cluster", str(cluster.file), "-o", "out", "--no-report", "-q")
    process = cwndlab.start(*arguments)
    wait_for_a_part(process, cwndlab.directory / "out")
    cluster.workers[0].kill()
    assert process.communicate(timeout=PATIENCE) == ("", "")
    assert process.returncode == 0
    assert results_of(cwndlab.directory / "out") == results_of(sweep)


def test_the_example_of_a_cluster_writes_the_bytes_of_one_machine_and_ends_what_it_started(
    cwndlab, sweep, results_of
):
    cwndlab.file("sweep.yaml", SWEEP)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    words = ["sh", LOCAL, "sweep.yaml", "-o", "out", "--no-report", "-q"]
    done = subprocess.run(
        words,
        cwd=cwndlab.directory,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert results_of(cwndlab.directory / "out") == results_of(sweep)
    assert not [one for one in Path("/proc").glob("[0-9]*/cwd") if _in(one, cwndlab.directory)]


def _in(link, directory):
    """Whether a process that is still there works in a directory."""
    try:
        return link.readlink() == directory
    except OSError:
        return False


def test_the_example_of_a_cluster_says_how_it_is_called():
    done = subprocess.run(["sh", LOCAL], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"usage: {LOCAL} FILE [words of cwndlab run]\n")


def test_without_its_scheduler_a_sweep_keeps_what_has_arrived(cwndlab, sweep, results_of, cluster):
    cwndlab.file("sweep.yaml", SWEEP)
    out = cwndlab.directory / "out"
    process = cwndlab.start(
        "run", "sweep.yaml", "--cluster", str(cluster.file), "-o", "out", "--no-report", "-q"
    )
    wait_for_a_part(process, out)
    cluster.scheduler.kill()
    printed, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, printed) == (1, "")
    assert re.fullmatch(r"error: the Dask scheduler at \S+ is gone; --resume does what is left\n", said)
    assert api.open(out).runs.height == 1280
    assert [path.name for path in (out / "runs").glob(".*")] == []

    assert cwndlab("run", "sweep.yaml", "-o", "out", "--resume", "-q", "--no-report").code == 0
    assert results_of(out) == results_of(sweep)


OWN_DISK = 'mount -t tmpfs -o size=128k tmpfs "$0" && cd "$0" && exec "$@"'
"""A program on a small file system in place of a directory, which nobody else sees and which ends with it."""


@pytest.mark.live
def test_a_full_disk_of_the_workers_is_told_and_loses_nothing(cwndlab, sweep, results_of, cluster):
    cwndlab.file("sweep.yaml", SWEEP)
    out, begin = cwndlab.directory / "out", ("run", "sweep.yaml", "--cluster", str(cluster.file), "-o", "out")
    process = cwndlab.start(*begin, "--no-report", "-q")
    wait_for_a_part(process, out)
    there = {path.name for path in out.glob("runs/[0-9]*")}
    full = cluster.worker("unshare", "-m", "sh", "-c", OWN_DISK, str(cluster.directory))
    cluster.wait_for_workers(WORKERS + 1)
    for healthy in cluster.workers:
        healthy.kill()
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "No space left on device" in said
    assert there <= {path.name for path in out.glob("runs/[0-9]*")}
    assert not list(out.glob("runs/.*"))

    full.kill()
    cluster.worker()
    ran = cwndlab(*begin, "--resume", "--no-report", "-q")
    assert (ran.code, ran.err) == (0, "")
    assert results_of(out) == results_of(sweep)


def test_an_interruption_lets_the_workers_drop_what_they_are_at(cwndlab, sweep, cluster):
    cwndlab.file("sweep.yaml", SWEEP.replace("100ms", "3000s"))  # a run takes minutes
    process = cwndlab.start("run", "sweep.yaml", "--cluster", str(cluster.file), "-o", "out", "--no-report")
    deadline = time.monotonic() + PATIENCE
    while not list(cluster.directory.parent.glob("dask/**/cwndlab-*/.*")) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    printed, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, printed) == (130, "")
    assert complaint(said) == [
        "error: interrupted; 0 of 1280 runs are kept in out, and --resume with -o does the others"
    ]
    while list(cluster.directory.glob("**/cwndlab-*")):
        assert time.monotonic() < deadline, "a worker goes on with what nobody wants"
        time.sleep(0.1)


def test_a_worker_with_another_package_is_refused(cwndlab, cluster):
    other = cluster.directory / "other"
    shutil.copytree(
        Path(api.__file__).parent, other / "cwndlab", ignore=shutil.ignore_patterns("__pycache__")
    )
    with (other / "cwndlab/testbeds/tables.py").open("a") as file:
        file.write("# changed\n")
    cluster.worker(PYTHONPATH=str(other))
    cluster.wait_for_workers(WORKERS + 1)
    cwndlab.file("small.yaml")
    ran = cwndlab("run", "small.yaml", "--cluster", str(cluster.file), "-o", "out", "-q")
    assert (ran.code, ran.out) == (2, "")
    assert re.fullmatch(
        r"error: --cluster: the worker \S+ has cwndlab \S+ code [0-9a-f]+, and this is \S+ code [0-9a-f]+; "
        "their results are not mixed\n",
        ran.err,
    )


def test_what_cannot_be_used_is_said_in_a_line(cwndlab):
    cwndlab.file("small.yaml")
    web = socket.create_server(("127.0.0.1", 0))
    other = f"tcp://127.0.0.1:{web.getsockname()[1]}"

    def answer_as_another_server():
        while True:
            web.accept()[0].sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    threading.Thread(target=answer_as_another_server, daemon=True).start()
    for address, code, said in (
        ("nothing", 2, "error: --cluster: nothing is neither an address such as tcp://HOST:8786 nor a file"),
        ("tcp://127.0.0.1:1", 1, "error: --cluster: no Dask scheduler answers at tcp://127.0.0.1:1 ("),
        (other, 1, f"error: --cluster: what answers at {other} is no Dask scheduler\n"),
    ):
        ran = cwndlab("run", "small.yaml", "--cluster", address, "-q", "-o", "out")
        assert (ran.code, ran.out) == (code, "")
        assert ran.err.startswith(said)
        assert ran.err.count("\n") == 1
        assert not (cwndlab.directory / "out").exists()
    assert cwndlab("run", "small.yaml", "--cluster", "tcp://127.0.0.1:1", "-q").code == 1
    assert not list((cwndlab.directory / "results").iterdir())


MODULES = Path(__file__).parents[1] / "foreign" / "modules"

FOREIGN = """\
experiment: own
duration: 2s
hosts:
  a: {stack: linux-6.18, cc: new}
  b: {stack: linux-6.18}
network:
  dumbbell:
    left: [a]
    right: [b]
    bottleneck: {rate: 20mbit, delay: 10ms, queue: {kind: pfifo, limit: 50p}}
flows:
  - {name: f, from: a, to: b}
sweep:
  - hosts.a.sysctl.module.tcp_fails.how: [0, 1, 8]
  - network.dumbbell.bottleneck.queue.limit: [40p, 50p]
"""

OUTSIDE = ("--cc", f"new={MODULES}/tcp_fails.c,abi=linux-6.12", "--no-report", "-q")


@pytest.mark.parametrize(
    "cluster", [("--preload", "cwndlab.execution.worker", "--allow-foreign")], indirect=True
)
def test_congestion_controls_from_outside_travel_as_their_sources(cwndlab, cluster):
    cwndlab.file("own.yaml", FOREIGN)
    there = cwndlab("run", "own.yaml", "--cluster", str(cluster.file), "-o", "there", *OUTSIDE)
    here = cwndlab("run", "own.yaml", "-o", "here", "-j", "1", *OUTSIDE)
    assert (there.code, here.code) == (1, 1)  # runs have failed
    assert there.err == here.err.replace("here holds", "there holds")
    sides = [api.open(cwndlab.directory / name) for name in ("there", "here")]
    for one, other in zip(*(results.records() for results in sides), strict=True):
        assert (one.status, one.error, one.tables, one.versions) == (
            other.status, other.error, other.tables, other.versions,
        )  # fmt: skip
    assert [record.status for record in sides[0].records()] == ["complete"] * 2 + ["failed"] * 4


def test_a_worker_that_was_not_told_to_runs_none(cwndlab, cluster):
    cwndlab.file("own.yaml", FOREIGN)
    refused = cwndlab("run", "own.yaml", "--cluster", str(cluster.file), "-o", "out", *OUTSIDE)
    assert (refused.code, refused.out) == (2, "")
    assert re.fullmatch(
        r"error: --cluster: the worker tcp://\S+: it was not started to run congestion controls from outside"
        r" \(dask worker \.\.\. --preload cwndlab\.execution\.worker --allow-foreign\)\n",
        refused.err,
    )
