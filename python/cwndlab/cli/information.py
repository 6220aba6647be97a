"""`cwndlab dev schema` and `cwndlab doctor`."""

from typing import TYPE_CHECKING, Annotated

import typer

from cwndlab.cli.options import Lab

if TYPE_CHECKING:
    pass


def schema(
    header: Annotated[
        bool, typer.Option("--cc-header", help="Print cwndlab_cc.h instead, for libraries that --cc names.")
    ] = False,
    guest_header: Annotated[
        bool, typer.Option("--guest-header", help="Print cwndlab_guest.h instead, for what --guest names.")
    ] = False,
) -> None:
    """Print the experiment file's JSON Schema, for editors."""
    import json

    if header or guest_header:
        from cwndlab.foreign import compilation

        file = "plain/cwndlab_cc.h" if header else "guest/cwndlab_guest.h"
        print((compilation.HERE / file).read_text(encoding="utf-8"), end="")
        return

    from cwndlab.testbeds.schema import for_editors

    print(json.dumps(for_editors(), indent=2, ensure_ascii=False))


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Remove what crashed runs on this machine left, and nothing else.")
    ] = False,
    lab: Lab = None,
) -> None:
    """Say what this machine can do."""
    from cwndlab.cli import doctor as examination

    if clean:
        for name in examination.clean(lab):
            print(name)
        return
    print(examination.as_json(lab) if json else examination.as_text(lab))
