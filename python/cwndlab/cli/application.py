"""The command line: parses, calls, prints. Data goes to stdout, everything else to stderr.

A command's module is imported when the command is called, and what it needs in its own body: `cwndlab
--version` and a command whose options are wrong have to answer at once.
"""

import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import typer

from cwndlab.cli import run
from cwndlab.cli.groups import Commands, Later
from cwndlab.cli.output import complain, tell
from cwndlab.errors import CwndlabError, StoppedError

COMMANDS = Later(
    {
        "demo": "guide:demo",
        "init": "run:init",
        "check": "plan:check",
        "run": "run:run",
        "show": "show:show",
        "plot": "plot:plot",
        "report": "plot:report",
        "compare": "compare:command",
        "advise": "advise:advise",
        "explain": "explain:explain",
        "judge": "judge:judge",
        "live": "live:live",
        "doctor": "information:doctor",
        "lab": "lab:lab",
        "kernel": "kernel:kernel",
        "data": Later(
            {
                "suites": "show:suites",
                "import": "convert:import_",
                "export": "convert:export",
                "trace": "trace:trace",
                "merge": "run:merge",
                "bundle": "bundle:bundle",
                "reproduce": "bundle:reproduce",
                "cite": "guide:cite",
            },
            "Results, captures and logs: in, out, packed, together.",
        ),
        "dev": Later(
            {
                "watch": "watch:watch",
                "script": "validation:script",
                "schema": "information:schema",
                "completion": "guide:completion",
            },
            "While you write: experiments, scripts, editors, shells.",
        ),
        "loadlatency": "loadlatency:loadlatency",
    },
    hidden={
        "help": "guide:help_",
        "compare --cc": "review:review",
        "compare --build": "ab:ab",
        "compare --testbed": "validation:validate",
        "claims": "validation:tools",
        "fidelity": "validation:tools",
    },
)


class Program(Commands):
    """The commands of `cwndlab`, each imported when it is called."""

    def __init__(self, **settings: Any) -> None:
        """Take what typer says of the program, and its commands from the table."""
        super().__init__(**settings | {"commands": COMMANDS})


app = typer.Typer(
    name="cwndlab",
    cls=Program,
    help="The congestion-window laboratory: describe a TCP experiment once, run it, compare and report.",
    epilog="Documentation, without a network: cwndlab help, and cwndlab help PAGE.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback(invoke_without_command=True)(run.start)


def main(
    arguments: Sequence[str] | None = None, commands: typer.Typer = app, name: str = "cwndlab"
) -> NoReturn:
    """Run the command of `sys.argv` or `arguments` and exit: 0 done, 1 failed, 2 bad input, 130 stopped."""
    _open_streams()
    if COMPLETING in os.environ:
        from typer import completion

        getattr(completion, "completion_init")()  # noqa: B009 - public, and not in typer's __all__
    sys.unraisablehook = _interrupt_again
    for ending in ENDING:
        if signal.getsignal(getattr(signal, ending)) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(getattr(signal, ending), _as_interrupt)
    try:
        code = commands(args=arguments, prog_name=name, standalone_mode=False)
        if code == StoppedError.exit_code:
            raise KeyboardInterrupt  # before a command began, of which typer makes an exit without a word
    except SystemExit:
        raise
    except BaseException as error:
        # What is left to do is to say why we end, and nobody gains by interrupting that.
        for ending in (*ENDING, "SIGINT"):
            signal.signal(getattr(signal, ending), signal.SIG_IGN)
        code = _told(error, sys.argv[1:] if arguments is None else arguments)
    _exit(code if isinstance(code, int) else 0)


def _told(error: BaseException, arguments: Sequence[str]) -> int:
    """Say what ended a command of such arguments, an error a line, and return its exit code."""
    match error:
        case CwndlabError():
            tell(error)
            return error.exit_code
        case typer.TyperException():
            complain(f"{error.format_message().rstrip('.')}{_see(error)}")
            return int(error.exit_code)
        case KeyboardInterrupt():
            complain("interrupted")
            return StoppedError.exit_code
        case OSError():
            # One that is about no file is of stdout, and a reader that has seen enough is no error.
            if error.errno != errno.EPIPE:
                complain(f"{error.filename or 'stdout'}: {error.strerror or error}")
            return 1
    if TRACEBACK in os.environ:
        raise error
    from cwndlab.results import altered

    for results in map(Path, arguments):
        if isinstance(error, Exception) and (results / "runs").is_dir() and (wrong := altered.fault(results)):
            return _told(wrong, ())
    complain(  # a panic of the engine is no Exception
        f"{type(error).__name__}: {error}; this is a fault of cwndlab, or of results that were altered with"
        f" their SHA256SUMS ({TRACEBACK}=1 shows where)"
    )
    return 1


ENDING = tuple(name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end a command as Ctrl-C does: another program asks for it, or the terminal is gone."""

MOMENT = 0.01
"""Time in seconds in which a destructor that was interrupted is left."""

COMPLETING = "_CWNDLAB_COMPLETE"
"""Variable with which a shell asks what may follow what was typed (`cwndlab dev completion`)."""

TRACEBACK = "CWNDLAB_TRACEBACK"
"""Variable with which an error that nobody thought of prints where it was."""


def _open_streams() -> None:
    """See that stdout and stderr are there, so that no file we open takes their place.

    What is printed to a stdout that was closed is an error, as it is of every program; what could be said on
    stderr is lost.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest that is free, so this very one. Nothing can be written to stdout then.
            os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)
    # Closed above us, or given away by whoever started Python.
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names of files may hold what the terminal's encoding does not have.
        sys.stdout.reconfigure(errors="backslashreplace")


def _exit(code: int) -> NoReturn:
    """Exit, with an error if what was printed did not arrive."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # A reader that has seen enough, as `head`, is no error.
        if error.errno != errno.EPIPE and not code:
            complain(f"stdout: {error.strerror}")
        code = code or 1
        # What is left in the buffer has nowhere to go, and Python must not try again.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


def _as_interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _interrupt_again(ignored: "sys.UnraisableHookArgs") -> None:
    """Interrupt once more, a moment later, where a destructor was: Python lets no exception out of one.

    Nor does it out of here. The signal is a real one, as only that ends a call of the system that waits.
    """
    if issubclass(ignored.exc_type, KeyboardInterrupt):
        main = threading.main_thread().ident
        threading.Timer(MOMENT, signal.pthread_kill, [main, signal.SIGTERM]).start()
    else:
        sys.__unraisablehook__(ignored)


def _see(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f" (see {context.command_path} --help)" if context is not None else ""
