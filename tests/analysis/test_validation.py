"""The comparison of a validation, with the model on both sides: what is equal is 0 apart."""

import signal
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

import cwndlab
from cwndlab import load
from cwndlab.analysis import validation
from cwndlab.analysis.validation import judge
from cwndlab.analysis.validation.compare import ALL, METRICS, median_errors
from cwndlab.cli import main
from cwndlab.errors import InputError
from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.experiment import Experiment
from cwndlab.experiment.suites import suite
from cwndlab.report import validation_page
from cwndlab.results import expectations
from cwndlab.results.resultset import ResultSet
from tools.truth.fidelity import page as fidelity

TEXT = """\
experiment: both
duration: 8s
hosts: {a: {stack: linux-6.18, cc: reno}, b: {stack: linux-6.18}}
network:
  dumbbell:
    left: [a]
    right: [b]
    bottleneck: {rate: 10mbit, delay: 5ms, queue: {kind: pfifo, limit: 20p}}
flows:
  - {name: first, from: a, to: b}
  - {name: second, from: a, to: b, start: 1s}
repeat: 2
"""


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[ResultSet, ResultSet, ResultSet]:
    """An experiment twice, and over a link of 9 instead of 10 Mbit/s."""
    base = tmp_path_factory.mktemp("sides")
    slower = ["network.dumbbell.bottleneck.rate=9mbit"]
    return (
        cwndlab.load(TEXT).run(out=base / "one"),
        cwndlab.load(TEXT).run(out=base / "same"),
        cwndlab.load(TEXT, slower).run(out=base / "slower"),
    )


def test_what_is_equal_is_not_apart(sides: tuple[ResultSet, ResultSet, ResultSet]) -> None:
    rows = validation.compare(sides[0], sides[1])
    assert [row.flow for row in rows] == ["first", "second", ALL]
    for row in rows[:2]:
        assert {name: metric.error for name, metric in row.metrics.items()} == dict.fromkeys(METRICS, 0.0)
    assert set(median_errors(rows)) == set(METRICS)
    assert all(error == 0 and count == 2 for error, count in median_errors(rows).values())


def test_differences_have_the_size_and_the_sign_they_should(
    sides: tuple[ResultSet, ResultSet, ResultSet],
) -> None:
    everything = validation.compare(sides[0], sides[2])[2]
    goodput = everything.metrics["goodput_mbps"]
    assert goodput.error == pytest.approx(10 / 9 - 1, abs=0.01)
    assert goodput.model is not None
    assert goodput.kernel is not None
    assert goodput.interval is not None
    low, high = goodput.interval
    assert low < goodput.model - goodput.kernel < high


def test_epochs_agree_with_the_simulators_own_count(sides: tuple[ResultSet, ResultSet, ResultSet]) -> None:
    measured = validation.compare(sides[0], sides[1])[0].metrics
    period, peak, trough = (measured[name].model for name in ("period_s", "peak_kb", "trough_kb"))
    assert period is not None
    assert peak is not None
    assert trough is not None
    counted = sides[0].summary.filter(sides[0].summary["flow"] == "first")["cycle_s"].mean()
    assert period == pytest.approx(counted, rel=0.05)
    assert 0.4 * peak < trough < 0.7 * peak, "Reno halves"


@pytest.mark.slow
def test_everything_is_written_down(sides: tuple[ResultSet, ResultSet, ResultSet], tmp_path: Path) -> None:
    rows = validation.compare(sides[0], sides[2])
    validation_page.write(tmp_path, rows, sides[0], sides[2])
    lines = (tmp_path / "validate.csv").read_text().splitlines()
    assert len(lines) == 1 + len(rows) * len(METRICS)
    assert (tmp_path / "overlay.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "validate.html").read_text()
    assert page.count("<tr>") == 1 + len(rows)
    assert "<script" not in page
    few, many = validation_page.text(rows), validation_page.text(rows * 4)
    assert "goodput, Mbit/s" in few
    assert "95 % of the difference" in few
    assert max(map(len, few.splitlines())) <= 80
    assert max(map(len, many.splitlines())) <= 80
    assert "goodput: median error" in many


def test_what_is_too_far_apart_is_marked_and_fails(sides: tuple[ResultSet, ResultSet, ResultSet]) -> None:
    rows = validation.compare(sides[0], sides[2])
    allowed = {"goodput_mbps": 0.01, "rtt_p50_ms": 0.9}
    found = judge.judged(rows, allowed)
    assert [(each.expectation.metric, each.cell["flow"]) for each in found] == [
        *(("goodput_mbps", flow) for flow in ("first", "second")),
        *(("rtt_p50_ms", flow) for flow in ("first", "second")),
    ]
    assert [each.holds for each in found] == [False, False, True, True]
    assert found[0].against[0].startswith("model ")
    said = expectations.text(found)
    assert "FAILS in 0 of 2 cells: goodput_mbps within 1 % of the kernel's\n  flow first, model " in said
    assert "holds in 2 of 2 cells: rtt_p50_ms within 90 % of the kernel's" in said
    for told in (validation_page.text(rows, allowed), validation_page.text(rows * 4, allowed)):
        assert "% !" in told or "%  !" in told
        assert "outside the 1% wanted" in told
    assert "!" not in validation_page.text(rows)
    assert all(
        each.holds for each in judge.judged(validation.compare(sides[0], sides[1]), {"retransmits": 0.0})
    )
    with pytest.raises(InputError, match="did you mean goodput_mbps"):
        judge.check({"goodput": 0.1})


def test_our_section_of_a_document_is_replaced_and_survives_the_others(tmp_path: Path) -> None:
    document = tmp_path / "fidelity.md"
    document.write_text("# Fidelity\n\nOld.\n")
    validation_page.write_section(document, f"{validation_page.BEGIN}\n## One\n{validation_page.END}\n")
    validation_page.write_section(document, f"{validation_page.BEGIN}\n## Two\n{validation_page.END}\n")
    assert (
        document.read_text()
        == f"# Fidelity\n\nOld.\n\n{validation_page.BEGIN}\n## Two\n{validation_page.END}\n"
    )
    fidelity.write([], document, "recordings")
    assert "Old." not in document.read_text()
    assert document.read_text().endswith(f"\n\n{validation_page.BEGIN}\n## Two\n{validation_page.END}\n")


def _on_a_kernel_of_250_hz(experiment: Experiment) -> Experiment:
    model = catalogue()
    stacks = {name: replace(stack, hz=250) for name, stack in model.stacks.items()}
    known = replace(model, stacks=stacks)
    return replace(experiment, support=replace(experiment.support, catalogue=lambda: known))


def test_the_models_hosts_tick_as_this_kernel_does() -> None:
    ticks = validation._ticks(_on_a_kernel_of_250_hz(cwndlab.load(TEXT)))
    hosts = cwndlab.load(TEXT, ticks).plan().runs[0].scenario["hosts"]
    assert [host["hz"] for host in hosts] == [250, 250]


def test_the_suite_is_a_graeco_latin_square_of_36_runs_under_an_hour() -> None:
    plan = load(suite("validate-linux").path).plan()
    bottlenecks = [run.scenario["links"][0] for run in plan.runs]
    cells = []
    for run, link in zip(plan.runs, bottlenecks, strict=True):
        product = link["rate_bps"] * link["delay_ns"] * 2 / 8e9 / 1514
        limit = link["queue"]["limit_packets"]
        buffer = min((0.5, 1, 2), key=lambda share: abs(max(8, round(product * share)) - limit))
        fitting = [share for share in (0.5, 1, 2) if max(8, round(product * share)) == limit]
        assert fitting, (product, limit)
        kind = link["queue"]["kind"]
        cells.append((link["rate_bps"], link["delay_ns"], run.scenario["flows"][0]["cc"], kind, buffer))
    assert len({cell[:3] for cell in cells}) == len(cells) == 36
    for rate in (2, 10, 50, 100):
        square = [cell[1:] for cell in cells if cell[0] == rate * 10**6]
        # Queues meet each round-trip time, and each congestion control, once.
        assert len({(cell[0], cell[2]) for cell in square}) == len({cell[1:3] for cell in square}) == 9
        if rate >= 10 * 5:  # below that, the least buffer stands for several multiples
            assert len({(cell[0], cell[3]) for cell in square}) == len({cell[2:] for cell in square}) == 9
    assert {run.scenario["flows"][1]["start_ns"] for run in plan.runs} == {5 * 10**9}
    assert plan.simulated_ns + len(plan.runs) * 4 * 10**9 < 3600 * 10**9


@pytest.mark.slow
def test_the_command_has_a_verdict(
    sides: tuple[ResultSet, ResultSet, ResultSet],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the models on both sides, as no test has a kernel to itself."""

    def as_if(*words: object, **more: object) -> tuple[Path, ResultSet, ResultSet]:
        return tmp_path, sides[0], sides[2]

    monkeypatch.setattr(validation, "run", as_if)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    # The page says which kernel it was.
    monkeypatch.setitem(sides[2].header.versions, "kernel", "6.18")
    junit = tmp_path / "junit.xml"

    def ended(*words: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as end:
            main(["compare", "--testbed", "netns", "both.yaml", "-q", "--junit", str(junit), *words])
        return end.value.code, capsys.readouterr().err

    assert ended("--within", "goodput_mbps=20%") == (0, "")
    code, err = ended("--within", "goodput_mbps=1%", "--within", "rtt_p50_ms=90%")
    assert (code, "2 of 4 expectations do not hold" in err) == (1, True)
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "2", "0")
    assert ended("--within", "goodput_mbps")[0] == 2
    assert ended("--within", "speed=3%")[0] == 2
