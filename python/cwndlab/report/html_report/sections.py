"""Writes the report: gathers what the results hold and puts it into one HTML page."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from markupsafe import Markup

from cwndlab.analysis import answer, verdict
from cwndlab.analysis.comparison import Comparison, Kind
from cwndlab.analysis.effects import Answer, Effect
from cwndlab.analysis.numeric import mean_interval
from cwndlab.errors import InputError
from cwndlab.experiment.catalogue import catalogue
from cwndlab.report.html_report import publication
from cwndlab.report.html_report.facts import (
    MAX_ROWS,
    Facts,
    capital,
    distinct,
    key_cell,
    rounded,
    varying_metrics,
    with_interval,
)
from cwndlab.report.html_report.headline import headline, totals
from cwndlab.report.html_report.html import Table, page
from cwndlab.report.html_report.setup import provenance, testbed
from cwndlab.report.html_report.viewer import box_keys, data, series, viewer
from cwndlab.report.plots.selection import floats
from cwndlab.results import (
    columns,
    expectations,
    files,
    inferred_models,
    limits,
    loadlatency,
    questions,
    user_metrics,
)
from cwndlab.results.catalogue import FAILED, MISSING
from cwndlab.results.keys import distinguishing
from cwndlab.results.metrics import Value
from cwndlab.results.resultset import ResultSet

MAX_SENTENCES = 6
"""Comparisons by a key that get a sentence each; more get a count, and a table."""

MAX_UNPROVEN = 2
"""Comparisons that prove nothing which get a sentence each; more get a count, and a table."""

MAX_METRICS = 11
"""Metrics in the table of combinations, those that get room first; the table of runs has all."""

FEW_FLOWS = 16
"""Flows that get a sentence each about what limited them; more are counted."""


def write(results: ResultSet, path: str | Path) -> Path:
    """Write the report of `results` to the file `path` and return it.

    All text is escaped, and the page's own policy allows its one script and nothing from elsewhere. Raises
    InputError if the results are damaged or the file cannot be written.
    """
    target = Path(path)
    page = render(results)
    try:
        files.save(target, page.encode())
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror}") from None
    return target


def render(results: ResultSet) -> str:
    """Return the report as HTML."""
    facts = Facts(results)
    shown, runs = series(facts)
    judged, classic = _verdicts(facts), loadlatency.classic(results)
    sections = [
        ("results", "Results", _results(facts)),
        ("expectations", "Is it as expected?", expectations.text(expectations.outcomes(results))),
        ("loadlatency", "Scenarios of loadlatency", _load(facts, classic)),
        ("verdicts", "Is there a difference?", judged),
        ("published", "Beside the publication", _published(facts)),
        ("time", "Over time", viewer(facts, runs)),
        ("by-parameter", "By parameter", box_keys(facts)),
        ("testbed", "Testbed", testbed(facts)),
        ("provenance", "Provenance", provenance(facts)),
    ]
    return page(
        "report.html",
        title=results.header.experiment,
        question=questions.of(results).text,
        **headline(facts, classic),
        **_glance(facts),
        sections=[section for section in sections if section[2]],
        series=shown,
        data=data(facts, runs),
    )


def _glance(facts: Facts) -> dict[str, object]:
    of_runs = facts.results.summary.group_by("run_id").agg(pl.col("status"))["status"].to_list()
    there = [set(statuses) for statuses in of_runs if not set(statuses) <= {FAILED, MISSING}]
    missing = len(of_runs) - len(there)
    broken = sum(FAILED in statuses for statuses in there)
    unfinished = sum("unfinished" in statuses for statuses in there if FAILED not in statuses)
    doubtful = sum("unreliable" in statuses for statuses in there)
    runs = [f"{len(there) - broken - unfinished} complete"]
    runs += [f"{broken} with flows that failed"] if broken else []
    runs += [f"{unfinished} with flows that had not done all"] if unfinished else []
    runs += [f"{missing} not"] if missing else []
    runs += [f"{doubtful} unreliable (its warnings say why)"] if doubtful else []
    names = inferred_models.of_rows(facts.results.summary)
    return {
        "glance": [
            ("runs", ", ".join(runs)),
            ("testbed", facts.results.header.testbed),
            ("stacks", ", ".join(distinct(facts.summary["stack"]))),
            ("congestion control", ", ".join(_controls(facts.summary))),
            ("duration of a run", f"{facts.duration_s:g} s"),
        ],
        "inferred": inferred_models.note(names) if names else "",
        "incomplete": _incomplete(facts, missing, len(of_runs)),
    }


def _controls(rows: pl.DataFrame) -> list[str]:
    """Name the congestion controls; with their stacks where one is there under the names of two systems."""
    known = {name: stack.cc_alias for name, stack in catalogue().stacks.items()}
    by_name: dict[str, list[str]] = {}
    aliases: set[tuple[str, str]] = set()
    for stack, cc in rows.select("stack", "cc").unique(maintain_order=True).drop_nulls("cc").iter_rows():
        of_stack = known.get(stack, {})
        by_name.setdefault(of_stack.get(cc, cc), []).append(stack)
        aliases.update(of_stack.items())
    twice = {name for pair in aliases if by_name.keys() >= set(pair) for name in pair}
    named = {cc: f" ({', '.join(map(str, columns.ordered(by_name[cc])))})" for cc in twice}
    return [f"{cc}{named.get(cc, '')}" for cc in map(str, columns.ordered(list(by_name)))]


def _incomplete(facts: Facts, missing: int, runs: int) -> list[str]:
    """Say what was not carried out, or not to its end, and what that means for what follows."""
    said = []
    if missing:
        said.append(f"{missing} of {runs} runs failed or are missing: what follows covers the others only.")
    flows = facts.summary.filter(pl.col("run_id").is_in(facts.shown_runs))
    statuses = flows["status"].to_list()
    for status, words in (
        (FAILED, "failed, as their connection broke"),
        ("not-started", "had not begun when their run ended"),
    ):
        if count := statuses.count(status):
            said.append(f"{count} of {flows.height} flows {words}: what follows covers the others only.")
    if count := sum(map(limits.unopened, facts.ran.iter_rows(named=True))):
        said.append(f"{count} of {flows.height} flows carried nothing, as their connection did not open.")
    if unfinished := statuses.count("unfinished"):
        said.append(
            f"{unfinished} of {flows.height} flows had not done all they were asked to when their run"
            " ended: their rates and delays are those until then, and times of completion are of the others"
            " only."
        )
    return said


def _results(facts: Facts) -> dict[str, object]:
    repeated = facts.ran.height and facts.summary["repeat"].n_unique() > 1
    return {
        "cells": _cells(facts) if repeated else None,
        "runs": _runs(facts),
        "totals": _totals(facts),
        **_limits(facts),
    }


def _totals(facts: Facts) -> Table | None:
    """Table of what the flows of each run carried together."""
    names, rows = totals(facts)
    if not rows:
        return None
    heads = ["run", *(facts.short.get(key, key) for key in facts.telling), "repeat", "flows"]
    heads += [columns.describe(name).label for name in names]
    runs = "1 run" if len(rows) == 1 else f"{len(rows)} runs"
    caption = f"{runs} in which several flows were carried out."
    return Table(heads, rows[:MAX_ROWS], caption, sortable=True, row_heads=1)


_LOAD = (
    "load_scenario",
    "upload_kib_s",
    "download_kib_s",
    "goodput_mbps",
    "rtt_p50_ms",
    "rtt_p95_ms",
    "one_way_p50_ms",
    "one_way_p95_ms",
    "one_way_error_ms",
    "responsiveness_hz",
    "smoothness_hz",
    "rpm",
)
"""Metrics of a scenario of loadlatency."""


def _load(facts: Facts, classic: str) -> dict[str, object]:
    """The metrics of each scenario of loadlatency, and the tool's own lines."""
    if not classic:
        return {}
    told = {"load_scenario"} if any(loadlatency.is_scenario(key) for key in facts.telling) else set()
    known = [name for name in _LOAD if name in facts.ran.columns and facts.ran[name].count()]
    names = [name for name in known if name not in told]
    rows: list[list[object]] = []
    for row in facts.ran.filter(pl.col("load_scenario").is_not_null()).iter_rows(named=True):
        cells: list[object] = [key_cell(row[key]) for key in facts.telling]
        for name in names:
            value = row[name]
            factor = columns.describe(name).factor
            cells.append(("", math.nan) if value is None else (rounded(value * factor), value * factor))
        rows.append(cells)
    heads = [facts.short.get(key, key) for key in facts.telling]
    heads += [columns.describe(name).label for name in names]
    scenarios = Table(heads, rows, f"{len(rows)} scenarios.", sortable=True, row_heads=1) if rows else None
    return {"scenarios": scenarios, "lines": classic}


def _limits(facts: Facts) -> dict[str, object]:
    """Limits of the connections: a sentence for each, or for many how often each was the main limit.

    Only those count of which some limit was measured: datagrams have none, and stacks of guests do not tell.
    """
    known = [row for row in facts.ran.iter_rows(named=True) if limits.shares(row)]
    sentences = _of_flows(facts, known, lambda row: f"limited {limits.sentence(row)}.")
    untold = [row for row in facts.ran.iter_rows(named=True) if limits.untold(row)]
    if known or any(map(limits.unopened, untold)):
        sentences += _of_flows(facts, untold, _untold)
    round_trips = _of_flows(facts, known, limits.round_trips)
    mains = [limits.main(row) for row in known]
    counts = sorted(((mains.count(kind), kind or "") for kind in dict.fromkeys(mains)), reverse=True)
    summed = [
        f"{count} of {len(mains)} TCP flows {'was' if count == 1 else 'were'} limited {_mostly(kind)}."
        for count, kind in counts
    ]
    many = len(known) > FEW_FLOWS
    if many and round_trips:
        summed.append(f"TCP's round trips are not the path's in {len(round_trips)} of them. {round_trips[0]}")
    return {"limits": sentences + round_trips, "limits_summed": summed if many else []}


def _of_flows(
    facts: Facts, rows: Sequence[Mapping[str, Value]], say: Callable[[Mapping[str, Value]], str]
) -> list[str]:
    """Return what is said of each flow, behind its name; once where it is the same in all repeats."""
    keys = [*facts.telling, "stack", "cc"]
    runs = facts.ran.unique("run_id", keep="first", maintain_order=True)
    telling = distinguishing(runs, [*keys, "repeat"])
    alike: dict[tuple[object, ...], list[Mapping[str, Value]]] = {}
    for row in rows:
        alike.setdefault((*(row[key] for key in keys), row["flow"]), []).append(row)
    found = []
    for group in alike.values():
        said = [say(row) for row in group]
        once = len(group) > 1 and len(set(said)) == 1
        shown = [key for key in telling if key != "repeat" or not once]
        for row, words in list(zip(group, said, strict=True))[: 1 if once else None]:
            repeats = f"all {len(group)} repeats" if once else ""
            name = [facts.results.labels.words(row, shown), repeats, str(row["flow"])]
            found += [f"{', '.join(filter(None, name))}: {words}"] if words else []
    return found


def _untold(row: Mapping[str, Value]) -> str:
    """Say why nothing limited a flow: its connection never opened, or its stack does not tell."""
    if limits.unopened(row):
        return "its connection did not open."
    return f"{row['stack'] or 'its stack'} does not tell."


def _mostly(kind: str) -> str:
    if kind in limits.WORDS:
        return f"by {limits.WORDS[kind]} for more than half of the time"
    return "by none of these for more than half of the time"


def _cells(facts: Facts) -> Table:
    measured = varying_metrics(facts.ran)
    shown = user_metrics.shown(facts.results.header.metrics or ())
    names = [name for name in shown if name in measured][:MAX_METRICS]
    keys = [*facts.telling, "flow"] if len(facts.flows) > 1 else facts.telling
    groups = facts.ran.group_by(keys, maintain_order=True) if keys else [((), facts.ran)]
    rows = []
    for values, rows_of in groups:
        cells: list[object] = [key_cell(value) for value in values]
        cells.append(rows_of.height)
        for name in names:
            mean, half = mean_interval(floats(rows_of[name]) * columns.describe(name).factor)
            cells.append((with_interval(mean, half), mean))
        rows.append(cells)
    heads = [
        *(facts.short.get(key, key) for key in keys),
        "runs",
        *(columns.describe(name).label for name in names),
    ]
    note = (
        "± is the 95 % confidence interval of the mean (Student's t over runs); none where runs cannot vary."
    )
    caption = f"{len(rows)} combinations. {note}"
    return Table(heads, rows, caption, sortable=True, row_heads=len(keys), titles=[*keys, "", *names])


def _runs(facts: Facts) -> Table:
    measured = varying_metrics(facts.summary)
    # A metric that is the same in every row is said once, above the table.
    same = [name for name in measured if facts.summary.height > 1 and _same(facts.summary[name])]
    names = [name for name in measured if name not in same]
    constant = [name for name in ("stack", "cc") if facts.summary[name].n_unique() == 1]
    words = [name for name in ("repeat", "stack", "cc") if name not in constant]
    words += ["app"] if facts.summary["app"].n_unique() > 1 else []
    constant = [name for name in constant if facts.summary[name][0] is not None]
    if facts.summary["repeat"].n_unique() == 1:
        words.remove("repeat")
    # A sweep over hosts.a.cc says what the column cc would repeat.
    words = [name for name in words if not any(key.endswith(f".{name}") for key in facts.telling)]
    heads = ["run", *(["flow"] if len(facts.flows) > 1 else []), *facts.telling, *words]
    packed = set(facts.packed_runs)
    rows = []
    for row in facts.summary.head(MAX_ROWS).iter_rows(named=True):
        cells = [_run_cell(str(row["run_id"]), pick=row["run_id"] in packed)]
        cells += [key_cell(row[name]) for name in heads[1:]]
        for name in names:
            value = row[name]
            factor = columns.describe(name).factor
            cells.append(("", math.nan) if value is None else (rounded(value * factor), value * factor))
        cells.append(row["status"])
        rows.append(cells)
    shown = [facts.short.get(name, name) for name in heads] + [columns.describe(name).label for name in names]
    sentences = [f"{facts.summary.height} rows; press a run's number to show it over time."]
    if facts.summary.height > MAX_ROWS:
        sentences[0] = f"The first {MAX_ROWS} of {facts.summary.height} rows; all are in summary.csv."
    said = [f"{name} {facts.summary[name][0]}" for name in constant]
    for name in same:
        shown_as = columns.describe(name)
        amount = rounded(facts.summary[name].drop_nulls()[0] * shown_as.factor)
        said.append(f"{shown_as.words} {amount} {shown_as.unit}".rstrip())
    if said:
        sentences.append(f"The same in all rows: {', '.join(said)}.")
    return Table(
        [*shown, "status"],
        rows,
        " ".join(sentences),
        sortable=True,
        row_heads=1,
        titles=[*heads, *names, ""],
        filterable=len(rows) > 12,
    )


def _same(values: pl.Series) -> bool:
    """Whether every row has the same value."""
    return not values.null_count() and values.n_unique() == 1


def _run_cell(run_id: str, *, pick: bool) -> object:
    number = run_id.partition("-")[0]
    order = float(number) if number.isdigit() else 0.0
    if not pick:
        return number, order
    return _PICK.format(run_id, number), order


_PICK = Markup(
    '<button type="button" class="pick" data-run="{}" aria-pressed="false" title="Show over time">{}</button>'
)


def _verdicts(facts: Facts) -> list[dict[str, object]]:
    """Effects of each swept key, with how sure they are.

    Nothing of the scenarios of loadlatency, which are different loads on one path.
    """
    if facts.results.header.testbed == loadlatency.TOOL:
        return []
    parts: list[dict[str, object]] = []
    for key in facts.telling:
        if loadlatency.is_scenario(key):
            continue
        aims = answer.aims(facts.results, key)
        comparisons, answers = answer.by_key(facts.results, key, aims, among=facts.chosen)
        if answers:
            notes = comparisons[0].notes  # the others are of the same runs
            parts.append(
                {
                    "name": facts.short.get(key, key),
                    **_verdict(answers),
                    "notes": capital("; ".join(notes)) + "." if notes else "",
                    "command": f"cwndlab compare {facts.directory} --by {shlex.quote(key)}",
                }
            )
    return parts


def _verdict(answers: Sequence[Answer]) -> dict[str, object]:
    """Effects of one key: sentences over all combinations with their details, then what these leave out."""
    over = [each for each in answers if _is_over(each)]
    over, others = (
        over[:MAX_SENTENCES],
        [*over[MAX_SENTENCES:], *(each for each in answers if not _is_over(each))],
    )
    # One that could not tell says nothing that the smallest, the largest and the typical change do not.
    rest = [
        (effect, [found for found in effect.each if _tells(found) or place >= len(over)])
        for place, of in enumerate([*over, *others])
        for effect in of.effects
    ]
    open_ = [found.kind in _OPEN for _, each in rest for found in each]
    # Many that prove nothing are told together.
    few = open_.count(False) <= MAX_SENTENCES and open_.count(True) <= MAX_UNPROVEN
    kinds = set(Kind) if few else set(Kind) - _OPEN if open_.count(False) <= MAX_SENTENCES else set()
    said = [(each.lead(), each.details()) for each in over]
    for effect, each in rest:
        lines = [verdict.sentence(found) for found in each if found.kind in kinds]
        lines += verdict.tally([found for found in each if found.kind not in kinds])
        said += [(_renamed(line, effect), []) for line in lines]
    every = [(effect, found) for effect, _ in rest for found in effect.each]
    whole = few and len(every) == len(open_)
    return {"said": said, "each": None if whole else _verdict_table(every)}


def _is_over(found: Answer) -> bool:
    """Whether an answer says more than the sentence of its one comparison."""
    return found.combinations > 1 or any(each.alone for each in found.effects)


def _renamed(line: str, effect: Effect) -> str:
    """A sentence that begins with a metric, as that is called here."""
    words = columns.describe(effect.metric).words
    return capital(effect.called + line.removeprefix(words) if effect.called else line)


def _tells(found: Comparison) -> bool:
    """Whether a comparison had enough runs for a test."""
    return found.test is not None and found.kind is not Kind.TOO_SMALL


_OPEN = {Kind.NONE, Kind.TOO_SMALL, Kind.SINGLE}
"""Verdicts that prove nothing."""


def _verdict_table(found: Sequence[tuple[Effect, Comparison]]) -> Table:
    """A row for each comparison."""
    names = list(dict.fromkeys(name for _, each in found for name in each.contrast.where))
    metrics = ["metric"] if len({effect.words for effect, _ in found}) > 1 else []
    heads = [*metrics, *names, "of", "against", "difference", "95 % interval", "p, corrected", "verdict"]
    rows = [[*(effect.words for _ in metrics), *_verdict_row(each)] for effect, each in found]
    return Table(heads, rows, f"{len(rows)} comparisons.", sortable=True, row_heads=len(names) + len(metrics))


def _verdict_row(found: Comparison) -> list[object]:
    """A row of the table of comparisons."""
    share = found.share(found.difference)
    difference = (verdict.difference(found), math.nan if share is None else 100 * share)
    p = found.corrected_p
    return [
        *found.contrast.where.values(),
        found.b.label,
        found.a.label,
        difference,
        verdict.interval(found),
        ("", math.nan) if p is None else (f"{p:.2g}", p),
        found.kind.value,
    ]


def _published(facts: Facts) -> dict[str, object] | None:
    """Published results beside cwndlab's: each finding with a verdict, and values of combinations."""
    suite = publication.suite_of(facts.results)
    if suite is None:
        return None
    said, findings = publication.findings(suite, facts.results)
    compared = publication.compare(suite.published(), facts.results.summary, facts.results.labels)
    values = None
    if compared:
        heads = ["metric", "published", "ours", "unit", "difference [%]", "source", "note"]
        known = [abs(row.difference_pct) for row in compared if row.difference_pct is not None]
        caption = f"{len(compared)} published values"
        if known:
            caption += f"; ours differ by {np.median(known):.1f} % in the median, {max(known):.1f} % at most"
        rows = [_comparison(row) for row in compared]
        values = Table(heads, rows, f"{caption}.", sortable=True, row_heads=1)
    if findings is None and values is None:
        return None
    return {"source": suite.source, "said": said, "findings": findings, "compared": values}


def _comparison(row: publication.Comparison) -> list[object]:
    ours: object = ("not run", math.nan)
    if row.ours is not None:
        low, high = row.ours
        ours = (rounded(low) if low == high else f"{rounded(low)} to {rounded(high)}", low)
    difference = row.difference_pct
    shown = ("", math.nan) if difference is None else (f"{difference:+.1f}", difference)
    return [row.metric, (rounded(row.published), row.published), ours, row.unit, shown, row.source, row.note]
