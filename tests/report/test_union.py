"""Several results side by side: the numbers of their runs, what is overlaid, and differences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cwndlab
from cwndlab.cli import options
from cwndlab.errors import InputError
from cwndlab.report.interface import ResultSet, Together, together

TEXT = """\
experiment: {name}
duration: 2s
hosts:
  a: {{stack: freebsd-13, cc: newreno}}
  b: {{stack: freebsd-13}}
network:
  dumbbell:
    left: [a]
    right: [b]
    bottleneck: {{rate: {rate}, delay: 5ms, queue: {{kind: pfifo, limit: 20p}}, loss: {{random: 0.1%}}}}
flows:
  - {{name: f1, from: a, to: b, app: bulk}}
sweep:
  - hosts.a.cc: [newreno, cubic]
repeat: 3
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[ResultSet, ResultSet]:
    place = tmp_path_factory.mktemp("sides")
    made = []
    for name, rate in (("one", "10mbit"), ("two", "12mbit")):
        file = place / f"{name}.yaml"
        file.write_text(TEXT.format(name=name, rate=rate))
        made.append(cwndlab.load(file).run(out=place / name))
    return made[0], made[1]


@pytest.fixture(scope="module")
def sides(both: tuple[ResultSet, ResultSet]) -> Together:
    return together({"before": both[0], "after": both[1]})


def test_runs_are_numbered_one_after_the_other(both: tuple[ResultSet, ResultSet], sides: Together):
    assert sides.summary.height == 12
    assert sides.keys == ["results", "hosts.a.cc"]
    assert sides.series(7).equals(both[1].series(1))
    assert sides.record(7).run_id == 7
    assert [record.run_id for record in sides.records()] == list(range(12))
    with pytest.raises(InputError, match="run: '12' does not exist"):
        sides.series("12")


def test_lines_of_both_lie_over_each_other_in_their_own_colours(sides: Together):
    figure = sides.plot("goodput", average=0.5)
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["newreno", "cubic"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["before", "after"]


def test_differences_are_those_of_compare(both: tuple[ResultSet, ResultSet], sides: Together):
    drawn = sides.plot("difference").data
    compared = both[0].compare(both[1])
    shown = [*compared.overall, *compared.each]
    assert drawn["difference"].to_list() == pytest.approx(
        [100 * each.share(each.difference) for each in shown]
    )
    assert drawn["p"].to_list() == [each.corrected_p for each in shown]
    low = [each.interval and 100 * each.share(each.interval.low) for each in shown]
    assert drawn["low"].to_list() == pytest.approx(low)


def test_the_command_line_takes_labels(both: tuple[ResultSet, ResultSet]):
    texts = [f"{both[0].path}=before", str(both[1].path)]
    assert options.opened(texts).summary["results"].unique(maintain_order=True).to_list() == ["before", "two"]
    with pytest.raises(
        InputError, match="labels: two, two: give each results a label of its own, as DIR=LABEL"
    ):
        options.opened([f"{both[0].path}=two", str(both[1].path)])
    with pytest.raises(InputError, match="named twice"):
        options.opened([texts[0], str(both[0].path)])


@pytest.mark.slow
def test_the_report_of_two_says_how_they_differ(sides: Together, tmp_path: Path):
    from cwndlab.report.html_report import write

    page = write(sides, tmp_path / "x.html").read_text()
    assert "By results" in page
    assert "one=before" in page
    # The picture, for a wide page and for a phone: what is compared stands together.
    for layout in ("wide", "narrow"):
        (said,) = re.findall(f'<svg class="{layout}"[^>]* aria-label="([^"]*)"', page)
        rows = said.partition(": ")[2].split("; ")
        assert [row.rpartition(" ±")[0].rpartition(" ")[0] for row in rows] == [
            "before, newreno",
            "after, newreno",
            "before, cubic",
            "after, cubic",
        ]


def test_the_metrics_of_loadlatency_are_told_apart_by_the_results(tmp_path: Path):
    from cwndlab.results import loadlatency

    load = "{kind: loadlatency, scenario: 2, idle: 100ms}"
    made = {}
    for label, rate in (("before", "10mbit"), ("after", "12mbit")):
        text = TEXT.format(name=label, rate=rate).replace("app: bulk", f"app: {load}")
        made[label] = cwndlab.load(
            text.replace("newreno, cubic", "cubic").replace("repeat: 3", "repeat: 1")
        ).run(out=tmp_path / label)
    found = loadlatency.series(together(made))
    assert [one.cell["results"] for one in found] == ["before", "after"]
    assert [one.missing for one in found] == [0, 0]
    slower, faster = (loadlatency.classic(results) for results in made.values())
    assert loadlatency.classic(together(made)) == f"results before\n{slower}\nresults after\n{faster}"


def test_a_report_of_loadlatency_begins_with_its_own_metrics(tmp_path: Path) -> None:
    from cwndlab.report.html_report import write

    load = "{kind: loadlatency, scenario: 2, idle: 100ms}"
    text = (
        TEXT.format(name="line", rate="10mbit")
        .replace("app: bulk", f"app: {load}")
        .replace("repeat: 3", "repeat: 1")
    )
    text = text.replace("- hosts.a.cc: [newreno, cubic]", "- flows.f1.app.scenario: [1, 2]")
    page = write(cwndlab.load(text).run(out=tmp_path / "line"), tmp_path / "x.html").read_text()
    answers = re.findall('<p class="answer">([^<]*)</p>', page)
    assert [answer.partition(":")[0] for answer in answers] == [
        "Responsiveness",
        "Download capacity",
        "Upload capacity",
    ]
    # Scenarios are different loads, not values to compare.
    assert "Is there a difference?" not in page
