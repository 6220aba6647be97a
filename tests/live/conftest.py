"""What tests on this machine's kernel share; with CWNDLAB_REQUIRE_LIVE=1 they fail where they cannot run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from dumbbell import DUMBBELL, Command

from cwndlab.testbeds.netns import machine, namespaces
from patience import PATIENCE


@pytest.fixture(scope="session", autouse=True)
def able() -> None:
    """Network namespaces can be made here."""
    reason = machine.trouble()
    if reason is not None:
        if os.environ.get("CWNDLAB_REQUIRE_LIVE") == "1":
            pytest.fail(f"{reason} (and CWNDLAB_REQUIRE_LIVE=1 asks for it)")
        pytest.skip(reason)


@pytest.fixture(autouse=True)
def nothing_left(able: None) -> None:
    """No test begins with what another left behind."""
    for run in namespaces.left_behind():
        namespaces.clean(run)


@pytest.fixture(scope="session")
def cwndlab() -> Command:
    """Runs the command line in a process of its own."""

    def run(*arguments: str | Path, prefix: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
        command = [*prefix, sys.executable, "-m", "cwndlab", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)

    return run


@pytest.fixture
def dumbbell(tmp_path: Path) -> Path:
    """An experiment of seconds at a low rate."""
    file = tmp_path / "live.yaml"
    file.write_text(DUMBBELL, encoding="utf-8")
    return file
