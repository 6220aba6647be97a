"""Files that can be read in one sitting: below 700 lines, functions below 80 (Rust: clippy bounds those)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES, FUNCTION = 700, 80


def sources() -> Iterator[Path]:
    folders = ("python", "tests", "docs", "benches", "crates", "examples", "packages", "packaging", "tools")
    for folder in folders:
        yield from (ROOT / folder).rglob("*.py")
    yield from (ROOT / "crates").rglob("*.rs")


@pytest.mark.slow
def test_no_file_and_no_function_is_long() -> None:
    long = []
    for file in sources():
        text = file.read_text(encoding="utf-8")
        if text.count("\n") >= LINES:
            long.append(f"{file.relative_to(ROOT)}: {text.count(chr(10))} lines")
        if file.suffix == ".rs":
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
                size = node.end_lineno - node.lineno + 1
                if size >= FUNCTION:
                    long.append(f"{file.relative_to(ROOT)}: {node.name} has {size} lines")
    assert long == []


SCRIPT_FUNCTION = re.compile(r"^( *)(?:export |async |static |function )*[\w$]+ ?\([^;]*\) \{$", re.MULTILINE)


def test_no_script_of_the_live_lab_is_long() -> None:
    scripts = sorted((ROOT / "python/cwndlab/report/live_page/page").glob("*.js"))
    long, count = [], 0
    for file in scripts:
        if file.name == "engine.js":  # written by wasm-bindgen
            continue
        text = file.read_text(encoding="utf-8")
        assert text.count("\n") < LINES, file.name
        for begin in SCRIPT_FUNCTION.finditer(text):
            count += 1
            size = text[begin.start() :].partition(f"\n{begin[1]}}}")[0].count("\n") + 2
            if size >= FUNCTION:
                long.append(f"{file.name}: {begin[0].strip()} has {size} lines")
    assert long == []
    assert count > 50
