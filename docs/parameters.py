"""Writes the tables of docs/queues-and-applications.md from the engine's catalogue: part of `make contract`.

They stand between marks; the words around them are written by hand.
"""

from collections.abc import Iterator
from pathlib import Path

from cwndlab.experiment.catalogue import Kind, Param, catalogue
from cwndlab.experiment.schema.parameters import QUANTITIES, default_text, sentence, written

PAGE = Path(__file__).resolve().parent / "queues-and-applications.md"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The text of the page, the tables between marks made anew; raises ValueError without a mark."""
    known, text = catalogue(), PAGE.read_text(encoding="utf-8")
    for name, kinds in (
        ("queues", known.queues),
        ("applications", known.apps),
        ("constants", known.cc_params),
    ):
        begin, mark, rest = text.partition(f"<!-- parameters.py: {name} -->\n")
        _, end, after = rest.partition("\n<!-- end -->")
        if not mark or not end:
            raise ValueError(f"{PAGE.name} does not have the marks of {name}")
        text = begin + mark + "".join(map(section, kinds.values())) + end + after
    return text


def section(kind: Kind) -> str:
    """A kind, and a table of its parameters."""
    rows = "".join(f"| {' | '.join(row)} |\n" for row in map(cells, kind.params))
    head = f"\n### {kind.kind}\n\n{kind.about}\n\n"
    return head + "| parameter | what it is | values | default |\n| --- | --- | --- | --- |\n" + rows


def cells(param: Param) -> Iterator[str]:
    """The row of a parameter."""
    mark = {"engine": "", "plan": "", "live": " *live*", "nobody": " *not yet*"}[param.carried]
    yield f"`{param.name}`{mark}"
    yield sentence(param)
    yield values(param)
    if param.required:
        yield "required"
    else:
        yield default_text(param) if param.default is None else f"`{default_text(param)}`"


def values(param: Param) -> str:
    """What a parameter may be."""
    match param.unit:
        case "bool":
            return "`true`, `false`"
        case "choice":
            return ", ".join(f"`{word}`" for word in param.choices)
        case "count" | "nano" | "milli":
            return f"{written(param, param.min)} to {written(param, param.max)}{param.reason}"
    if param.unit in ("bytes-drawn", "ns-drawn"):
        what = "size" if param.unit == "bytes-drawn" else "time"
        return f"{what}, or what follows [a distribution or a file](experiment-file.md#flows)"
    if param.bare:
        return f"{param.min} to {param.max} bytes"
    of = QUANTITIES[param.unit]
    noun = of.noun.removeprefix("a ") + (" or BDP" if param.bdp else "")
    least = " above 0" if param.min == 1 else f" from {of.write(param.min)}" if param.min else ""
    return noun + least + (f" up to {of.write(param.max)}{param.reason}" if param.max < of.most else "")


if __name__ == "__main__":
    main()
