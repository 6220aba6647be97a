"""Files that can be read in one sitting: below 700 lines, functions below 80 (Rust: clippy bounds those)."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINES, FUNCTION = 700, 80


def sources() -> Iterator[Path]:
    for folder in ("python", "tests", "docs", "benches"):
        yield from (ROOT / folder).rglob("*.py")
    yield from (ROOT / "crates").rglob("*.rs")


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
