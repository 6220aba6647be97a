"""The way into a machine that is reached by commands, as far as all systems have them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any, Protocol

from cwndlab.errors import RunError

SECRETS = ("_key", "_secret", "_password")
"""Ends of the names of sysctls that hold secrets: of TCP Fast Open, of IPv6's stable addresses, of the hash
that spreads packets over queues (net.ipv4.tcp_fastopen_key, net.ipv6.conf.NAME.stable_secret,
net.core.netdev_rss_key)."""

NOW = r"""
now() {
    case $(date +%N) in
        *[!0-9]* | "")
            clock=${clock:-$(mktemp)}
            touch "$clock"
            stat -f %Fm "$clock" | tr -d . ;;
        *) date +%s%N ;;
    esac
}
"""
"""Prints the time, ns since 1970. date(1) of FreeBSD has no `%N` before 14.2: there it is the time of a file
that was just touched (stat(1), `%Fm`), to the microsecond unless vfs.timestamp_precision is below 2."""

WRITABLE = r"\( -perm -200 -o -perm -020 -o -perm -002 \)"
"""find(1): files that anybody may write."""


def parsed(text: str | bytes, source: str) -> Any:
    """Return the JSON that a program of a machine printed; raises RunError, one line, where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        begins = text[:40] if isinstance(text, str) else text[:40].decode(errors="replace")
        raise RunError(f"{source} prints no JSON, but {begins!r}") from None


def unless_gone(undo: Sequence[str], look: str) -> list[str]:
    """The words of `undo`, which then fails only where `look`, a line of shell, finds what was to go.

    A change that failed has made nothing that could be taken back.
    """
    return ["sh", "-c", f"{shlex.join(undo)} || ! {look}"]


class Shell(Protocol):
    """Carries commands out on a machine."""

    def run(self, argv: Sequence[str], text: str = "") -> str:
        """Run a command and return its output. Raises OSError with its complaint."""

    def shell(self, script: str, *words: str) -> str:
        """Run a script and return its output. Raises OSError."""

    def change(self, argv: Sequence[str], text: str, undo: Sequence[str]) -> str:
        """Run a command that changes something, having written down what takes it back; raises OSError."""

    def write(self, path: str, text: str) -> None:
        """Write a file of settings, having written down what was in it; raises OSError."""


class ShellReach:
    """A machine behind a shell."""

    def __init__(self, shell: Shell) -> None:
        """The machine of that shell."""
        self._shell = shell

    def files(self, *patterns: str) -> dict[str, str]:
        """The text of each readable file by path; what the shell's `grep` finds no line in is left out."""
        secret = " ".join(f"! -name '*{end}'" for end in SECRETS)
        look = f"-type f {secret} -exec grep -s '' /dev/null {{}} +"
        script = "".join(
            f"find {pattern} {look} 2>/dev/null\n"
            if pattern.endswith("/")
            else f"find -L {pattern} -prune {look} 2>/dev/null\n"
            for pattern in patterns
        )
        found: dict[str, list[str]] = {}
        for line in self._shell.shell(f"{script}exit 0\n").splitlines():
            path, _, text = line.partition(":")
            found.setdefault(path, []).append(text)
        return {path: "\n".join([*lines, ""]) for path, lines in found.items()}

    def writable(self, path: str) -> bool:
        """Whether anybody may write a file."""
        return bool(self._shell.shell(f'find "$1" -prune {WRITABLE} 2>/dev/null; exit 0', path).strip())

    def uname(self) -> str:
        """Output of `uname -a`."""
        return self._shell.run(["uname", "-snrvm"]).strip()

    def write(self, path: str, text: str) -> None:
        """Write a file that is there."""
        self._shell.write(path, text)

    def program(self, name: str, purpose: str) -> str:
        """Path of a program."""
        script = 'PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin; command -v "$1" || true'
        found = self._shell.shell(script, name).strip()
        if not found:
            raise ValueError(f"{name} is not installed, which {purpose} needs ({self.package(name)})")
        return found

    def package(self, name: str) -> str:
        """Command that installs a program."""
        return f"install {name}"

    def run(self, command: Sequence[str], text: str = "", undo: Sequence[str] = ()) -> str:
        """Run a command and return its output."""
        return self._shell.change(command, text, undo) if undo else self._shell.run(command, text)


def chrony(told: str) -> dict[str, Any]:
    """Read the output of `chronyc -c tracking` about the clock (chronyc(1)). Empty where there is none."""
    words = told.strip().split(",")
    if len(words) < 14:
        return {}
    return {
        "synchronised": words[13] != "Not synchronised",
        "offset_ns": round(float(words[4]) * 1e9),
        "frequency_ppm": float(words[7]),
        "estimated_error_us": round(float(words[11]) * 1e6),
    }
