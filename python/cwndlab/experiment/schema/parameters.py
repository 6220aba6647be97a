"""Queue disciplines and applications of the schema, made from the engine's table of their parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, Union

from pydantic import Field, GetCoreSchemaHandler, create_model
from pydantic_core import CoreSchema

from cwndlab.errors import shown
from cwndlab.experiment import draws, units
from cwndlab.experiment.catalogue import Kind, Param
from cwndlab.experiment.draws import Drawn
from cwndlab.experiment.schema.leaves import (
    Flag,
    QueueLimit,
    byte_count,
    integer,
    leaf,
    packets,
    quantity,
    word,
)
from cwndlab.experiment.schema.section import Section, about, required
from cwndlab.experiment.units import BadValue


class Quantity(NamedTuple):
    """Quantity of a parameter: parsing and writing, units in a file, an example, a description, and the
    maximum.
    """

    parse: Callable[[str], int]
    write: Callable[[int], str]
    names: dict[str, int]
    example: str
    noun: str
    most: int


QUANTITIES = {
    "packets": Quantity(
        packets,
        lambda count: f"{count}p",
        {"p": 1},
        "a number of packets such as 1000p",
        "a number of packets",
        units.MAX_PACKETS,
    ),
    "bytes": Quantity(
        units.parse_size, units.format_size, units.SIZES, "a size such as 600KB", "a size", units.MAX_SIZE
    ),
    "ns": Quantity(
        units.parse_time, units.format_time, units.TIMES, "a time such as 40ms", "a time", units.MAX_TIME
    ),
    "bps": Quantity(
        units.parse_rate, units.format_rate, units.RATES, "a rate such as 10mbit", "a rate", units.MAX_RATE
    ),
    "ppb": Quantity(
        units.parse_share,
        units.format_share,
        units.PERCENT,
        "a percentage such as 1%",
        "a percentage",
        units.MAX_SHARE,
    ),
}
"""Quantities by unit."""


class Kinded(Section):
    """A queue discipline or an application: its kind, and what the file says of its parameters."""

    kind: str
    table: ClassVar[Kind]

    def given(self, name: str) -> Any:
        """Return what the file says of a parameter, None where it says nothing."""
        return getattr(self, name, None)


_LITERAL: Any = Literal
_UNION: Any = Union
"""Types that are made while the program runs, which no type checker follows."""
_Base = TypeVar("_Base", bound=Kinded)


def models(base: type[_Base], kinds: Iterable[Kind]) -> dict[str, type[_Base]]:
    """Return a section of the schema for each kind, by its name."""
    made: dict[str, type[_Base]] = {}
    for kind in kinds:
        fields: dict[str, Any] = {param.name: _field(param) for param in kind.params}
        words = [base.section, *kind.kind.replace("_", "-").split("-")]
        made[kind.kind] = create_model(
            "".join(map(str.capitalize, words)),
            __base__=base,
            __module__=base.__module__,
            __doc__=kind.about,
            kind=(_LITERAL[kind.kind], ...),
            **fields,
        )
        made[kind.kind].table = kind
    return made


def union(base: type[Section], kinds: Iterable[Kind]) -> type[Section]:
    """Return a section with the parameters of all kinds, where something else says which kind it is."""
    fields: dict[str, Any] = {}
    for kind in kinds:
        for param in kind.params:
            fields.setdefault(param.name, _field(param))
    return create_model(
        base.__name__, __base__=base, __module__=base.__module__, __doc__=base.__doc__, **fields
    )


class OneOfKinds:
    """Annotates a base class: a value is one of its kinds, which its key ``kind`` names."""

    def __init__(self, made: Iterable[type[Kinded]]) -> None:
        """The models of the kinds."""
        self._models = tuple(made)

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the union, whatever the annotated class is."""
        return handler.generate_schema(Annotated[_UNION[self._models], Field(discriminator="kind")])


def described(param: Param) -> str:
    """Return what a parameter is, and what holds where a file does not say it."""
    default = default_text(param)
    return sentence(param) + (f"; default {default}" if default else "")


def sentence(param: Param) -> str:
    """Return what a parameter is, as a part of a sentence."""
    text = param.about.removesuffix(".")
    return text if text[1:2].isupper() or text[1:2].isdigit() else text[:1].lower() + text[1:]


def default_text(param: Param) -> str:
    """Return a parameter's default as a file would write it, or what follows; empty if it has to be given."""
    return param.otherwise if param.default is None else written(param, param.default)


def written(param: Param, value: int) -> str:
    """Return a value in the parameter's unit as a file would write it."""
    match param.unit:
        case "bool":
            return "true" if value else "false"
        case "choice":
            return param.choices[value]
        case "count":
            return str(value)
        case "nano" | "milli":
            return units.format_factor(Fraction(value, param.scale))
        case unit:
            return f"{value}B" if param.bare else QUANTITIES[unit].write(value)


def _field(param: Param) -> tuple[Any, Any]:
    """Return the type of a parameter, and the field it is in a section."""
    kind = _leaf(param)
    if param.required:
        return kind, required(described(param))
    return kind | None, about(described(param))


def _leaf(param: Param) -> Any:
    if param.bdp:
        return QueueLimit
    if param.bare:
        return Annotated[int, *byte_count(param.min, param.max)]
    if param.unit in QUANTITIES:
        return Annotated[int, *_quantity(param)]
    made: dict[str, Callable[[], Any]] = {
        "bool": lambda: Flag,
        "choice": lambda: Annotated[str, *word(*param.choices)],
        "count": lambda: Annotated[int, *integer(param.min, param.max)],
        "nano": lambda: Annotated[Fraction, *_number(param)],
        "milli": lambda: Annotated[Fraction, *_number(param)],
        "bytes-drawn": lambda: Annotated[Drawn, *_drawn("bytes", "200B")],
        "ns-drawn": lambda: Annotated[Drawn, *_drawn("ns", "20ms")],
    }
    return made[param.unit]()


def _drawn(unit: str, example: str) -> Any:
    """A distribution of quantities."""
    of = QUANTITIES[unit]
    schema = {"type": "string", "description": draws.expected(example)}
    return leaf(lambda text: draws.parse(text, of.parse, example), lambda drawn: drawn.text, schema)


def _quantity(param: Param) -> Any:
    """A quantity within the range of a parameter."""
    of = QUANTITIES[param.unit]

    def within(text: str) -> int:
        value = of.parse(text)
        if value < param.min == 1:
            raise BadValue(shown(text), f"{of.noun} above 0")
        if not param.min <= value <= param.max:
            least = f"from {of.write(param.min)} to" if param.min else "of at most"
            raise BadValue(shown(text), f"{of.noun} {least} {of.write(param.max)}{param.reason}")
        return value

    above_zero = param.min == 1 and param.unit != "bps"
    return quantity(within, of.write, of.names, f"{of.noun} above 0" if above_zero else of.example)


def _number(param: Param) -> Any:
    """A number without a unit, of which the Scenario holds a fraction such as thousandths."""
    low, high = Fraction(param.min, param.scale), Fraction(param.max, param.scale)
    bounds = f"a number from {units.format_factor(low)} to {units.format_factor(high)}{param.reason}"

    def within(text: str) -> Fraction:
        number = units.parse_factor(text)
        if not low <= number <= high:
            raise BadValue(shown(text), bounds)
        return number

    schema = {
        "type": "number",
        "minimum": float(low),
        "maximum": float(high),
        "description": "a number such as 0.5",
    }
    return leaf(within, units.format_factor, schema)
