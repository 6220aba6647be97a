"""An evaluation as text for a mail, as JSON, and as test cases."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from cwndlab.analysis.review.contenders import PROPOSED, incumbents_stack
from cwndlab.analysis.review.evaluation import Evaluation, Row, Value, Verdict
from cwndlab.analysis.review.words import MAIL, UNSEEN
from cwndlab.experiment.suites.evaluations import SUITES, Criterion
from cwndlab.results import columns
from cwndlab.results.junit import Case, End
from cwndlab.results.texttable import wrapped

LEGEND = (
    "A bound that is a multiple of another's value is made of that one's runs on the same path, with"
    " the same random draws; of an experiment with several cells, the worst one is shown.",
    "± is half of a Student's interval of the mean over the draws, at the level of those of the distances"
    " from the bounds, on which the verdicts rest and which hold all together with 95 %. Met: all of that"
    " interval is on the good side of the bound; not met: none of it; open: the bound is within, or there is"
    " one draw.",
)


def contenders(suite: str) -> Sequence[str]:
    """Names of what ran in one place, the judged one first."""
    return (PROPOSED, *SUITES[suite].incumbents.values())


def legend(found: Evaluation) -> Sequence[str]:
    """Sentences on whose the bounds are, and on how to read an evaluation."""
    return (SUITES[found.suite].bounds, *LEGEND)


def notes(found: Evaluation) -> Sequence[str]:
    """Sentences of the legend, and on what the evaluation cannot see."""
    return (*legend(found), *filter(None, [unseen(found)]))


def headline(found: Evaluation) -> str:
    """The verdicts in a sentence or two."""
    if found.failures:
        return f"{len(found.failures)} of {found.runs} runs failed, the first {found.failures[0]}."
    met, missed, left = map(found.count, (Verdict.MET, Verdict.NOT_MET, Verdict.OPEN))
    judged = len(found.rows) - found.count(Verdict.NOT_COVERED)
    parts = [f"{met} of {judged} bounds are met"]
    if missed:
        sections = dict.fromkeys(
            row.criterion.section for row in found.rows if row.verdict is Verdict.NOT_MET
        )
        parts.append(
            f"{_so_many(missed)} not (section{'s' if len(sections) > 1 else ''} {', '.join(sections)})"
        )
    if left:
        parts.append(f"{_so_many(left)} open")
    if lacking := found.count(Verdict.NO_VALUE):
        parts.append(f"{_so_many(lacking)} without a value")
    bare = found.count(Verdict.NOT_COVERED)
    questions = "question is" if bare == 1 else "questions are"
    return f"{', '.join(parts)}; {bare} {questions} not covered."


def _so_many(count: int) -> str:
    return f"{count} {'is' if count == 1 else 'are'}"


def text(found: Evaluation) -> str:
    """Format all of an evaluation in lines of 80 columns."""
    parts = [
        _lines(f"{SUITES[found.suite].title}: {found.side.about}"),
        _lines(headline(found)),
        f"{on(found)}, {found.runs} runs, {found.repeats} draws of each",
    ]
    if found.failures:
        parts.append("Runs that failed:\n" + "\n".join(found.failures[:5]))
    parts += ["\n".join(_row(row)) for row in found.rows]
    parts += map(_lines, notes(found))
    return "\n\n".join(parts) + "\n"


def unseen(found: Evaluation) -> str:
    """Say what an evaluation of a congestion control alone cannot see; nothing of a whole stack."""
    return "" if found.side.whole else UNSEEN


def on(found: Evaluation) -> str:
    """Say on which stack the contenders ran."""
    others = incumbents_stack(found.stack).name
    if others == found.stack.name:
        return f"on {others}"
    return f"on {found.stack.name}, {' and '.join(SUITES[found.suite].incumbents.values())} on {others}"


def _lines(words: str, indent: str = "") -> str:
    return wrapped(words, MAIL, first=indent)


def _row(row: Row) -> Iterator[str]:
    head = f"{row.criterion.section:<6} {row.criterion.asks}"
    verdict = row.verdict.value
    if len(head) + len(verdict) + 2 > MAIL:
        yield head
        yield verdict.rjust(MAIL)
    else:
        yield head + verdict.rjust(MAIL - len(head))
    if row.note:
        yield _lines(row.note, " " * 7)
    if row.values:
        metric = columns.describe(row.criterion.metric).label
        values = ", ".join(f"{name} {value(row, name)}" for name in row.values)
        yield _lines(f"{metric}{place(row)}: {values}; {bound(row)}", " " * 7)


def place(row: Row) -> str:
    """The flow and the cell that a row shows, in parentheses; empty where there is nothing to say."""
    said = [f"flow {row.criterion.flow}"] if row.criterion.flow else []
    if row.cell:
        said.append(f"worst of {row.cells}: {row.cell}")
    return f" ({'; '.join(said)})" if said else ""


def value(row: Row, name: str) -> str:
    """A contender's mean with its interval, in the unit in which the metric is shown."""
    of: Value = row.values[name]
    factor = columns.describe(row.criterion.metric).factor
    mean = _number(of.mean * factor, 3)
    return f"{mean} ±{_number(of.half * factor, 2)}" if of.half else mean


def _number(value: float, digits: int) -> str:
    """A number with so many significant digits, and no exponent where zeros say it."""
    return f"{float(f'{value:.{digits}g}'):.6g}"


def bound(row: Row) -> str:
    """The bound, and what it is made of."""
    criterion = row.criterion
    if row.bound is None or criterion.of is None:
        return rule(criterion)
    return f"{_limit(criterion, row.bound)} ({_multiple(criterion)})"


def rule(criterion: Criterion) -> str:
    """The bound as the table of criteria has it."""
    if criterion.of is not None:
        return f"{_word(criterion)} {_multiple(criterion)}"
    return _limit(criterion, criterion.factor)


def _limit(criterion: Criterion, value: float) -> str:
    described = columns.describe(criterion.metric)
    return f"{_word(criterion)} {_number(value * described.factor, 3)} {described.unit}".rstrip()


def _word(criterion: Criterion) -> str:
    return "at most" if criterion.at_least is None else "at least"


def _multiple(criterion: Criterion) -> str:
    """The multiple of another's value, and the slack."""
    whose = f"{criterion.incumbents.get(str(criterion.of), 'the worse')}'s".replace("worse's", "worse one's")
    said = f"{100 * criterion.factor:g} % of {whose}"
    if not criterion.slack:
        return said
    described = columns.describe(criterion.metric)
    amount = criterion.slack * described.factor
    unit = {"%": "point" if amount == 1 else "points"}.get(described.unit, described.unit)
    return f"{said} {'+' if criterion.at_least is None else '−'} {amount:g} {unit}"


def as_json(found: Evaluation) -> str:
    """Format an evaluation as a JSON document, values in the units of the summary."""
    document = {
        "suite": found.suite,
        "proposed": found.side.about,
        "stack": found.stack.name,
        "repeats": found.repeats,
        "runs": found.runs,
        "failures": list(found.failures),
        "headline": headline(found),
        "notes": list(notes(found)),
        "rows": [_as_dict(row) for row in found.rows],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _as_dict(row: Row) -> dict[str, object]:
    criterion = row.criterion
    return {
        "section": criterion.section,
        "asks": criterion.asks,
        "verdict": row.verdict.value,
        "note": row.note,
        "experiment": criterion.experiment,
        "flow": criterion.flow,
        "metric": criterion.metric or None,
        "cell": row.cell,
        "cells": row.cells,
        "bound": row.bound,
        "at_least": criterion.at_least,
        "at_most": criterion.at_most,
        "of": criterion.of,
        "values": {name: {"mean": of.mean, "half_width": of.half} for name, of in row.values.items()},
    }


def cases(found: Evaluation) -> Sequence[Case]:
    """Make a test case of each criterion: what is open or not covered is skipped."""
    kinds: dict[Verdict, End | None] = {
        Verdict.NOT_MET: "failure",
        Verdict.NO_VALUE: "error",
        Verdict.MET: None,
    }
    return [
        Case(
            f"{row.criterion.section} {row.criterion.asks}",
            kinds.get(row.verdict, "skipped"),
            row.note or row.verdict.value,
            "\n".join(_row(row)),
        )
        for row in found.rows
    ]
