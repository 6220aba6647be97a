"""Reads the Python of a TEACUP configuration as data: assignments of values, nothing of it is executed.

TEACUP's configurations are Python 2 programs, by convention lists of assignments. This reads the syntax tree
and computes the values of what a configuration needs: literals, names, arithmetic, subscripts, `range`, `str`
and the like, `execfile` of a file beside it, and the few lines of preamble every configuration begins with.
Everything else (any other call, `if`, loops, comprehensions, definitions, attributes) is refused with its
line and column.

Parameter strings, which TEACUP evaluates for every run after it has put the values of V_ variables into them,
are read by the same rules.
"""

from __future__ import annotations

import ast
import io
import operator
import re
import tokenize
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from cwndlab.errors import InputError, shown

MAX_BYTES = 1 << 20
"""Bytes of a configuration file at most."""

MAX_VALUES = 1 << 16
"""Elements of a list, and characters of a computed text, at most."""

MAX_FILES = 32
"""Files that `execfile` may draw in, in all."""

LARGEST = 10**18
"""Magnitude of a computed number at most."""

STAMP = "\x00"
"""Stands for the date and time in a text that `strftime` makes; `undated` takes it out."""


@dataclass(frozen=True)
class Place:
    """Where something stands: file, line and column, both counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        """As messages begin."""
        return f"{self.file}:{self.line}:{self.column}"


class Text(str):
    """A text of a configuration that remembers where its characters stand, as long as it is not computed."""

    __slots__ = ("file", "pieces")
    file: str
    pieces: tuple[tuple[int, int, int], ...]
    """For each string token: index of its first character in the text, line, column (from 1)."""

    def place(self, index: int) -> Place:
        """Where the character at `index` stands."""
        start, line, column = max(
            (piece for piece in self.pieces if piece[0] <= index), default=self.pieces[0]
        )
        return Place(self.file, line, column + index - start)


@dataclass
class Setting:
    """A value of a configuration."""

    value: Any
    place: Place


@dataclass
class Source:
    """What a configuration file says."""

    file: Path
    settings: dict[str, Setting] = field(default_factory=dict)
    """Values by name, the last assignment of each."""
    ignored: list[tuple[Place, str]] = field(default_factory=list)
    """Lines that say nothing about the experiment: imports, settings of Fabric."""

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name, or `default`."""
        setting = self.settings.get(name)
        return default if setting is None else setting.value

    def place(self, name: str) -> Place:
        """Where a name is set; the beginning of the file if it is not."""
        setting = self.settings.get(name)
        return Place(str(self.file), 1, 1) if setting is None else setting.place


def read(path: Path) -> Source:
    """The settings of a configuration file.

    Raises InputError, `FILE:LINE:COLUMN: …`, for whatever is not an assignment of values.
    """
    source = Source(path)
    _Reader(source, path.parent.resolve()).read(path)
    return source


def refuse(place: Place, problem: str) -> NoReturn:
    """Raise the InputError of a place."""
    raise InputError(f"{place}: {problem}")


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

    values = _Values(at, name)
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

    def read(self, path: Path) -> None:
        try:
            data = path.read_bytes()
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
                self._statement(statement, at, _Values(at, self._name(at), strings, file))
            except RecursionError:
                refuse(at(statement), "nested too deeply")
        self._open.pop()

    def _name(self, at: Callable[[ast.AST], Place]) -> Callable[[ast.Name], Any]:
        def value(node: ast.Name) -> Any:
            constants = {"True": True, "False": False, "None": None}
            if node.id in constants:
                return constants[node.id]
            setting = self._source.settings.get(node.id)
            if setting is None:
                refuse(at(node), f"the name {shown(node.id)} has no value")
            return setting.value

        return value

    def _statement(self, node: ast.stmt, at: Callable[[ast.AST], Place], values: _Values) -> None:
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
                values.of(value)
                self._source.ignored.append((at(node), f"Fabric's env.{name}"))
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=key)], value=value):
                container = self._source.get(name)
                if not isinstance(container, dict):
                    refuse(at(node), f"{name} is no dictionary")
                container[values.key(key)] = values.of(value)
            case ast.Pass():
                pass
            case _:
                refuse(at(node), f"{_what(node)}: code is not executed; only assignments of values are read")

    def _execfile(self, node: ast.expr, place: Place, values: _Values) -> None:
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


class _Values:
    """Computes the values of expressions that are nothing but values."""

    def __init__(
        self,
        at: Callable[[ast.AST], Place],
        name: Callable[[ast.Name], Any],
        strings: Mapping[tuple[int, int], list[tuple[int, int, str]]] | None = None,
        file: str = "",
    ) -> None:
        self._at = at
        self._name = name
        self._strings = strings or {}
        self._file = file

    def of(self, node: ast.expr) -> Any:
        """The value of an expression; raises InputError for code."""
        match node:
            case ast.Constant(value=str() as text):
                return self._text(node, text)
            case ast.Constant(value=bool() | int() | float() | None as value):
                return self._bounded(node, value)
            case ast.Name():
                return self._name(node)
            case ast.List() | ast.Tuple() | ast.Dict():
                return self._container(node)
            case ast.UnaryOp() | ast.BinOp() | ast.Subscript() | ast.Call():
                return self._computed(node)
        self._refuse(node)

    def _container(self, node: ast.List | ast.Tuple | ast.Dict) -> Any:
        match node:
            case ast.List(elts=elements):
                return [self.of(element) for element in elements]
            case ast.Tuple(elts=elements):
                return tuple(self.of(element) for element in elements)
        if any(key is None for key in node.keys):
            refuse(self._at(node), "** in a dictionary is not read")
        pairs = zip(node.keys, node.values, strict=True)
        return {self.key(key): self.of(value) for key, value in pairs if key is not None}

    def _computed(self, node: ast.UnaryOp | ast.BinOp | ast.Subscript | ast.Call) -> Any:
        match node:
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                value = self._number(operand)
                return -value if isinstance(sign, ast.USub) else value
            case ast.BinOp(left=left, op=kind, right=right):
                return self._arithmetic(node, self.of(left), kind, self.of(right))
            case ast.Subscript(value=whole, slice=key):
                return self._member(node, self.of(whole), key)
            case ast.Call():
                return self._call(node)
        self._refuse(node)

    def _refuse(self, node: ast.expr) -> NoReturn:
        refuse(self._at(node), f"{_what(node)}: code is not executed; a value is expected here")

    def key(self, node: ast.expr) -> str | int | float | tuple[Any, ...]:
        """A value that can be a key of a dictionary."""
        value = self.of(node)
        if not isinstance(value, str | int | float):
            refuse(self._at(node), "a key that is neither text nor a number")
        return str(value) if isinstance(value, str) else value

    def _text(self, node: ast.Constant, text: str) -> Text:
        made = Text(text)
        made.file = self._file
        pieces: list[tuple[int, int, int]] = []
        tokens = self._strings.get((node.lineno, node.col_offset), []) if self._strings else []
        start = 0
        for line, column, piece in tokens:
            pieces.append((start, line, column))
            start += len(piece)
        place = self._at(node)
        # Where escapes make the parts longer than the text, its beginning is what is known.
        made.pieces = tuple(pieces) if start == len(text) and pieces else ((0, place.line, place.column),)
        if not made.file:
            made.file = place.file
        return made

    def _bounded(self, node: ast.expr, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool) and not abs(value) <= LARGEST:
            refuse(self._at(node), f"a number beyond {LARGEST:g}")
        if isinstance(value, str | list | tuple) and len(value) > MAX_VALUES:
            refuse(self._at(node), f"more than {MAX_VALUES} elements or characters")
        return value

    def _number(self, node: ast.expr) -> int | float:
        value = self.of(node)
        if isinstance(value, bool) or not isinstance(value, int | float):
            refuse(self._at(node), f"a number is expected, not {shown(str(value))}")
        return value

    def _arithmetic(self, node: ast.BinOp, left: Any, kind: ast.operator, right: Any) -> Any:
        numbers = all(isinstance(side, int | float) and not isinstance(side, bool) for side in (left, right))
        joined = _JOINED.get(type(left)) is not None and _JOINED.get(type(left)) == _JOINED.get(type(right))
        try:
            match kind:
                case ast.Add() if numbers or joined:
                    value = left + right
                case ast.Mult() if not numbers and isinstance(right, int) and type(left) in _JOINED:
                    if len(left) * max(right, 0) > MAX_VALUES:
                        refuse(self._at(node), f"more than {MAX_VALUES} elements or characters")
                    value = left * right
                case ast.Mod() if isinstance(left, str):
                    value = self._format(node, left, right)
                case _ if numbers and type(kind) in _OPERATORS:
                    value = _OPERATORS[type(kind)](left, right)
                case _:
                    kinds = f"{type(left).__name__} and {type(right).__name__}"
                    refuse(self._at(node), f"cannot compute this of {kinds.replace('Text', 'str')}")
        except (ZeroDivisionError, OverflowError) as error:
            refuse(self._at(node), str(error))
        return self._bounded(node, value)

    def _format(self, node: ast.BinOp, pattern: str, right: Any) -> str:
        given = list(right) if isinstance(right, tuple) else [right]
        if any(not isinstance(value, int | float | str) for value in given):
            refuse(self._at(node), "only numbers and texts can be put into a text")
        if re.sub(r"%[sdifg%]|%\.[0-9]{1,2}f", "", pattern).count("%"):
            refuse(self._at(node), "only %s, %d, %i, %f, %g and %.Nf are read")
        try:
            return str(self._bounded(node, str(pattern) % tuple(given)))
        except (TypeError, ValueError) as error:
            refuse(self._at(node), str(error))

    def _member(self, node: ast.Subscript, whole: Any, key: ast.expr) -> Any:
        if not isinstance(whole, list | tuple | dict | str):
            refuse(self._at(node), "a subscript of what is neither a list nor a dictionary")
        wanted = (
            self.of(key) if not isinstance(key, ast.Slice) else refuse(self._at(node), "a slice is not read")
        )
        try:
            return whole[wanted]
        except (LookupError, TypeError):
            refuse(self._at(node), f"has no element {shown(str(wanted))}")

    def _call(self, node: ast.Call) -> Any:
        match node:
            case ast.Call(func=ast.Name(id="range" | "xrange"), args=args, keywords=[]) if (
                1 <= len(args) <= 3
            ):
                return self._range(node, [self._number(argument) for argument in args])
            case ast.Call(
                func=ast.Name(id="str" | "int" | "float" | "len" as word), args=[only], keywords=[]
            ):
                return self._convert(node, word, self.of(only))
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Attribute(value=ast.Name(id="datetime"), attr="datetime"), attr="today" | "now"
                ),
                args=[],
                keywords=[],
            ):
                return STAMP
            case ast.Call(
                func=ast.Attribute(value=ast.Name() as clock, attr="strftime"), args=[ast.Constant()]
            ):
                if self._name(clock) != STAMP:
                    refuse(self._at(node), "strftime of what is not the time of day")
                return STAMP
        self._refuse(node)

    def _range(self, node: ast.Call, bounds: list[int | float]) -> list[int]:
        whole = [bound for bound in bounds if isinstance(bound, int)]
        if len(whole) != len(bounds) or (len(whole) == 3 and whole[2] == 0):
            refuse(self._at(node), "range takes whole numbers, and no step of 0")
        numbers = range(*whole)
        if len(numbers) > MAX_VALUES:
            refuse(self._at(node), f"more than {MAX_VALUES} elements")
        return list(numbers)

    def _convert(self, node: ast.Call, word: str, value: Any) -> Any:
        try:
            if word == "len" and isinstance(value, str | list | tuple | dict):
                return len(value)
            if word == "str":
                return as_text(value)
            if isinstance(value, int | float | str):
                if isinstance(value, str) and len(value) > 64:
                    refuse(self._at(node), "a text too long for a number")
                return self._bounded(node, int(value) if word == "int" else float(value))
        except (ValueError, OverflowError):
            pass
        refuse(self._at(node), f"{word} of {shown(str(value))}")


def _divide(left: int | float, right: int | float) -> int | float:
    """As Python 2: whole numbers divide to whole numbers."""
    return left // right if isinstance(left, int) and isinstance(right, int) else left / right


_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

_JOINED: Mapping[type, str] = {str: "text", Text: "text", list: "list", tuple: "tuple"}


def as_text(value: Any) -> str:
    """`str(value)` as Python 2 writes it: floats with twelve digits."""
    if isinstance(value, float):
        text = f"{value:.12g}"
        return text if re.search("[.einf]", text) else text + ".0"
    return str(value)


_WORDS: Mapping[type, str] = {
    ast.Call: "a call",
    ast.Attribute: "an attribute",
    ast.If: "if",
    ast.IfExp: "if",
    ast.For: "for",
    ast.While: "while",
    ast.FunctionDef: "a function",
    ast.Lambda: "lambda",
    ast.ClassDef: "a class",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.Import: "import",
    ast.ImportFrom: "import",
    ast.JoinedStr: "an f-string",
    ast.Try: "try",
    ast.With: "with",
    ast.Delete: "del",
    ast.AugAssign: "an assignment in place",
}


def _what(node: ast.AST) -> str:
    inner = node.value if isinstance(node, ast.Expr) else node
    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name):
        return f"a call of {shown(inner.func.id)}"
    return _WORDS.get(type(inner), f"a {type(inner).__name__}")


def _parse(text: str, at: Callable[[int, int], Place], what: str) -> ast.Module:
    """The syntax tree; raises InputError where the text is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        place = at(error.lineno or 1, max((error.offset or 1) - 1, 0))
        raise InputError(f"{place}: not {what}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError | MemoryError) else str(error)
        raise InputError(f"{at(1, 0)}: not {what}: {reason}") from None


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
