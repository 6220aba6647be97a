"""Doc comments stand alone: they begin with their noun or a verb, in the folders that are clean."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLEAN = ("crates", "python", "packages", "benches")
"""Folders without such comments."""

DEPENDENT = re.compile(r"(?:The same|Of|Likewise|Its|What)\b")
"""First words of a comment that needs the line before it, or circles round its noun."""

RUST = re.compile(r"\s*//[/!](?!/)\s*(.*)")


def comments(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the beginning of each doc comment."""
    if name.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Expr(ast.Constant(str(said))):
                    yield node.lineno, said.strip()
        return
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        found = RUST.match(line)
        if found and not inside:
            yield number, found[1]
        inside = found is not None


def dependent(name: str, text: str) -> list[str]:
    return [f"{name}:{line}: {said[:60]}" for line, said in comments(name, text) if DEPENDENT.match(said)]


@pytest.mark.slow
@pytest.mark.parametrize("folder", CLEAN)
def test_comments_of_a_clean_folder_stand_alone(folder: str) -> None:
    files = [file for end in ("py", "rs") for file in sorted((ROOT / folder).rglob(f"*.{end}"))]
    assert files
    found = (dependent(str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")) for file in files)
    assert [each for of_file in found for each in of_file] == []


def test_planted_comments_are_found() -> None:
    rust = "//! A module.\n\n/// A flow.\n/// What goes on.\nx: u64,\n    /// Its rate.\ny: u64, // Of z.\n"
    assert dependent("a.rs", rust) == ["a.rs:6: Its rate."]
    python = '"""What it is."""\nx = 1\n"""Rate, in bit/s."""\n\ndef f():\n    """\n    The same of f."""\n'
    assert dependent("a.py", python) == ["a.py:1: What it is.", "a.py:6: The same of f."]
