"""`cwndlab loadlatency`: the two ends of the tool."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cwndlab.errors import CwndlabError, InputError, StoppedError

if TYPE_CHECKING:
    pass
from cwndlab.cli.output import say

loadlatency = typer.Typer(
    name="loadlatency",
    short_help="Measure a link under load, between two machines.",
    help="Measure capacity, responsiveness and smoothness of a link under load, between two machines.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

LOADLATENCY_PORT = 55011
"""Port of loadlatency unless another is given (crates/loadlatency/src/wire.rs)."""

Port = Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="TCP port.")]

Secret = Annotated[
    str,
    typer.Option(
        envvar="LOADLATENCY_SECRET", show_envvar=True, metavar="TEXT", help="What both ends have to know."
    ),
]

IdleTimeout = Annotated[
    int, typer.Option(min=1, metavar="S", help="Give up an end that is silent for so long.")
]


@loadlatency.command("serve")
def loadlatency_serve(
    *,
    bind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Listen there [127.0.0.1 and ::1]; may be given again; 0.0.0.0 and :: are all addresses.",
        ),
    ] = None,
    port: Port = LOADLATENCY_PORT,
    secret: Secret = "",
    cc: Annotated[str | None, typer.Option(metavar="NAME", help="Congestion control of downloads.")] = None,
    once: Annotated[bool, typer.Option("--once", help="End after one client.")] = False,
    idle_timeout: IdleTimeout = 60,
    session_timeout: Annotated[
        int, typer.Option(min=1, metavar="S", help="Give up a client after so long.")
    ] = 4 * 3600,
) -> None:
    """Serve one client at a time, until interrupted."""
    from cwndlab.formats import loadlatency_tool as tool

    tool.serve(tool.Server(tuple(bind or ()), port, secret, cc, once, idle_timeout, session_timeout))


@loadlatency.command("run")
def loadlatency_run(
    host: Annotated[str, typer.Argument(metavar="HOST", help="Name or address of the server.")],
    *,
    port: Port = LOADLATENCY_PORT,
    secret: Secret = "",
    scenario: Annotated[
        str | None,
        typer.Option(
            metavar="N,N-M,...", help="Which of the nineteen scenarios [all; with --staircase none]."
        ),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            metavar="S", help="Length of each scenario [until stable], or of a step of the staircase [5]."
        ),
    ] = None,
    at_most: Annotated[
        float, typer.Option(metavar="S", help="Force a scenario that does not become stable to end then.")
    ] = 600.0,
    staircase: Annotated[
        bool, typer.Option("--staircase", help="An upload and a download more at every step.")
    ] = False,
    cc: Annotated[str | None, typer.Option(metavar="NAME", help="Congestion control of uploads.")] = None,
    ipv4: Annotated[bool, typer.Option("-4", help="Only IPv4.")] = False,
    ipv6: Annotated[bool, typer.Option("-6", help="Only IPv6.")] = False,
    idle_timeout: IdleTimeout = 60,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the measurements as JSON; - for stdout."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR",
            help="Where results go [results/loadlatency-DATE; with --json nowhere].",
        ),
    ] = None,
    classic: Annotated[bool, typer.Option("--classic", help="Print nothing but the classic output.")] = False,
) -> None:
    """Measure the link to a server.

    In the nineteen scenarios of 2011, and by today's metrics.
    """
    from cwndlab.formats import loadlatency_tool as tool
    from cwndlab.results import files

    if ipv4 and ipv6:
        raise InputError("-4 and -6: found both; expected one of them")
    version = 4 if ipv4 else 6 if ipv6 else None
    chosen = tool.scenarios(scenario)
    tool.check_places(json_file, out)
    outcome = tool.measure(
        tool.Measurement(host, port, secret, chosen, duration, at_most, staircase, cc, version, idle_timeout)
    )
    if not classic:
        print(f"\n{outcome.text}", end="")
    if str(json_file) == "-":
        print(outcome.document)
    elif json_file is not None:
        files.save(json_file, (outcome.document + "\n").encode())
    if outcome.scenarios and (out is not None or json_file is None):
        say(f"results: {tool.keep(outcome, out).path}")
    if outcome.interrupted:
        raise StoppedError("interrupted")
    if outcome.error is not None:
        raise CwndlabError(outcome.error)
