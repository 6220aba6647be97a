"""The Python interface as text, made from signatures and docstrings for `cwndlab help python`.

The page names what it documents as mkdocstrings reads it, which makes the site: `::: MODULE`, and below that
which members.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import ModuleType
from typing import Any

import yaml

_DIRECTIVE = re.compile(r"^::: ([\w.]+)\n(?:    options: (.*)\n)?", re.MULTILINE)
_WIDTH = 80


def expanded(page: str, commands: Mapping[str, Any]) -> str:
    """The text of a page with what its directives stand for, and what commands say of a method's options."""

    def of(found: re.Match[str]) -> str:
        options = yaml.safe_load(found[2] or "{}")
        return "\n".join(_of_module(importlib.import_module(found[1]), options.get("members", ()), commands))

    return _DIRECTIVE.sub(of, page)


def _of_module(module: ModuleType, members: Sequence[str], commands: Mapping[str, Any]) -> Iterator[str]:
    for name in members:
        member = getattr(module, name)
        if not inspect.isclass(member):
            yield _entry(name, member, {})
            continue
        yield f"### class {name}\n\n{inspect.getdoc(member)}\n"
        yield from (f"- `{field}`: {said}" for field, said in _fields(member).items())
        yield ""
        for method in _methods(member):
            yield _entry(f"{name}.{method}", inspect.getattr_static(member, method), commands)


def _entry(name: str, member: Any, commands: Mapping[str, Any]) -> str:
    """A function, a method or a property: how it is called, and what it does."""
    text = inspect.getdoc(member) or ""
    if not inspect.isfunction(member):
        read = member.func if isinstance(member, cached_property) else member.fget
        returned = inspect.signature(read).return_annotation
        return f"### {name}: {_annotation(returned)}\n\n{text}\n"
    command = commands.get(name.rpartition(".")[2])
    options = {} if command is None else _options(command, member)
    said = "".join(f"- `{option}`: {help_}\n" for option, help_ in options.items())
    return f"### {name}\n\n```python\n{signature(name, member)}\n```\n\n{text}\n" + (
        f"\n{said}" if said else ""
    )


def signature(name: str, function: Any) -> str:
    """Format the call of a function or a method: on one line, or with a line for each argument."""
    found = inspect.signature(function)
    shown: list[str] = []
    for each in found.parameters.values():
        if each.kind is each.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        if each.name != "self":
            default = "" if each.default is each.empty else f" = {each.default!r}"
            shown.append(f"{each.name}: {_annotation(each.annotation)}{default}")
    returned = f" -> {_annotation(found.return_annotation)}"
    line = f"{name}({', '.join(shown)}){returned}"
    if len(line) <= _WIDTH:
        return line
    lines = "".join(f"    {each},\n" for each in shown)
    return f"{name}(\n{lines}){returned}"


def _annotation(given: Any) -> str:
    text = given if isinstance(given, str) else inspect.formatannotation(given)
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text)


def _options(command: Any, function: Any) -> dict[str, str]:
    """Help of a command's options that a method has too."""
    told = {
        spelt.lstrip("-").replace("-", "_"): each.help
        for each in command.params
        if (spelt := max(each.opts, key=len)).startswith("--")
    }
    asked = inspect.signature(function).parameters.values()
    return {
        each.name: told[each.name] for each in asked if each.kind is each.KEYWORD_ONLY and each.name in told
    }


def _methods(kind: type) -> list[str]:
    """The public methods and properties of a class of cwndlab, its own first."""
    found: dict[str, None] = {}
    for each in _ours(kind):
        for name, member in vars(each).items():
            callable_ = inspect.isfunction(member) or isinstance(member, (property, cached_property))
            if callable_ and not name.startswith("_"):
                found.setdefault(name)
    return list(found)


def _ours(kind: type) -> list[type]:
    return [each for each in kind.__mro__ if each.__module__.startswith("cwndlab")]


def _fields(kind: type) -> dict[str, str]:
    """The fields of a class and of those it inherits from, each with its type and the text below it."""
    found: dict[str, str] = {}
    for each in reversed(_ours(kind)):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for field, after in zip(body, [*body[1:], None], strict=True):
            match field, after:
                case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                    found[name] = f"{ast.unparse(field.annotation)}. {' '.join(text.split())}"
                case ast.AnnAssign(ast.Name(name)), _:
                    found[name] = ast.unparse(field.annotation)
    return {name: said for name, said in found.items() if not name.startswith("_")}
