"""The report's answer where metrics have gaps, and where flows of a run are of different applications."""

from collections.abc import Sequence

import polars as pl
import pytest
from memory_results import MemoryResults, queue, record, sawtooth, scenario, summary_row

from cwndlab.analysis import answer, contrasts, verdict
from cwndlab.analysis.contrasts import Selection
from cwndlab.errors import InputError
from cwndlab.report.html_report import headline, sections
from cwndlab.report.html_report.facts import Facts, key_cell
from pages import rendered


def results(rows: Sequence[dict[str, object]], answers: str = "", **measure: object) -> MemoryResults:
    """Results of rows, with what the experiment says of its answers and its `measure`."""
    frame = pl.DataFrame(rows, infer_schema_length=None)
    asked = scenario()
    asked["measure"] |= measure
    lines = [record(number, scenario=asked) for number in range(frame["run_id"].n_unique())]
    tcp = pl.concat(sawtooth(*ends) for ends in frame.select("run_id", "flow").rows())
    return MemoryResults(
        frame,
        {"tcp": tcp, "queue": pl.concat(map(queue, frame["run_id"].unique()))},
        experiment=f"experiment: e\n{answers}",
        lines=lines,
    )


def said(of: MemoryResults) -> list[list[str]]:
    return [[each.lead(), *each.details()] for each in answer.answers(of)]


TIMES = [(8.0, 4.0), (2.0, 1.0), (None, 3.0), (None, 9.0), (5.0, None), (None, None)]
"""Seconds until the rate of cubic and of bbr, by delay."""

TO_RATE = "answers: [{metric: time_to_rate_s, better: lower}, {metric: goodput_mbps, better: higher}]\n"


def slow_start(times: Sequence[tuple[float | None, float | None]]) -> MemoryResults:
    keys = [
        ({"hosts.a.cc": cc, "delay": f"{place}ms"}, time)
        for place, pair in enumerate(times)
        for cc, time in zip(("cubic", "bbr"), pair, strict=True)
    ]
    rows = [summary_row(n, keys=cell, time_to_rate_s=time) for n, (cell, time) in enumerate(keys)]
    return results(rows, TO_RATE, time_to_bps=100_000_000)


def test_each_metric_has_its_own_combinations_and_who_never_got_there_is_said() -> None:
    ((lead, first, *_),) = said(slow_start(TIMES))
    assert lead == (
        "bbr against cubic, typically: time to reach 100 Mbit/s 50.0 % lower over 2 combinations "
        "(cubic never got there in 2 more, bbr never got there in 1 more) and goodput the same "
        "over 6 combinations "
        "(geometric mean of ratios; one run each)."
    )
    assert first == (
        "Time to reach 100 Mbit/s: 50.0 % lower in every combination; bbr ahead in 2 of 2; "
        "cubic never got there in 2 (delay 2ms; delay 3ms); bbr never got there in 1 (delay 4ms)."
    )


def test_a_side_that_never_gets_there_is_an_answer_and_no_error() -> None:
    of = slow_start([(None, 3.0), (None, 9.0)])
    ((lead, first, *_),) = said(of)
    assert "time to reach 100 Mbit/s: cubic never got there in 2 of 2" in lead
    assert "cubic never got there in 2 (delay 0ms; delay 1ms)" in first
    assert lead in rendered(of)
    told = verdict.text(contrasts.by_key(of, "cc", Selection(["time_to_rate_s"])))
    assert told.startswith(
        "bbr against cubic: time to reach the rate asked for: cubic never got there in 2 of 2."
    )
    compared = contrasts.by_key(of, "cc", Selection(["time_to_rate_s"]))
    assert verdict.json_lines(compared).startswith(
        '{"metric": "time_to_rate_s", "where": {"delay": "0ms"}, "lacking": "cubic"}\n'
    )
    ((alone, *_),) = said(slow_start([(None, 3.0)]))
    assert "time to reach 100 Mbit/s: cubic never got there" in alone


LOAD = "answers: [{metric: smoothness_hz, better: higher}, {metric: responsiveness_hz, better: higher}]\n"


def loaded(answers: str = LOAD) -> MemoryResults:
    """A pinger beside an upload over two paths, each with its own FIFO and with fq_codel."""
    rows = []
    paths = [
        ("1gbit", "pfifo", 100.0),
        ("1gbit", "fq_codel", 400.0),
        ("8mbit", "bfifo", 2.0),
        ("8mbit", "fq_codel", 3.0),
    ]
    for number, (rate, kind, hz) in enumerate(paths):
        cell = {"rate": rate, "queue.kind": kind}
        ping = {"smoothness_hz": hz, "responsiveness_hz": 2 * hz}
        rows.append(summary_row(number, "ping", cell, app="pinger", goodput_mbps=None, **ping))
        upload = {"smoothness_hz": 5 * hz if rate == "1gbit" else 10.0, "responsiveness_hz": None}
        rows.append(summary_row(number, "up", cell, app="bulk", **upload))
    return results(rows, answers)


def test_the_first_picture_leaves_nothing_out_of_what_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    of = slow_start([(8.0, 4.0), (2.0, 1.0), (6.0, 3.0)])
    whole = str(headline.headline(Facts(of), "")["pictured"])
    assert whole.startswith("Time to reach 100 Mbit/s [s], each run")
    assert "the first" not in whole
    monkeypatch.setattr(headline, "MAX_ROWS", 5)
    cut = headline.headline(Facts(of), "")
    assert "; the first 4 of 6 combinations" in str(cut["pictured"])
    told = str(cut["picture"]).partition('aria-label="')[2].partition('"')[0]
    assert told.endswith("cubic, delay 1ms 2; bbr, delay 1ms 1")


def test_the_first_picture_shows_whole_rounds_where_nothing_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(headline, "MAX_ROWS", 5)
    cells = [{"rate": rate, "delay": delay} for rate in ("1mbit", "2mbit") for delay in ("1ms", "2ms", "3ms")]
    of = results([summary_row(number, keys=cell) for number, cell in enumerate(cells)])
    monkeypatch.setattr(headline.answer, "answers", lambda results, among: [])
    assert "; the first 3 of 6 combinations, of rate 1mbit" in str(
        headline.headline(Facts(of), "")["pictured"]
    )


def test_flows_of_different_times_are_not_summed_to_more_than_the_link_carries() -> None:
    """A flow of 6.8 Mbit/s in 20 s and one of 3.6 in the last 15 s share 10 Mbit/s."""
    flows = [("early", 6.8), ("late", 3.6)]
    rows = [
        summary_row(0, flow, goodput_mbps=rate, throughput_mbps=1.05 * rate, total_goodput_mbps=9.5)
        for flow, rate in flows
    ]
    assert headline._measured(Facts(results(rows)), "goodput_mbps") == "goodput of all flows: 9.5 Mbit/s."
    of = Facts(results([row | {"total_goodput_mbps": None} for row in rows]))
    assert headline._measured(of, "throughput_mbps") == "throughput of a flow: 3.78 to 7.14 Mbit/s."


def test_a_stack_that_does_not_tell_its_limits_is_said() -> None:
    untold = {name: None for name in summary_row(0) if name.startswith("limited_")}
    rows = [summary_row(0, "tcp"), summary_row(0, "quic", stack="quinn-0.11.19", **untold)]
    assert "quic: quinn-0.11.19 does not tell." in rendered(results(rows))


def test_an_interval_of_the_first_picture_ends_at_what_there_can_be() -> None:
    """Two runs of 8 and 9 Mbit/s at a link of 10 give 8.5 ± 6.4, of which the link carries 1.5."""
    rows = [
        summary_row(run, repeat=run, goodput_mbps=rate, utilisation=rate / 10)
        for run, rate in enumerate((8.0, 9.0))
    ]
    (row,) = headline._rows(Facts(results(rows)), "goodput_mbps", "results")
    assert row.half == pytest.approx(6.353, rel=1e-3)
    assert row.span == pytest.approx((8.5 - row.half, 10))
    (row,) = headline._rows(Facts(results(rows)), "utilisation", "results")
    assert row.span[1] == 100


def test_several_numbers_are_no_quantity() -> None:
    assert key_cell("10ms") == ("10ms", 0.01)
    assert key_cell("4096 131072 6291456") == ("4096 131072 6291456",) * 2


def test_without_a_comparison_the_first_picture_shows_what_is_asked_for() -> None:
    rows = [summary_row(0, keys={"cc": "cubic", "delay": "1ms"}, rtt_p95_ms=12.0)]
    of = results(rows, "answers: [{metric: rtt_p95_ms, better: lower}]\n")
    assert str(headline.headline(Facts(of), "")["pictured"]).startswith("RTT, 95th percentile [ms]")


def test_metrics_of_unlike_flows_are_compared_within_each_application() -> None:
    of = loaded()
    with pytest.raises(InputError, match="different applications"):
        contrasts.by_key(of, "queue.kind", Selection(["smoothness_hz"]))
    fast, slow = said(of)
    assert fast[0] == (
        "fq_codel against pfifo: smoothness of pinger 300 % higher, "
        "smoothness of bulk 300 % higher and responsiveness 300 % higher (one run each)."
    )
    # A value that never stands beside the first is compared with its neighbour.
    assert slow[0] == (
        "fq_codel against bfifo: smoothness of pinger 50.0 % higher, "
        "responsiveness 50.0 % higher and smoothness of bulk the same (one run each)."
    )
    page = rendered(of)
    assert fast[0] in page
    assert slow[0] in page


def verdicts(of: MemoryResults) -> str:
    page = rendered(of)
    section = page[page.index('id="verdicts"') :]
    return section[: section.index("</section>")]


def test_each_swept_key_is_judged_by_the_metrics_of_the_answer_and_nothing_is_said_twice() -> None:
    section = verdicts(slow_start(TIMES))
    assert section.count("Time to reach 100 Mbit/s: 50.0 % lower in every combination") == 1
    assert "chance cannot be ruled out" not in section
    assert "in one run of each" not in section
    # By congestion control a row for each of 2 times and of 6 rates.
    assert "8 comparisons." in section
    assert '<th scope="row">time to reach 100 Mbit/s</th>' in section


def test_a_metric_answers_of_other_keys_than_its_own_too() -> None:
    of = loaded("answers: [{metric: responsiveness_hz, better: higher, by: queue.kind}]\n")
    assert [aim.metric for aim in answer.aims(of, "rate")] == ["responsiveness_hz"]
    assert "Responsiveness: in one run of each, 8mbit is 99.2 % lower than 1gbit" in verdicts(of)


def test_one_control_under_the_names_of_two_systems_is_told_with_its_stacks() -> None:
    rows = {"stack": ["linux-6.18", "freebsd-13", "linux-6.8"], "cc": ["reno", "newreno", "cubic"]}
    assert sections._controls(pl.DataFrame(rows)) == ["reno (linux-6.18)", "newreno (freebsd-13)", "cubic"]
    of_linux = pl.DataFrame({"stack": ["linux-6.18"] * 3, "cc": ["newreno", "reno", None]})
    assert sections._controls(of_linux) == ["reno"]
