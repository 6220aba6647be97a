"""The Makefile knows how to make what its targets need."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


# Not those that call make again: `make -n` carries such lines out.
@pytest.mark.parametrize("target", ["setup", "quick", "lint", "wheels", "golden", "contract"])
def test_nothing_that_a_target_needs_is_unknown(target: str) -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("no make on PATH")
    told = subprocess.run([make, "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
