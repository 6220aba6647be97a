"""Results as JUnit XML, which continuous integration shows: a test case for each expectation in each cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from cwndlab.errors import InputError, printable
from cwndlab.results import expectations, files
from cwndlab.results.expectations import Outcome
from cwndlab.results.resultset import ResultSet
from cwndlab.results.summary import CARRIED_OUT

End = Literal["failure", "error", "skipped"]


@dataclass(frozen=True)
class Case:
    """A test case."""

    name: str
    kind: End | None = None
    """End that it came to. None for one that passed."""
    message: str = ""
    text: str = ""
    """Lines about what was found."""


def write(sides: Sequence[ResultSet], found: Sequence[Outcome], target: Path) -> None:
    """Write what came of expectations of some results to a file; raises InputError if that cannot be.

    Runs that failed or are missing are errors.
    """
    rows = [row for results in sides for row in results.runs.iter_rows(named=True)]
    cases = [
        Case(
            f"{expectations.label(outcome)}{outcome.expectation.text}",
            None if outcome.holds else "failure",
            "" if outcome.holds else expectations.failed(outcome),
            "\n".join(outcome.against),
        )
        for outcome in found
    ]
    lost = [row for row in rows if row["status"] not in CARRIED_OUT]
    cases += [Case(f"run {row['run_id']}", "error", str(row["status"])) for row in lost]
    write_cases(sides[0].header.experiment, cases, target)


def write_cases(name: str, cases: Sequence[Case], target: Path, notes: Sequence[str] = ()) -> None:
    """Write test cases of one suite, and notes on all, to a file; raises InputError if that cannot be."""
    suite = ElementTree.Element("testsuite", name=name, tests=str(len(cases)))
    kinds: dict[End, str] = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    for kind, attribute in kinds.items():
        suite.set(attribute, str(sum(case.kind == kind for case in cases)))
    for case in cases:
        written = ElementTree.SubElement(suite, "testcase", classname=name, name=printable(case.name))
        if case.kind is not None:
            end = ElementTree.SubElement(written, case.kind, message=printable(case.message))
            end.text = _lines(case.text)
        elif case.text:
            ElementTree.SubElement(written, "system-out").text = _lines(case.text)
    if notes:
        ElementTree.SubElement(suite, "system-out").text = "\n".join(map(printable, notes))
    ElementTree.indent(suite)
    try:
        files.save(target, ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True) + b"\n")
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror}") from None


def _lines(text: str) -> str | None:
    return "\n".join(map(printable, text.splitlines())) or None
