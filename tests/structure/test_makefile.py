"""The Makefile knows how to make what its targets need."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


# Not those that call make again: `make -n` carries such lines out.
@pytest.mark.parametrize("target", ["setup", "quick", "lint", "wheels", "golden", "contract", "soak-mutants"])
def test_nothing_that_a_target_needs_is_unknown(target: str) -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("no make on PATH")
    told = subprocess.run([make, "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr


@pytest.mark.slow
@pytest.mark.parametrize("program", ["busy.py", "formats/fuzz.py", "results/damage.py"])
def test_programs_that_a_target_calls_begin(program: str) -> None:
    """They import the tests' own modules as no pytest is there to put those in the way."""
    command = [sys.executable, ROOT / "tests" / program, "--help"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr


def test_packages_that_cargo_is_asked_for_are_there() -> None:
    manifests = (tomllib.loads(file.read_text()) for file in ROOT.glob("crates/**/Cargo.toml"))
    packages = {manifest["package"]["name"] for manifest in manifests}
    patterns = ("Makefile", "CONTRIBUTING.md", "benches/*.py", "docs/**/*.md", "packaging/*.sh")
    files = [file for pattern in patterns for file in ROOT.glob(pattern)]
    asked = {
        (file.name, name)
        for file in files
        for line in file.read_text().splitlines()
        if re.search(r"\bcargo\b", line)
        for name in re.findall(r'-p"?,? "?([a-z][a-z0-9_-]*)', line)
    }
    assert len(asked) > 5
    assert {(file, name) for file, name in asked if name not in packages} == set()


def test_what_is_made_wrong_on_purpose_is_there() -> None:
    """`make soak-mutants` would try nothing of a source that has moved."""
    python = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]
    rust = tomllib.loads((ROOT / ".cargo/mutants.toml").read_text())
    names = [
        *(f"python/{name}" for name in python["only_mutate"]),
        *python["pytest_add_cli_args_test_selection"],
        *rust["examine_globs"],
    ]
    assert [name for name in names if not any(ROOT.glob(name))] == []


def test_compiled_modules_are_kept_where_none_may_stand_beside_the_sources() -> None:
    script = """
import runpy, sys
runpy.run_path(sys.argv[1])
print(sys.dont_write_bytecode, sys.pycache_prefix)
"""
    told = subprocess.run(
        [sys.executable, "-c", script, ROOT / "tests/conftest.py"],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == ["False", str(ROOT / "target/pycache")]
