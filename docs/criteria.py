"""Writes the tables of the suites of criteria into their page: part of `make contract`."""

from pathlib import Path

from cwndlab.analysis.review.evaluation_words import rule
from cwndlab.experiment.suites import evaluations
from cwndlab.experiment.suites.evaluations import Criterion

PAGE = Path(__file__).resolve().parent / "evidence" / "criteria.md"
HEADS = ("section", "asked", "experiment", "judged by", "bound")


def main() -> None:
    """Write the page."""
    PAGE.write_text(text(), encoding="utf-8")


def text() -> str:
    """The page with its tables made anew; raises ValueError where it has no marks of a suite."""
    made = PAGE.read_text(encoding="utf-8")
    for suite in evaluations.SUITES:
        begin, mark, rest = made.partition(f"<!-- criteria.py: {suite} -->\n")
        _, end, after = rest.partition("\n<!-- end -->")
        if not mark or not end:
            raise ValueError(f"{PAGE.name} does not have the marks of {suite}")
        lines = [_line(HEADS), _line(["---"] * len(HEADS)), *map(_row, evaluations.criteria(suite))]
        made = "\n".join([begin + mark, *lines]) + "\n" + end + after
    return made


def _row(criterion: Criterion) -> str:
    if criterion.experiment is None:
        return _line([criterion.section, criterion.asks, "", "", f"not covered: {criterion.why}"])
    of = f" of `{criterion.flow}`" if criterion.flow else ""
    judged_by = f"`{criterion.metric}`{of}"
    return _line([criterion.section, criterion.asks, f"`{criterion.experiment}`", judged_by, rule(criterion)])


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
