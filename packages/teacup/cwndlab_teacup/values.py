"""Computes the values of Python expressions that are nothing but values; whatever is code is refused.

Comprehensions and repeated lists could ask for any amount of work in a few characters: what one value, and a
whole configuration, may hold is bounded, and counted as it is made.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from cwndlab.errors import InputError, shown

MAX_VALUES = 1 << 16
"""Elements of a list, those of lists in it included, and characters of a computed text, at most."""

MAX_WORK = 1 << 20
"""Elements and characters that a configuration may make in all."""

MAX_PARAMETER_WORK = 1 << 12
"""Elements and characters that one parameter string may make."""

LARGEST = 10**18
"""Magnitude of a computed number at most."""

STAMP = "\x00"
"""Stands for the date and time in a text that `strftime` makes; `undated` takes it out."""


@dataclass(frozen=True)
class Place:
    """Position of a text: file, line and column, both counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        """Format the place as messages begin."""
        return f"{self.file}:{self.line}:{self.column}"


class Text(str):
    """A text of a configuration that remembers where its characters stand, as long as it is not computed."""

    __slots__ = ("file", "pieces")
    file: str
    pieces: tuple[tuple[int, int, int], ...]
    """Index of the first character in the text, line and column (from 1) of each string token."""

    def place(self, index: int) -> Place:
        """Place of the character at `index`."""
        start, line, column = max(
            (piece for piece in self.pieces if piece[0] <= index), default=self.pieces[0]
        )
        return Place(self.file, line, column + index - start)


@dataclass
class Work:
    """Amount of text that may still be made."""

    left: int
    """Elements and characters."""


def refuse(place: Place, problem: str) -> NoReturn:
    """Raise the InputError of a place."""
    raise InputError(f"{place}: {problem}")


class Values:
    """Computes the values of expressions that are nothing but values.

    `at` is the place of a node, `name` the value of a name or of `env.NAME`, `strings` the tokens of text by
    line and column.
    """

    def __init__(  # noqa: D107 - described by the class
        self,
        at: Callable[[ast.AST], Place],
        name: Callable[[Any], Any],
        work: Work,
        strings: Mapping[tuple[int, int], list[tuple[int, int, str]]] | None = None,
        file: str = "",
    ) -> None:
        self._at = at
        self._name = name
        self._work = work
        self._strings = strings or {}
        self._file = file
        self._bound: dict[str, Any] = {}
        """Names of comprehensions that are being gone through."""

    def of(self, node: ast.expr) -> Any:
        """The value of an expression; raises InputError for code."""
        match node:
            case ast.Constant(value=str() as text):
                return self._text(node, text)
            case ast.Constant(value=bool() | int() | float() | None as value):
                return self.bounded(node, value)
            case ast.Name(id=name):
                return self._bound[name] if name in self._bound else self._name(node)
            case ast.Attribute(value=ast.Name(id="env")):
                return self._name(node)
            case ast.List() | ast.Tuple() | ast.Dict() | ast.ListComp() | ast.GeneratorExp():
                return self.bounded(node, self._container(node))
            case ast.UnaryOp() | ast.BinOp() | ast.Subscript() | ast.Call():
                return self._computed(node)
        self._refuse(node)

    def _container(self, node: ast.List | ast.Tuple | ast.Dict | ast.ListComp | ast.GeneratorExp) -> Any:
        match node:
            case ast.ListComp() | ast.GeneratorExp():
                return [self.of(node.elt) for _ in self._each(node, node.generators)]
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
            case ast.Subscript(value=whole, slice=ast.Slice() as part):
                return self._slice(node, self.of(whole), part)
            case ast.Subscript(value=whole, slice=key):
                return self._member(node, self.of(whole), key)
            case ast.Call():
                return self._call(node)
        self._refuse(node)

    def _refuse(self, node: ast.expr) -> NoReturn:
        refuse(self._at(node), f"{what(node)}: code is not executed; a value is expected here")

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

    def _each(self, node: ast.expr, loops: Sequence[ast.comprehension]) -> Iterator[None]:
        """Binds the names of a comprehension to one combination after the other."""
        if not loops:
            yield
            return
        loop, outside = loops[0], dict(self._bound)
        if loop.is_async:
            self._refuse(node)
        values = self._listed(loop.iter, self.of(loop.iter))
        for value in values:
            self._spend(node, 1)
            self._bind(loop.target, value)
            if all(self._holds(condition) for condition in loop.ifs):
                yield from self._each(node, loops[1:])
        self._bound = outside

    def _bind(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name):
                self._bound[name] = value
            case ast.Tuple(elts=names) if isinstance(value, list | tuple) and len(names) == len(value):
                for each, part in zip(names, value, strict=True):
                    self._bind(each, part)
            case _:
                refuse(self._at(target), "expected a name for each value")

    def _holds(self, node: ast.expr) -> bool:
        """Whether the condition of a comprehension holds."""
        match node:
            case ast.Compare(left=left, ops=[kind], comparators=[right]) if type(kind) in _COMPARED:
                sides = self.of(left), self.of(right)
                self._spend(node, sum(map(_size, sides)))
                try:
                    return bool(_COMPARED[type(kind)](*sides))
                except TypeError:
                    refuse(self._at(node), "cannot compare these")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self._holds(operand)
            case ast.BoolOp(op=kind, values=parts):
                join = all if isinstance(kind, ast.And) else any
                return join(self._holds(part) for part in parts)
        return bool(self.of(node))

    def _listed(self, node: ast.expr, value: Any) -> list[Any] | tuple[Any, ...] | str:
        """A value that can be gone through; keys, of a dictionary."""
        if isinstance(value, dict):
            return list(value)
        if not isinstance(value, list | tuple | str):
            refuse(self._at(node), f"a list is expected, not {_told(value)}")
        return value

    def bounded(self, node: ast.AST, value: Any) -> Any:
        """The value, unless it is larger than a configuration needs; what it holds is counted."""
        if isinstance(value, int | float) and not isinstance(value, bool) and not abs(value) <= LARGEST:
            refuse(self._at(node), f"a number beyond {LARGEST:g}")
        size = _size(value)
        if size > MAX_VALUES:
            refuse(self._at(node), f"more than {MAX_VALUES} elements or characters")
        self._spend(node, size)
        return value

    def _spend(self, node: ast.AST, amount: int) -> None:
        self._work.left -= amount
        if self._work.left < 0:
            refuse(self._at(node), "more elements and characters than a configuration may make")

    def _number(self, node: ast.expr) -> int | float:
        value = self.of(node)
        if isinstance(value, bool) or not isinstance(value, int | float):
            refuse(self._at(node), f"a number is expected, not {_told(value)}")
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
        return self.bounded(node, value)

    def _format(self, node: ast.BinOp, pattern: str, right: Any) -> str:
        given = list(right) if isinstance(right, tuple) else [right]
        if any(not isinstance(value, int | float | str) for value in given):
            refuse(self._at(node), "only numbers and texts can be put into a text")
        if re.sub(r"%[sdifg%]|%\.[0-9]{1,2}f", "", pattern).count("%"):
            refuse(self._at(node), "only %s, %d, %i, %f, %g and %.Nf are read")
        try:
            return str(self.bounded(node, str(pattern) % tuple(given)))
        except (TypeError, ValueError) as error:
            refuse(self._at(node), str(error))

    def _member(self, node: ast.Subscript, whole: Any, key: ast.expr) -> Any:
        if not isinstance(whole, list | tuple | dict | str):
            refuse(self._at(node), "a subscript of what is neither a list nor a dictionary")
        wanted = self.of(key)
        try:
            return whole[wanted]
        except (LookupError, TypeError):
            refuse(self._at(node), f"has no element {_told(wanted)}")

    def _slice(self, node: ast.Subscript, whole: Any, part: ast.Slice) -> Any:
        bounds = [None if bound is None else self.of(bound) for bound in (part.lower, part.upper, part.step)]
        if not isinstance(whole, list | tuple | str):
            refuse(self._at(node), f"a slice of {_told(whole)}")
        if any(bound is not None and type(bound) is not int for bound in bounds) or bounds[2] == 0:
            refuse(self._at(node), "a slice takes whole numbers, and no step of 0")
        return self.bounded(node, whole[slice(*bounds)])

    def _call(self, node: ast.Call) -> Any:
        match node:
            case ast.Call(func=ast.Attribute()):
                return self._method(node)
            case ast.Call(func=ast.Name(id="range" | "xrange"), args=args, keywords=[]) if (
                1 <= len(args) <= 3
            ):
                return self._range(node, [self._number(argument) for argument in args])
            case ast.Call(
                func=ast.Name(id="str" | "int" | "float" | "len" as word), args=[only], keywords=[]
            ):
                return self._convert(node, word, self.of(only))
            case ast.Call(func=ast.Name(id="list" | "tuple" as word), args=[only], keywords=[]):
                members = self._listed(only, self.of(only))
                return self.bounded(node, list(members) if word == "list" else tuple(members))
            case ast.Call(
                func=ast.Name(id="map"),
                args=[ast.Name(id="str" | "int" | "float" | "len" as word), only],
                keywords=[],
            ):
                members = self._listed(only, self.of(only))
                return self.bounded(node, [self._convert(node, word, member) for member in members])
        self._refuse(node)

    def _method(self, node: ast.Call) -> Any:
        match node:
            case ast.Call(func=ast.Attribute(value=between, attr="join"), args=[only], keywords=[]):
                return self._join(node, self.of(between), self._listed(only, self.of(only)))
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

    def _join(self, node: ast.Call, between: Any, parts: Sequence[Any]) -> Any:
        if not isinstance(between, str) or not all(isinstance(part, str) for part in parts):
            refuse(self._at(node), "only texts are joined; str(...) makes one of a number")
        if sum(map(len, parts)) + len(between) * len(parts) > MAX_VALUES:
            refuse(self._at(node), f"more than {MAX_VALUES} elements or characters")
        return self.bounded(node, str(between).join(parts))

    def _range(self, node: ast.Call, bounds: list[int | float]) -> list[int]:
        whole = [bound for bound in bounds if isinstance(bound, int)]
        if len(whole) != len(bounds) or (len(whole) == 3 and whole[2] == 0):
            refuse(self._at(node), "range takes whole numbers, and no step of 0")
        numbers = range(*whole)
        if len(numbers) > MAX_VALUES:
            refuse(self._at(node), f"more than {MAX_VALUES} elements")
        return list(self.bounded(node, list(numbers)))

    def _convert(self, node: ast.Call, word: str, value: Any) -> Any:
        try:
            if word == "len" and isinstance(value, str | list | tuple | dict):
                return len(value)
            if word == "str":
                return self.bounded(node, as_text(value))
            if isinstance(value, int | float | str):
                if isinstance(value, str) and len(value) > 64:
                    refuse(self._at(node), "a text too long for a number")
                return self.bounded(node, int(value) if word == "int" else float(value))
        except (ValueError, OverflowError):
            pass
        refuse(self._at(node), f"{word} of {_told(value)}")


def _divide(left: int | float, right: int | float) -> int | float:
    """Divide as Python 2 does: whole numbers divide to whole numbers."""
    return left // right if isinstance(left, int) and isinstance(right, int) else left / right


_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

_COMPARED: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda member, whole: member in whole,
    ast.NotIn: lambda member, whole: member not in whole,
}

_JOINED: Mapping[type, str] = {str: "text", Text: "text", list: "list", tuple: "tuple"}


def _size(value: Any) -> int:
    """Elements and characters of a value, those of what it holds included; stops counting when it is too
    large."""
    total, waiting = 0, [value]
    while waiting and total <= MAX_VALUES:
        here = waiting.pop()
        if isinstance(here, str | list | tuple | dict):
            total += len(here)
        if total <= MAX_VALUES and isinstance(here, list | tuple):
            waiting += here
        elif total <= MAX_VALUES and isinstance(here, dict):
            waiting += here.values()
    return total


def _told(value: Any) -> str:
    """A value for a message: a list only as such."""
    for kind in (list, tuple, dict):
        if isinstance(value, kind):
            return f"a {kind.__name__}"
    return shown(str(value))


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


def what(node: ast.AST) -> str:
    """Describe a piece of code in words."""
    inner = node.value if isinstance(node, ast.Expr) else node
    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name):
        return f"a call of {shown(inner.func.id)}"
    return _WORDS.get(type(inner), f"a {type(inner).__name__}")
