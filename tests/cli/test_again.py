"""Running again, over results that are there or whenever a file is saved, and what is heard meanwhile."""

import json
import os
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

from experiments import dumbbell
from patience import PATIENCE

QUICK = dumbbell(
    "quick",
    duration="1s",
    a="stack: linux-6.8",
    bottleneck="rate: 10mbit, delay: 5ms, queue: {kind: pfifo, limit: 20p}",
)


def goodput(directory: Path) -> bytes:
    return (directory / "summary.csv").read_bytes()


def until(there: "subprocess.Popen[str]", wanted: str) -> str:
    """The lines of stderr up to one with that text."""
    lines = ""
    end = time.monotonic() + PATIENCE
    assert there.stderr is not None
    while wanted not in lines and time.monotonic() < end:
        lines += there.stderr.readline()
    assert wanted in lines
    return lines


@pytest.mark.slow
def test_force_replaces_results_and_nothing_else(inside, cwndlab):
    file = cwndlab.file("quick.yaml", QUICK)
    out = cwndlab.directory / "out"
    assert inside("run", file, "-o", out, "-q", "--force").code == 0  # there is nothing to replace yet
    before = goodput(out)
    again = inside("run", file, "-o", out, "-q", "--force", "--set", "network.dumbbell.bottleneck.rate=5mbit")
    assert (again.code, again.err) == (0, "")
    assert goodput(out) != before
    assert sorted(path.name for path in cwndlab.directory.iterdir()) == ["out", "quick.yaml"]

    (out / "thesis.tex").write_text("years of work")
    refused = inside("run", file, "-o", out, "--force")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "holds 'thesis.tex', which cwndlab did not write" in refused.err
    mine = cwndlab.directory / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    refused = inside("run", file, "-o", mine, "--force")
    assert (refused.code, "no directory of results" in refused.err) == (2, True)
    link = cwndlab.directory / "link"
    link.symlink_to(out)
    assert inside("run", file, "-o", link, "--force").code == 2
    assert (mine / "thesis.tex").read_text() == (out / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("words", [["--resume", "-o", "out"], ["--shard", "1/2", "-o", "out"], []])
def test_force_goes_with_a_directory_alone(inside, cwndlab, words):
    refused = inside("run", cwndlab.file("quick.yaml", QUICK), "--force", *words)
    assert (refused.code, refused.err) == (
        2,
        "error: --force goes with -o DIR, and not with --resume or --shard\n",
    )


def test_results_stay_where_their_replacement_does_not_come_to_be(inside, cwndlab, monkeypatch):
    from cwndlab.execution import runner

    file, out = cwndlab.file("quick.yaml", QUICK), cwndlab.directory / "out"
    assert inside("run", file, "-o", out, "-q").code == 0
    before = goodput(out)
    assert inside("run", file, "-o", out, "--force", "--set", "duration=soon").code == 2

    def interrupted(*words: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner.executor, "carry_out", interrupted)
    stopped = inside("run", file, "-o", out, "-q", "--force")
    assert (stopped.code, stopped.err) == (
        130,
        f"error: interrupted; the results in {out} are those of before\n",
    )
    assert goodput(out) == before
    assert sorted(path.name for path in cwndlab.directory.iterdir()) == ["out", "quick.yaml"]


def test_a_program_hears_of_progress_in_lines_of_json(inside, cwndlab):
    file = cwndlab.file("quick.yaml", QUICK + "repeat: 3\n")
    ran = inside("run", file, "-o", cwndlab.directory / "out", "--json", "--no-report", "-j", "1")
    assert len([json.loads(line) for line in ran.out.splitlines()]) == 3
    *events, last = ran.err.splitlines()
    told = [json.loads(line) for line in events if line.startswith("{")]
    assert last == f"results: {cwndlab.directory / 'out'}"
    assert {event["event"] for event in told} == {"planning", "running"}
    assert all(event.keys() == {"event", "done", "of", "seconds_left"} for event in told)
    assert told[-1] == {"event": "running", "done": 3, "of": 3, "seconds_left": 0.0}
    assert not inside("run", file, "-o", cwndlab.directory / "quiet", "--json", "-q", "--no-report").err


def browser(directory: Path) -> Path:
    """A browser that writes down what it is to open."""
    program = directory / "browser"
    program.write_text(f"#!/bin/sh\necho \"$1\" >> '{directory}/opened'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.mark.slow
def test_the_report_is_opened_where_there_is_a_browser(cwndlab):
    file = cwndlab.file("quick.yaml", QUICK)
    ran = cwndlab("run", file, "-o", "out", "--open", BROWSER=str(browser(cwndlab.directory)))
    assert ran.code == 0
    page = (cwndlab.directory / "out" / "report.html").resolve()
    assert (cwndlab.directory / "opened").read_text() == f"{page.as_uri()}\n"
    refused = cwndlab("run", file, "--open", "--no-report")
    assert (refused.code, refused.err) == (
        2,
        "error: --open needs the report, which --no-report leaves out\n",
    )


def test_without_a_browser_the_report_is_named(inside, cwndlab, monkeypatch):
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    ran = inside("run", cwndlab.file("quick.yaml", QUICK), "-o", cwndlab.directory / "out", "--open")
    assert ran.code == 0
    assert ran.err.endswith("report.html in one yourself\n")


@pytest.mark.slow
def test_watch_runs_again_on_save_and_goes_on_after_errors(cwndlab):
    file = cwndlab.file("quick.yaml", QUICK)
    watching = cwndlab.start("dev", "watch", "quick.yaml", "-o", "out", "--set", "seed=3")
    try:
        waits = "waiting until quick.yaml is saved again"
        assert "report:  out/report.html" in until(watching, waits)
        before = goodput(cwndlab.directory / "out")
        file.write_text(QUICK.replace("10mbit", "10Mbit"))
        said = until(watching, waits)
        assert "found '10Mbit'; expected a rate" in said
        assert "^^^^^^" in said
        assert goodput(cwndlab.directory / "out") == before
        aside = cwndlab.file("aside.yaml", QUICK.replace("10mbit", "5mbit"))
        aside.replace(file)  # as many editors save
        until(watching, waits)
        assert goodput(cwndlab.directory / "out") != before
        os.killpg(watching.pid, signal.SIGINT)
        _, err = watching.communicate(timeout=PATIENCE)
        assert (watching.returncode, err) == (0, "")
    finally:
        watching.kill()
