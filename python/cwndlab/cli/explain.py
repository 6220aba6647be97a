"""`cwndlab explain`: what limited a connection, and what would change it."""

from pathlib import Path
from typing import Annotated

import typer

from cwndlab.cli.options import Json
from cwndlab.cli.output import say


def explain(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Capture, SIFTR, tcp_probe, ss, iperf3 JSON, qlog.")
    ],
    *,
    flow: Annotated[
        str | None, typer.Option(metavar="NAME", help="The connection [that with most data].")
    ] = None,
    stack: Annotated[
        str | None, typer.Option(metavar="NAME", help="System to simulate [what fits, or linux].")
    ] = None,
    cc: Annotated[
        str | None, typer.Option(metavar="NAME", help="Congestion control [what fits, or the system's].")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it, too: .png, .svg or .pdf.")
    ] = None,
    size: Annotated[
        str, typer.Option(metavar="paper|slide|1col|2col|WxHmm", help="What the plot is for.")
    ] = "paper",
    json: Json = False,
) -> None:
    """Say what limited a connection, and what a change would give.

    From one capture or log: the limiter over time, the path it saw, the stacks and congestion controls that
    fit, and by simulation what the connection would carry without the limiter.
    """
    from cwndlab.analysis.explain import explain as explaining
    from cwndlab.analysis.explain import words

    said = explaining.of(file, flow, stack, cc)
    print((words.as_json if json else words.text)(said), end="")
    if plot is not None:
        from cwndlab.cli.options import own_command
        from cwndlab.report import explained
        from cwndlab.report.plots import paint
        from cwndlab.report.plots.selection import Options

        options = Options(size=size, command=own_command())
        paint.save(explained.draw(said, options), plot, options)
        say(str(plot))
