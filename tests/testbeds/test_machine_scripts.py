"""The scripts on machines of a lab: taking one, changing it with a journal, giving it back as it was."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from cwndlab.testbeds.ssh.machines import scripts
from patience import PATIENCE


def script(
    base: Path, text: str, *words: str, environment: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    """Run one of the scripts of machines here, below a directory of the test."""
    command = ["sh", "-c", text, "sh", str(base), *words]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def test_a_machine_is_taken_once_and_given_back_as_it_was(tmp_path: Path) -> None:
    setting, base = tmp_path / "setting", tmp_path / "base"
    setting.write_text("4096\t'131072' $(reboot)\n")
    assert script(base, scripts.TAKE, "ours", "me, since noon", "30").returncode == 0
    assert script(base, scripts.HOLDER, "30", "theirs").stdout == "me, since noon\n"
    assert script(base, scripts.HOLDER, "30", "ours").stdout == ""
    second = script(base, scripts.TAKE, "theirs", "you", "30")
    assert (second.returncode, second.stderr) == (7, "me, since noon\n")
    assert script(base, scripts.WRITE, str(setting), "1").returncode == 0
    assert script(base, scripts.WRITE, str(setting), "2").returncode == 0
    assert setting.read_text() == "2"
    assert script(base, scripts.RELEASE, "theirs").returncode == 0
    assert script(base, scripts.AGAIN, "ours", "me").returncode == 1  # it has no guard
    assert setting.read_text() == "2", "it was not theirs to give back"
    (base / "run" / "job1.out").touch()
    assert script(base, scripts.RESTORE, "ours").stdout == ""
    assert setting.read_text() == "4096 '131072' $(reboot)"
    left = {path.name for path in (base / "run").iterdir()}
    assert left == {"beat", "holder", "journal", "jobs", "token"}, "taken still, and nothing of the run"
    assert script(base, scripts.RELEASE, "ours").stdout == ""
    assert setting.read_text() == "4096 '131072' $(reboot)"
    assert list(base.iterdir()) == []


def test_what_a_crash_left_is_taken_back_by_the_next_or_by_cleaning(tmp_path: Path) -> None:
    setting, base = tmp_path / "setting", tmp_path / "base"
    for take_back in ((scripts.TAKE, "next", "you", "0"), (scripts.CLEAN, "0")):
        setting.write_text("before")
        assert script(base, scripts.TAKE, "crashed", "me", "30").returncode == 0
        assert script(base, scripts.WRITE, str(setting), "during").returncode == 0
        assert script(base, scripts.JOB, "job1", "60", "0", "sleep", "60").returncode == 0
        assert script(base, take_back[0], *take_back[1:]).returncode == 0
        assert setting.read_text() == "before"
        script(base, scripts.RELEASE, "next")
        assert list(base.iterdir()) == []


TOOLS = (
    "awk",
    "cat",
    "chmod",
    "date",
    "find",
    "grep",
    "id",
    "ls",
    "mkdir",
    "mv",
    "rm",
    "sync",
    "tee",
    "tr",
    "wc",
)
"""Programs that the scripts of machines call."""

FAULTY = """\
#!/bin/sh
n=$(($(/bin/cat {count}) + 1)); echo $n > {count}
if [ $n = {at} ]; then {fault}; fi
exec {tool} "$@"
"""
FAULTS = {"fails": "exit 1", "dies with its script": "kill -9 $PPID; exit 1"}


class Faults:
    """A directory of programs of which the one that is called as the `at`th of all has a fault."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._count = directory / "tools", directory / "count"
        self._directory.mkdir()
        self._count.write_text("0\n")

    def plant(self, at: int, fault: str) -> dict[str, str]:
        """Return the environment in which the fault is."""
        self._count.write_text("0\n")
        for name in TOOLS:
            tool = shutil.which(name)
            assert tool is not None
            text = FAULTY.format(count=self._count, at=at, fault=FAULTS[fault], tool=tool)
            (self._directory / name).write_text(text)
            (self._directory / name).chmod(0o755)
        return {"PATH": f"{self._directory}:{os.environ['PATH']}"}

    @property
    def calls(self) -> int:
        """Number of calls since the fault was planted."""
        return int(self._count.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("phase", ["set", "restore"])
def test_whatever_fails_while_a_setting_is_changed_or_restored_it_comes_back(
    tmp_path: Path, phase: str, fault: str
) -> None:
    """Each call of a program by the scripts fails once, or takes its script with it."""
    faults, setting, base = Faults(tmp_path), tmp_path / "setting", tmp_path / "base"
    other = tmp_path / "other"
    at, calls = 0, 0
    while calls >= at:
        at += 1
        for file in (setting, other):
            file.write_text("before\n")
        planted = faults.plant(at, fault)
        steps: list[tuple[str, tuple[str, ...]]] = [
            (scripts.TAKE, ("ours", "me", "30")),
            (scripts.WRITE, (str(setting), "one")),
            (scripts.CHANGE, (f"echo before > {other}", "sh", "-c", f"echo two > {other}")),
        ]
        told: list[str] = []
        for text, words in steps:
            done = script(base, text, *words, environment=planted if phase == "set" else {})
            if text == scripts.WRITE:
                told += done.stdout.splitlines()
            if done.returncode:
                break
        if phase == "restore":
            script(base, scripts.RESTORE, "ours", *reversed(told), environment=planted)
        calls = faults.calls
        # Whoever comes next, by its own words or none.
        script(base, scripts.CLEAN, "0")
        for file in (setting, other):
            assert file.read_text().strip() == "before", f"call {at} of {calls}"
        assert not any(base.glob("*")), f"call {at} of {calls}"
    assert at > 5


def test_what_a_machine_has_lost_of_its_journal_the_controller_knows(tmp_path: Path) -> None:
    setting, base = tmp_path / "setting", tmp_path / "base"
    for lost in ("run", "run/journal"):
        setting.write_text("before")
        assert script(base, scripts.TAKE, "ours", "me", "30").returncode == 0
        told = script(base, scripts.WRITE, str(setting), "during").stdout.splitlines()
        assert setting.read_text() == "during"
        shutil.rmtree(base / lost)
        assert script(base, scripts.RELEASE, "ours", *told).stdout == ""
        assert setting.read_text() == "before"


def test_nothing_is_changed_where_the_journal_cannot_be_written(tmp_path: Path) -> None:
    setting, base = tmp_path / "setting", tmp_path / "base"
    setting.write_text("before")
    assert script(base, scripts.TAKE, "ours", "me", "30").returncode == 0
    (base / "run" / "journal.new").symlink_to("/dev/full")
    done = script(base, scripts.WRITE, str(setting), "during")
    assert done.returncode == 2
    assert "the journal cannot be written, so nothing is changed (disk full?)" in done.stderr
    assert setting.read_text() == "before"


def test_the_guard_takes_back_when_nothing_is_heard_though_its_input_stays_open(tmp_path: Path) -> None:
    setting, base = tmp_path / "setting", tmp_path / "base"
    setting.write_text("before")
    assert script(base, scripts.TAKE, "ours", "me", "30").returncode == 0
    assert script(base, scripts.WRITE, str(setting), "during").returncode == 0
    guard = subprocess.Popen(["sh", "-c", scripts.GUARD, "guard", str(base), "1"], stdin=subprocess.PIPE)
    guard.wait(PATIENCE)
    assert setting.read_text() == "before"
    assert not any(base.glob("*"))


def test_what_cannot_be_written_down_does_not_run(tmp_path: Path) -> None:
    """Nobody would end such a program, and of a run without its guard others take the machine."""
    base, ran = tmp_path / "base", tmp_path / "ran"
    assert script(base, scripts.TAKE, "ours", "me", "30").returncode == 0
    for file in ("guard", "jobs/late", "jobs/talk"):
        (base / "run" / file).symlink_to("/dev/full")
    late = script(base, scripts.JOB, "late", "60", str(time.time() + 1), "touch", str(ran))
    talk = script(base, scripts.CONVERSE, "talk", "60", "touch", str(ran))
    for done in (late, talk):
        assert (done.returncode, "cannot be written (disk full?)" in done.stderr) == (9, True)
    guard = script(base, scripts.GUARD, "30")
    assert guard.returncode == 1 and "cannot be written (disk full?)" in guard.stdout
    time.sleep(1.5)
    assert not ran.exists()


@pytest.mark.slow
def test_a_clock_that_is_set_is_no_silence(tmp_path: Path) -> None:
    setting, base, count = tmp_path / "setting", tmp_path / "base", tmp_path / "count"
    setting.write_text("before")
    count.write_text("1000000000\n")
    (tmp_path / "date").write_text(f"#!/bin/sh\nn=$(($(cat {count}) + 1000)); echo $n > {count}; echo $n\n")
    (tmp_path / "date").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert script(base, scripts.TAKE, "ours", "me", "30", environment=environment).returncode == 0
    assert script(base, scripts.WRITE, str(setting), "during").returncode == 0
    words = ["sh", "-c", scripts.GUARD, "guard", str(base), "30"]
    guard = subprocess.Popen(words, stdin=subprocess.PIPE, env=environment)
    assert guard.stdin is not None
    for _ in range(14):
        guard.stdin.write(b"beat\n")
        guard.stdin.flush()
        time.sleep(0.5)
    assert setting.read_text() == "during" and guard.poll() is None
    guard.stdin.close()
    guard.wait(PATIENCE)
    assert setting.read_text() == "before"


def test_a_directory_that_is_a_link_is_not_believed(tmp_path: Path) -> None:
    theirs, base = tmp_path / "theirs", tmp_path / "base"
    (theirs / "run").mkdir(parents=True)
    (theirs / "run" / "journal").mkdir()
    (theirs / "run" / "journal" / "000001").write_text(f"touch {tmp_path}/done\n")
    base.symlink_to(theirs)
    assert script(base, scripts.TAKE, "ours", "me", "30").returncode == 8
    script(base, scripts.CLEAN, "0")
    assert not (tmp_path / "done").exists()


def test_a_machine_says_what_it_is_and_its_room(tmp_path: Path) -> None:
    first, second = (script(tmp_path / "not" / "there", scripts.STATE).stdout for _ in range(2))
    identity, free = first.splitlines()
    assert identity == second.splitlines()[0] and len(identity) > 30
    assert int(free) > 0
