"""`cwndlab advise`."""

from typing import TYPE_CHECKING, Annotated

import typer

from cwndlab.cli.options import Json

if TYPE_CHECKING:
    from cwndlab.analysis.advice import buffers


def advise(
    *,
    rate: Annotated[
        str | None, typer.Option(metavar="RATE", help="What the path carries, such as 1gbit.")
    ] = None,
    rtt: Annotated[
        str | None, typer.Option(metavar="TIME", help="Round trip of the idle path [of a home line: 30ms].")
    ] = None,
    stack: Annotated[
        str, typer.Option(metavar="A,B,...", help="Systems, each at both ends; of a home line the first.")
    ] = "linux",
    cc: Annotated[
        str | None, typer.Option(metavar="NAME", help="Congestion control [the system's own].")
    ] = None,
    line: Annotated[
        str | None, typer.Option(metavar="DOWN/UP", help="A home line instead of a path, such as 50/10mbit.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", metavar="N", help="Worker processes [one per processor].")
    ] = None,
    json: Json = False,
) -> None:
    """Say what to set: socket buffers for a path, or the queue discipline for a home line.

    `--rate` and `--rtt` tell the sysctls of each system, and what it would carry with and without them;
    `--line` the disciplines under an upload, a download and a call, the best first. All of it is simulated.
    """
    from cwndlab.analysis.advice import line as lines
    from cwndlab.errors import InputError
    from cwndlab.execution.executors import processors

    workers = jobs if jobs is not None else processors()
    if line is not None:
        if rate is not None or cc is not None:
            raise InputError("--line: goes without --rate and --cc")
        home = lines.parse(line, rtt or "30ms")
        found = lines.compare(home, stack.partition(",")[0], workers)
        print(lines.as_json(home, found) if json else lines.text(home, found))
        return
    if rate is None or rtt is None:
        raise InputError("give --rate and --rtt of a path, or --line")
    _buffers(_asked(rate, rtt, cc), stack, workers, json=json)


def _asked(rate: str, rtt: str, cc: str | None) -> "buffers.Asked":
    from cwndlab.analysis.advice import buffers
    from cwndlab.errors import InputError
    from cwndlab.experiment import units
    from cwndlab.experiment.units import BadValue

    option = "--rate"
    try:
        rate_bps = units.parse_rate(rate)
        option = "--rtt"
        return buffers.Asked(rate_bps, units.parse_time(rtt), cc)
    except BadValue as error:
        raise InputError(f"{option}: {error}") from None


def _buffers(asked: "buffers.Asked", names: str, jobs: int, *, json: bool) -> None:
    from cwndlab.analysis.advice import buffers

    stacks = buffers.stacks(names, asked.cc)
    if not json:
        print(buffers.why(asked))
    for stack in stacks:
        found = buffers.compare(asked, stack, jobs)
        print(buffers.as_json(asked, stack, found) if json else f"\n{buffers.text(asked, stack, found)}")
