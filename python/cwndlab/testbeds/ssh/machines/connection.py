"""One SSH connection to a machine, kept open: commands over it, by a thread of its own (asyncssh)."""

from __future__ import annotations

import asyncio
import dis
import functools
import os
import re
import secrets
import shlex
import subprocess
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import asyncssh

from cwndlab.errors import RunError
from cwndlab.testbeds.ssh import lab_file

_T = TypeVar("_T")

CONNECT_S = 10.0
"""Seconds that a machine has to let us in."""
ALIVE_S, ALIVE_TIMES = 2, 3
"""A connection is lost if so many questions, so many seconds apart, stay without an answer."""
COMMAND_S = 60.0
"""Seconds that a command may take, unless it says otherwise."""
STOP_S = 5.0
"""Seconds that a connection has to close."""

BECOME = {"none": (), "sudo": ("sudo", "-n", "--"), "doas": ("doas", "-n", "--")}
"""Commands that give root's rights, without asking for a password."""


_making = threading.Lock()


_BEGIN = "LC_ALL=C; export LC_ALL; err=$(mktemp) || exit 9; trap 'rm -f \"$err\"' EXIT\n"
"""First line of the kept shell: makes a file for what commands say of errors."""


MOST_SAID = 16 << 20
"""Size in bytes of what a command may print that is asked a question."""

ANSWER_ERRORS = (ValueError, LookupError, TypeError, AttributeError)
"""Errors of reading what a machine says, which may be anything."""


def one_line_of(error: Exception) -> str:
    """Return what to say of an answer that could not be read: cwndlab's own words, or that it makes
    no sense.
    """
    return str(error) if type(error) is ValueError and _is_our_own(error) else NONSENSE


NONSENSE = "its answer makes no sense"


def _is_our_own(error: Exception) -> bool:
    """Whether cwndlab raises an error itself, and not Python of what it was given, as `int` does."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return True
    code = place.tb_frame.f_code
    raised = dis.opname[code.co_code[place.tb_lasti]] == "RAISE_VARARGS"
    return raised and Path(code.co_filename).is_relative_to(Path(__file__).parents[3])


class LostError(RunError):
    """A machine that cannot be reached, or no longer: one line with its name."""


@dataclass(frozen=True)
class Done:
    """Result of a command."""

    status: int
    """Exit status of the command; -1 where a signal ended it."""
    out: str
    err: str

    @property
    def said(self) -> str:
        """Complaint of a command that failed, in one line."""
        return " ".join((self.err or self.out).split())[:500] or f"exit status {self.status}"


class Connection:
    """A connection to one machine of a lab."""

    def __init__(self, name: str, machine: lab_file.Machine, known_hosts: str | None) -> None:
        """Open nothing yet."""
        self.name = name
        self._machine, self._known_hosts = machine, known_hosts
        self._become = BECOME[machine.become]
        self._open: asyncssh.SSHClientConnection | None = None
        self._shell: asyncssh.SSHClientProcess[bytes] | None = None
        self._one_at_a_time = threading.Lock()
        self._jump: asyncssh.SSHClientConnection | None = None
        self._asked = machine.ssh
        """Machine that is asked to let this process in, or was: the lab's machine, or the one in between."""

    @property
    def is_open(self) -> bool:
        """Whether the connection stands, as far as is known."""
        return self._open is not None and not self._open.is_closed()

    @property
    def local_address(self) -> str:
        """Address of this machine on the connection."""
        assert self._open is not None  # asked of one that is open
        return str(self._open.get_extra_info("sockname")[0])

    @property
    def remote_address(self) -> str:
        """The machine's address on this connection."""
        assert self._open is not None  # asked of one that is open
        return str(self._open.get_extra_info("peername")[0])

    def open(self) -> None:
        """Open the connection, unless it stands; raises LostError."""
        if not self.is_open:
            self._await(self._connect(), 3 * CONNECT_S, "connecting")

    def run(self, argv: Sequence[str], text: str = "", limit_s: float = COMMAND_S) -> Done:
        """Run a command that reads a text, with the rights that the lab file says.

        A shell at the machine, kept as long as the connection, is told all commands: starting one costs a
        fork there and no login. The words are quoted once, for that shell; the text ends with a newline.
        Raises LostError where the machine is gone.
        """
        with self._one_at_a_time:
            return self._await(self._run(argv, text), limit_s, f"{Path(argv[0]).name}")

    def send(self, argv: Sequence[str], data: bytes, limit_s: float = COMMAND_S) -> Done:
        """Run a command that reads bytes, by a channel of its own."""
        return self._await(self._send(argv, data), limit_s, f"{Path(argv[0]).name}")

    def fetch(self, argv: Sequence[str], take: Callable[[bytes], object], limit_s: float) -> Done:
        """Hand the bytes that a command prints to `take` as they come, by a channel of its own.

        Whatever `take` raises ends the command.
        """
        ours: list[OSError] = []

        def taken(data: bytes) -> None:
            try:
                take(data)
            except OSError as error:  # of our own disk, not of the connection
                ours.append(error)
                raise LostError(str(error)) from None

        try:
            return self._await(self._fetch(argv, taken), limit_s, f"{Path(argv[0]).name}")
        except LostError:
            if ours:
                raise ours[0] from None
            raise

    def begin(self, argv: Sequence[str]) -> Pipe:
        """Begin a command whose input stays open."""
        made = self._await(self._begin(argv), COMMAND_S, f"{Path(argv[0]).name}")
        return Pipe(self, made)

    def converse(self, argv: Sequence[str]) -> Conversation:
        """Begin a command whose input and output are pipes of this process."""
        return Conversation(self, argv)

    def close(self) -> None:
        """Close the connection."""
        for each in (self._open, self._jump):
            if each is not None:
                each.close()
                try:
                    self._await(each.wait_closed(), STOP_S, "closing")
                except LostError:
                    each.abort()
        self._open = self._jump = self._shell = None

    async def _connect(self) -> None:
        machine = self._machine
        options: dict[str, Any] = {
            "connect_timeout": CONNECT_S,
            "login_timeout": CONNECT_S,
            "keepalive_interval": ALIVE_S,
            "keepalive_count_max": ALIVE_TIMES,
        }
        if self._known_hosts is not None:
            options["known_hosts"] = str(Path(self._known_hosts).expanduser())
        if machine.key is not None:
            options["client_keys"] = [str(Path(machine.key).expanduser())]
        if self._jump is not None:
            self._jump.abort()  # nobody is behind it any more
        if machine.jump is not None:
            self._asked = machine.jump
            self._jump = await asyncssh.connect(**_where(machine.jump), **options)
        self._asked = machine.ssh
        self._shell = None  # that of a connection that was lost
        self._open = await asyncssh.connect(**_where(machine.ssh), tunnel=self._jump or (), **options)

    async def _run(self, argv: Sequence[str], text: str) -> Done:
        shell = await self._kept_shell()
        mark = f"cwndlab-{secrets.token_hex(12)}"
        end = "" if text.endswith("\n") or not text else "\n"
        told = f"{{ {shlex.join(argv)} <<'{mark}'\n{text}{end}{mark}\n}} 2>\"$err\"\n"
        _tell(shell, f"{told}printf '\\n{mark} %d\\n' $?; cat \"$err\"; echo {mark}\n".encode())
        try:
            out = await shell.stdout.readuntil(f"\n{mark} ".encode())
            status = await shell.stdout.readline()
            err = await shell.stdout.readuntil(f"{mark}\n".encode())
        except BaseException as error:
            self._shell = None  # what it still prints is of no use to anybody
            ended = shell.stdout.at_eof()
            shell.close()
            if not isinstance(error, asyncio.IncompleteReadError):
                raise
            if not self.is_open:
                why = "the connection is lost"
            else:
                # Of a shell that did not begin, what said so: sudo, doas.
                end = "its shell ended without an answer" if ended else "printed more than a kept shell may"
                why = _line(_text(await shell.stderr.read())) or end
            raise LostError(f"{self.name}: {why}") from None
        if not re.fullmatch(rb"[0-9]{1,3}\n", status):
            raise LostError(f"{self.name}: {NONSENSE}")
        return Done(int(status), _text(out)[: -len(mark) - 2], _text(err)[: -len(mark) - 1])

    async def _kept_shell(self) -> asyncssh.SSHClientProcess[bytes]:
        if self._shell is None or self._shell.exit_status is not None or not self.is_open:
            self._shell = await self._stands().create_process(self._command(["sh"]), encoding=None)
            _tell(self._shell, _BEGIN.encode())
        return self._shell

    async def _send(self, argv: Sequence[str], data: bytes) -> Done:
        process = await self._stands().create_process(self._command(argv), encoding=None)
        _tell(process, data, end=True)
        out = bytearray()
        return await self._drained(process, out.extend, out)

    async def _fetch(self, argv: Sequence[str], take: Callable[[bytes], object]) -> Done:
        process = await self._stands().create_process(
            self._command(argv), stdin=asyncssh.DEVNULL, encoding=None
        )
        return await self._drained(process, take)

    async def _drained(
        self,
        process: asyncssh.SSHClientProcess[bytes],
        take: Callable[[bytes], object],
        out: bytearray | None = None,
    ) -> Done:
        """Hand on what a command prints, which is bounded by `take`, or by us where it is kept in `out`."""
        try:
            while data := await process.stdout.read(1 << 16):
                take(data)
                if out is not None and len(out) > MOST_SAID:
                    raise LostError(
                        f"{self.name}: prints more than {MOST_SAID >> 20} MiB where few bytes belong"
                    )
            err = await process.stderr.read(1 << 16)
            await process.wait()
        finally:
            process.close()
        status = process.exit_status if process.exit_status is not None else -1
        return Done(status, _text(bytes(out or b"")), _text(err))

    async def _begin(self, argv: Sequence[str]) -> asyncssh.SSHClientProcess[bytes]:
        return await self._stands().create_process(self._command(argv), encoding=None)

    async def _redirect(
        self, argv: Sequence[str], pipes: tuple[IO[bytes], IO[bytes]]
    ) -> asyncssh.SSHClientProcess[bytes]:
        stdin, stdout = pipes
        return await self._stands().create_process(
            self._command(argv), stdin=stdin, stdout=stdout, stderr=asyncssh.DEVNULL, encoding=None
        )

    def _command(self, argv: Sequence[str]) -> str:
        return shlex.join([*self._become, *argv])

    def _stands(self) -> asyncssh.SSHClientConnection:
        if self._open is None or self._open.is_closed():
            raise LostError(f"{self.name}: the connection is lost")
        return self._open

    def _await(self, work: Coroutine[Any, Any, _T], limit_s: float, doing: str) -> _T:
        try:
            return await_there(work, limit_s)
        except (TimeoutError, futures.TimeoutError):
            raise LostError(f"{self.name}: no answer within {limit_s:g} s ({doing})") from None
        except asyncssh.HostKeyNotVerifiable as error:
            known = self._known_hosts or "~/.ssh/known_hosts"
            hint = f"look at the key (ssh-keyscan), and add it to {known}"
            raise LostError(f"{self.name}: {self._asked}: {error.reason}; {hint}") from None
        except asyncssh.PermissionDenied:
            problem = "lets none of our keys in (key: in the lab file, or ssh-agent)"
            raise LostError(f"{self.name}: {self._asked} {problem}") from None
        except asyncssh.Error as error:
            raise LostError(f"{self.name}: {self._asked}: {_line(error.reason)}") from None
        except OSError as error:
            why = error.strerror or str(error)
            raise LostError(f"{self.name}: {self._asked}: {_line(why)}") from None


class Conversation:
    """A command with pipes of this process as its input and output (`lab.Process`)."""

    def __init__(self, connection: Connection, argv: Sequence[str]) -> None:
        """Start it."""
        there, mine = os.pipe()
        self.stdin: IO[bytes] = os.fdopen(mine, "wb")
        heard, said = os.pipe()
        self.stdout: IO[bytes] = os.fdopen(heard, "rb", buffering=0)
        pipes = (os.fdopen(there, "rb", buffering=0), os.fdopen(said, "wb", buffering=0))
        self._process = connection._await(connection._redirect(argv, pipes), COMMAND_S, "starting")

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        try:
            done = await_there(self._process.wait(), timeout or COMMAND_S)
        except (TimeoutError, futures.TimeoutError):
            raise subprocess.TimeoutExpired("ssh", timeout or COMMAND_S) from None
        return done.exit_status if done.exit_status is not None else -1

    def kill(self) -> None:
        """End the connection's part of it; the program itself ends with its input, or at its limit."""
        loop().call_soon_threadsafe(self._process.close)


class Pipe:
    """A command that was begun, and its input."""

    def __init__(self, connection: Connection, process: asyncssh.SSHClientProcess[bytes]) -> None:
        """A command of a connection."""
        self._connection, self._process = connection, process

    def write(self, data: bytes) -> None:
        """Have the command read data, whenever that arrives."""
        loop().call_soon_threadsafe(_tell, self._process, data)

    def line(self, limit_s: float) -> str:
        """The next line that it prints, empty at the end; raises LostError."""
        work = self._process.stdout.readline()
        return _text(self._connection._await(work, limit_s, "reading")).rstrip("\n")

    def close(self) -> None:
        """Close its input, and forget it."""
        loop().call_soon_threadsafe(_tell, self._process, b"", True)


def _tell(process: asyncssh.SSHClientProcess[bytes], data: bytes, end: bool = False) -> None:
    """Have a command read data, and the end of its input where `end` says so.

    A command that has ended reads nothing. Its output and exit status, which the caller reads next, tell why.
    """
    with suppress(BrokenPipeError):
        process.stdin.write(data)
        if end:
            process.stdin.write_eof()


def await_there(work: Coroutine[Any, Any, _T], limit_s: float) -> _T:
    """Await work that the thread of the connections does, and return its result; raises what the work
    raises.
    """
    future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, limit_s), loop())
    try:
        return future.result(limit_s + STOP_S)
    except BaseException:
        future.cancel()
        raise


def loop() -> asyncio.AbstractEventLoop:
    """The event loop of this process's connections."""
    with _making:
        return _loop_of(os.getpid())


@functools.cache
def _loop_of(process: int) -> asyncio.AbstractEventLoop:
    made = asyncio.new_event_loop()
    threading.Thread(target=made.run_forever, name=f"ssh of {process}", daemon=True).start()
    return made


def _where(target: str) -> dict[str, Any]:
    user, host, port = lab_file.parts(target)
    return {"host": host, "port": port, **({"username": user} if user else {})}


def _text(data: str | bytes | None) -> str:
    return data.decode(errors="replace") if isinstance(data, bytes) else data or ""


def _line(text: str) -> str:
    return " ".join(text.split())
