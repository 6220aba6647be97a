"""`cwndlab live`: the live lab in a browser."""

from typing import Annotated

import typer


def live(
    experiment: Annotated[
        str | None,
        typer.Argument(metavar="LINK", help="The experiment: what stands after # in a link of the page."),
    ] = None,
    *,
    port: Annotated[
        int | None, typer.Option(metavar="PORT", min=0, max=65535, help="Port on loopback; 0: any [8642].")
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Open no browser.")] = False,
) -> None:
    """Open the live lab: an experiment on one screen, simulated while its sliders move."""
    import webbrowser

    from cwndlab.cli.output import say
    from cwndlab.report.live_page import serve

    serve.build(say)
    with serve.server(serve.PORT if port is None else port) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        if experiment:
            address += "#" + experiment.rpartition("#")[2]
        print(f"{address}  (Ctrl-C ends it)", flush=True)
        if not no_open:
            webbrowser.open(address)
        server.serve_forever()
