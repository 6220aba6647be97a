"""Reads the Python of a TEACUP configuration as data: assignments of values, nothing of it is executed.

TEACUP's configurations are Python 2 programs, by convention lists of assignments. This reads the syntax tree
and computes the values of what a configuration needs: literals, names, `env.NAME` that the file itself sets,
arithmetic, subscripts and slices, comprehensions, `range`, `map`, `join`, `str` and the like, `execfile` of a
file beside it, and the few lines of preamble every configuration begins with. Everything else (any other
call, `if`, loops, definitions, other attributes) is refused with its line and column.

Parameter strings, which TEACUP evaluates for every run after it has put the values of V_ variables into them,
are read by the same rules.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cwndlab.errors import InputError, shown
from cwndlab_teacup.values import (
    MAX_PARAMETER_WORK,
    MAX_WORK,
    STAMP,
    Place,
    Text,
    Values,
    Work,
    refuse,
    what,
)

MAX_BYTES = 1 << 20
"""Bytes of a configuration file at most."""

MAX_FILES = 32
"""Files that `execfile` may draw in, in all."""


@dataclass
class Setting:
    """A value of a configuration."""

    value: Any
    place: Place


@dataclass
class Source:
    """Contents of a configuration file."""

    file: Path
    settings: dict[str, Setting] = field(default_factory=dict)
    """Values by name, the last assignment of each; Fabric's under `env.NAME`."""
    ignored: list[tuple[Place, str]] = field(default_factory=list)
    """Lines that say nothing about the experiment: imports, settings of Fabric."""

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name, or `default`."""
        setting = self.settings.get(name)
        return default if setting is None else setting.value

    def place(self, name: str) -> Place:
        """Place where a name is set; the beginning of the file if it is not."""
        setting = self.settings.get(name)
        return Place(str(self.file), 1, 1) if setting is None else setting.place


def read(path: Path) -> Source:
    """The settings of a configuration file.

    Raises InputError, `FILE:LINE:COLUMN: …`, for whatever is not an assignment of values.
    """
    source = Source(path)
    _Reader(source, path.parent.resolve()).read(path)
    return source


def undated(text: str) -> str:
    """A text without the date in it and what joined it to the rest."""
    return text.replace(STAMP, "").strip("_-. ") if STAMP in text else text


def arguments(text: str, variables: Mapping[str, Any], place: Place) -> tuple[list[Any], dict[str, Any]]:
    """The arguments in a parameter string of TEACUP: positional ones (a bare name stands for itself), and
    named.

    `variables` are the V_ variables of the run. Raises InputError with the place of what is refused.
    """
    where = text.place if isinstance(text, Text) and text.pieces else lambda _: place
    # A name of TEACUP's variables may have hyphens in it, which no name of Python may.
    names: dict[str, str] = {}

    def plain(found: re.Match[str]) -> str:
        name = found[0].replace("-", "\u01c0")
        names[name] = found[0]
        return name

    call = "f(" + re.sub("V_[a-zA-Z0-9_-]*", plain, text) + ")"
    if "\n" in call or "\r" in call:
        refuse(where(0), "a line break in a parameter string")
    tree = _parse(call, lambda _, column: where(max(column - 2, 0)), "a parameter string")
    if (
        len(tree.body) != 1
        or not isinstance(tree.body[0], ast.Expr)
        or not isinstance(made := tree.body[0].value, ast.Call)
        or not isinstance(made.func, ast.Name)
        or made.func.id != "f"
    ):
        refuse(where(0), f"not a list of parameters: {shown(text)}")

    def at(node: ast.AST) -> Place:
        offset = len(call.encode()[: getattr(node, "col_offset", 2)].decode(errors="ignore"))
        return where(max(offset - 2, 0))

    def name(node: ast.Name) -> Any:
        known = names.get(node.id)
        if known is None:
            return node.id
        if known not in variables:
            refuse(at(node), f"the variable {shown(known)} has no value; TPCONF_variable_defaults gives one")
        return variables[known]

    values = Values(at, name, Work(MAX_PARAMETER_WORK))
    try:
        positional = [values.of(node) for node in made.args]
        named: dict[str, Any] = {}
        for keyword in made.keywords:
            if keyword.arg is None:
                refuse(at(keyword.value), "code is not executed: only NAME=VALUE is read here")
            named[keyword.arg] = values.of(keyword.value)
    except RecursionError:
        refuse(where(0), "nested too deeply")
    return positional, named


class _Reader:
    """Reads files into one Source."""

    def __init__(self, source: Source, directory: Path) -> None:
        self._source = source
        self._directory = directory
        self._open: list[Path] = []
        self._files = 0
        self._work = Work(MAX_WORK)

    def read(self, path: Path) -> None:
        try:
            if path.exists() and not path.is_file():
                raise InputError(f"{path}: is no regular file")
            with path.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from None
        if len(data) > MAX_BYTES:
            raise InputError(f"{path}: holds more than {MAX_BYTES >> 20} MiB")
        text = data.decode("utf-8", errors="replace").removeprefix("\ufeff")
        file = str(path)
        tree = _parse(text, lambda line, column: Place(file, line, column + 1), "a TEACUP configuration")
        lines = text.splitlines()

        def at(node: ast.AST) -> Place:
            line = getattr(node, "lineno", 1)
            before = (lines[line - 1] if line <= len(lines) else "").encode()
            column = len(before[: getattr(node, "col_offset", 0)].decode(errors="ignore"))
            return Place(file, line, column + 1)

        self._open.append(path.resolve())
        strings = _strings(text)
        for statement in tree.body:
            try:
                self._statement(statement, at, Values(at, self._name(at), self._work, strings, file))
            except RecursionError:
                refuse(at(statement), "nested too deeply")
        self._open.pop()

    def _name(self, at: Callable[[ast.AST], Place]) -> Callable[[ast.Name | ast.Attribute], Any]:
        def value(node: ast.Name | ast.Attribute) -> Any:
            name = node.id if isinstance(node, ast.Name) else f"env.{node.attr}"
            setting = self._source.settings.get(name)
            if setting is None:
                refuse(at(node), f"the name {shown(name)} has no value")
            return setting.value

        return value

    def _statement(self, node: ast.stmt, at: Callable[[ast.AST], Place], values: Values) -> None:
        match node:
            case ast.Import(names=names) if all(
                alias.name in ("sys", "os", "datetime", "time") and alias.asname is None for alias in names
            ):
                self._source.ignored.append((at(node), "import"))
            case ast.ImportFrom(module="fabric.api", level=0):
                self._source.ignored.append((at(node), "import of Fabric"))
            case ast.Expr(value=ast.Constant(value=str())):
                pass  # a comment as a string
            case ast.Expr(value=ast.Call(func=ast.Name(id="execfile"), args=[name], keywords=[])):
                self._execfile(name, at(node), values)
            case ast.Expr(value=call) if _is_path_append(call):
                self._source.ignored.append((at(node), "the path of TEACUP's own modules"))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._source.settings[name] = Setting(values.of(value), at(node))
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="env"), attr=name)], value=value):
                self._source.settings[f"env.{name}"] = Setting(values.of(value), at(node))
                self._source.ignored.append((at(node), f"Fabric's env.{name}"))
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=key)], value=value):
                setting = self._source.settings.get(name)
                if setting is None or not isinstance(setting.value, dict):
                    refuse(at(node), f"{name} is no dictionary")
                # A new one: a dictionary in itself, or one that grows where it is shared, has no bound.
                added = {**setting.value, values.key(key): values.of(value)}
                setting.value = values.bounded(node, added)
            case ast.Pass():
                pass
            case _:
                refuse(at(node), f"{what(node)}: code is not executed; only assignments of values are read")

    def _execfile(self, node: ast.expr, place: Place, values: Values) -> None:
        name = values.of(node)
        # A name, not a path: a configuration must not choose what is read elsewhere.
        if not isinstance(name, str) or not re.fullmatch(r"(\./)?[A-Za-z0-9_][A-Za-z0-9_. +-]*", name):
            refuse(place, f"execfile of {shown(str(name))}: only a file in the same directory is read")
        path = self._source.file.parent / name.removeprefix("./")
        if path.resolve().parent != self._directory:
            refuse(place, f"execfile of {shown(name)}: leads out of the directory of the configuration")
        if path.resolve() in self._open:
            refuse(place, f"execfile of {shown(name)}: the file reads itself")
        self._files += 1
        if self._files > MAX_FILES:
            refuse(place, f"execfile: more than {MAX_FILES} files")
        if not path.is_file():
            refuse(place, f"execfile of {shown(name)}: there is no such file")
        self.read(path)


def _is_path_append(node: ast.expr) -> bool:
    match node:
        case ast.Call(
            func=ast.Attribute(
                value=ast.Attribute(value=ast.Name(id="sys"), attr="path"), attr="append" | "insert"
            ),
            args=args,
            keywords=[],
        ):
            return all(isinstance(argument, ast.Name | ast.Constant) for argument in args)
    return False


def _parse(text: str, at: Callable[[int, int], Place], kind: str) -> ast.Module:
    """The syntax tree; raises InputError where the text is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        place = at(error.lineno or 1, max((error.offset or 1) - 1, 0))
        raise InputError(f"{place}: not {kind}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError | MemoryError) else str(error)
        raise InputError(f"{at(1, 0)}: not {kind}: {reason}") from None


def _strings(text: str) -> dict[tuple[int, int], list[tuple[int, int, str]]]:
    """String tokens, adjacent ones together, by where the first stands as the syntax tree counts (bytes)."""
    found: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    run: list[tuple[int, int, str]] | None = None
    for token in _tokens(text):
        if token.type == tokenize.STRING:
            quote = re.match(r"[A-Za-z]*('''|\"\"\"|'|\")", token.string)
            opening, closing = (quote.end(), len(quote[1])) if quote else (1, 1)
            piece = token.string[opening : len(token.string) - closing]
            line, column = token.start
            if run is None:
                run = []
                found[line, len(token.line[:column].encode())] = run
            run.append((line, column + opening + 1, piece))
        elif token.type not in (tokenize.NL, tokenize.COMMENT):
            run = None
    return found


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    try:
        yield from tokenize.generate_tokens(io.StringIO(text).readline)
    except (tokenize.TokenError, SyntaxError):
        return
