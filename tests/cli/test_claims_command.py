"""`cwndlab claims`: a suite is run, its claims are judged and told, and what is there already is kept."""

import pytest


@pytest.mark.slow
def test_the_claims_of_a_suite_are_judged_and_written(cwndlab):
    command = ("claims", "cubic-patch-bursts", "--results", "results", "-o", "claims.md", "-q")
    ran = cwndlab(*command)
    assert ran.code == 0, ran.err
    page = (cwndlab.directory / "claims.md").read_text()
    for name in ("patch-default-finer-growth", "patch-rack-fewer-bursts"):
        assert name in page
    assert "assumption" in ran.out
    assert (cwndlab.directory / "results" / "cubic-patch-bursts" / "summary.csv").is_file()
    begun = {path: path.stat().st_mtime_ns for path in cwndlab.directory.glob("results/*/runs/*")}

    again = cwndlab(*command)
    assert (again.code, again.out) == (0, ran.out)
    assert {path: path.stat().st_mtime_ns for path in begun} == begun


def test_claims_about_no_suite_are_refused(cwndlab):
    ran = cwndlab("claims", "validate-linux")
    assert ran.code == 2
    assert ran.err.startswith("error: no claim is about 'validate-linux'; suites with claims are ")
