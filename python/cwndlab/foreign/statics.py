"""Refuses compiled code whose statics would not be each host's of each run: a copy in memory shares them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cwndlab.errors import InputError

DRAWS = "draw from the kernel's functions, or from flow->seed"
KEEP = "keep that in a static"
SHARED = {
    **dict.fromkeys(["rand", "srand", "random", "srandom", "initstate", "setstate"], DRAWS),
    **dict.fromkeys(["drand48", "lrand48", "mrand48", "srand48", "seed48", "lcong48"], DRAWS),
    **dict.fromkeys(["setenv", "putenv", "unsetenv", "clearenv", "hsearch", "hcreate"], KEEP),
    **dict.fromkeys(["environ", "__environ", "optind", "opterr", "optopt", "signgam"], KEEP),
    "strtok": "use strtok_r",
}
"""Functions and variables of the C library whose state is the process's, and what to do instead."""

OUTLIVES = {"pthread_create": "a thread", "thrd_create": "a thread", "vfork": "a process"}
"""Functions that start what goes on when a hook has returned, in statics that are then another run's."""

SYMBOL = re.compile(
    r"^ *\d+: [0-9a-f]+ +\S+ (?P<kind>\S+) +(?P<binding>\S+) +\S+ +(?P<section>\S+) (?P<name>[^\s@]+)",
    re.MULTILINE,
)
"""A line of `readelf --symbols`."""


class Symbol(NamedTuple):
    """A symbol of a compiled file."""

    kind: str
    binding: str
    section: str
    name: str


def check(what: str, file: Path, *, resets: bool) -> None:
    """Raises InputError that names the symbol; `resets`: statics are put back, and threads' own are not."""
    program = shutil.which("readelf")
    if program is None:
        raise InputError(
            f"{what}: there is no readelf, which shows its statics (on Debian: apt install binutils)"
        )
    told = subprocess.run(
        [program, "--wide", "--segments", "--symbols", "--dyn-syms", file],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    symbols = list(_symbols(told.stdout))
    for symbol in symbols:
        if symbol.binding == "UNIQUE":
            advice = "compile with -fno-gnu-unique"
            raise InputError(
                f"{what}: {_plain(symbol.name)} is one for the whole process, not each host's: {advice}"
            )
        if symbol.section == "UND" and symbol.name in SHARED:
            name = f"{symbol.name}()" if symbol.kind != "OBJECT" else symbol.name
            raise InputError(
                f"{what}: {name} has a state of the whole process, not each host's: {SHARED[symbol.name]}"
            )
        if resets and symbol.section == "UND" and symbol.name in OUTLIVES:
            raise InputError(
                f"{what}: {symbol.name}() starts {OUTLIVES[symbol.name]}, which would go on in other runs"
            )
    if resets and re.search(r"^ +TLS ", told.stdout, re.MULTILINE):
        own = sorted({_plain(symbol.name) for symbol in symbols if symbol.kind == "TLS"})
        which = ", ".join(own) or "a static"
        raise InputError(
            f"{what}: {which} is each thread's (__thread), not each host's: make it a plain static"
        )


def _symbols(listing: str) -> Iterator[Symbol]:
    for found in SYMBOL.finditer(listing):
        yield Symbol(*found.group("kind", "binding", "section", "name"))


def _plain(name: str) -> str:
    """The name as its source has it, where c++filt is here."""
    program = shutil.which("c++filt")
    if program is None:
        return name
    told = subprocess.run([program, name], capture_output=True, text=True, check=False)
    return told.stdout.strip() or name
