"""The reading of parameters, names, numbers and units, for all parts of the converter of TEACUP
configurations.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from cwndlab.errors import nearest, shown
from cwndlab.experiment import units
from cwndlab_teacup.source import Source, arguments
from cwndlab_teacup.sweep import Parameter
from cwndlab_teacup.values import Place, as_text, refuse

RATES = {"": 1, "bit": 1, "bits/s": 1, "bps": 8} | {
    f"{prefix}{unit}": scale * size
    for prefix, scale in (("k", 10**3), ("m", 10**6), ("g", 10**9))
    for unit, size in (("", 1), ("bit", 1), ("bits/s", 1), ("bps", 8))
}
"""Units of rates in bit/s, as tc, ipfw and iperf write them: tc's `bps` are bytes."""

SIZES = {"": 1, "b": 1, "bytes": 1, "kbytes": 1000, "mbytes": 10**6, "kbit": 125, "mbit": 125_000} | {
    "k": 1 << 10,
    "kb": 1 << 10,
    "m": 1 << 20,
    "mb": 1 << 20,
}
"""Units of sizes in bytes: tc's kilobytes have 1024, ipfw's Kbytes 1000."""

ACCESS_RATE = "1gbit"
"""TEACUP's hosts are on switched Gigabit Ethernet, which is also the rate of a pipe without one."""

KINDS = ("mapped", "approximated", "dropped")


@dataclass(frozen=True)
class Finding:
    """Finding about one setting."""

    kind: str
    """One of `KINDS`."""
    place: Place
    text: str


@dataclass
class Reader:
    """A configuration, and what was found of its settings."""

    source: Source
    stack: str | None
    prefix: str | None
    found: dict[tuple[str, str, str], Finding] = field(default_factory=dict)
    parsed: dict[tuple[str, str], tuple[list[Any], dict[str, Any]]] = field(default_factory=dict)

    def _say(self, kind: str, place: Place, text: str) -> None:
        self.found.setdefault((kind, str(place), text), Finding(kind, place, text))

    def _parameters(self) -> Iterator[Parameter]:
        entries = self.source.get("TPCONF_parameter_list", {})
        place = self.source.place("TPCONF_vary_parameters")
        names = self.source.get("TPCONF_vary_parameters", [])
        if not isinstance(names, list | tuple) or not isinstance(entries, dict):
            refuse(place, "TPCONF_vary_parameters is no list, or TPCONF_parameter_list no dictionary")
        for name in names:
            entry = entries.get(str(name))
            if entry is None:
                hint = nearest(str(name), map(str, entries))
                refuse(
                    place,
                    f"{shown(str(name))} is not in TPCONF_parameter_list" + (f"; {hint}" if hint else ""),
                )
            yield self._parameter(str(name), entry, self.source.place("TPCONF_parameter_list"))
        self._say(
            "mapped", place, f"TPCONF_vary_parameters: sweep over {', '.join(map(str, names)) or 'nothing'}"
        )

    def _parameter(self, name: str, entry: Any, place: Place) -> Parameter:
        if not isinstance(entry, tuple | list) or len(entry) not in (3, 4):
            refuse(place, f"{name}: expected (variables, short names, values, extra variables)")
        variables, shorts, values = entry[:3]
        extra = entry[3] if len(entry) == 4 else {}
        lists = all(isinstance(part, list | tuple) for part in (variables, shorts, values))
        if not lists or not isinstance(extra, dict) or len(variables) != len(shorts) or not variables:
            refuse(
                place, f"{name}: expected as many short names as variables, a list of values, a dictionary"
            )
        if not values:
            refuse(place, f"{name}: has no values, so there are no runs")
        rows = []
        for value in values:
            row = (value,) if len(variables) == 1 else value
            if not isinstance(row, tuple | list) or len(row) < len(variables):
                refuse(
                    place,
                    f"{name}: {shown(str(value))} has no value for each of {', '.join(map(str, variables))}",
                )
            rows.append(tuple(row[: len(variables)]))
        return Parameter(
            name,
            tuple(map(str, variables)),
            tuple(map(str, shorts)),
            tuple(rows),
            {str(key): value for key, value in extra.items()},
            place,
        )

    def _variables(self, parameters: Sequence[Parameter], cell: Sequence[int]) -> dict[str, Any]:
        """The V_ variables of a run."""
        values: dict[str, Any] = {}
        for parameter, row in zip(parameters, cell, strict=True):
            values.update(parameter.extra)
            values.update(zip(parameter.variables, parameter.rows[row], strict=True))
        defaults = self.source.get("TPCONF_variable_defaults", {})
        if not isinstance(defaults, dict):
            refuse(self.source.place("TPCONF_variable_defaults"), "TPCONF_variable_defaults is no dictionary")
        for key, value in defaults.items():
            values.setdefault(str(key), value)
        return values

    def _arguments(
        self, text: Any, variables: Mapping[str, Any], place: Place
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a parameter string in one run."""
        if not isinstance(text, str):
            refuse(place, "expected a text with parameters")
        used = {name: variables.get(name) for name in re.findall("V_[a-zA-Z0-9_-]*", text)}
        key = (str(text), repr(sorted(used.items())))
        if key not in self.parsed:
            self.parsed[key] = arguments(text, variables, place)
        return self.parsed[key]

    def _host_of(self, word: Any, at: Place) -> str:
        """The host of a name or an address."""
        text = as_text(word).split(":")[0].strip()
        hosts = [str(host) for host in self.source.get("TPCONF_hosts")]
        if text in hosts:
            return text
        for host in hosts:
            if text in self._addresses(host):
                return host
        hint = nearest(text, hosts)
        refuse(at, f"{shown(text)} is none of TPCONF_hosts" + (f"; {hint}" if hint else ""))

    def _addresses(self, host: str) -> list[str]:
        internal = self.source.get("TPCONF_host_internal_ip", {})
        found = internal.get(host, []) if isinstance(internal, dict) else []
        return [str(address) for address in (found if isinstance(found, list | tuple) else [found])]

    def _within(self, host: str, where: Any, at: Place) -> bool:
        text = as_text(where)
        if text == host or text in self._addresses(host):
            return True
        try:
            network = ipaddress.ip_network(text, strict=False)
        except ValueError:
            known = [str(name) for name in self.source.get("TPCONF_hosts")]
            if text in known or text in [str(name) for name in self.source.get("TPCONF_router", [])]:
                return False
            refuse(at, f"{shown(text)} is neither a host nor a network such as 172.16.10.0/24")
        for address in self._addresses(host):
            try:
                if ipaddress.ip_address(address) in network:
                    return True
            except ValueError:
                place = self.source.place("TPCONF_host_internal_ip")
                refuse(place, f"{shown(address)} is no address")
        return False

    def _number(self, value: Any, at: Place, what: str) -> Fraction:
        text = as_text(value).strip()
        if not re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,15})?([eE]-?[0-9]{1,2})?", text):
            refuse(at, f"{what}: {shown(text)} is no number")
        return Fraction(text)

    def _time(self, value: Any, at: Place, what: str) -> int:
        seconds = self._number(value, at, what)
        if not 0 <= seconds <= 10**6:
            refuse(at, f"{what}: {as_text(value)} s is out of range")
        return round(seconds * 10**9)

    def _rate(self, text: str, at: Place) -> str:
        """A rate as tc, ipfw and iperf write it."""
        match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) *([A-Za-z/]*)", text)
        if match is None or match[2].lower() not in RATES:
            refuse(at, f"{shown(text)} is no rate such as 10mbit")
        bits = round(Fraction(match[1]) * RATES[match[2].lower()])
        if not 1 <= bits <= 10**13:
            refuse(at, f"a rate of {text} is out of range")
        return units.format_rate(bits)

    def _size(self, text: str, at: Place) -> str:
        """A size as tc, ipfw and iperf write it: their kilobytes have 1024 bytes, ipfw's Kbytes 1000."""
        match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) *([A-Za-z]*)", text)
        if match is None or match[2].lower() not in SIZES:
            refuse(at, f"{shown(text)} is no size such as 100k")
        return units.format_size(round(Fraction(match[1]) * SIZES[match[2].lower()]))


def safe(name: str) -> str:
    """A name as the experiment file allows it."""
    made = re.sub(r"[^A-Za-z0-9_-]", "-", name)[:32].lstrip("-_")
    return made or "x"
