"""A review as text: the verdict first, for a terminal or a mail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cwndlab.analysis import verdict
from cwndlab.analysis.comparison import Comparison, Kind
from cwndlab.analysis.contrasts import Comparisons
from cwndlab.analysis.review.runs import Review
from cwndlab.results import columns
from cwndlab.results.texttable import wrapped

SMALL_PCT = 1.0
"""A difference below so many per cent is proven, but small."""

TOLD = 3
"""Differences that the verdict names; the tables have all."""

MAIL = 78
"""Characters of a line of a mail."""

MARKS = 6
"""Comparisons that a text shows as ministat does."""

AS_MINISTAT = (
    "As ministat(1) shows what changed, the largest first. Its test takes values as normal and corrects for"
    " nothing; the tables above do not, and theirs is the verdict."
)

UNSEEN = (
    "What this cannot see: a congestion control decides over the window alone. What the stack does around it,"
    " SACK and RACK, retransmission, output and offloads, is modelled, and the same on every side. A change"
    " that touches those is judged on machines, cwndlab compare --build, or in a source tree, --patch."
)


def unseen(review: Review) -> str:
    """Say what a review of congestion controls cannot see. Empty for kernels and guests, which are whole."""
    return "" if review.sides.are_whole else UNSEEN


def headline(review: Review) -> str:
    """The verdict, in a sentence or two."""
    if review.failures:
        first = review.failures[0]
        return f"{len(review.failures)} of {review.runs} runs failed, the first {first}."
    found = review.found
    said = [_judged(found)] if found else []
    more = f"{len(review.idle)} paths judge nothing; the first: " if len(review.idle) > 1 else ""
    said += [more + text for text in review.idle[:1]]
    return " ".join(said)


def _judged(found: Sequence[Comparison]) -> str:
    all_changed = changed(found)
    large = sorted((each for each in all_changed if not is_small(each)), key=_goodput_first)
    if all(each.kind is Kind.IDENTICAL for each in found):
        return "No difference: every run of new counted the same as its partner of old, to the last packet."
    among = f"of {len(found)} comparisons"
    if not all_changed:
        return f"No difference between old and new is proven at {_sure(found)} in any {among}."
    if not large:
        where = f"wherever it does, in {len(all_changed)} {among}"
        return f"New differs from old by less than {SMALL_PCT:g} % {where}."
    told = "; ".join(_short(each) for each in large[:TOLD])
    more = f"; and {len(large) - TOLD} more" if len(large) > TOLD else ""
    return (
        f"New differs from old in {len(large)} {among}: {told}{more} ({_sure(found)} sure of all together)."
    )


def text(review: Review) -> str:
    """Format all of a review as plain text."""
    parts = [_wrapped(headline(review)), _sides(review), *_failed(review)]
    parts += ["\n".join(_changes(review))]
    parts += [_table(metric, review.found) for metric in dict.fromkeys(each.metric for each in review.found)]
    parts.append("\n".join(map(_wrapped, verdict.legend(review.found))))
    if drawn := marks(review.found)[:MARKS]:
        parts += [_wrapped(AS_MINISTAT), *drawn]
    if review.sides.patched:
        parts.append(f"The patch changes more, which is not judged here: {', '.join(review.sides.patched)}.")
    parts.append(_wrapped(unseen(review)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _wrapped(text: str, indent: str = "") -> str:
    return wrapped(text, MAIL, first=indent, others=2 * indent)


def _sides(review: Review) -> str:
    return "\n".join(
        [
            f"old: {review.sides.old.about}",
            f"new: {review.sides.new.about}",
            f"on {review.sides.stack.name}, {review.runs} runs",
        ]
    )


def _failed(review: Review) -> Iterator[str]:
    if review.failures:
        more = f"\nand {len(review.failures) - 5} more" if len(review.failures) > 5 else ""
        yield "Runs that failed:\n" + "\n".join(review.failures[:5]) + more


def _changes(review: Review) -> Iterator[str]:
    """Yield the changes: what changed, where, and what did not."""
    found = review.found
    if changes := changed(found):
        yield "What changed, and how sure that is:"
    for each in changes:
        yield _wrapped(verdict.sentence(each), "  ")
    yield from map(_wrapped, unchanged(review))


def changed(found: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons with a difference that is proven, the largest first."""
    return sorted((each for each in found if differs(each)), key=_weight, reverse=True)


def unchanged(review: Review) -> list[str]:
    """Sentences about the comparisons without a change, and about the paths that judge nothing."""
    found = review.found
    alike = sum(each.kind is Kind.IDENTICAL for each in found)
    left = len(found) - alike - len(changed(found))
    said = []
    if alike:
        said.append(f"The same to the last packet: {alike} of {len(found)} comparisons.")
    if left:
        said.append(f"No difference is proven in {left} of {len(found)} comparisons.")
    return [*said, *review.idle]


def _table(metric: str, found: Sequence[Comparison]) -> str:
    """All comparisons of a metric."""
    rows = [each for each in found if each.metric == metric]
    return f"{columns.describe(metric).label}, mean of the runs\n{verdict.table(rows)}"


def marks(found: Sequence[Comparison]) -> list[str]:
    """Comparisons that changed, the largest change first, as ministat shows them: x is old, + is new."""
    return verdict.as_ministat(Comparisons(changed(found), [], []))


def title(found: Comparison) -> str:
    """Title of a comparison: the metric, and the place."""
    return f"{columns.describe(found.metric).words} ({', '.join(found.contrast.where.values())})"


def differs(found: Comparison) -> bool:
    """Whether a difference is proven, or exact."""
    return found.kind in (Kind.DIFFERENCE, Kind.DETERMINISTIC) and found.difference != 0


def is_small(found: Comparison) -> bool:
    """Whether a difference is below what a reader cares for."""
    return 100 * _weight(found) < SMALL_PCT


def _weight(found: Comparison) -> float:
    """Size of a difference as a share; a tenth of a point of metrics in per cent counts as 1 %."""
    if columns.describe(found.metric).unit == "%":
        return 10 * abs(found.difference)
    share = found.share(found.difference)
    return abs(found.difference) if share is None else abs(share)


def _goodput_first(found: Comparison) -> tuple[bool, float]:
    return found.metric != "goodput_mbps", -_weight(found)


def _short(found: Comparison) -> str:
    way = "higher" if found.difference > 0 else "lower"
    where = ", ".join(found.contrast.where.values())
    size = verdict.difference(found).lstrip("+−")
    return f"{columns.describe(found.metric).words} {size} {way} ({where})"


def _sure(found: Sequence[Comparison]) -> str:
    return f"{100 * found[0].confidence:g} %" if found else "95 %"
