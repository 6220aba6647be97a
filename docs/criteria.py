"""Writes the tables of the suites of criteria into their pages: part of `make contract`."""

from pathlib import Path

from cwndlab.analysis.review.evaluation_words import rule
from cwndlab.experiment.suites import evaluations
from cwndlab.experiment.suites.evaluations import RFC8867, Criterion

DOCS = Path(__file__).resolve().parent
ELSEWHERE = {RFC8867: "media.md"}
"""Pages of suites whose tables do not stand in rfc9743.md."""
HEADS = ("section", "asked", "experiment", "judged by", "bound")


def main() -> None:
    """Write the pages."""
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """The texts of the pages by their names, tables made anew; raises ValueError without marks."""
    made: dict[str, str] = {}
    for suite in evaluations.SUITES:
        name = ELSEWHERE.get(suite, "rfc9743.md")
        text = made.get(name) or (DOCS / name).read_text(encoding="utf-8")
        begin, mark, rest = text.partition(f"<!-- criteria.py: {suite} -->\n")
        _, end, after = rest.partition("\n<!-- end -->")
        if not mark or not end:
            raise ValueError(f"{name} does not have the marks of {suite}")
        lines = [_line(HEADS), _line(["---"] * len(HEADS)), *map(_row, evaluations.criteria(suite))]
        made[name] = "\n".join([begin + mark, *lines]) + "\n" + end + after
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
