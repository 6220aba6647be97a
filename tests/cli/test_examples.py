"""The examples of the README and docs/: each runs and prints what its page says; all other commands exist."""

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from cwndlab.cli import groups
from cwndlab.cli.application import app

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]


def tool(name: str) -> Any:
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


EXAMPLES = tool("examples")
ORDINARY = re.compile(r"^(?:\$ )?(?:sudo )?(?:lab/bin/|\.venv/bin/)?(cwndlab(?: .*)?)$", re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("page", EXAMPLES.with_examples(), ids=lambda page: page.stem)
def test_the_examples_of_a_page_run_as_written(page, tmp_path):
    assert EXAMPLES.check(page, tmp_path) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS.parent).as_posix())
def test_every_command_on_a_page_exists_with_its_options(page):
    program: Any = typer.main.get_command(app)
    root = program.make_context("cwndlab", [], resilient_parsing=True)
    for kind, _, body in EXAMPLES.FENCE.findall(page.read_text(encoding="utf-8")):
        if kind not in ("sh", "console"):
            continue
        for line in ORDINARY.findall(body):
            words = shlex.split(re.split(r"\s#|[|>&]", line)[0], comments=True)[1:]
            command, own = (
                groups.find(root, words) if words and not words[0].startswith("-") else (program, root)
            )
            assert command is not None, line
            assert not words or words[0] not in groups.MOVED, line
            known = {
                name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)
            }
            assert (
                not {word for word in words if word.startswith("--")} - known - {*own.command_path.split()}
            ), line


def test_the_page_of_commands_and_the_manual_have_every_command():
    commands = tool("commands")
    there = list(commands.walk())
    page, manual = commands.page(there), commands.manual(there)
    assert len(there) > 25
    for name, _, _ in there[1:]:
        assert f"\n## {name}\n" in page
        assert f"\n.SS {name.replace('-', chr(92) + '-')} " in manual


TABLE = "f1  83.49  p = 1.3e-20  44 ms  1 of 8 runs, fine\n"


@pytest.mark.parametrize(
    ("printed", "alike"),
    [
        (TABLE, True),
        (TABLE.replace("  ", "      "), True),
        (TABLE.replace("83.49", "83.50"), True),
        (TABLE.replace("83.49", "83.5"), True),
        (TABLE.replace("1.3e-20", "1.4e-20"), True),
        (TABLE.replace("83.49", "83.53"), False),
        (TABLE.replace("83.49", "-83.49"), False),
        (TABLE.replace("83.49", "84"), False),
        (TABLE.replace("1.3e-20", "1.3e-19"), False),
        (TABLE.replace("44", "45"), False),
        (TABLE.replace("8 runs", "9 runs"), False),
        (TABLE.replace("fine", "bad"), False),
        (TABLE + "7\n", False),
        (TABLE.replace("f1", "f2"), False),
    ],
)
def test_numbers_of_a_page_are_those_that_are_printed(printed, alike):
    assert (EXAMPLES.other(TABLE, printed) == "") is alike
    assert (EXAMPLES.other(printed, TABLE) == "") is alike


def test_only_what_another_day_or_machine_prints_otherwise_is_free():
    said = "0-b4f68d0a 12345678-123456 2026-11-25 0.1.0 code 0f4ec9adf3d1 takes about 0.6 s on 2 workers {}"
    other = "0-00000001 20270101-000000 2027-01-02 0.1.1 code 403717823716 takes about 2 min on 1 worker {}"
    assert EXAMPLES.other(said.format(5), other.format(5)) == ""
    assert "5' on the page" in EXAMPLES.other(said.format(5), other.format(6))
    assert EXAMPLES.other("run 0-b4f68d0a", "run 1-b4f68d0a") != ""


def test_what_a_page_leaves_out_is_not_compared_and_what_it_shows_is(tmp_path):
    page = tmp_path / "page.md"
    for last, faults in (("2", 0), ("3", 1)):
        page.write_text(f"```console\n$ seq 9\n1\n{last}\n…\n```\n")
        assert len(EXAMPLES.check(page, tmp_path)) == faults


def test_the_first_screen_has_the_commands_of_a_fresh_clone():
    text = PAGES[0].read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (DOCS.parent / "Makefile").read_text(), re.MULTILINE))
    asked = re.findall(r"^make ([a-z-]+)", text, re.MULTILINE)
    assert asked[:2] == ["demo", "test"] and set(asked) <= targets
    assert text.index("make test") < 900
    assert "pip install dist/cwndlab-*.whl" in text
    assert "--out dist" in (DOCS.parent / "packaging/wheels.sh").read_text()


def test_an_example_that_prints_something_else_is_told(tmp_path):
    page = tmp_path / "page.md"
    page.write_text('```text title="a"\n7 x\n```\n\n```console\n$ cat a\n8 y\n$ false\n```\n')
    said = EXAMPLES.check(page, tmp_path)
    assert [line.splitlines()[0] for line in said] == [
        "page.md: cat a: '8 y' on the page is '7 x' now; prints",
        "page.md: false: exit code 1: ",
    ]
    assert EXAMPLES.update(page, tmp_path) == ["page.md: false: exit code 1: "]
    assert "$ cat a\n7 x\n" in page.read_text()
