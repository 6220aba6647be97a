"""`cwndlab judge`: another sender's window beside a reference that sees what it saw."""

from pathlib import Path
from typing import Annotated

import typer


def judge(
    file: Annotated[
        Path, typer.Argument(metavar="FILE|DIR", help="qlog, CSV of ACKs, SIFTR, tcp_probe, ..., or results.")
    ],
    *,
    against: Annotated[
        str, typer.Option(metavar="CC@STACK", help="The reference, such as cubic@linux-6.18.")
    ],
    flow: Annotated[str | None, typer.Option(metavar="NAME", help="The flow [that with most rows].")] = None,
    run: Annotated[str | None, typer.Option(metavar="ID", help="The run [the first].")] = None,
    mss: Annotated[
        int | None,
        typer.Option(min=1, metavar="BYTES", help="Size of a packet [the largest of the log, or 1448]."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print a document of JSON with every comparison.")
    ] = False,
) -> None:
    """Say where another sender's congestion window leaves a reference.

    The reference is a model's own congestion control, fed with the ACKs, losses, timeouts and application
    limits that the other sender saw. Told are the first difference, what it points to, and how all compare.
    """
    from cwndlab.analysis.judge import sources, stream, verdicts, words

    source = sources.read(file, flow, run)
    seen = stream.of(source)
    size = mss or source.mss
    if size is None:
        seen.notes.append(f"packets of {sources.USUAL_MSS} bytes are assumed; --mss says otherwise")
    if source.others:
        seen.notes.append(f"{source.others} more flows have a window; --flow chooses one")
    found = verdicts.judge(seen, against, size or sources.USUAL_MSS)
    print((words.as_json if json else words.text)(found, source.name), end="")
