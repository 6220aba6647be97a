"""`cwndlab compare --cc --suite rfc9743`: the criteria, their bounds, and one side judged by them."""

import json
import runpy
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from cwndlab import load
from cwndlab.analysis import review
from cwndlab.analysis.review import contenders, evaluation, evaluation_words
from cwndlab.analysis.review.contenders import PROPOSED
from cwndlab.analysis.review.evaluation import Verdict, judged_cell
from cwndlab.analysis.review.sides import Side
from cwndlab.cli.application import main
from cwndlab.errors import InputError
from cwndlab.experiment.suites import evaluations
from cwndlab.experiment.suites.evaluations import BBR, RFC7928, RFC8867, RFC9743, SUITES, Criterion
from cwndlab.report import evaluation_page
from cwndlab.results import junit
from cwndlab.results.columns import SERIES
from cwndlab.results.metrics import BY_NAME
from tools import leo

DOCS = Path(__file__).parents[2] / "docs"
CRITERIA = evaluations.criteria(RFC9743)

CEILINGS = ("Rate under 10 % of loss, as a part of the link's",)
"""Criteria that ask for less of what is better otherwise."""

SMALL = """\
experiment: small
duration: 1s
hosts: {a: {stack: linux}, b: {stack: linux}}
network: {dumbbell: {left: [a], right: [b], bottleneck: {rate: 1mbit, delay: 1ms}}}
flows: [{name: f, from: a, to: b}]
"""

BLIND = """\
class Blind:
    def on_ack(self, flow):
        flow.cwnd = 300 * flow.mss

    def on_loss(self, flow):
        flow.cwnd = 300 * flow.mss
"""
"""A congestion control that no loss moves."""


def test_every_section_that_asks_is_there() -> None:
    asking = [f"5.1.{n}" for n in range(1, 6)] + ["5.2", *(f"5.2.{n}" for n in range(1, 4)), "5.3.1", "5.3.2"]
    asking += [f"6.{n}" for n in range(1, 5)] + [f"7.{n}" for n in range(1, 12)]
    assert list(dict.fromkeys(each.section for each in CRITERIA)) == asking


def test_every_case_of_bbr_is_there() -> None:
    sections = [each.section for each in evaluations.criteria(BBR)]
    assert list(dict.fromkeys(sections)) == [f"A.{n}" for n in range(1, 23)]


@pytest.mark.parametrize(
    ("suite", "criterion"),
    [(suite, each) for suite in SUITES for each in evaluations.criteria(suite)],
    ids=lambda of: of if isinstance(of, str) else f"{of.section} {of.asks}",
)
def test_a_criterion_has_a_bound_or_says_why_not(suite: str, criterion: Criterion) -> None:
    if criterion.experiment is None:
        assert criterion.why
        return
    assert any(criterion.section.startswith(part) for part in SUITES[suite].parts)
    assert (criterion.at_least is None) != (criterion.at_most is None)
    assert criterion.of in (None, "worse", *SUITES[suite].incumbents)
    spec = load(evaluations.text_of(suite, criterion.experiment)).spec
    assert criterion.metric in (*BY_NAME, *spec.metrics)
    better = "higher" if criterion.at_least is not None else "lower"
    if criterion.metric in BY_NAME and criterion.asks not in CEILINGS:
        assert BY_NAME[criterion.metric].better in (None, better)
    names = [name for flow in spec.flows for name in (flow.name, f"{flow.name}.1" if flow.count > 1 else "")]
    assert criterion.flow in (None, *names)


@pytest.mark.parametrize("suite", SUITES)
def test_every_experiment_is_asked_for(suite: str) -> None:
    there = {path.stem for path in evaluations.folder(suite).glob("*.yaml")}
    assert there == {"table", *evaluations.experiments(evaluations.criteria(suite))}


def test_the_page_has_every_criterion() -> None:
    made = runpy.run_path(str(DOCS / "criteria.py"))
    assert made["text"]() == made["PAGE"].read_text()


FLOOR = Criterion("1", "asks", "e", None, "goodput_mbps", at_least=0.8, of="worse")


def cell(criterion: Criterion, proposed: list[float], cubic: list[float], reno: list[float]):
    values = {
        name: dict(enumerate(of)) for name, of in ((PROPOSED, proposed), ("CUBIC", cubic), ("Reno", reno))
    }
    return judged_cell(criterion, "", values, 4, 0.95)


@pytest.mark.parametrize(
    ("proposed", "verdict"),
    [
        ([8.0, 8.2, 8.1, 8.1], Verdict.MET),
        ([6.0, 6.2, 6.1, 6.1], Verdict.NOT_MET),
        ([5.0, 8.0, 6.0, 7.2], Verdict.OPEN),
        ([6.4, 6.4, 6.4, 6.4], Verdict.MET),  # as much as the bound, exactly
        ([9.0, 9.0, 9.0], Verdict.NO_VALUE),  # one of four draws is lost
    ],
)
def test_a_bound_is_a_multiple_of_the_worse_one(proposed: list[float], verdict: Verdict) -> None:
    found = cell(FLOOR, proposed, [10.0] * 4, [8.0] * 4)
    assert found.verdict is verdict
    if verdict is not Verdict.NO_VALUE:
        assert found.bound == pytest.approx(6.4)


def test_draws_are_compared_pair_by_pair() -> None:
    cubic = [8.0, 20.0, 12.0, 16.0]
    assert cell(FLOOR, [0.9 * value for value in cubic], cubic, [40.0] * 4).verdict is Verdict.MET
    assert cell(FLOOR, [0.7 * value for value in cubic], cubic, [40.0] * 4).verdict is Verdict.NOT_MET


def test_slack_and_direction() -> None:
    ceiling = Criterion("1", "asks", "e", None, "drop_rate", at_most=2, of="cubic", slack=0.001)
    assert cell(ceiling, [0.001] * 4, [0.0] * 4, [1.0] * 4).verdict is Verdict.MET
    assert cell(ceiling, [0.002] * 4, [0.0] * 4, [1.0] * 4).verdict is Verdict.NOT_MET
    assert cell(Criterion("1", "asks", "e", at_most=10), [9.0] * 4, [], []).verdict is Verdict.MET


def test_the_headline_counts_every_row() -> None:
    side, stack = review.single("builtin:cubic", stack="linux-6.18")
    verdicts = [
        Verdict.MET,
        Verdict.MET,
        Verdict.NOT_MET,
        Verdict.OPEN,
        Verdict.NO_VALUE,
        Verdict.NOT_COVERED,
    ]
    rows = [evaluation.Row(FLOOR, verdict) for verdict in verdicts]
    found = evaluation.Evaluation(RFC9743, side, stack, rows, [], 30, 10)
    assert evaluation_words.headline(found) == (
        "2 of 5 bounds are met, 1 is not (section 1), 1 is open, 1 is without a value; "
        "1 question is not covered."
    )


def judged(given: str, out, chosen: list[Criterion], repeats: int = 3, suite: str = RFC9743):
    side, stack = review.single(given, stack="linux-6.18")
    return evaluation.carry_out(suite, side, stack, out, chosen=chosen, repeats=repeats)


def of(*experiments: str) -> list[Criterion]:
    return [each for each in CRITERIA if each.experiment in experiments]


@pytest.mark.slow
def test_cubic_is_what_it_is_beside(tmp_path) -> None:
    found = judged("builtin:cubic", tmp_path / "out", [*of("call", "narrow"), CRITERIA[-2]])
    assert (found.failures, found.runs) == ([], 27)
    for row in found.rows[:-1]:
        assert row.values[PROPOSED] == row.values["CUBIC"], row.criterion.asks
    assert found.rows[-1].verdict is Verdict.NOT_COVERED
    assert found.count(Verdict.NOT_MET) == 0


@pytest.mark.slow
def test_one_that_no_loss_moves_is_found(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "blind.py").write_text(BLIND)
    chosen = [*of("heavy-loss", "beside-reno"), CRITERIA[-2]]
    found = judged(f"{tmp_path}/blind.py:Blind", tmp_path / "out", chosen, repeats=5)
    verdicts = {row.criterion.asks: row.verdict for row in found.rows}
    assert verdicts["Rate under 10 % of loss, as a part of the link's"] is Verdict.NOT_MET
    assert verdicts["Harm to Reno: its goodput"] is Verdict.NOT_MET
    text = evaluation_words.text(found)
    assert max(map(len, text.splitlines())) <= 80
    assert "are not (sections 5.1.3, 5.2.1)" in " ".join(text.split())
    html = evaluation_page.html(found, "cwndlab compare --cc")
    assert html.count("✗ not met") == found.count(Verdict.NOT_MET) and "cwndlab&#39;s own" in html
    rows = json.loads(evaluation_words.as_json(found))["rows"]
    assert [row["verdict"] for row in rows] == [row.verdict.value for row in found.rows]
    junit.write_cases(RFC9743, evaluation_words.cases(found), tmp_path / "found.xml")
    suite = ET.parse(tmp_path / "found.xml").getroot()
    assert int(suite.get("failures", "")) == found.count(Verdict.NOT_MET) == len(suite.findall("*/failure"))
    assert int(suite.get("skipped", "")) == 1 + found.count(Verdict.OPEN)


@pytest.mark.slow
def test_bbr_by_its_own_cases(tmp_path) -> None:
    """BBRv1 knows the rate exactly, drains its queue, and probes the round trip after 10 s, not 5."""
    chosen = [each for each in evaluations.criteria(BBR) if each.experiment in ("plateau", "probe-rtt")]
    found = judged("builtin:bbr", tmp_path / "out", chosen, repeats=2, suite=BBR)
    assert [row.verdict for row in found.rows] == [*[Verdict.MET] * 3, Verdict.NOT_MET]
    assert evaluation_words.text(found).startswith("The example test cases of draft-ietf-ccwg-bbr-06")
    assert "Appendix A" in evaluation_page.html(found, "cwndlab compare --cc")
    assert found.rows[0].values[PROPOSED].mean == pytest.approx(100, abs=1)
    assert found.rows[2].values["CUBIC"].mean > 100


@pytest.mark.slow
def test_a_guest_is_judged_beside_linux(tmp_path) -> None:
    side, stack = review.single("builtin:cubic@quinn")
    found = evaluation.carry_out(
        RFC9743, side, stack, tmp_path / "out", chosen=of("outage", "short", "narrow"), repeats=2
    )
    assert not found.failures
    verdicts = {row.criterion.experiment or row.criterion.asks: row.verdict for row in found.rows}
    assert verdicts["narrow"] not in (Verdict.NO_VALUE, Verdict.NOT_COVERED)
    notes = [row.note for row in found.rows if row.verdict is Verdict.NOT_COVERED]
    assert any("app: is not carried out over quinn" in note for note in notes)
    assert f"cubic of {stack.name} does not tell retransmission timeouts" in notes
    text = " ".join(evaluation_words.text(found).split())
    assert f"on {stack.name}, CUBIC and Reno on linux-" in text
    assert "as cwndlab models it" not in text and "What this cannot see" not in text
    for row in found.rows:
        if PROPOSED in row.values:
            assert row.values[PROPOSED] != row.values["CUBIC"]


def test_a_connection_of_a_guest_ends_at_a_guest() -> None:
    side, stack = review.single("builtin:cubic@quinn")
    [made] = contenders.arranged(RFC9743, "beside-cubic", side, stack, 2)
    ends = {flow.name: (str(flow.from_), str(flow.to)) for flow in made.experiment.spec.flows}
    assert ends == {"f": ("s", "r-guest"), "cubic": ("t", "r")}


def test_a_kernel_that_is_patched_runs_beside_the_one_that_is_not(tmp_path, monkeypatch) -> None:
    loaded: list[tuple[str, Path]] = []
    monkeypatch.setattr(
        contenders.loader, "load", lambda text, *, lab, **_: loaded.append((text, lab)) or load(SMALL)
    )
    monkeypatch.setattr(contenders.runner, "check", lambda *_, **__: None)
    stack = review.single("builtin:cubic", stack="linux-6.18")[1]
    after, before = tmp_path / "after", tmp_path / "before"
    side = Side("new", "cubic of kernel x", "cubic", (), after, before, whole=True)
    contenders.arranged(RFC9743, "outage", side, stack, 2)
    of_both = [(yaml.safe_load(text)["sweep"][-1]["values"], lab) for text, lab in loaded]
    assert [(list(levels), lab) for levels, lab in of_both] == [
        ([PROPOSED], after),
        (["CUBIC", "Reno"], before),
    ]


def test_a_stack_without_both_is_refused(tmp_path) -> None:
    side, stack = review.single("builtin:newreno", stack="windows-7")
    with pytest.raises(InputError, match="windows-7 has no cubic"):
        evaluation.carry_out(RFC9743, side, stack, tmp_path / "out")


@pytest.mark.parametrize(
    "arguments", [[], ["builtin:cubic", "builtin:reno"], ["builtin:cubic", "--patch", "x"]]
)
def test_it_takes_one_side(arguments: list[str], capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", "--cc", "--suite", RFC9743, *arguments])
    assert ended.value.code == 2
    assert "review: --suite rfc9743 judges OLD alone" in capsys.readouterr().err


def test_the_command_writes_page_json_and_junit(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(evaluations, "criteria", lambda suite: of("outage"))
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as ended:
        main(
            [
                *("compare", "--cc", "--suite", RFC9743, "builtin:reno", "--stack", "freebsd"),
                *("--repeats", "2", "-q", "-o", str(out)),
            ]
        )
    assert not ended.value.code
    said = capsys.readouterr()
    assert "1 of 1 bounds are met; 0 questions are not covered." in said.out
    assert {"review.html", "review.json", "review.xml", "outage"} <= {path.name for path in out.iterdir()}


def test_the_handovers_are_those_of_the_generator() -> None:
    first, lines = leo.schedule(90, 1)
    said = yaml.safe_load(evaluations.text_of(RFC9743, "handovers"))["network"]["dumbbell"]["bottleneck"]
    assert said["schedule"] == yaml.safe_load("\n".join(lines))
    assert {key: said[key] for key in ("delay", "rate")} == yaml.safe_load(f"{{{first}}}")
    away = [change["at"] for change in said["schedule"] if change["set"].get("down") is True]
    assert away == ["12s", "27s", "42s", "57s", "72s", "87s"]


def judged_of(
    suite: str, given: str, known: list[str], out: Path, chosen: list[Criterion]
) -> evaluation.Evaluation:
    side, stack = review.modelled(given, "subject", known, None)
    return evaluation.carry_out(suite, side, stack, out, chosen=chosen, repeats=2)


def test_media_are_judged_beside_the_other_controller(tmp_path: Path) -> None:
    chosen = [each for each in evaluations.criteria(RFC8867) if each.experiment == "capacity"]
    found = judged_of(RFC8867, "builtin:gcc", ["scream", "gcc"], tmp_path, chosen)
    assert not found.failures
    for row in found.rows:
        assert list(row.values) == ["proposed", "SCReAM", "GCC"]
        assert row.values["proposed"] == row.values["GCC"] != row.values["SCReAM"]
    assert "SCReAM" in evaluation_page.html(found, "command")


def test_a_queue_discipline_is_judged_beside_tail_drop(tmp_path: Path) -> None:
    chosen = [each for each in evaluations.criteria(RFC7928) if each.experiment == "friendly"]
    found = judged_of(RFC7928, "builtin:codel", ["pfifo", "codel"], tmp_path, chosen)
    assert [list(row.values) for row in found.rows] == [["proposed", "tail drop"]] * 2
    delay = next(row for row in found.rows if row.criterion.metric == "queue_delay_p95_ms")
    assert delay.values["proposed"].mean < 0.5 * delay.values["tail drop"].mean
    assert "tail drop's" in evaluation_words.text(found)


def test_the_page_shows_whether_a_case_is_met(tmp_path: Path) -> None:
    chosen = [each for each in evaluations.criteria(BBR) if each.experiment == "probe-rtt"]
    side, stack = review.single("builtin:bbr", stack="linux-6.18")
    found = evaluation.carry_out(BBR, side, stack, tmp_path, chosen=chosen, repeats=1)
    page = evaluation_page.html(found, "command")
    assert page.count("<svg") == 1 and 'class="over old"' in page and 'class="over new"' in page
    # The window and the bound are kB.
    assert 'aria-label="cwnd of the first draw, and the bound: PROBE_RTT after 5 s' in page


def test_what_shows_a_case_of_bbr_is_recorded() -> None:
    for each in evaluations.criteria(BBR):
        if each.experiment is not None:
            assert each.shows == "phases" or (each.shows and each.line is not None), each.asks
            assert each.shows.startswith("samples.") or each.shows in (*SERIES["tcp"], "phases"), each.asks


def test_what_a_suite_does_not_know_is_refused() -> None:
    with pytest.raises(InputError) as refused:
        review.modelled(
            "builtin:nada", "--suite rfc8867: congestion control of media", ["scream", "gcc"], None
        )
    assert "builtin:scream" in str(refused.value)
    with pytest.raises(InputError):
        review.modelled("gcc", "--suite rfc8867: congestion control of media", ["scream", "gcc"], None)
