"""Serves the page of the live lab on loopback, under a policy that lets it load nothing but its own files."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files as resources
from importlib.resources.abc import Traversable

from cwndlab.errors import CwndlabError, InputError

PORT = 8642

POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
}
"""Files that are served, by how their names end; a browser compiles a module only under its own type."""

BUILT = ("engine.js", "engine_bg.wasm", "templates.json")
"""What `make web` makes."""


def page_files() -> dict[str, Traversable]:
    """Return the files of the page by their names; raises CwndlabError where it was not built."""
    page = resources("cwndlab.web").joinpath("page")
    found = {file.name: file for file in page.iterdir() if file.name[file.name.rfind(".") :] in TYPES}
    if missing := [name for name in BUILT if name not in found]:
        raise CwndlabError(
            f"the live lab was not built: {missing[0]} is not there; in a clone, run `make web`"
        )
    return found


def server(port: int) -> ThreadingHTTPServer:
    """Return a server on a port of loopback, 0 for any that is free; raises InputError where it is taken."""
    files = {f"/{name}": file for name, file in page_files().items()}
    files["/"] = files["/index.html"]
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), _handler(files))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        hint = "--port 0 takes one that is free"
        raise InputError(f"--port {port}: {error.strerror}; {hint}") from None


def _handler(files: Mapping[str, Traversable]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers with a file of the page, whatever else is asked with 404."""

        server_version, sys_version = "cwndlab", ""

        def do_GET(self) -> None:
            """Send a file."""
            self._send(whole=True)

        def do_HEAD(self) -> None:
            """Say what a file would be."""
            self._send(whole=False)

        def _send(self, *, whole: bool) -> None:
            file = files.get(self.path.partition("?")[0].partition("#")[0])
            content = file.read_bytes() if file else b"not here\n"
            self.send_response(HTTPStatus.OK if file else HTTPStatus.NOT_FOUND)
            self.send_header(
                "Content-Type", TYPES[file.name[file.name.rfind(".") :]] if file else "text/plain"
            )
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Security-Policy", POLICY)
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("Cache-Control", "no-cache")
            self.end_headers()
            if whole:
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the page is for whoever started it."""

    return Handler
