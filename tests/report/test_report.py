"""The report without a browser: what is packed into it, what it compares, and that names stay text."""

from __future__ import annotations

import base64
import hashlib
import html
import itertools
import json
import math
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_results import MemoryResults, queue, record, sawtooth, scenario, summary_row, sweep

from cwndlab import load
from cwndlab.analysis.claims import claims, judge
from cwndlab.errors import InputError
from cwndlab.execution.runner import run
from cwndlab.experiment import suites
from cwndlab.experiment.suites import Metric
from cwndlab.report import html_report
from cwndlab.report.html_report import facts, headline, pack, publication, sections
from cwndlab.report.plots import colours
from cwndlab.results.labels import Labels
from pages import rendered


def unpack(packed: pack.Packed) -> list[tuple[list[float], list[float | None]]]:
    """Read the codes of pack.py the slow way: (times in s, values in the panel's unit) of each line."""
    numbers = iter(read_varints(zlib.decompress(base64.b64decode(packed.text), -15)))
    lines = []
    for head in packed.lines:
        count = int(str(head["n"]))
        times, at = [], 0
        for _ in range(count):
            at += next(numbers)
            times.append(at / 1e6)
        values: list[float | None] = []
        last = 0
        for _ in range(count):
            code = next(numbers)
            if code:
                last += (code - 1) // 2 if code % 2 else -(code // 2)
            values.append(last * float(str(head["unit"])) if code else None)
        lines.append((times, values))
    assert next(numbers, None) is None
    return lines


def read_varints(data: bytes) -> list[int]:
    found, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            found.append(value)
            value, shift = 0, 0
    return found


@given(st.lists(st.integers(0, 2**62), max_size=200))
def test_varints_are_read_back(numbers: list[int]):
    assert read_varints(pack.varints(np.array(numbers, dtype=np.int64))) == numbers


def test_a_line_is_read_back_with_its_gaps():
    t_s = np.array([0.0, 0.000001, 1.5, 300.0])
    line = pack.Line(
        "cwnd", "f1", companion=True, t_s=t_s, y=np.array([np.nan, 14.48, np.nan, 3.0]), unit=1e-3
    )
    packed = pack.pack([line], 100)
    ((times, values),) = unpack(packed)
    assert times == t_s.tolist()
    assert values == [None, pytest.approx(14.48), None, 3.0]
    assert packed.lines == [{"panel": "cwnd", "name": "f1", "companion": True, "n": 4, "of": 4, "unit": 1e-3}]


def test_a_run_is_packed_with_all_its_lines():
    results = sweep(repeats=1)
    lines = pack.lines_of(results, 1, ["f1"], window_s=1.0)
    assert [(line.panel, line.companion) for line in lines] == [
        ("cwnd", False),
        ("cwnd", True),
        ("rtt", False),
        ("rtt", True),
        ("throughput", False),
        ("goodput", False),
        ("queue", False),
    ]
    frame = results.series(1)
    times, values = unpack(pack.pack(lines, 1000))[0]
    assert times == pytest.approx(frame["t_s"].to_list(), abs=5e-7)
    assert values == pytest.approx((frame["cwnd_bytes"] / 1e3).to_list())


def test_a_long_run_keeps_its_extremes():
    frame = sawtooth(0, seconds=600.0)
    results = MemoryResults(pl.DataFrame([summary_row(0)]), {"tcp": frame, "queue": empty_queue()})
    packed = pack.pack(pack.lines_of(results, 0, ["f1"], 1.0), 300)
    for (_, values), name, unit in zip(
        unpack(packed), ("cwnd_bytes", "ssthresh_bytes"), (1e3, 1e3), strict=False
    ):
        kept = [value for value in values if value is not None]
        assert min(kept) == pytest.approx(frame[name].min() / unit)
        assert max(kept) == pytest.approx(frame[name].max() / unit)
    assert max(int(str(head["n"])) for head in packed.lines) <= 5 * 300


@pytest.mark.parametrize("runs", [1, 84, 378, 20_000])
@pytest.mark.parametrize("flows", [1, 2, 100, 10_000])
def test_the_budget_is_kept_for_any_number_of_runs_and_flows(runs: int, flows: int):
    fitting, columns = pack.columns_for(runs, flows)
    lines = pack.LINES_PER_FLOW * min(flows, pack.MAX_FLOWS) + 1
    assert 1 <= fitting <= runs
    assert pack.MIN_COLUMNS <= columns <= pack.MAX_COLUMNS
    assert fitting * lines * columns * 4 * pack.BYTES_PER_SAMPLE <= pack.BUDGET * 1.01


def empty_queue() -> pl.DataFrame:
    return pl.DataFrame(
        schema={"run_id": pl.Int64, "t_s": pl.Float64, "hop": pl.String, "backlog_packets": pl.Int64}
    )


def figure(
    cell: dict[str, str], column: str = "goodput_mbps", value: float | None = 8.0, unit: str = "Mbit/s"
) -> Metric:
    return Metric(source="table 1", cell=cell, column=column, value=value, unit=unit, note="a note")


def test_published_metrics_stand_beside_the_mean_of_their_combination():
    results = sweep()
    cell = {"hosts.a.cc": "newreno", "network.dumbbell.bottleneck.delay": "20ms"}
    (row,) = publication.compare([figure(cell)], results.summary)
    rows = results.summary.filter(
        (pl.col("hosts.a.cc") == "newreno") & pl.col("network.dumbbell.bottleneck.delay").eq("20ms")
    )
    mean = rows["goodput_mbps"].mean()
    assert row.ours == pytest.approx((mean, mean))
    assert row.difference_pct == pytest.approx(100 * (mean - 8.0) / 8.0)


def test_a_published_figure_of_several_combinations_gets_their_range_and_no_difference():
    (row,) = publication.compare([figure({"hosts.a.cc": "newreno"})], sweep().summary)
    assert row.ours is not None
    assert row.ours[0] < row.ours[1]
    assert row.difference_pct is None


def test_a_published_value_of_a_mapping_is_named_by_its_label():
    tuned, vanilla = ("{net.inet.tcp.abc_l_var: 8}", "{net.inet.tcp.abc_l_var: 2}")
    labels = Labels({"hosts.a.sysctl": [vanilla, tuned]})
    (row,) = publication.compare([figure({"hosts.a.sysctl": tuned})], sweep().summary, labels)
    assert row.metric == "goodput, abc_l_var 8"


def test_what_was_not_run_or_is_no_figure_is_not_compared():
    found = [
        figure({"hosts.a.cc": "cdg"}),
        figure({"hosts.z.cc": "cubic"}),
        figure({}, value=None),
        figure({}, column=""),
        figure({}, column="goodput_mbps", unit="ratio"),
    ]
    assert [row.ours for row in publication.compare(found, sweep().summary)] == [None, None]


def test_published_metrics_come_from_the_suite_of_the_results_name():
    results = sweep()
    assert publication.suite_of(results) is None
    results.header.__dict__["experiment"] = "cubic-patch"
    suite = publication.suite_of(results)
    assert suite is not None and {row.column for row in suite.published()} == {"goodput_mbps", "rtt_min_ms"}


HOSTILE = "</script><script>alert(1)</script><!--<script><img src=x onerror=alert(1)>\"'`$`"


class Outline(HTMLParser):
    """The elements and attributes of a page as a browser tells them apart."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._script = tag == "script"

    def handle_data(self, data: str) -> None:
        if self._script:
            self.scripts.append(data)
        self._script = False


def outline(html: str) -> Outline:
    parser = Outline()
    parser.feed(html)
    return parser


def hostile_results() -> MemoryResults:
    rows = [
        summary_row(run, HOSTILE, keys={HOSTILE: HOSTILE + str(run)}, cc=HOSTILE, stack=HOSTILE)
        for run in range(2)
    ]
    everywhere: dict[str, Any] = {
        "warnings": [HOSTILE],
        "notes": [HOSTILE],
        "versions": {HOSTILE: HOSTILE},
        "machine": {HOSTILE: HOSTILE},
        "facts": {HOSTILE: [HOSTILE]},
        "started": HOSTILE,
        "status": "failed",
        "error": HOSTILE,
    }
    scenario: dict[str, Any] = record(0).scenario
    scenario["hosts"][0][HOSTILE] = HOSTILE
    scenario["links"][0]["name"] = HOSTILE
    return MemoryResults(
        pl.DataFrame(rows),
        {"tcp": pl.concat([sawtooth(run, HOSTILE) for run in range(2)]), "queue": empty_queue()},
        experiment=f"description: {json.dumps(HOSTILE)}\n",
        path=Path("results") / HOSTILE.replace("/", "|"),
        lines=[record(run, scenario=scenario, **everywhere) for run in range(2)],
    )


@pytest.mark.slow
def test_hostile_names_add_no_element_no_attribute_and_no_script():
    pages = [rendered(results) for results in (sweep(), hostile_results())]
    assert not any(piece in pages[1] for piece in ("<script>alert", "<!--", "<img"))
    calm, hostile = map(outline, pages)
    assert {tag for tag, _ in hostile.elements} <= {tag for tag, _ in calm.elements} | {
        "h3",
        "details",
        "pre",
        "ul",
        "li",
    }
    allowed = {name for _, attributes in calm.elements for name in attributes}
    assert {name for _, attributes in hostile.elements for name in attributes} <= allowed
    executed = [
        attributes for tag, attributes in hostile.elements if tag == "script" and "type" not in attributes
    ]
    assert executed == [{}]
    assert not any(name.startswith("on") for _, attributes in hostile.elements for name in attributes)


def test_the_page_runs_its_own_script_only_and_loads_nothing():
    html = rendered(sweep())
    found = outline(html)
    policy = next(a["content"] for tag, a in found.elements if tag == "meta" and "http-equiv" in a)
    digest = base64.b64encode(hashlib.sha256(found.scripts[-1].encode()).digest()).decode()
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert f"script-src 'sha256-{digest}'" in policy
    assert not any(
        {"src", "srcset", "action", "style"} & attributes.keys() for _, attributes in found.elements
    )
    assert not [a["href"] for _, a in found.elements if a.get("href") and not str(a["href"]).startswith("#")]
    assert set(re.findall(r"https?://[^\s\"'<]*", html)) == {"http://www.w3.org/2000/svg"}


def test_the_data_block_is_json():
    html = rendered(hostile_results())
    block = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', html, re.DOTALL)
    assert block is not None
    data = json.loads(block[1])
    assert [run["id"] for run in data["runs"]] == ["0", "1"]
    assert data["runs"][0]["lines"][0]["name"] == HOSTILE


@pytest.mark.slow
def test_a_number_and_its_unit_stay_in_one_line_but_not_in_what_is_copied() -> None:
    results = sweep()
    page = rendered(results)
    whole = sections.render(results)
    assert "limited 97 % of the time" in page
    assert "limited 97\u00a0% of the time" in whole
    for copied in re.findall(r"<(?:pre|code)[^>]*>(.*?)</", whole, re.DOTALL):
        assert "\u00a0" not in copied


def test_tables_say_what_was_run():
    html = rendered(sweep())
    for expected in (
        "18 complete",
        "newreno-versus-cubic",
        "<td>0ms, 20ms, 100ms</td>",
        "cwndlab report results/latest",
        "0.2.0",
        "2026-11-21T11:00:00Z",
        "Linux 6.12",
        "18 of 18 TCP flows were limited by the path for more than half of the time.",
        "<summary>Each flow</summary>",
        "newreno, delay 0ms, all 3 repeats, f1: limited 97 % of the time by the path",
        "10 Mbit/s",
        "<td>0 s</td>",
    ):
        assert expected in html
    assert "0 ns" not in html


def test_changes_of_links_are_told_beside_the_links():
    planned = scenario()
    change = {"at_ns": 2 * 10**9, "link": "bottleneck", "rate_bps": 2_000_000, "down": None}
    lines = [record(0, scenario=planned | {"schedule": [change]})]
    html = rendered(
        MemoryResults(pl.DataFrame([summary_row(0)]), {"tcp": sawtooth(0), "queue": queue(0)}, lines=lines)
    )
    told = html.partition("Changes of links")[2].partition("</table>")[0]
    assert [cell in told for cell in ("bottleneck", "2 s", "2 Mbit/s")] == [True] * 3
    assert "Changes of links" not in rendered(sweep())


def test_a_few_flows_get_a_sentence_each():
    html = rendered(sweep(ccs=("cubic",), repeats=1))
    limits = "limited 97 % of the time by the path, 3 % of the time by the send buffer."
    assert f"<li>delay 20ms, f1: {limits}</li>" in html


def test_only_what_a_limit_was_measured_of_counts_as_limited():
    shares = dict.fromkeys(("limited_cwnd_pct", "limited_rwnd_pct", "limited_sndbuf_pct", "limited_app_pct"))
    half = {"limited_cwnd_pct": 45.0, "limited_sndbuf_pct": 40.0, "limited_app_pct": 0.2}
    rows = [
        row
        for run in range(10)
        for row in (
            summary_row(run),
            summary_row(run, "f2", **half),
            summary_row(run, "ping", app="ping", cc=None, **shares),
            summary_row(run, "idle", app="on-off", **dict.fromkeys(shares, 0.0)),
        )
    ]
    html = rendered(MemoryResults(pl.DataFrame(rows), sweep().tables))
    limits = html[html.index("What limited the flows") : html.index("</details>")]
    assert "10 of 20 TCP flows were limited by the path for more than half of the time." in limits
    assert "10 of 20 TCP flows were limited by none of these for more than half of the time." in limits
    assert "40 % of the time by the send buffer, less than 1 % of the time by the application." in limits
    assert "ping" not in limits
    assert "idle" not in limits


def test_boxes_of_the_page_are_of_one_application_at_a_time():
    rows = [
        summary_row(run, flow, app=app) for run in range(2) for flow, app in (("f1", "bulk"), ("f2", "ping"))
    ]
    html = rendered(MemoryResults(pl.DataFrame(rows), sweep().tables))
    block = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', html, re.DOTALL)
    assert block is not None
    keys = {key["key"]: key for key in json.loads(block[1])["boxes"]["keys"]}
    assert keys["app"]["one"]
    assert not keys["flow"]["one"]


def test_lines_over_time_have_the_colour_of_their_congestion_control():
    html = rendered(sweep(ccs=("newreno", "cubic"), repeats=1))
    block = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', html, re.DOTALL)
    assert block is not None
    pens = {run["label"].partition(",")[0]: run["pens"] for run in json.loads(block[1])["runs"]}
    wanted = colours.places("cc", ["newreno", "cubic"])
    assert pens == {name: {"f1": wanted[name]} for name in ("newreno", "cubic")}


@pytest.mark.slow
def test_every_swept_key_gets_its_verdict():
    text = rendered(sweep(ccs=("newreno", "cubic"), delays=("0ms", "100ms"), repeats=8))
    section = text[text.index('id="verdicts"') : text.index('id="time"')]
    # 9.5 Mbit/s less 0.03 or 0.015 for each of 100 ms: 6.5 and 8.
    assert "Goodput (delay 100ms): cubic is 2" in section
    assert "% higher than newreno, 95 % sure (between +" in section
    assert (
        "Goodput, cubic against newreno (delay 0ms): no difference proven at 95 %; with 8 pairs of runs only"
        in section
    )
    assert "Goodput (newreno): 100ms is 3" in section
    assert "cwndlab compare results/latest --by network.dumbbell.bottleneck.delay" in section


def test_single_runs_are_counted_not_judged():
    text = rendered(sweep(delays=("0ms", "1ms", "2ms", "5ms", "10ms", "20ms", "50ms", "100ms"), repeats=1))
    section = text[text.index('id="verdicts"') : text.index('id="time"')]
    assert "cubic against newreno, typically over 8 combinations: goodput" in section
    # What the sentence over all combinations says is not said again.
    assert "chance cannot be ruled out" not in section
    assert "8 comparisons." in section
    assert "% sure" not in section


def test_runs_that_are_missing_or_failed_are_told():
    rows = [summary_row(0), summary_row(1, status="missing"), summary_row(2, status="failed")]
    results = MemoryResults(
        pl.DataFrame(rows),
        {"tcp": sawtooth(0), "queue": empty_queue()},
        lines=[record(0), record(2, status="failed", error="the queue of link x overflowed")],
    )
    html = rendered(results)
    assert "2 of 3 runs failed or are missing" in html
    assert "the queue of link x overflowed" in html
    assert "not carried out yet" in html


def test_a_report_of_nothing_that_completed_is_still_a_report():
    rows = pl.DataFrame([summary_row(0, status="missing", goodput_mbps=None, rtt_mean_ms=None)])
    html = rendered(MemoryResults(rows, lines=[]))
    assert "1 of 1 runs failed or are missing" in html


@pytest.mark.slow
def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="cannot be written: No such file or directory"):
        html_report.write(sweep(), tmp_path / "no" / "report.html")


@pytest.mark.slow
def test_the_same_results_give_the_same_report():
    assert rendered(sweep()) == rendered(sweep())


@pytest.mark.parametrize(
    ("mean", "half", "expected"),
    [
        (9.579, 0.1221, "9.58 ± 0.12"),
        (210.123, 2.393, "210.1 ± 2.4"),
        (3000.0, 140.0, "3000 ± 140"),
        (100.0001, 0.0024, "100.0 ± 0.002"),
        (0.0201826, 0.0000011, "0.02018 ± 0.000001"),
        (-4.0, 0.25, "-4.00 ± 0.25"),
        (0.3, 5e-17, "0.3"),
        (0.0, 0.5, "0.00 ± 0.50"),
        (5.0, 51.0, "5 ± 51"),
        (5.0, float("nan"), "5"),
        (float("nan"), float("nan"), ""),
    ],
)
def test_a_mean_has_as_many_digits_as_its_interval_allows(mean: float, half: float, expected: str):
    assert facts.with_interval(mean, half) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [(7.679e-5, "0.00007679"), (-5e-6, "-0.000005"), (1.2345e-4, "0.0001234"), (4e-9, "4.000e-09")],
)
def test_small_numbers_have_no_exponent(value: float, text: str):
    assert facts.rounded(value) == text


def test_names_in_the_first_picture_are_whole_and_none_alike():
    sysctls = (
        "{{kern.ipc.maxsockbuf: 33554432, net.inet.tcp.sendbuf_max: 33554432, net.inet.tcp.abc_l_var: {}}}"
    )
    rmem = ("4096 131072 6291456", "4096 33554432 33554432", "4096 131072 67108864")
    keys = [
        {"hosts.a.stack": "freebsd-15-current", "hosts.a.sysctl": sysctls.format(count), "tcp_rmem": size}
        for count in range(8)
        for size in rmem
    ]
    rows = [summary_row(number, keys=cell, goodput_mbps=1 + number) for number, cell in enumerate(keys)]
    tables = {"tcp": sawtooth(0), "queue": queue(0)}
    page = rendered(MemoryResults(pl.DataFrame(rows), tables))
    for kind in ("wide", "narrow"):
        picture = page.partition(f'<svg class="{kind}"')[2].partition("</svg>")[0]
        lines = re.findall(r'class="axis-name"[^>]* y="([\d.]+)">([^<]*)<', picture)
        heights = [float(y) for y, _ in lines[:-1]]
        assert all(below - above > 12 for above, below in itertools.pairwise(heights))
        text = " ".join(line for _, line in lines)
        for place in range(16):
            size, count = rmem[place // 8], place % 8
            assert f"abc_l_var {count}, tcp_rmem {size}" in text


def test_a_short_name_in_the_first_picture_stays_in_one_line():
    for length in range(1, 30):
        rows = [headline._Row("x" * length, 1.0, math.nan, (1.0, 1.0), 0)]
        picture = headline._drawn(rows, headline._LAYOUTS[0], "goodput")
        assert f">{'x' * length}<" in picture


def test_the_first_picture_shows_what_the_answer_compares():
    """Of more combinations than it has room for, those that are compared stand together."""
    delays = tuple(f"{number}ms" for number in range(10))
    html = rendered(sweep(delays=delays, repeats=1))
    picture = html.partition('<svg class="wide"')[2].partition("</svg>")[0]
    names = re.findall(r'class="axis-name"[^>]*>([^<]*)<', picture)[:-1]
    wanted = [f"{cc}, delay {delay}" for delay in delays[:8] for cc in ("newreno", "cubic")]
    assert names == wanted


def test_the_first_picture_has_no_negative_amounts_of_what_is_above_zero():
    cells = [{"hosts.a.cc": cc} for cc in ("newreno", "cubic") for _ in range(2)]
    rows = [
        summary_row(number, keys=cell, repeat=number % 2, goodput_mbps=1 + 8 * (number % 2))
        for number, cell in enumerate(cells)
    ]
    page = rendered(MemoryResults(pl.DataFrame(rows), sweep().tables))
    picture = page.partition('<svg class="wide"')[2].partition("</svg>")[0]
    assert "5 ± 51" in picture
    assert not re.search(r'class="tick"[^>]*>-', picture)


def test_values_without_a_sentence_of_their_own_are_named_under_the_answer():
    rows = [
        summary_row(number, keys={"hosts.a.cc": cc}, repeat=number % 3, goodput_mbps=1 + number)
        for number, cc in enumerate(cc for cc in ("newreno", "cubic", "bbr", "htcp", "cdg") for _ in range(3))
    ]
    page = rendered(MemoryResults(pl.DataFrame(rows), sweep().tables))
    assert page.count('<p class="answer">') == 3
    assert "Further values that are compared, under “Is there a difference?”: cdg." in page


@pytest.mark.slow
def test_a_report_of_a_suite_has_each_finding_beside_ours(tmp_path):
    cut = ["hosts.a.stack=freebsd-13", "hosts.a.cc=newreno", "flows.f1.to=gro", "duration=8s"]
    results = run(load(suites.suite("lro-slow-start").path, cut), out=tmp_path / "lro")
    page = rendered(results)
    section = page[page.index('id="published"') :].partition("</section>")[0]
    rows = [re.sub("<[^>]+>", "|", row) for row in section.split("<tr>")]
    stated = [claim for claim in claims() if claim.suite == "lro-slow-start"]
    judged = judge(stated, {"lro-slow-start": results})
    begins = {"agree": "agrees|", "differ": "differs", "cannot tell": "cannot tell: no "}
    for each in judged:
        (row,) = [row for row in rows if f"|{each.claim.says}|" in html.unescape(row)]
        ours = "" if each.value is None else f"{facts.rounded(each.value)} {each.claim.unit}".strip()
        assert f"|{ours}|" in row
        assert f"|{begins[each.verdict]}" in row
    assert {each.verdict for each in judged} == {"agree", "differ", "cannot tell"}
    assert "Only 6 of the suite" in section
    assert "duration was" in section
