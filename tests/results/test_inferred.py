"""Stacks whose models are inferred are named as such by whatever shows results of them, and no others are."""

from pathlib import Path

import pytest

from cwndlab import load
from cwndlab.analysis import verdict
from cwndlab.experiment.catalogue import catalogue
from cwndlab.results import display, inferred_models
from cwndlab.results.resultset import ResultSet
from pages import rendered

STACKS = ("freebsd-15-d49540", "freebsd-13")

EXPERIMENT = """
experiment: inferred
duration: 2s
hosts: {a: {stack: freebsd-13}, b: {stack: linux-6.8}}
network: {dumbbell: {left: [a], right: [b], bottleneck: {rate: 5mbit, delay: 10ms}}}
flows: [{name: f1, from: a, to: b}]
sweep: [{hosts.a.stack: [STACKS]}]
"""


def carried_out(out: Path, *stacks: str) -> ResultSet:
    return load(EXPERIMENT.replace("STACKS", ", ".join(stacks))).run(out=out)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> ResultSet:
    return carried_out(tmp_path_factory.mktemp("inferred") / "both", *STACKS)


def test_the_catalogue_says_which() -> None:
    names = {name for name in catalogue().stacks if inferred_models.is_inferred(name)}
    assert {"windows-7", "freebsd-15-d49540", "freebsd-15-d49540/rack"} <= names
    assert not {"freebsd-9.2", "freebsd-13", "linux-3.9", "linux-6.8"} & names
    assert not inferred_models.is_inferred(None) and not inferred_models.is_inferred("kernel")


def test_a_table_marks_them(results: ResultSet) -> None:
    lines = display.table(results).splitlines()
    assert any("freebsd-15-d49540*" in line for line in lines)
    assert lines[-1] == "* inferred: no recording of the real system stands behind the model"
    assert not any("freebsd-13*" in line or "linux-6.8*" in line for line in lines)


def test_one_that_all_rows_share_is_marked_above_them(tmp_path: Path) -> None:
    text = EXPERIMENT.replace("stack: freebsd-13", "stack: windows-7").replace(
        "hosts.a.stack: [STACKS]", "network.dumbbell.bottleneck.rate: [5mbit, 6mbit]"
    )
    alone = load(text).run(out=tmp_path / "alone")
    lines = display.table(alone).splitlines()
    assert "stack windows-7*" in lines[0] and lines[-1] == inferred_models.FOOTNOTE
    assert "inferred" not in display.table(alone, columns=["goodput_mbps"])


def test_a_report_marks_them(results: ResultSet) -> None:
    text = rendered(results)
    assert "freebsd-15-d49540 (inferred)" in text
    assert (
        "Stacks inferred, with no recording of the real system behind the model: freebsd-15-d49540." in text
    )
    assert "freebsd-13 (inferred)" not in text
    # As --where takes them, in the command below the boxes.
    assert '"written":["freebsd-15-d49540","freebsd-13"]' in text


@pytest.mark.parametrize(("kind", "options"), [("cwnd", {}), ("box", {"by": ["hosts.a.stack"]})])
def test_metrics_mark_them(results: ResultSet, kind: str, options: dict[str, list[str]]) -> None:
    metric = results.plot(kind, **options)
    labels = [text.get_text() for axis in metric.axes for text in axis.texts]  # at the ends of lines
    ticks = [tick.get_text() for axis in metric.axes for tick in axis.get_xticklabels()]
    assert "freebsd-15-d49540 (inferred)" in [*labels, *ticks]
    said = [text.get_text() for text in metric.texts]
    assert "inferred, with no recording of the real system behind the model: freebsd-15-d49540" in said


def test_a_comparison_notes_them(results: ResultSet) -> None:
    text = verdict.text(results.compare(by="hosts.a.stack"))
    assert "note: inferred, with no recording of the real system behind the model: freebsd-15-d49540" in text


def test_a_comparison_of_two_directories_notes_them_once(results: ResultSet, tmp_path: Path) -> None:
    notes = results.compare(carried_out(tmp_path / "again", *STACKS)).notes
    assert notes == ["inferred, with no recording of the real system behind the model: freebsd-15-d49540"]


def test_where_none_is_inferred_nothing_is_said(tmp_path: Path) -> None:
    known = carried_out(tmp_path / "known", "freebsd-9.2", "freebsd-13")
    assert "inferred" not in display.table(known)
    shown = [rendered(known), verdict.text(known.compare(by="hosts.a.stack"))]
    # The experiment is named that.
    assert all("(inferred)" not in text and "inferred, with" not in text for text in shown)
    assert not [text for text in known.plot("cwnd").texts if "inferred" in text.get_text()]
