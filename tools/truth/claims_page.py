"""Writes claims down: a table of 80 columns for a terminal, and docs/evidence/claims.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from cwndlab.analysis.claims.causes import ASSUMPTION, OPEN, SPREAD, Cause
from cwndlab.analysis.claims.claim import PUBLICATIONS, WRITTEN
from cwndlab.analysis.claims.judge import AGREE, CANNOT_TELL, DIFFER, Judgement
from cwndlab.results import files
from cwndlab.results.inferred_models import FOOTNOTE, STAR

_NAME, _METRIC = 44, 11
"""Widths of the columns of the terminal's table."""


def text(judgements: Sequence[Judgement]) -> str:
    """The table: each claim's name, the published metric, ours, and the verdict."""
    lines = []
    for publication, members in groupby(judgements, key=lambda judged: judged.claim.publication):
        lines += ["", PUBLICATIONS[publication]]
        lines += [f"{'':{_NAME}}{'published':>{_METRIC}}{'ours':>{_METRIC}}  verdict"]
        for judged in members:
            published, ours = _number(judged.claim.published), _number(judged.value)
            lines.append(
                f" {judged.claim.name[: _NAME - 2]:{_NAME - 1}}{published:>{_METRIC}}{ours:>{_METRIC}}"
                f"  {judged.verdict}{STAR if judged.inferred else ''}"
            )
    legend = [FOOTNOTE] if any(judged.inferred for judged in judgements) else []
    return "\n".join([*lines, "", *legend, count(judgements)]) + "\n"


def count(judgements: Sequence[Judgement]) -> str:
    """How many claims agree, differ and cannot be told."""
    verdicts = Counter(judged.verdict for judged in judgements)
    return (
        f"{len(judgements)} claims: {verdicts[AGREE]} agree, {verdicts[DIFFER]} differ, "
        f"{verdicts[CANNOT_TELL]} cannot be told"
    )


def count_causes(causes: Sequence[Cause]) -> str:
    """What the experiments on the claims that differ showed."""
    shows = Counter(cause.shows for cause in causes)
    return (
        f"{len(causes)} that differ: an assumption decides {shows[ASSUMPTION]}, {shows[SPREAD]} lie within "
        f"the spread of runs, of {shows[OPEN]} the cause was not found"
    )


def markdown(judgements: Sequence[Judgement], causes: Sequence[Cause] = ()) -> str:
    """The text of docs/evidence/claims.md."""
    lines = [
        "# Claims",
        "",
        "What the publications claim, and what the suites say of it. Written by",
        "`python -m tools.truth claims`; do not edit. Each claim, with its metric, cells and tolerance,",
        "stands in",
        "[claims.yaml](../../python/cwndlab/analysis/claims/claims.yaml).",
        "*Written* says whether it was committed before",
        "its suite's first run; *after* also where only some of its rows had run, and *its cells after*",
        "where metric and tolerance are older than that run, but the cells were pointed elsewhere since.",
        "What each suite models, and why a metric differs, is on the suite's page in"
        " [published experiments](../suites.md).",
        "Stacks named as **inferred** are models that no recording of the real system stands behind.",
        "",
        f"{count(judgements)}.",
    ]
    for publication, members in groupby(judgements, key=lambda judged: judged.claim.publication):
        lines += [
            "",
            f"## {PUBLICATIONS[publication]}",
            "",
            "| claim | where | our metric | published | agrees if | written | ours | verdict |",
            "| --- | --- | --- | ---: | --- | --- | ---: | --- |",
        ]
        lines += [_row(judged) for judged in members]
    if causes:
        lines += [
            "",
            "## Why claims differ",
            "",
            "One experiment for each claim that differs. Either one thing is otherwise than in the suite,",
            "and the question is whether the claim then agrees: if so, **the assumption decides**, which",
            "does not say that it holds on the publication's machines. Or each run is taken by itself, as",
            "most published figures are of one run: is the figure **within the spread of runs**? Else the",
            "cause was **not found**, and the row says what it is not. Each experiment stands in",
            "claims.yaml, under `trial`.",
            "",
            f"{count_causes(causes)}.",
            "",
            "| claim | published | agrees if | ours | otherwise | ours then | what it shows |",
            "| --- | ---: | --- | ---: | --- | ---: | --- |",
        ]
        lines += [_cause(cause) for cause in causes]
    return "\n".join(lines) + "\n"


def write(judgements: Sequence[Judgement], causes: Sequence[Cause], path: Path) -> None:
    """Rewrite the document at `path`, whole or not at all."""
    files.save(path, markdown(judgements, causes).encode())


def _row(judged: Judgement) -> str:
    claim = judged.claim
    verdict = judged.verdict if judged.verdict == AGREE else f"**{judged.verdict}**"
    cells = [
        f"{claim.says} (`{claim.name}`)",
        claim.place,
        f"{claim.metric}; **inferred**: {', '.join(judged.inferred)}" if judged.inferred else claim.metric,
        f"{_number(claim.published)} {claim.unit if claim.published is not None else ''}".strip(),
        f"{claim.expected} {claim.unit}".strip(),
        WRITTEN[claim.written] if claim.suite is not None else "",
        _number(judged.value),
        f"{verdict}: {judged.reason}" if judged.reason else verdict,
    ]
    return _line(cells)


def _cause(cause: Cause) -> str:
    claim, trial, values = cause.judged.claim, cause.trial, cause.values
    otherwise = f"each of {len(values)} runs by itself" if trial.single else trial.assumes
    return _line(
        [
            f"`{claim.name}`",
            f"{_number(claim.published)} {claim.unit if claim.published is not None else ''}".strip(),
            f"{claim.expected} {claim.unit}".strip(),
            _number(cause.judged.value),
            otherwise,
            " to ".join(_number(value) for value in dict.fromkeys((values[0], values[-1]))),
            cause.shows,
        ]
    )


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
