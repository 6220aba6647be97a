"""Runs the examples of a page as a reader would, and compares what they print with the page.

A block titled with a name (```yaml title="home.yaml") is a file; the lines with `$ ` of a ```console block
are commands, and the others what they print. Blocks of ```sh are shown only: their commands need machines,
or rights, of the reader. `python docs/examples.py --update [PAGE...]` writes what is printed, and the
pictures that commands make, into the pages.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path

DOCS = Path(__file__).resolve().parent
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]*pictures/([^)/]+))\)")
PROGRESS = re.compile(r"\d+ of \d+ runs, ")
"""What a run of some seconds says meanwhile."""

LIMIT_S = 300


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a console block, and what the page says it prints."""

    command: str
    printed: str


def main() -> int:
    """Run the examples of all pages, or of those named; 1 if one prints something else."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE")
    parser.add_argument(
        "--update", action="store_true", help="write what is printed, and pictures, into the pages"
    )
    options = parser.parse_args()
    faults = []
    for page in options.pages or with_examples():
        with tempfile.TemporaryDirectory() as folder:
            faults += update(page, Path(folder)) if options.update else check(page, Path(folder))
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    return 1 if faults else 0


def with_examples() -> list[Path]:
    """The README and the pages that have commands to be run."""
    pages = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
    return [page for page in pages if "```console\n" in page.read_text(encoding="utf-8")]


def check(page: Path, folder: Path) -> list[str]:
    """A line for each command that fails, or prints other words or other numbers than the page."""
    found = []
    for kind, title, body in FENCE.findall(page.read_text(encoding="utf-8")):
        if title:
            _write(folder, title, body)
        for step in steps(body) if kind == "console" else ():
            code, printed = run(step.command, folder)
            if code:
                found.append(f"{page.name}: {step.command}: exit code {code}: {printed.strip()[-300:]}")
            elif difference := other(step.printed, _shortened(printed, step.printed)):
                found.append(f"{page.name}: {step.command}: {difference}; prints\n{printed}")
    return found


def update(page: Path, folder: Path) -> list[str]:
    """Write what the commands print into the page, and the pictures it shows beside it."""
    faults = []

    def again(block: re.Match[str]) -> str:
        kind, title, body = block.groups()
        if title:
            _write(folder, title, body)
        if kind != "console":
            return block[0]
        lines = ""
        for step in steps(body):
            code, printed = run(step.command, folder)
            if code:
                faults.append(f"{page.name}: {step.command}: exit code {code}: {printed.strip()[-300:]}")
            lines += f"$ {step.command}\n{_shortened(printed, step.printed)}"
        return f"```console\n{lines}```"

    text = FENCE.sub(again, page.read_text(encoding="utf-8"))
    page.write_text(text, encoding="utf-8")
    for path, name in PICTURE.findall(text):
        if (folder / name).exists():
            shutil.copyfile(folder / name, (page.parent / path).resolve())
    return faults


def steps(body: str) -> list[Step]:
    """The commands of a console block with what follows each."""
    parts = re.split(r"^\$ (.*)\n", body, flags=re.MULTILINE)[1:]
    return [Step(command, printed) for command, printed in zip(parts[::2], parts[1::2], strict=True)]


def run(command: str, folder: Path) -> tuple[int, str]:
    """Run a command of a page in `folder`; its exit code and what a terminal would show."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
        "MPLBACKEND": "agg",
    }
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    # Readers have the optimised engine, tests that with every check.
    printed = re.sub(r"(engine \S+) \(checked\)", r"\1 (release)", done.stdout)
    lines = [line.rsplit("\r", 1)[-1].rstrip() for line in printed.splitlines()]
    return done.returncode, "".join(f"{line}\n" for line in lines if not PROGRESS.match(line))


_FREE = (
    (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?\b|\b\d{8}-\d{6}\b", "DATE"),
    # A hash may be of digits alone, which numbers are, too: but not where a word before it says what it is.
    (r"\b(?:(?=[0-9a-f]*[a-f])[0-9a-f]{8,64}|(?<=\d-)[0-9a-f]{8}|(?<=code |rces )[0-9a-f]{12})\b", "HASH"),
    (r"\bv?\d+\.\d+\.\d+(?:[-+]\w+)*\b", "VERSION"),
    (r"takes about .+? on \d+ workers?", "TIME"),
    (r"[─-]{3,}", "-"),
)
"""What another day, machine or version prints otherwise: dates, hashes, versions, times of computing. Also
how long rules below headings are."""

_NUMBER = re.compile(r"([-+−]?\b\d+(?:\.\d+)?(?:e[-+]?\d+)?)")


def other(page: str, printed: str) -> str:
    """What the page says where something else is printed; empty where both say the same.

    Numbers are the same that differ by no more than rounding: one in the last digit after a point.
    """
    said, found = (_NUMBER.split(_without_free(text)) for text in (page, printed))
    for place, (ours, theirs) in enumerate(zip_longest(said, found, fillvalue="nothing")):
        alike = _rounded(ours, theirs) if place % 2 else ours.split() == theirs.split()
        if not alike:
            around = [
                " ".join("".join(each[max(place - 2, 0) : place + 2]).split()) for each in (said, found)
            ]
            return f"{around[0]!r} on the page is {around[1]!r} now"
    return ""


def _without_free(text: str) -> str:
    for pattern, name in _FREE:
        text = re.sub(pattern, name, text)
    return text


def _rounded(one: str, two: str) -> bool:
    """Whether two numbers may be the same, each rounded to the digits that it has."""
    if one == two:
        return True
    if not {".", "e"} & {*one, *two}:
        return False
    numbers = [Decimal(text.replace("−", "-")) for text in (one, two)]
    units = [Decimal(1).scaleb(int(number.as_tuple().exponent)) for number in numbers]
    return abs(numbers[0] - numbers[1]) <= (units[0] + units[1]) / 2


def _shortened(printed: str, before: str) -> str:
    """As much of it as the page had, where the page ends what is printed with a line `…`."""
    if not before.endswith("…\n"):
        return printed
    return "".join(printed.splitlines(keepends=True)[: len(before.splitlines()) - 1]) + "…\n"


def _write(folder: Path, title: str, body: str) -> None:
    if "/" in title:
        raise ValueError(f"{title}: a file of an example is a plain name")
    (folder / title).write_text(body, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
