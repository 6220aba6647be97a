"""One packetdrill script from a file against a stack."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cwndlab.errors import InputError

#: Larger files are no scripts, bytes.
LARGEST = 4 << 20


@dataclass(frozen=True)
class Outcome:
    """End of a script.

    `exit_code` is 0 if it passed, 1 if the stack did something else, 2 if the script or the stack's name is
    wrong; `message` says what went wrong: a line, and packets on lines of their own; `output` is what the
    script printed.
    """

    exit_code: int
    message: str | None
    output: list[str]


@dataclass(frozen=True)
class Choices:
    """Choices of the one who runs a script.

    `symbols` are names with their values, before any definition in the script; `tolerance_usecs` takes the
    place of the script's; with `end_unseen` packets behind the last event are not looked at; with `ipv6` the
    script is one of IPv6.
    """

    symbols: list[tuple[str, str]] = field(default_factory=list)
    tolerance_usecs: int | None = None
    end_unseen: bool = False
    ipv6: bool = False


def run(file: Path, stack: str, choices: Choices) -> Outcome:
    """Run the script in `file` against the modelled stack `stack`, or `live`: this host's kernel.

    Raises InputError where the file cannot be read.
    """
    from cwndlab import _native

    return Outcome(
        *_native.run_script(
            ("--ip_version=ipv6 " if choices.ipv6 else "") + read(file),
            str(file),
            stack,
            choices.symbols,
            choices.tolerance_usecs,
            end_unseen=choices.end_unseen,
        )
    )


def read(file: Path) -> str:
    """The text of a script; raises InputError where the file cannot be read."""
    try:
        if not file.is_file() and file.exists():
            raise InputError(f"{file}: is no regular file")
        with file.open("rb") as stream:
            data = stream.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise InputError(f"{file}: too large for a script (limit {LARGEST >> 20} MiB)")
        return data.decode("utf-8").replace("\r\n", "\n")
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: not UTF-8 text") from None


def symbols(definitions: Iterable[str]) -> list[tuple[str, str]]:
    """Symbols with their values from `NAME=VALUE`; raises InputError where one is something else."""
    found = []
    for definition in definitions:
        name, equals, value = definition.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"--define: found {definition!r}; expected NAME=VALUE")
        found.append((name, value))
    return found
