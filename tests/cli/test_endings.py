"""How commands end when their output is gone, their disk is full, or somebody asks them to."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_sweeps import besides_progress, wait_for_a_part, wait_for_nobody, whole_parts

import cwndlab as api
from command_line import SMALL, SWEEP
from patience import PATIENCE

pytestmark = pytest.mark.slow


def shell(directory: Path, command: str) -> "subprocess.CompletedProcess[str]":
    """What a shell makes of a line in which `cwndlab` stands for the command line."""
    words = f"{shlex.quote(sys.executable)} -m cwndlab"
    return subprocess.run(
        ["bash", "-c", command.replace("cwndlab", words)],
        cwd=directory,
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


PRINTING = {
    "--help": "--help",
    "--version": "--version",
    "show": "show results",
    "json": "show results --json",
    "plot": "plot results -o cwnd.svg",
    "report": "report results -o page.html",
    "compare": "compare results --by cc",
    "judge": "judge results --against reno@linux-6.18",
    "explain": "explain results/runs/0-9/0-a.pcap",
    "export": "data export results -o exported",
    "suites": "data suites",
    "schema": "dev schema",
    "doctor": "doctor",
    "dry": "run small.yaml --dry-run",
    "run": "run small.yaml -o again --set repeat=1 --no-report",
    "trace": "data trace results/runs/0-9/0-a.pcap",
    "text": "data trace results/runs/0-9/0-a.pcap --text",
    "import": "data import results/runs/0-9/0-a.pcap -o imported",
    "script": "dev script failing.pkt --stack linux-6.8",
    "serve": "loadlatency serve --port 0",
}
"""Commands that print something on stdout, but those that take minutes."""


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    """A directory with results that have captures."""
    directory = tmp_path_factory.mktemp("captured")
    (directory / "small.yaml").write_text(SMALL.replace("queue: 10ms}", "queue: 10ms, pcap: [a]}"))
    (directory / "failing.pkt").write_text("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 close(3) = -1\n")
    made = shell(directory, "cwndlab run small.yaml -o results -q --no-report")
    assert (made.returncode, made.stderr) == (0, "")
    return directory


@pytest.mark.parametrize("words", PRINTING.values(), ids=PRINTING)
def test_a_closed_stdout_is_one_line(captured, tmp_path, words):
    shutil.copytree(captured, tmp_path, dirs_exist_ok=True)
    ran = shell(tmp_path, f"cwndlab {words} >&-")
    if words.startswith("dev script"):  # what it has to say goes to stderr
        assert ran.returncode == 1, ran.stderr
        return
    assert ran.returncode == 1, ran.stderr
    lines = besides_progress(ran.stderr)
    assert lines[-1:] == ["error: stdout: Bad file descriptor"], ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("words", PRINTING.values(), ids=PRINTING)
def test_a_reader_that_has_seen_enough_is_no_error(captured, tmp_path, words):
    shutil.copytree(captured, tmp_path, dirs_exist_ok=True)
    # The reader is gone before the command prints anything.
    ran = shell(tmp_path, f"cwndlab {words} 2> said | true")
    said = (tmp_path / "said").read_text()
    if not words.startswith("dev script"):
        assert "error" not in said
    assert "Traceback" not in said
    assert "Exception" not in said
    assert ran.returncode == 0


def test_a_closed_stderr_is_nobody_s_concern(captured):
    ran = shell(captured, "cwndlab show results 2>&-")
    assert ran.returncode == 0
    assert "newreno" in ran.stdout
    assert shell(captured, "cwndlab show nothing 2>&-").returncode == 2


def test_a_file_never_takes_the_place_of_a_closed_stream(captured, tmp_path):
    ran = shell(
        tmp_path, f"cwndlab run {captured}/small.yaml -o out --set repeat=1 -q --no-report <&- >&- 2>&-"
    )
    assert ran.returncode == 0
    api.open(tmp_path / "out").verify()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize("group", [False, True], ids=["alone", "group"])
def test_a_terminal_that_goes_ends_a_sweep_as_ctrl_c_does(cwndlab, sweep, number, group):
    cwndlab.file("sweep.yaml", SWEEP)
    out = cwndlab.directory / "out"
    process = cwndlab.start("run", "sweep.yaml", "-o", "out", "--jobs", "2", "--no-report")
    wait_for_a_part(process, out, most=len(whole_parts(sweep)))
    (os.killpg if group else os.kill)(process.pid, number)
    printed, complaint = process.communicate(timeout=PATIENCE)
    wait_for_nobody(process.pid)
    assert (process.returncode, printed) == (130, "")
    kept = api.open(out).runs.filter(api.open(out).runs["status"] == "complete").height
    assert 0 < kept < 1280
    assert besides_progress(complaint) == [
        f"error: interrupted; {kept} of 1280 runs are kept in out, and --resume with -o does the others"
    ]


ENDED_IN_A_DESTRUCTOR = """
import os, signal, time
import typer
from cwndlab.cli.application import main

class File:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

def command():
    File()
    time.sleep(3600)  # longer than the test waits

app = typer.Typer()
app.command()(command)
main([], app)
"""


def test_a_signal_that_falls_into_a_destructor_is_not_lost():
    words = [sys.executable, "-c", ENDED_IN_A_DESTRUCTOR]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "error: interrupted\n")


def test_a_sweep_under_nohup_goes_on(cwndlab):
    cwndlab.file("small.yaml")
    words = [sys.executable, "-m", "cwndlab", "run", "small.yaml", "-o", "out", "-q", "--no-report"]
    process = subprocess.Popen(["nohup", *words], cwd=cwndlab.directory, start_new_session=True)
    shown = ["ps", "-o", "args=", "-p", str(process.pid)]
    while subprocess.run(shown, capture_output=True, text=True, check=False).stdout.startswith("nohup"):
        time.sleep(0.02)  # until it has taken the signal out of play, and is the command
    while process.poll() is None:
        os.killpg(process.pid, signal.SIGHUP)
        time.sleep(0.05)
    assert process.returncode == 0
    assert api.open(cwndlab.directory / "out").complete


def test_every_further_ctrl_c_still_says_what_is_left(cwndlab, sweep, results_of):
    cwndlab.file("sweep.yaml", SWEEP)
    out = cwndlab.directory / "out"
    process = cwndlab.start("run", "sweep.yaml", "-o", "out", "--jobs", "2", "--no-report")
    wait_for_a_part(process, out, most=len(whole_parts(sweep)))
    for _ in range(8):
        if process.poll() is not None:
            break
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.02)
    printed, complaint = process.communicate(timeout=PATIENCE)
    wait_for_nobody(process.pid)
    assert (process.returncode, printed) == (130, "")
    (said,) = besides_progress(complaint)
    kept = api.open(out).runs.filter(api.open(out).runs["status"] == "complete").height
    assert said == (
        f"error: interrupted; {kept} of 1280 runs are kept in out, and --resume with -o does the others"
    )
    assert cwndlab("run", "sweep.yaml", "-o", "out", "--resume", "-q", "--no-report").code == 0
    assert results_of(out) == results_of(sweep)


def test_ctrl_c_at_any_time_is_a_line_and_leaves_what_can_be_used(cwndlab):
    cwndlab.file("small.yaml")
    for delay_s in (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4):
        out = cwndlab.directory / f"out{delay_s}"
        process = cwndlab.start("run", "small.yaml", "-o", out, "--jobs", "1", "--no-report")
        time.sleep(delay_s)
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=PATIENCE)
        if process.returncode != 130:
            # Too early for Python to have our handler, or too late.
            assert process.returncode in (0, 1, -signal.SIGINT), complaint
            continue
        # If the runs were over, notes on them are said, and where the results are.
        over = (f"results: {out}", "note: ")
        said = [line[:18] for line in besides_progress(complaint) if not line.startswith(over)]
        assert said == ["error: interrupted"], complaint
        begun = (out / "catalogue.parquet").exists()
        again = ("run", "small.yaml", "-o", out, "-q", "--no-report", *(["--resume"] if begun else []))
        ran = cwndlab(*again)
        assert (ran.code, ran.err) == (0, "")


def shared_memory():
    return {path.name for path in Path("/dev/shm").glob("*")} if Path("/dev/shm").is_dir() else set()


def test_nothing_is_left_in_shared_memory(cwndlab, sweep):
    cwndlab.file("sweep.yaml", SWEEP)
    before = shared_memory()
    process = cwndlab.start("run", "sweep.yaml", "-o", "out", "--jobs", "2", "-q", "--no-report")
    wait_for_a_part(process, cwndlab.directory / "out", most=len(whole_parts(sweep)))
    during = {name for name in shared_memory() - before if name.startswith(("sem.mp-", "psm_"))}
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    wait_for_nobody(process.pid)
    assert not during & shared_memory()


def test_show_has_what_was_finished_before_a_sweep_was_killed(cwndlab, sweep):
    cwndlab.file("sweep.yaml", SWEEP)
    out = cwndlab.directory / "out"
    process = cwndlab.start("run", "sweep.yaml", "-o", "out", "--jobs", "1", "-q", "--no-report")
    wait_for_a_part(process, out, most=len(whole_parts(sweep)))
    process.kill()
    process.communicate()
    wait_for_nobody(process.pid)
    whole = api.open(sweep)
    killed = api.open(out)
    done = killed.summary.filter(killed.summary["status"] == "complete")
    assert 0 < done.height < 1280
    assert done.equals(whole.summary.filter(whole.summary["run_id"].is_in(done["run_id"].to_list())))
    assert "complete" in cwndlab("show", "out").out


@pytest.fixture
def full_disk(tmp_path):
    """A file system of 1 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(place: Path, leaving: int = 0) -> Path:
    """Leave only so many bytes free."""
    ballast = place / "ballast"
    space = os.statvfs(place)
    with ballast.open("wb") as file:
        file.write(bytes(max(space.f_bavail * space.f_bsize - leaving, 0)))
    return ballast


@pytest.mark.live
def test_a_full_disk_leaves_no_half_file_and_is_named(cwndlab, small, full_disk):
    results = full_disk / "results"
    shutil.copytree(small, results)
    (results / "report.html").unlink()
    before = sorted(path for path in full_disk.rglob("*"))
    fill(full_disk, leaving=8192).rename(full_disk / "x")
    for words, file in (
        (["report", results], "report.html"),
        (["plot", results], "cwnd.png"),
        (["data", "export", results], "export-csv"),
    ):
        ran = cwndlab(*words)
        assert ran.code in (1, 2)
        assert ran.err.count("\n") == 1
        assert "No space left on device" in ran.err
        assert file in ran.err
        assert "Errno" not in ran.err
    left = [path for path in full_disk.rglob("*") if path not in before and path.is_file()]
    assert left == [full_disk / "x"]


@pytest.mark.live
@pytest.mark.parametrize("leaving", [0, 4096, 8192, 16384, 65536])
def test_a_sweep_on_a_full_disk_can_go_on_once_there_is_room(cwndlab, full_disk, small, results_of, leaving):
    cwndlab.file("small.yaml")
    ballast = fill(full_disk, leaving)
    out = full_disk / "out"
    ran = cwndlab("run", "small.yaml", "-o", out, "-j", "1", "--no-report")
    assert ran.code in (1, 2)
    assert besides_progress(ran.err)[-1].endswith("No space left on device")
    assert str(out) in ran.err
    ballast.unlink()
    begun = ["--resume"] if (out / "catalogue.parquet").exists() else []
    ran = cwndlab("run", "small.yaml", "-o", out, "-q", "--no-report", *begun)
    assert (ran.code, ran.err) == (0, "")
    assert results_of(out) == results_of(small)


@pytest.fixture
def share(tmp_path):
    """A file system of its own, whose writes can be held up (fsfreeze)."""
    image, place = tmp_path / "image", tmp_path / "share"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.live
def test_a_share_that_stalls_holds_a_sweep_up_and_loses_nothing(cwndlab, share, sweep, results_of):
    cwndlab.file("sweep.yaml", SWEEP)
    out = share / "out"
    process = cwndlab.start("run", "sweep.yaml", "-o", str(out), "--no-report", "-q")
    wait_for_a_part(process, out, 5)
    subprocess.run(["fsfreeze", "-f", share], check=True)
    try:
        time.sleep(5)
        assert process.poll() is None
    finally:
        subprocess.run(["fsfreeze", "-u", share], check=True)
    assert process.communicate(timeout=PATIENCE) == ("", "")
    assert process.returncode == 0
    assert results_of(out) == results_of(sweep)
