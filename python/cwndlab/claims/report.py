"""Writes claims down: a table of 80 columns for a terminal, and docs/claims.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from cwndlab import files
from cwndlab.claims.claim import PUBLICATIONS, WRITTEN
from cwndlab.claims.judge import AGREE, CANNOT_TELL, DIFFER, Judgement
from cwndlab.results.inferred import FOOTNOTE, STAR

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


def markdown(judgements: Sequence[Judgement]) -> str:
    """The text of docs/claims.md."""
    lines = [
        "# Claims",
        "",
        "What the publications claim, and what the suites say of it. Written by `cwndlab claims`; do not",
        "edit. Each claim, with its metric, cells and tolerance, stands in",
        "[claims.yaml](../python/cwndlab/claims/claims.yaml). *Written* says whether it was committed before",
        "its suite's first run; *after* also where only some of its rows had run, and *its cells after*",
        "where metric and tolerance are older than that run, but the cells were pointed elsewhere since.",
        "What each suite models, and why a metric differs, is on the suite's page in"
        " [suites/](suites/README.md).",
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
    return "\n".join(lines) + "\n"


def write(judgements: Sequence[Judgement], path: Path) -> None:
    """Rewrite the document at `path`, whole or not at all."""
    files.save(path, markdown(judgements).encode())


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
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
