"""Claims: stated completely, decided by the runs they speak of, and turned over by a wrong stack."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cwndlab import load
from cwndlab.analysis.claims import causes, claims, judge, known
from cwndlab.analysis.claims.causes import ASSUMPTION, OPEN, SPREAD, Cause, Changed
from cwndlab.analysis.claims.claim import PUBLICATIONS, Claim, Expectation, Trial
from cwndlab.analysis.claims.judge import CANNOT_TELL
from cwndlab.execution.runner import run
from cwndlab.experiment.suites import suite, suites
from cwndlab.results import loadlatency
from cwndlab.results.resultset import ResultSet
from experiments import dumbbell
from tools.truth.claims_page import markdown, text


def stated(*names: str) -> list[Claim]:
    chosen = [claim for claim in claims() if claim.name in names]
    assert len(chosen) == len(names)
    return chosen


def carried_out(name: str, out: Path, overrides: Sequence[str], replaced: Mapping[str, str]) -> ResultSet:
    """A part of a suite, with words of its file replaced."""
    source = suite(name).path.read_text(encoding="utf-8")
    for old, new in replaced.items():
        assert old in source
        source = source.replace(old, new)
    return run(load(source, overrides), out=out)


def column(*more: str) -> Sequence[str]:
    bottleneck = "network.dumbbell.bottleneck"
    return (f"{bottleneck}.rate=2mbit", f"{bottleneck}.delay=20ms", *more)


@pytest.mark.slow
def test_there_are_sixty_claims_of_the_publications() -> None:
    made = claims()
    assert len(made) >= 60
    assert {claim.publication for claim in made} == set(PUBLICATIONS)
    names = {entry for claim in made if (entry := claim.suite) is not None}
    for name in names:
        keys = set(load(suite(name).path).plan().keys)
        for claim in made:
            if claim.suite == name:
                assert set(claim.measure.get("where", {})) <= keys, claim.name
    for claim in made:
        assert claim.says and claim.place and claim.metric
        assert claim.expected.low is not None or claim.expected.high is not None


def test_no_finding_stands_without_a_claim() -> None:
    places = {(claim.suite, claim.place) for claim in claims()}
    known = {entry.name: entry.published() for entry in suites() if entry.published()}
    for name, published in known.items():
        for metric in published:
            if not metric.column or metric.value is None or metric.unit == "ratio":
                of_suite = [place for suite, place in places if suite == name]
                assert any(place.startswith(metric.source) for place in of_suite), (name, metric)


def test_what_is_known_of_causes_is_what_the_page_of_claims_says() -> None:
    page = (Path(__file__).parents[2] / "docs/evidence/claims.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)` \|.* \| (\S+)(?: to (\S+))? \| ([^|]+) \|$", page, re.MULTILINE)
    told = {name: (float(low), float(high or low), shows) for name, low, high, shows in rows}
    assert told == {name: (cause.low, cause.high, cause.shows) for name, cause in known().items()}
    trials = {claim.name for claim in claims() if claim.trial is not None}
    assert told and set(told) <= trials


@pytest.mark.slow
def test_claims_say_whether_they_were_written_before_the_first_run() -> None:
    written = {claim.name: claim.written for claim in claims()}
    assert written["teacup-cdg-low-cwnd"] == written["loss-linux-68-cubic-1"] == "before"
    assert written["loss-median-factor-held-out"] == written["lro-one-ack-4"] == "after"
    # The cells before the patch had another CUBIC at first.
    moved = [claim for claim in claims() if "d46546" in str(claim.measure)]
    assert moved and {claim.written for claim in moved} == {"cells-after"}
    names = ("teacup-cdg-low-cwnd", "lro-one-ack-4", "loss-default-patch-2", "virtio-points")
    rows = markdown(judge(stated(*names), {})).splitlines()
    columns = {name: next(row for row in rows if f"`{name}`" in row).split(" | ")[5] for name in names}
    assert list(columns.values()) == ["before", "after", "before; its cells after", ""]


def test_a_claim_whose_suite_was_not_run_cannot_be_told() -> None:
    (judged,) = judge(stated("teacup-linux-newreno-half-speed"), {})
    assert (judged.verdict, judged.value) == (CANNOT_TELL, None)
    assert "not run" in judged.reason


@pytest.mark.slow
def test_published_metrics_alone_decide_some() -> None:
    judged = {one.claim.name: one for one in judge([claim for claim in claims() if claim.suite is None], {})}
    assert judged["patch-bdp"].value == pytest.approx(5)
    assert judged["virtio-points"].verdict == "differ"  # 155 values a cell are 150 samples and five totals
    assert judged["loadlatency-overall-upload"].verdict == "agree"
    assert judged["loadlatency-overall-responsiveness"].verdict == CANNOT_TELL
    page = markdown(list(judged.values()))
    assert "| bandwidth" not in page and "`patch-bdp`" in page
    assert max(len(line) for line in text(list(judged.values())).splitlines()) <= 80


@pytest.mark.slow
def test_linux_6_in_the_place_of_3_9_turns_a_claim_over(tmp_path: Path) -> None:
    (claim,) = stated("teacup-linux-newreno-half-speed")
    newreno = column("hosts.a.cc=newreno")
    right = carried_out("teacup-140502A", tmp_path / "right", newreno, {})
    wrong = carried_out("teacup-140502A", tmp_path / "wrong", newreno, {"linux-3.9": "linux-6.8"})
    standing_in = {"hosts.a.stack": {"linux-6.8": "linux-3.9"}}
    assert judge([claim], {"teacup-140502A": right})[0].verdict == "agree"
    assert judge([claim], {"teacup-140502A": wrong}, standing_in)[0].verdict == "differ"


@pytest.mark.slow
def test_newreno_in_the_place_of_cdg_turns_a_claim_over(tmp_path: Path) -> None:
    (claim,) = stated("teacup-cdg-low-cwnd")
    freebsd = column("hosts.a.stack=freebsd-9.2")
    right = carried_out("teacup-140502A", tmp_path / "right", freebsd, {})
    assert judge([claim], {"teacup-140502A": right})[0].verdict == "agree"
    # CUBIC's row becomes a second one of NewReno, which stands for CDG's.
    (claim,) = stated("teacup-cdg-low-cwnd")
    wrong = carried_out(
        "teacup-140502A", tmp_path / "wrong", freebsd, {"newreno, cubic, cdg": "cubic, cdg, newreno"}
    )
    standing_in = {"hosts.a.cc": {"newreno": "cdg", "cubic": "newreno"}}
    assert judge([claim], {"teacup-140502A": wrong}, standing_in)[0].verdict == "differ"


@pytest.mark.slow
def test_an_abc_l_var_of_44_turns_a_claim_over(tmp_path: Path) -> None:
    (claim,) = stated("lro-flight-2")
    cell = ("duration=2s", "flows.f1.to=gro", "hosts.a.stack=freebsd-13", "hosts.a.cc=newreno")
    right = carried_out("lro-slow-start", tmp_path / "right", cell, {})
    # The cure's own row of 44 gets another value, so that one cell has 44, and stands for that of 2.
    replaced = {"abc_l_var: 44}": "abc_l_var: 43}", "abc_l_var: 2}": "abc_l_var: 44}"}
    wrong = carried_out("lro-slow-start", tmp_path / "wrong", cell, replaced)
    standing_in = {"hosts.a.sysctl": {"abc_l_var: 44}": "abc_l_var: 2}"}}
    assert judge([claim], {"lro-slow-start": right})[0].verdict == "agree"
    assert judge([claim], {"lro-slow-start": wrong}, standing_in)[0].verdict == "differ"
    # A short segment ends an aggregate of the fourth flight early.
    acks = stated("lro-one-ack-1", "lro-one-ack-2", "lro-one-ack-3", "lro-one-ack-4")
    assert [judged.value for judged in judge(acks, {"lro-slow-start": right})] == [1, 1, 1, 3]


@pytest.mark.slow
def test_linux_in_the_place_of_freebsd_turns_a_claim_of_loadlatency_over(tmp_path: Path) -> None:
    (claim,) = stated("loadlatency-both-ways-down")
    lan = (
        "network.dumbbell.bottleneck.rate=1gbit",
        "network.dumbbell.bottleneck.queue={kind: pfifo, limit: 1000p}",
    )
    numbers = ", ".join(str(number) for number in range(1, 20))
    alone_and_both = {f"scenario: [{numbers}]": "scenario: [1, 4]"}
    freebsd, linux = "stack: freebsd-9.0, cc: newreno", "stack: linux-6.8, cc: reno"
    right = carried_out("loadlatency", tmp_path / "right", ("duration=4s", *lan), alone_and_both)
    wrong = carried_out(
        "loadlatency", tmp_path / "wrong", ("duration=4s", *lan), {**alone_and_both, freebsd: linux}
    )
    judged, misjudged = (judge([claim], {"loadlatency": results})[0] for results in (right, wrong))
    # FreeBSD 9.0 keeps its download beside an upload; Linux loses the fifth of it that the Macs lost.
    assert (judged.verdict, misjudged.verdict) == ("differ", "agree")
    assert judged.value is not None and judged.value > 0.92


@pytest.mark.slow
def test_one_ack_a_round_adds_two_segments_a_round(tmp_path: Path) -> None:
    slow, growth = stated("lro-newreno-20s-one-ack", "lro-quadratic")
    cell = ("duration=4s", "hosts.a.stack=freebsd-13", "hosts.a.cc=newreno")
    once = (*cell, "flows.f1.to=once-a-round")
    results = carried_out("lro-slow-start", tmp_path / "once", once, {})
    (judged,) = judge([growth], {"lro-slow-start": results})
    assert judged.verdict == "agree" and judged.value == pytest.approx(2, rel=0.01)
    # No second of these carried 100 Mbit/s.
    (judged,) = judge([slow], {"lro-slow-start": results})
    assert judged.value is not None and judged.value > 3.5

    # Aggregates of 45 segments leave two acknowledgements to a larger flight, which grows twice as fast.
    def between_25_and_35(to: str) -> Claim:
        where = {**growth.measure["where"], "flows.f1.to": to}
        return replace(growth, measure={**growth.measure, "with": {"first": 25, "last": 35}, "where": where})

    several = carried_out("lro-slow-start", tmp_path / "several", (*cell, "flows.f1.to=every-45"), {})
    assert judge([between_25_and_35("once-a-round")], {"lro-slow-start": results})[0].verdict == "agree"
    assert judge([between_25_and_35("every-45")], {"lro-slow-start": several})[0].verdict == "differ"


@pytest.mark.slow
def test_steps_of_the_rtt_are_by_one_and_by_two_packets(tmp_path: Path) -> None:
    (claim,) = stated("teacup-rtt-double-2mbit")
    cell = column(
        "hosts.a.stack=freebsd-9.2", "hosts.a.cc=newreno", "network.dumbbell.bottleneck.queue.limit=90p"
    )
    right = carried_out("teacup-140502A", tmp_path / "right", (*cell, "duration=30s"), {})
    assert judge([claim], {"teacup-140502A": right})[0].verdict == "agree"
    # A receiver that acknowledges every segment leaves no steps by two: as many again as of one at the most.
    wrong = (*cell, "duration=30s", "hosts.b.sysctl={net.inet.tcp.delayed_ack: 0}")
    every = carried_out("teacup-140502A", tmp_path / "wrong", wrong, {})
    (judged,) = judge([claim], {"teacup-140502A": every})
    assert judged.verdict == "differ"


@pytest.mark.slow
def test_seconds_on_the_wire_never_carry_more_than_the_rate(tmp_path: Path) -> None:
    queue = "network.dumbbell.bottleneck.queue.limit=180p"
    cell = column("hosts.a.stack=windows-7", "hosts.a.cc=newreno", queue)
    results = carried_out("teacup-140502A", tmp_path / "windows", (*cell, "duration=60s"), {})
    of = {
        kind: samples["value"].to_numpy() * 8e-6
        for (kind,), samples in results.series(0, table="samples")
        .with_columns(pl.col("kind").cast(pl.String))
        .partition_by("kind", as_dict=True)
        .items()
    }
    assert of["wire"].max() <= 2.0 + 1514 * 8e-6 and np.median(of["wire"]) > 0.99 * 2.0
    # What the application reads comes late when a hole is filled, more in a second than the link carries.
    assert of["goodput"].max() > 2.0
    (claim,) = stated("teacup-windows-fills-2mbit-on-the-wire")
    (judged,) = judge([claim], {"teacup-140502A": results})
    assert judged.verdict == "agree" and judged.value is not None and judged.value <= 1.0
    # The row's model is inferred, and what decides a claim says so.
    assert judged.inferred == ("windows-7",)
    assert "**inferred**: windows-7" in markdown([judged])
    assert "agree*" in text([judged]) and "* inferred" in text([judged])


@pytest.mark.slow
def test_an_inferred_stack_that_is_not_swept_is_said_too(tmp_path: Path) -> None:
    text = dumbbell(
        "fixed",
        duration="1s",
        a="stack: windows-7",
        b="stack: linux-6.8",
        bottleneck="rate: 5mbit, delay: 10ms",
    )
    (claim,) = stated("teacup-windows-fills-2mbit")
    claim = replace(claim, suite="fixed", measure={"of": "utilisation"})
    (judged,) = judge([claim], {"fixed": run(load(text), out=tmp_path / "fixed")})
    assert judged.inferred == ("windows-7",)


@pytest.mark.slow
def test_a_session_of_loadlatency_is_judged_as_a_whole(tmp_path: Path) -> None:
    adsl = ("network.dumbbell.bottleneck.rate=800kbit", "duration=3s")
    results = carried_out("loadlatency", tmp_path / "all", adsl, {})
    (lan,) = stated("loadlatency-run-upload-capacity")
    (undecided,) = judge([lan], {"loadlatency": results})
    assert undecided.verdict == CANNOT_TELL
    fifo = {"network.dumbbell.bottleneck.queue": {"has": "pfifo"}}
    what = {"what": "upload_capacity_kib_s", "where": fifo}
    asked = replace(lan, measure={"of": "load_overall", "with": what}, expected=Expectation(0, 97.7))
    (judged,) = judge([asked], {"loadlatency": results})
    document = json.loads((results.path / loadlatency.DOCUMENTS).read_text())[0]
    assert judged.verdict == "agree"
    assert judged.value == document["overall"]["upload_capacity_kib_s"]
    few = carried_out("loadlatency", tmp_path / "few", (*adsl, "flows.ll.app.scenario=2"), {})
    (undecided,) = judge([asked], {"loadlatency": few})
    assert (undecided.verdict, undecided.reason) == (CANNOT_TELL, "only 1 of 19 scenarios were run")


@pytest.mark.slow
def test_what_is_tried_of_a_claim_is_an_experiment_of_its_suite() -> None:
    tried = [claim for claim in claims() if claim.trial is not None]
    assert tried
    for claim in tried:
        trial = claim.trial
        assert trial is not None and bool(trial.assumes) != trial.single, claim.name
        assert trial.single or trial.measure or trial.words or trial.overrides, claim.name
        if claim.suite is not None:
            load(Changed(claim.suite, trial.words, trial.overrides).text(), trial.overrides)
    with pytest.raises(ValueError, match="does not say 'stack: plan9'"):
        Changed("loadlatency", (("stack: plan9", "stack: linux"),), ()).text()


def test_the_page_has_an_experiment_for_each_claim_that_differs() -> None:
    page = (Path(__file__).parents[2] / "docs/evidence/claims.md").read_text(encoding="utf-8")
    verdicts, why = page.split("## Why claims differ")
    differ = re.findall(r"\(`([\w-]+)`\).*\*\*differ\*\*", verdicts)
    assert len(differ) > 20
    assert re.findall(r"^\| `([\w-]+)` ", why, re.MULTILINE) == differ


@pytest.mark.slow
def test_an_assumption_that_decides_and_a_spread_that_reaches_the_figure(tmp_path: Path) -> None:
    (claim,) = stated("teacup-linux-cwnd-hides-recovery")
    cell = ("hosts.a.stack=linux-3.9", "hosts.a.cc=newreno", "duration=30s")
    results = carried_out("teacup-140502A", tmp_path / "own", column(*cell), {})
    suites = {"teacup-140502A": results}

    def shows(asked: Claim) -> Cause:
        def carry_out(name: str, changed: Changed) -> ResultSet:
            assert name == asked.name
            return run(load(changed.text(), column(*cell, *changed.overrides)), out=tmp_path / changed.suite)

        (cause,) = causes(judge([asked], suites), suites, carry_out)
        return cause

    decided = shows(claim)
    assert decided.shows == ASSUMPTION and decided.values[0] == pytest.approx(0.5, abs=0.05)
    # The same experiment does not decide what it has no part in.
    other = replace(claim, expected=Expectation(0.6, None))
    assert shows(other).shows == OPEN
    # Single runs: between the least and the largest of three, and beyond them.
    single = Trial(assumes="", words=(), overrides=("repeat=3",), measure={"of": "goodput_mbps"}, single=True)
    runs = shows(replace(claim, trial=single, published=1.0))
    low, *_, high = runs.values
    assert len(runs.values) == 3 and runs.shows == OPEN
    within = replace(claim, trial=single, published=(low + high) / 2)
    (cause,) = causes(
        judge([within], suites), suites, lambda name, changed: ResultSet(tmp_path / changed.suite)
    )
    assert cause.shows == SPREAD
    assert f"| each of 3 runs by itself | {low:.4g}" in markdown(judge([claim], suites), [cause])
