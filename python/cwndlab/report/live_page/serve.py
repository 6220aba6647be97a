"""Serves the page of the live lab on loopback, under a policy that lets it load nothing but its own files."""

from __future__ import annotations

import contextlib
import errno
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files as resources
from importlib.resources.abc import Traversable
from typing import Any

from cwndlab.errors import CwndlabError, InputError
from cwndlab.results import software

PORT = 8642

HOSTS = re.compile(r"(?:127\.0\.0\.1|localhost)(?::[0-9]{1,5})?", re.IGNORECASE)
"""Names of this machine that a request may ask for: a page from elsewhere, whose name was made to lead here,
asks for its own."""

SILENT_S = 10.0
"""Time for which a client may be silent, in s."""
WHOLE_S = 60.0
"""Time that a request may take from its first byte to the last of its answer, in s."""
CLIENTS = 16
"""Clients answered at a time; a browser has six connections."""

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
"""Files that `make web` makes."""


def page_files() -> dict[str, Traversable]:
    """Return the files of the page by their names; raises CwndlabError where it was not built."""
    page = resources("cwndlab.report.live_page").joinpath("page")
    found = {file.name: file for file in page.iterdir() if file.name[file.name.rfind(".") :] in TYPES}
    if missing := [name for name in BUILT if name not in found]:
        raise CwndlabError(
            f"the live lab was not built: {missing[0]} is not there; in a clone, run `make web`"
        )
    return found


def build(say: Callable[[str], object]) -> None:
    """Build what the page lacks, in a clone, where `make web` does; what it prints is its progress.

    Raises CwndlabError where it cannot be built.
    """
    root = software.PACKAGE.parents[1]
    try:
        page_files()
    except CwndlabError:
        if not (root / "Makefile").exists() or not (root / "crates" / "web").is_dir():
            raise
    else:
        return
    say("the live lab is built first, once: make web")
    try:
        done = subprocess.run(["make", "web"], cwd=root, stdout=sys.stderr, check=False)
    except OSError as error:
        raise CwndlabError(f"the live lab was not built: make: {error.strerror}") from None
    if done.returncode:
        raise CwndlabError("the live lab could not be built: `make web` failed, as it says above")


def server(port: int) -> ThreadingHTTPServer:
    """Return a server on a port of loopback, 0 for any that is free; raises InputError where it is taken."""
    files = {f"/{name}": file for name, file in page_files().items()}
    files["/"] = files["/index.html"]
    try:
        return _Server(("127.0.0.1", port), _handler(files))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        hint = "--port 0 takes one that is free"
        raise InputError(f"--port {port}: {error.strerror}; {hint}") from None


class _Server(ThreadingHTTPServer):
    """Answers a number of clients at a time, and says nothing of those that go away."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._places = threading.BoundedSemaphore(CLIENTS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, or close the connection where all places are taken."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # There are no more threads.
            self._places.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and end what takes too long."""
        ending = threading.Timer(WHOLE_S, _shut, [request])
        ending.daemon = True
        try:
            ending.start()
            super().process_request_thread(request, client_address)
        except RuntimeError:  # There are no more threads.
            self.shutdown_request(request)
        finally:
            ending.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong, unless the client went away."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _handler(files: Mapping[str, Traversable]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers with a file of the page, or with 404; with 421 where another machine is asked for."""

        timeout = SILENT_S
        server_version, sys_version = "cwndlab", ""

        def do_GET(self) -> None:
            """Send a file."""
            self._send(whole=True)

        def do_HEAD(self) -> None:
            """Say what a file would be."""
            self._send(whole=False)

        def _send(self, *, whole: bool) -> None:
            file = files.get(self.path.partition("?")[0].partition("#")[0])
            status = HTTPStatus.OK if file else HTTPStatus.NOT_FOUND
            hosts = self.headers.get_all("Host", [])
            if len(hosts) != 1 or not HOSTS.fullmatch(hosts[0]):
                file, status = None, HTTPStatus.MISDIRECTED_REQUEST
            content = file.read_bytes() if file else b"not here\n"
            self.send_response(status)
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
