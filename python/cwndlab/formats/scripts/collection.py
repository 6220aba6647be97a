"""Collections of scripts: every script below a directory is run or left out, and counted by area."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cwndlab.errors import InputError
from cwndlab.formats.scripts.areas import AREAS, OTHER, area
from cwndlab.formats.scripts.single import Choices, read, run

#: Symbols by which collections say for which system a line is, by the beginning of a stack's name.
SYSTEMS = {"freebsd": "FreeBSD", "linux": "Linux", "windows": "Windows", "live": "Linux"}


@dataclass(frozen=True)
class Result:
    """Result of one script of a collection.

    `verdict` is "passed", "failed", "refused" (the language does not have something) or "left out"; `why` is
    the message, or what is missing.
    """

    script: str
    area: str
    verdict: str
    why: tuple[str, ...] = ()
    #: Whether the collection itself says that the script fails on its system, by a file `.exfail` beside it.
    marked: bool = False


def find(directory: Path) -> list[Path]:
    """The scripts below a directory, in the order of their paths; raises InputError where there is none."""
    if not directory.is_dir():
        raise InputError(f"{directory}: no such directory")
    found = sorted(path for path in directory.rglob("*.pkt") if path.is_file())
    if not found:
        raise InputError(f"{directory}: no script (*.pkt) below it")
    return found


def run_all(
    directory: Path,
    stack: str,
    choices: Choices,
    observe: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Run every script below `directory`, or say what it needs that is missing."""
    symbol = next((name for start, name in SYSTEMS.items() if stack.startswith(start)), None)
    given = [(symbol, "1")] if symbol else []
    choices = Choices([*choices.symbols, *given], choices.tolerance_usecs, end_unseen=True)
    results = []
    for path in find(directory):
        name = path.relative_to(directory).as_posix()
        result = _one(path, name, stack, choices)
        observe(result)
        results.append(result)
    return results


def _one(path: Path, name: str, stack: str, choices: Choices) -> Result:
    from cwndlab import _native

    try:
        text = read(path)
    except InputError as error:
        return Result(name, area("", ""), "refused", (str(error),))
    about = area(name, text)
    missing = _native.script_needs(text, stack == "live")
    if missing:
        return Result(name, about, "left out", tuple(missing))
    # So collections name scripts that are tried with IPv6 alone.
    outcome = run(path, stack, replace(choices, ipv6=name.endswith("v6.pkt")))
    verdict = {0: "passed", 1: "failed"}.get(outcome.exit_code, "refused")
    why = (outcome.message,) if outcome.message is not None else ()
    return Result(name, about, verdict, why, path.with_suffix(".exfail").is_file())


def table(results: Iterable[Result]) -> str:
    """Counts by area, and by what was missing, as two Markdown tables."""
    results = list(results)
    lines = ["| area | scripts | left out | run | passed | failed |", "| --- | --- | --- | --- | --- | --- |"]
    for name in [*(name for name, _ in AREAS), OTHER, "all"]:
        own = [result for result in results if name in ("all", result.area)]
        if not own:
            continue
        verdicts = Counter(result.verdict for result in own)
        left_out, passed = verdicts["left out"], verdicts["passed"]
        ran = len(own) - left_out
        lines.append(f"| {name} | {len(own)} | {left_out} | {ran} | {passed} | {ran - passed} |")
    marked = Counter(result.verdict for result in results if result.marked)
    if marked:
        failed = marked["failed"] + marked["refused"]
        found = f"{marked.total()}, of which {failed} failed."
        lines += ["", f"Marked by the collection as failing (.exfail): {found}"]
    missing: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    for result in results:
        if result.verdict == "left out":
            missing.update(result.why)
            alone.update(result.why if len(result.why) == 1 else ())
    if missing:
        lines += ["", "| missing | scripts that need it | and nothing else |", "| --- | --- | --- |"]
        lines += [f"| {name} | {count} | {alone[name]} |" for name, count in missing.most_common()]
    return "\n".join(lines) + "\n"


def write(file: Path, results: Iterable[Result]) -> None:
    """Write a line of JSON for each script."""
    text = "".join(json.dumps(asdict(result)) + "\n" for result in results)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None
