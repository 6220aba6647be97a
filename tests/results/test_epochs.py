"""Few congestion epochs are told where means are compared, and nowhere else."""

import pytest

import cwndlab
import stored_results
from cwndlab.cli import output
from cwndlab.execution import resumption, store
from cwndlab.execution.store import PartWriter
from cwndlab.report.html_report import setup
from cwndlab.report.html_report.facts import Facts
from cwndlab.results import catalogue, epochs

NOTE = (
    "in 1 of 2 combinations a flow has fewer than 20 congestion epochs in the measured time of all repeats"
    " (fewest: 6, cubic), so its means depend on where the epochs fall; a longer duration or more repeats"
    " tell more"
)


def results(directory, counted, ccs=("newreno", "cubic"), app=None):
    """Two repeats with each congestion control, of which `counted` gives the counters of its runs."""
    runs = stored_results.plan(ccs)
    cut = store.cut(runs)
    stored_results.begun(directory, cut)
    for part in cut:
        with PartWriter(directory / "runs", part.name) as writer:
            for run in part.runs:
                (flow,) = run.scenario["flows"]
                flow["app"] = app or {"kind": "bulk"}
                counters = stored_results.flow_counters(**counted(flow["cc"], run.repeat))
                files = writer.begin(run.index)
                writer.record(stored_results.record(run, files.finish(), summary={"flows": [counters]}))
            writer.commit()
    built = catalogue.build(stored_results.header(), cut, resumption.stored(directory))
    resumption.conclude(directory, built)
    return cwndlab.open(directory)


def few_with(cc, **counters):
    """Three recoveries in each run with that congestion control, thirty with others, and these counters."""

    def counted(here, repeat):
        few = {"fast_recoveries": 3, **counters} if here == cc else {"fast_recoveries": 30}
        return {"goodput_bytes": 8_000_000 + repeat, **few}

    return counted


def test_they_are_told_with_the_fewest_and_where(tmp_path):
    few = epochs.few(results(tmp_path / "r", few_with("cubic")))
    assert few is not None
    assert (few.text, few.runs) == (NOTE, ["2", "3"])
    timeouts = epochs.few(results(tmp_path / "s", few_with("cubic", rtos=6)))
    assert timeouts is not None and "fewest: 18, cubic" in timeouts.text


def test_run_prints_it_first_and_the_report_has_it(tmp_path, capsys):
    made = results(tmp_path / "r", few_with("cubic"))
    output.remarks(made)
    assert capsys.readouterr().err == f"note: {NOTE}\n"
    tables = dict(setup.provenance(Facts(made))["tables"])
    assert tables["Notes"].rows == [[NOTE, "2, 3"]]


def test_repeats_that_are_the_same_count_once_and_more_of_them_tell_nothing(tmp_path):
    few = epochs.few(results(tmp_path / "r", lambda cc, repeat: {"fast_recoveries": 15}))
    assert few is not None
    assert few.text == (
        "in 2 of 2 combinations a flow has fewer than 20 congestion epochs in the measured time (fewest: 15,"
        " newreno), so its means depend on where the epochs fall; a longer duration tells more"
    )


@pytest.mark.parametrize(
    "counters",
    [
        {"fast_recoveries": 10},  # of each of two repeats
        {"fast_recoveries": 0},  # held by a window, without any loss
        {"limited_ns": {"cwnd": 1, "rwnd": 9, "sndbuf": 0, "app": 0}},
        {"ce_marks": 40},  # which end epochs without a recovery
        {"completion_ns": 2 * 10**9},  # of a size
    ],
    ids=lambda counters: next(iter(counters)),
)
def test_others_have_none(tmp_path, counters):
    assert epochs.few(results(tmp_path / "r", few_with("cubic", **counters))) is None


def test_flows_without_epochs_have_none(tmp_path):
    assert epochs.few(results(tmp_path / "bbr", few_with("bbr"), ("newreno", "bbr"))) is None
    app = {"kind": "request-response"}
    assert epochs.few(results(tmp_path / "app", few_with("cubic"), app=app)) is None


def test_one_combination_compares_nothing(tmp_path):
    assert epochs.few(results(tmp_path / "r", few_with("cubic"), ("cubic",))) is None
