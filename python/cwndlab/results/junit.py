"""Results as JUnit XML, which continuous integration shows: a test case for each expectation in each cell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from cwndlab.errors import InputError, printable
from cwndlab.results import expectations, files
from cwndlab.results.expectations import Outcome
from cwndlab.results.resultset import ResultSet
from cwndlab.results.summary import CARRIED_OUT


def write(sides: Sequence[ResultSet], found: Sequence[Outcome], target: Path) -> None:
    """Write what came of expectations of some results to a file; raises InputError if that cannot be.

    Runs that failed or are missing are errors.
    """
    name = sides[0].header.experiment
    rows = [row for results in sides for row in results.runs.iter_rows(named=True)]
    lost = [row for row in rows if row["status"] not in CARRIED_OUT]
    suite = ElementTree.Element("testsuite", name=name, tests=str(len(found) + len(lost)))
    suite.set("failures", str(sum(not outcome.holds for outcome in found)))
    suite.set("errors", str(len(lost)))
    for outcome in found:
        case = _case(suite, name, f"{expectations.label(outcome)}{outcome.expectation.text}")
        if not outcome.holds:
            failure = ElementTree.SubElement(case, "failure", message=printable(expectations.failed(outcome)))
            failure.text = "\n".join(map(printable, outcome.against))
    for row in lost:
        case = _case(suite, name, f"run {row['run_id']}")
        ElementTree.SubElement(case, "error", message=printable(str(row["status"])))
    ElementTree.indent(suite)
    try:
        files.save(target, ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True) + b"\n")
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror}") from None


def _case(suite: ElementTree.Element, experiment: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=experiment, name=printable(name))
