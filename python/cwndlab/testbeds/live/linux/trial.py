"""Queue disciplines and rules tried on a Linux machine before the first run, where they carry nothing."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

DEVICE = "cwltry"
"""Placeholder of the device in the words of commands, and prefix of the device's name."""

Trials = Mapping[str, Sequence[Sequence[str]]]
"""Commands that put a queue discipline at `DEVICE`, by discipline, or those that try rules, by name."""

ENTER = """
PATH=$PATH:/usr/sbin:/sbin
scratch=; if unshare -n true 2>/dev/null; then scratch="unshare -n"; fi
exec timeout -k 2 20 $scratch sh -s
"""
"""Carries out the script that is its input: in a network namespace that goes with it, where that is possible,
and for 20 s at most."""

BEGIN = rf"""
for old in /sys/class/net/{DEVICE}*; do
    old=${{old##*/}}
    kill -0 "${{old#{DEVICE}}}" 2>/dev/null || ip link del "$old" 2>/dev/null
done
device={DEVICE}$$
trap 'ip link del "$device" 2>/dev/null' EXIT; trap 'exit 1' HUP INT TERM
modprobe -q dummy numdummies=0 2>/dev/null
ip link add "$device" type dummy 2>/dev/null || ip link add "$device" type veth || exit 0
tell() {{ printf '%s %s\n' "$1" "$(printf %s "$2" | tr '\n' ' ')"; }}
"""
"""Script that makes the device, after removing what a killed trial left where there are no namespaces.

Where no device can be made, nothing can be tried, and nothing is refused.
"""


class Tried:
    """Queue disciplines and rules that were tried on one machine, each once."""

    def __init__(self, run: Callable[[Sequence[str], str], str]) -> None:
        """Try nothing yet; `run` runs a command there that reads a text, and returns its output."""
        self._run = run
        self._said: dict[tuple[str, str], str | None] = {}

    def refused(self, trials: Trials) -> dict[str, str]:
        """Return why the machine refuses some, by name; raises OSError where it does not answer."""
        keys = {kind: (kind, str(commands)) for kind, commands in trials.items()}
        new = {kind: trials[kind] for kind, key in keys.items() if key not in self._said}
        if new:
            said = refused(new, self._run(["sh", "-c", ENTER], script(new)))
            self._said.update({keys[kind]: said.get(kind) for kind in new})
        return {kind: why for kind, key in keys.items() if (why := self._said[key]) is not None}


def script(trials: Trials) -> str:
    """Return the script that tries all of them; it prints number and reason of each that is refused."""
    lines = [BEGIN]
    for number, commands in enumerate(trials.values()):
        steps = " && ".join(" ".join(map(_word, words)) for words in commands)
        lines.append(f'said=$( {{ {steps}; }} 2>&1 ) || tell {number} "$said"')
        lines.append('tc qdisc del dev "$device" root')
    return "\n".join(["exec 2>/dev/null", *lines, "exit 0\n"])


def refused(trials: Trials, printed: str) -> dict[str, str]:
    """Return why disciplines are refused, by name, of what the script printed."""
    kinds = list(trials)
    found = {}
    for line in printed.splitlines():
        number, _, why = line.partition(" ")
        if number.isdigit() and int(number) < len(kinds):
            found[kinds[int(number)]] = why.strip(" .") or "it says nothing"
    return found


def _word(word: str) -> str:
    return '"$device"' if word == DEVICE else shlex.quote(word)
