"""Writes docs/queues-and-applications.md from the engine's catalogue: part of `make contract`."""

from collections.abc import Iterator
from pathlib import Path

from cwndlab.experiment.catalogue import Kind, Param, catalogue
from cwndlab.experiment.schema.parameters import QUANTITIES, default_text, sentence, written

PAGE = Path(__file__).resolve().parent / "queues-and-applications.md"

HEAD = """\
# Queue disciplines and applications

What `queue` of a link and `app` of a flow may be in an [experiment file](experiment-file.md): a kind alone
(`queue: codel`), or a mapping with its parameters (`queue: {kind: codel, target: 10ms}`).
[Quantities](experiment-file.md#quantities) are written with their units. *live* marks what only says how live
testbeds send, and *not yet* what is refused until somebody carries it out.

This page is made from the engine's tables by `make contract`; it is not edited by hand.
"""

QUEUES = """
## Queue disciplines

Parameters have their names in Linux `tc`, and its defaults. A `limit` is in packets, in bytes or in BDP, and
above 0; [the experiment file](experiment-file.md#networks) says what a limit in BDP comes to.
"""

APPS = """
## Applications

Data goes from the flow's `from` to its `to`. [The experiment file](experiment-file.md#flows) says more of
rates, of `ecn` and of `loadlatency`.
"""


CONSTANTS = """
## Constants of congestion controls

What `cc_params` of a host or a flow may change of a built-in congestion control on testbed `sim`, for
experiments: `{cc: cubic, cc_params: {beta: 0.85}}`. Real kernels have these as constants. Those of a host
hold for flows that name no congestion control of their own.
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The text of the page."""
    known = catalogue()
    queues = "".join(map(section, known.queues.values()))
    apps = "".join(map(section, known.apps.values()))
    return HEAD + QUEUES + queues + APPS + apps + CONSTANTS + "".join(map(section, known.cc_params.values()))


def section(kind: Kind) -> str:
    """A kind, and a table of its parameters."""
    rows = "".join(f"| {' | '.join(row)} |\n" for row in map(cells, kind.params))
    head = f"\n### {kind.kind}\n\n{kind.about}\n\n"
    return head + "| parameter | what it is | values | default |\n| --- | --- | --- | --- |\n" + rows


def cells(param: Param) -> Iterator[str]:
    """The row of a parameter."""
    mark = {"engine": "", "live": " *live*", "nobody": " *not yet*"}[param.carried]
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
