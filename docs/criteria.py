"""Writes the table of docs/rfc9743.md from the suite's table of criteria: part of `make contract`."""

from pathlib import Path

from cwndlab.analysis.review.evaluation_words import rule
from cwndlab.experiment.suites import evaluations
from cwndlab.experiment.suites.evaluations import RFC9743, Criterion

PAGE = Path(__file__).resolve().parent / "rfc9743.md"
HEADS = ("section", "asked", "experiment", "judged by", "bound")


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The text of the page, its table made anew; raises ValueError without marks."""
    begin, mark, rest = PAGE.read_text(encoding="utf-8").partition("<!-- criteria.py -->\n")
    _, end, after = rest.partition("\n<!-- end -->")
    if not mark or not end:
        raise ValueError(f"{PAGE.name} does not have the marks of the table")
    lines = [_line(HEADS), _line(["---"] * len(HEADS)), *map(_row, evaluations.criteria(RFC9743))]
    return "\n".join([begin + mark, *lines]) + "\n" + end + after


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
