"""`cwndlab trace`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from cwndlab.errors import InputError


def trace(
    capture: Annotated[Path, typer.Argument(metavar="CAPTURE", help="A pcap or pcapng file, gzip or not.")],
    *,
    text: Annotated[
        bool, typer.Option("--text", help="A line for each TCP packet, as `tcpdump -n -ttttt -r` prints it.")
    ] = False,
    flights: Annotated[
        bool,
        typer.Option(
            "--flights",
            help="With --text: data that follows in sequence on one line, until the other side sends.",
        ),
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="With --text: at most N lines.")
    ] = None,
) -> None:
    """Print the connections of a capture, or its packets.

    Connections are lines of JSON, packets with --text lines of text. `window_full_pct` is how
    much of the time the receiver's window was full, which is all that a capture tells of what
    limited a flow; take one at the sender.
    """
    import json

    from cwndlab import _native
    from cwndlab.formats import full_windows

    if not text and (flights or limit is not None):
        raise InputError("--flights and --limit are of the lines that --text prints: give --text, too")
    if not capture.is_file():
        raise InputError(f"{capture}: {'not a file' if capture.exists() else 'no such file'}")
    try:
        if text:
            _native.packet_text(str(capture), flights, limit, sys.stdout.write)
            return
        connections = list(full_windows.connections(_native.Capture(str(capture), False)))
    except ValueError as error:
        raise InputError(f"{capture}: {error}") from None
    for connection in connections:
        print(json.dumps(connection))
