"""`python -m tools.truth claims`: a suite is run, its claims are told, and what is there already is kept."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def truth(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.truth", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_claims_of_a_suite_are_judged_and_written(tmp_path: Path) -> None:
    results, document = tmp_path / "results", tmp_path / "claims.md"
    command = ("claims", "cubic-patch-bursts", "--results", results, "-o", document, "-q")
    ran = truth(*command)
    assert ran.returncode == 0, ran.stderr
    page = document.read_text()
    for name in ("patch-default-finer-growth", "patch-rack-fewer-bursts"):
        assert name in page
    assert "assumption" in ran.stdout
    assert (results / "cubic-patch-bursts" / "summary.csv").is_file()
    begun = {path: path.stat().st_mtime_ns for path in results.glob("*/runs/*")}

    again = truth(*command)
    assert (again.returncode, again.stdout) == (0, ran.stdout)
    assert {path: path.stat().st_mtime_ns for path in begun} == begun


def test_claims_about_no_suite_are_refused() -> None:
    ran = truth("claims", "validate-linux")
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: no claim is about 'validate-linux'; suites with claims are ")


def test_a_wrong_option_is_one_line() -> None:
    ran = truth("fidelity", "--agianst", "x")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert ran.stderr.startswith("error: No such option: --agianst")
