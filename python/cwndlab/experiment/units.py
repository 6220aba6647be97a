"""Quantities with units: text in, exact integers out, and back.

Rates are bits per second, times nanoseconds, sizes bytes, shares parts per billion. Decimal fractions
are allowed where they come to a whole number of the base unit (``1.5ms``, not ``0.3ns``); nothing passes
through floating point. A number without its unit is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from cwndlab.errors import nearest, shown
from cwndlab.experiment import hints

RATES = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
"""Bits per second in a unit of rate (decimal, as tc counts)."""
TIMES = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
"""Nanoseconds in a unit of time."""
SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
"""Bytes in a unit of size: KB, MB, GB decimal, KiB, MiB, GiB binary (IEC 80000-13)."""
PERCENT = {"%": 10**7}
"""Parts per billion in a per cent."""

NUMBER = r"[0-9]+(\.[0-9]+)?"
"""A number as it is written before a unit, as a regular expression."""

_NUMBER_AND_UNIT = re.compile(rf"({NUMBER})\s?([A-Za-z%µ/]*)", re.ASCII)
MAX_RATE = 10**13
"""Largest rate, bits per second."""
MAX_TIME = 10**16
"""Longest time, nanoseconds."""
MAX_SIZE = 1 << 50
"""Largest size, bytes."""
MAX_PACKETS = 10**9
"""Greatest number of packets of a limit."""
MAX_SHARE = 10**9
"""The whole, parts per billion."""


class BadValue(ValueError):  # noqa: N818 - a value, not an error condition of the program
    """A value that is refused: what was found, what is expected, and a hint.

    ``key`` names a key inside the value where the fault lies, None for the value itself; ``problem``
    replaces "found …; expected …"; ``of_key`` says that the key is wrong, whatever its value.
    """

    def __init__(  # noqa: D107 - described by the class
        self,
        found: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
        *,
        key: str | None = None,
        problem: str | None = None,
        of_key: bool = False,
    ) -> None:
        self.of_key = of_key
        self.found = found
        self.expected = expected
        self.hint = hint
        self.key = key
        self.problem = problem
        super().__init__(problem or f"found {found}; expected {expected}")


class NotSingle(BadValue):
    """A list or a mapping where one value belongs; a list may have been meant as values to vary."""


@dataclass(frozen=True, slots=True)
class Packets:
    """A queue limit in packets."""

    count: int

    def __str__(self) -> str:
        """Return the text of an experiment file: ``90p``."""
        return f"{self.count}p"


@dataclass(frozen=True, slots=True)
class Bytes:
    """A queue limit in bytes."""

    count: int

    def __str__(self) -> str:
        """Return the text of an experiment file: ``125KB``."""
        return format_size(self.count)


@dataclass(frozen=True, slots=True)
class Bdp:
    """A queue limit as a multiple of the path's bandwidth-delay product."""

    multiple: Fraction

    def __str__(self) -> str:
        """Return the text of an experiment file: ``2bdp``."""
        return f"{_decimal(self.multiple)}bdp"


Limit = Packets | Bytes | Bdp


def parse_rate(text: str) -> int:
    """Return bits per second, above 0 and at most 10 Tbit/s; raises `BadValue`."""
    return _whole(text, RATES, "a rate such as 10mbit", "bit/s", low=1, high=MAX_RATE, most="10000gbit")


def parse_time(text: str) -> int:
    """Return nanoseconds, from 0 to 10,000,000 s; raises `BadValue`."""
    return _whole(text, TIMES, "a time such as 40ms", "ns", low=0, high=MAX_TIME, most="10000000s")


def parse_size(text: str) -> int:
    """Return bytes, from 0 to 1 PiB; raises `BadValue`."""
    return _whole(text, SIZES, "a size such as 600KB", "bytes", low=0, high=MAX_SIZE, most="1048576GiB")


def parse_share(text: str) -> int:
    """Return parts per billion of a percentage from 0 to 100 %; raises `BadValue`."""
    return _whole(
        text, PERCENT, "a percentage such as 1%", "parts per billion", low=0, high=MAX_SHARE, most="100%"
    )


def parse_limit(text: str) -> Limit:
    """Return a queue limit: ``90p``, ``125KB`` or ``2bdp``; raises `BadValue`."""
    units = {"p": 1, "bdp": 1, **SIZES}
    number, unit = _split(text, units, "a limit such as 90p, 125KB or 2bdp")
    if unit == "bdp":
        if not 0 < number <= 1000 or (number * 10**9).denominator != 1:
            raise BadValue(shown(text), "a multiple above 0 and at most 1000bdp, of at most 9 decimals")
        return Bdp(number)
    if unit == "p":
        if number.denominator != 1 or number > MAX_PACKETS:
            raise BadValue(shown(text), f"a whole number of packets, at most {MAX_PACKETS}p")
        return Packets(int(number))
    return Bytes(parse_size(text))


def format_rate(bps: int) -> str:
    """Return the shortest exact text of a rate in bits per second."""
    return _format(bps, RATES)


def format_time(ns: int) -> str:
    """Return the shortest exact text of a time in nanoseconds, at most in seconds: ``90s``."""
    return "0s" if ns == 0 else _format(ns, {unit: size for unit, size in TIMES.items() if unit != "min"})


def format_size(count: int) -> str:
    """Return the shortest exact text of a number of bytes in decimal units, binary where that is shorter."""
    decimal = _format(count, {unit: size for unit, size in SIZES.items() if "i" not in unit})
    binary = _format(count, {unit: size for unit, size in SIZES.items() if "i" in unit or unit == "B"})
    return binary if len(binary) < len(decimal) - 1 else decimal


def format_share(ppb: int) -> str:
    """Return the exact text of a share in parts per billion: ``1%``."""
    return f"{_decimal(Fraction(ppb, PERCENT['%']))}%"


def parse_integer(text: str, low: int, high: int) -> int:
    """Return a whole number between two bounds; raises `BadValue`."""
    expected = f"a whole number from {low} to {high}"
    if not re.fullmatch(r"-?[0-9]{1,19}", text, re.ASCII) or not low <= int(text) <= high:
        raise BadValue(_or_nothing(text), expected)
    return int(text)


def parse_factor(text: str) -> Fraction:
    """Return a number without a unit, such as 0.5; raises `BadValue`."""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text, re.ASCII):
        raise BadValue(_or_nothing(text), "a number such as 0.5")
    return Fraction(Decimal(text))


def format_factor(number: Fraction) -> str:
    """Return the exact text of a number without a unit."""
    return _decimal(number)


def parse_bool(text: str) -> bool:
    """Return the truth of ``true``/``false``, ``on``/``off`` or ``yes``/``no``; raises `BadValue`."""
    words = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
    if text not in words:
        raise BadValue(_or_nothing(text), "true or false", nearest(text, words))
    return words[text]


def _whole(text: str, units: dict[str, int], what: str, base: str, *, low: int, high: int, most: str) -> int:
    number, unit = _split(text, units, what)
    value = number * units[unit]
    if value.denominator != 1:
        raise BadValue(shown(text), f"{what}, a whole number of {base}")
    if not low <= value <= high:
        raise BadValue(shown(text), f"{what}, {'above 0' if low else 'from 0'} and at most {most}")
    return int(value)


def _split(text: str, units: dict[str, int], what: str) -> tuple[Fraction, str]:
    choice = ", ".join(units)
    match = _NUMBER_AND_UNIT.fullmatch(text) if len(text) <= 40 else None
    if match is None:
        raise BadValue(_or_nothing(text), f"{what} (units: {choice})")
    number, unit = match[1], match[3]
    if unit not in units:
        if not unit:
            hint = hints.unit(number, unit, units)
            raise BadValue(f"{shown(text)} without a unit", f"{what} (units: {choice})", hint)
        folded = [known for known in units if known.lower() == unit.lower()]
        hint = f"did you mean {number}{folded[0]}?" if folded else hints.unit(number, unit, units)
        raise BadValue(shown(text), f"{what} (units: {choice})", hint)
    return Fraction(Decimal(number)), unit


def _format(value: int, units: dict[str, int]) -> str:
    """Write the value in the largest unit it reaches and is a short decimal fraction of."""
    fitting = [unit for unit, size in units.items() if value >= size and _terminates(value, size)]
    unit = fitting[-1] if fitting else next(iter(units))
    return f"{_decimal(Fraction(value, units[unit]))}{unit}"


def _terminates(value: int, size: int) -> bool:
    """Whether value/size has a finite decimal form of few digits."""
    return (Fraction(value, size) * 10**9).denominator == 1


def _decimal(number: Fraction) -> str:
    whole, rest = divmod(number.numerator * 10**9 // number.denominator, 10**9)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")


def _or_nothing(text: str) -> str:
    return shown(text) if text else "nothing"
