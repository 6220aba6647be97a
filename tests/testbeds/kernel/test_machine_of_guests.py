"""What `cwndlab doctor` says of a machine that does not let a guest run."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cwndlab.cli import doctor
from cwndlab.testbeds.kernel import guest, machine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="guests are processes of Linux")


def said(what: str) -> tuple[bool | None, str]:
    found = {each.what: each for each in doctor.examine() if each.section == "testbed kernel"}
    return found[what].there, found[what].detail


@pytest.mark.parametrize(
    ("scope", "way"),
    [("3", "set kernel.yama.ptrace_scope to 1"), ("1", "--cap-add SYS_PTRACE"), (None, "--cap-add")],
)
def test_ptrace_that_is_refused_is_said_with_what_to_do(
    scope: str | None, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A request that no kernel knows is refused.
    monkeypatch.setattr(machine, "TRACEE", machine.TRACEE.replace("ptrace(0,", "ptrace(-1,"))
    monkeypatch.setattr(machine, "YAMA", tmp_path / "ptrace_scope")
    if scope is not None:
        machine.YAMA.write_text(f"{scope}\n")
    there, detail = said("ptrace")
    assert not there
    assert detail.startswith("refused (")
    assert way in detail
    assert "\n" not in detail


def test_a_child_that_may_be_traced_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "TRACEE", "")
    assert said("ptrace") == (True, "a guest may trace its processes")


@pytest.mark.parametrize(
    ("flags", "blocks", "there", "text"),
    [
        (os.ST_NOEXEC, 1 << 20, False, "noexec"),
        (0, 1 << 20, True, "4096 MiB free"),
        (0, 24 << 8, False, "24 MiB free"),
    ],
)
def test_memory_is_executable_and_has_room(
    flags: int, blocks: int, there: bool, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = SimpleNamespace(f_flag=flags, f_bavail=blocks, f_frsize=4096)
    monkeypatch.setattr(machine.os, "statvfs", lambda place: state)
    found, detail = machine.memory()
    assert found is there
    assert text in detail
    assert machine.executable() is not bool(flags)
    assert ("mount -o remount" in detail) is not there


def test_memory_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MEMORY", tmp_path / "none")
    there, detail = said("/dev/shm")
    assert not there
    assert detail.startswith("is not there")


def test_links_that_others_put_beside_guests_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, elsewhere = tmp_path / "memory", tmp_path / "elsewhere"
    memory.mkdir()
    elsewhere.mkdir()
    monkeypatch.setattr(guest, "_memory", lambda: str(memory))
    nobody = 1 << 23  # beyond what a system gives its processes
    (memory / f"{guest.PREFIX}{nobody}-there").symlink_to(elsewhere)
    (memory / f"{guest.PREFIX}{nobody}-dangles").symlink_to(tmp_path / "nothing")
    (memory / f"{guest.PREFIX}{nobody}-left").mkdir()
    assert guest.left_behind() == [memory / f"{guest.PREFIX}{nobody}-left"]
