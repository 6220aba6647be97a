"""Decides claims from the results of the suites they are about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cwndlab.analysis.claims.claim import Claim
from cwndlab.analysis.claims.measures import Cells, UndecidedError, inferred_stacks, measure
from cwndlab.results.resultset import ResultSet

AGREE, DIFFER, CANNOT_TELL = "agree", "differ", "cannot tell"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A claim, cwndlab's metric for it, and whether the two agree."""

    claim: Claim
    value: float | None
    verdict: str
    """`agree`, `differ` or `cannot tell`."""
    reason: str
    """Reason why the claim cannot be told, or what a metric alone would not say; often empty."""
    inferred: tuple[str, ...] = ()
    """The stacks it is about whose models are inferred."""


def judge(
    claims: Iterable[Claim],
    results: Mapping[str, ResultSet],
    standing_in: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Judgement]:
    """Decide each claim from the results of its suite, by the suite's name.

    `standing_in` maps a swept key to {text in its values: text the claims speak of}, to ask what another
    stack in the place of the published one would have given. A claim whose suite has no results, or whose
    cells are not among them, cannot be told.
    """
    cells = {name: Cells(own, standing_in) for name, own in results.items()}
    return [_judgement(claim, cells) for claim in claims]


def _judgement(claim: Claim, cells: Mapping[str, Cells]) -> Judgement:
    if claim.suite is not None and claim.suite not in cells:
        return Judgement(claim, None, CANNOT_TELL, f"suite {claim.suite} was not run")
    own = cells.get(claim.suite or "")
    about = inferred_stacks(claim, None if own is None else own.results)
    try:
        value, note = measure(claim, own)
    except UndecidedError as why:
        return Judgement(claim, None, CANNOT_TELL, str(why), about)
    return Judgement(claim, value, AGREE if claim.expected.holds(value) else DIFFER, note, about)
