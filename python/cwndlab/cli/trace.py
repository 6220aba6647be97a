"""`cwndlab data trace`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from cwndlab.cli.output import say
from cwndlab.errors import InputError


def trace(
    capture: Annotated[
        Path, typer.Argument(metavar="CAPTURE", help="A pcap or pcapng file, compressed or not.")
    ],
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
    from cwndlab.formats import capture_files, compression, full_windows

    if not text and (flights or limit is not None):
        raise InputError("--flights and --limit are of the lines that --text prints: give --text, too")
    if not capture.is_file():
        raise InputError(f"{capture}: {'not a file' if capture.exists() else 'no such file'}")
    try:
        with compression.capture_file(capture) as plain:
            if text:
                printed, skipped = _native.packet_text(str(plain), flights, limit, sys.stdout.write)
            else:
                found = _native.Capture(str(plain), False)
                connections, skipped = list(full_windows.connections(found)), found.skipped()
                printed = len(connections)
                for connection in connections:
                    print(json.dumps(connection))
    except ValueError as error:
        raise InputError(f"{capture}: {error}") from None
    if not printed:
        raise InputError(f"{capture}: {capture_files.without_packets(skipped)}")
    for what in capture_files.passed_over(skipped):
        say(f"{capture.name}: {what}")
