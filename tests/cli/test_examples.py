"""The examples of the README and docs/: each runs and prints what its page says; all other commands exist."""

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

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
    for kind, _, body in EXAMPLES.FENCE.findall(page.read_text(encoding="utf-8")):
        if kind not in ("sh", "console"):
            continue
        for line in ORDINARY.findall(body):
            words = shlex.split(re.split(r"\s#|[|>&]", line)[0], comments=True)[1:]
            command = program
            while words and words[0] in getattr(command, "commands", {}):
                command = command.commands[words.pop(0)]
            assert command is not program or not words or words[0].startswith("-"), line
            known = {
                name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)
            }
            assert not {word for word in words if word.startswith("--")} - known, line


def test_the_page_of_commands_and_the_manual_have_every_command():
    commands = tool("commands")
    there = list(commands.walk())
    page, manual = commands.page(there), commands.manual(there)
    assert len(there) > 25
    for name, _, _ in there[1:]:
        assert f"\n## {name}\n" in page
        assert f"\n.SS {name.replace('-', chr(92) + '-')} " in manual


def test_an_example_that_prints_something_else_is_told(tmp_path):
    page = tmp_path / "page.md"
    page.write_text('```text title="a"\n7 x\n```\n\n```console\n$ cat a\n8 y\n$ false\n```\n')
    said = EXAMPLES.check(page, tmp_path)
    assert [line.splitlines()[0] for line in said] == [
        "page.md: cat a: prints",
        "page.md: false: exit code 1: ",
    ]
    assert EXAMPLES.update(page, tmp_path) == ["page.md: false: exit code 1: "]
    assert "$ cat a\n7 x\n" in page.read_text()
