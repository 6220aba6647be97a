"""The leaves of the schema: single values, parsed from text, written back as text, described to editors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import PlainSerializer, PlainValidator
from pydantic.json_schema import WithJsonSchema

from cwndlab.errors import nearest, one_of, shown
from cwndlab.experiment import hints, units
from cwndlab.experiment.units import BadValue, Limit, NotSingle

MAX_COUNT = 10_000
"""Greatest number of copies of one host or flow."""
MAX_REPEAT = 10_000
"""Greatest number of repeats of a cell."""


def leaf(parse: Callable[[str], Any], write: Callable[[Any], Any], schema: dict[str, Any]) -> tuple[Any, ...]:
    """Annotations of a leaf: parsed from text, written back as text, described to editors."""

    def validate(value: object) -> Any:
        if not isinstance(value, str):
            raise NotSingle(shape(value), f"a single value: {schema['description']}")
        return parse(value)

    return PlainValidator(validate), PlainSerializer(write), WithJsonSchema(schema)


def quantity(
    parse: Callable[[str], int], write: Callable[[int], str], names: dict[str, int], what: str
) -> Any:
    """A number with a unit."""
    pattern = f"^{units.NUMBER} ?({'|'.join(names)})$"
    return leaf(parse, write, {"type": "string", "pattern": pattern, "description": what})


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise BadValue(shown(text) if text else "nothing", "a name: " + NAME_RULE)
    return text


def integer(low: int, high: int) -> Any:
    """A whole number within bounds."""
    schema = {
        "type": "integer",
        "minimum": low,
        "maximum": high,
        "description": f"a whole number from {low} to {high}",
    }
    return leaf(lambda text: units.parse_integer(text, low, high), int, schema)


FORMAT = 1
"""Version of the experiment file that this cwndlab reads and writes."""


def format_() -> Any:
    """Version of the experiment file."""

    def parse(text: str) -> int:
        if text != str(FORMAT):
            newer = re.fullmatch("[0-9]{1,9}", text, re.ASCII) and int(text) > FORMAT
            raise BadValue(
                shown(text) if text else "nothing",
                f"{FORMAT}, the format that this cwndlab reads"
                + ("; a newer one reads that" if newer else ""),
            )
        return FORMAT

    return leaf(parse, int, {"const": FORMAT, "description": f"the format of the file: {FORMAT}"})


def ticks() -> Any:
    """Ticks per second that make a tick a whole number of nanoseconds."""

    def parse(text: str) -> int:
        hz = units.parse_integer(text, 10, 10_000)
        if 10**9 % hz:
            raise BadValue(shown(text), "ticks per second that divide 10^9, such as 100, 250 or 1000")
        return hz

    schema = {"type": "integer", "minimum": 10, "maximum": 10_000, "description": "ticks per second"}
    return leaf(parse, int, schema)


def byte_count(low: int, high: int) -> Any:
    """Bytes of a packet, with or without the unit, as tools write MTU and MSS."""

    def parse(text: str) -> int:
        bare = re.fullmatch("[0-9]{1,9}", text, re.ASCII)
        value = int(text) if bare else units.parse_size(text)
        if not low <= value <= high:
            raise BadValue(shown(text), f"bytes from {low} to {high}")
        return value

    return leaf(parse, int, {"type": ["integer", "string"], "description": f"bytes from {low} to {high}"})


def word(*words: str) -> Any:
    """Type of a key whose value is one of some words."""

    def parse(text: str) -> str:
        if text not in words:
            raise BadValue(shown(text) if text else "nothing", one_of(words), hints.word(text, words))
        return text

    return leaf(parse, str, {"enum": list(words), "description": one_of(words)})


def packets(text: str) -> int:
    """The number of packets that a text says."""
    limit = units.parse_limit(text) if text else None
    if not isinstance(limit, units.Packets):
        raise BadValue(shown(text) if text else "nothing", "a number of packets such as 1000p")
    return limit.count


MAX_BUFFER = (1 << 31) - 1
"""Bytes of a socket's buffer that setsockopt(2) can be told: it takes an int."""


def _buffer(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    size = units.parse_size(text)
    if not 0 < size <= MAX_BUFFER:
        raise BadValue(shown(text), "a size above 0 and below 2GiB, or auto")
    return size


def _sampling(text: str, each: str) -> int | str:
    if text in {"off", each}:
        return text
    if not text[:1].isdigit():
        raise BadValue(shown(text) if text else "nothing", f"{each}, off or an interval such as 10ms",
                       nearest(text, ["off", each]))  # fmt: skip
    interval = units.parse_time(text)
    if interval == 0:
        raise BadValue(shown(text), f"{each}, off or an interval above 0")
    return interval


def _some_bytes(text: str) -> int:
    size = units.parse_size(text)
    if size == 0:
        raise BadValue(shown(text), "a size above 0")
    return size


def _above_zero(text: str) -> int:
    time = units.parse_time(text)
    if time == 0:
        raise BadValue(shown(text), "a time above 0")
    return time


def free_text(text: str) -> str:
    """The text, unless it is too long."""
    if len(text) > 4000:
        raise BadValue(f"{len(text)} characters", "at most 4000")
    return text


def _sysctl_value(text: str) -> str:
    if not re.fullmatch(r"-?[0-9]{1,19}(\s+-?[0-9]{1,19}){0,2}|true|false|on|off", text, re.ASCII):
        raise BadValue(
            shown(text) if text else "nothing", "a whole number, true, false or three whole numbers"
        )
    return " ".join(text.split())


def shape(value: object) -> str:
    """Describe a value for messages: its text, or its shape."""
    if isinstance(value, str):
        return shown(value) if value else "nothing"
    return "a list" if isinstance(value, list) else "a mapping"


def sampling(each: str) -> Any:
    """Type of a key that says how often something is recorded: a word for each time, off, or an interval."""
    schema = {"type": "string", "pattern": f"^(off|{each}|{units.NUMBER} ?({'|'.join(units.TIMES)}))$",
              "description": f"{each}, off or an interval such as 10ms"}  # fmt: skip
    return leaf(
        lambda text: _sampling(text, each),
        lambda v: v if isinstance(v, str) else units.format_time(v),
        schema,
    )


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", re.ASCII)
"""Names of hosts, nodes, links and flows: safe in file names, interface names and shell words."""
NAME_RULE = "letters, digits, '-' and '_', starting with a letter or digit, at most 32"
ENDPOINT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}(\.[1-9][0-9]{0,4})?", re.ASCII)
"""A host's name, or one of its copies: ``a`` or ``a.3``."""


def _endpoint(text: str) -> str:
    if not ENDPOINT.fullmatch(text):
        raise BadValue(shown(text) if text else "nothing", "the name of a host")
    return text


Name = Annotated[
    str, *leaf(_name, str, {"type": "string", "pattern": f"^{NAME.pattern}$", "description": NAME_RULE})
]
Endpoint = Annotated[
    str,
    *leaf(
        _endpoint, str, {"type": "string", "pattern": f"^{ENDPOINT.pattern}$", "description": "a host's name"}
    ),
]
Text = Annotated[str, *leaf(free_text, str, {"type": "string", "description": "free text"})]
Word = Annotated[str, *leaf(free_text, str, {"type": "string", "description": "a name the engine knows"})]
Family = Annotated[str, *word("ipv4", "ipv6")]
SysctlValue = Annotated[
    str,
    *leaf(_sysctl_value, str, {"type": ["integer", "boolean", "string"], "description": "a sysctl's value"}),
]
Flag = Annotated[bool, *leaf(units.parse_bool, bool, {"type": "boolean", "description": "true or false"})]
Rate = Annotated[int, *quantity(units.parse_rate, units.format_rate, units.RATES, "a rate such as 10mbit")]
Time = Annotated[int, *quantity(units.parse_time, units.format_time, units.TIMES, "a time such as 40ms")]
Interval = Annotated[int, *quantity(_above_zero, units.format_time, units.TIMES, "a time above 0")]
Size = Annotated[int, *quantity(units.parse_size, units.format_size, units.SIZES, "a size such as 600KB")]
SomeBytes = Annotated[int, *quantity(_some_bytes, units.format_size, units.SIZES, "a size above 0")]
Share = Annotated[
    int, *quantity(units.parse_share, units.format_share, units.PERCENT, "a percentage such as 1%")
]
PacketCount = Annotated[
    int, *quantity(packets, lambda count: f"{count}p", {"p": 1}, "a number of packets such as 1000p")
]
QueueLimit = Annotated[
    Limit,
    *quantity(units.parse_limit, str, {"p": 1, "bdp": 1, **units.SIZES}, "a limit: 90p, 125KB or 2bdp"),
]
Buffer = Annotated[
    int | Literal["auto"],
    *leaf(
        _buffer,
        lambda value: value if value == "auto" else units.format_size(value),
        {
            "type": "string",
            "pattern": f"^(auto|{units.NUMBER} ?({'|'.join(units.SIZES)}))$",
            "description": "a size such as 600KB, or auto for autotuning",
        },
    ),
]
