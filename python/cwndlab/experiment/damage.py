"""Faults of data that were read, in words, as what Python, the engine and pydantic raise is none."""

from __future__ import annotations

import json
import re

from pydantic import ValidationError

from cwndlab.errors import shown

OTHER_KIND = "a value is of another kind than it should be"


def damage(error: Exception) -> str:
    """Return the fault of data that were read, by what the reader raised, in words for a message.

    Takes what pydantic and Python's json raise; `of_engine` takes what the engine does.
    """
    match error:
        case json.JSONDecodeError():
            ends = error.pos >= len(error.doc.rstrip())
            what = "it breaks off" if ends else "it is damaged"
            said = f"{what} in line {error.lineno}, column {error.colno}"
        case KeyError():
            said = f"no {shown(str(error.args[0]))}"
        case RecursionError():
            said = "it is nested too deeply"
        case ValidationError():
            said = _of_field(error)
        case UnicodeError():
            said = "it is no text in UTF-8"
        case OSError():
            said = error.strerror or str(error)
        case _:
            said = OTHER_KIND
    return said


def of_engine(error: ValueError) -> str:
    """Return a fault of data that the engine read: serde's where it ends with a place, or else its own."""
    found = re.fullmatch(r"(?s)(.*) at line ([0-9]+) column ([0-9]+)", str(error))
    return _of_serde(found[1], f"in line {found[2]}, column {found[3]}") if found else str(error)


def _of_serde(said: str, place: str) -> str:
    """Return a fault of JSON as serde says it, in plain words."""
    if found := re.fullmatch("missing field `(.*)`", said):
        return f"no {shown(found[1])} {place}"
    if found := re.match("(?:unknown field|duplicate field) `(.*?)`", said):
        return f"{shown(found[1])} stands there {'twice' if said[0] == 'd' else 'and should not'}, {place}"
    if said.startswith("EOF"):
        return f"it breaks off {place}"
    if said.startswith("invalid "):
        return f"{OTHER_KIND}, {place}"
    return f"it is damaged {place}"


def _of_field(error: ValidationError) -> str:
    """Return the first fault that pydantic found, in words."""
    fault = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, fault["loc"]))
    match fault["type"]:
        case "json_invalid":
            return of_engine(ValueError(fault["msg"].removeprefix("Invalid JSON: ")))
        case "missing" | "missing_argument" | "missing_keyword_only_argument":
            return f"no {shown(place)}"
        case "extra_forbidden" | "unexpected_keyword_argument":
            return f"{shown(place)} stands there and should not"
        case "value_error":
            return f"{shown(place)}: {fault['msg'].removeprefix('Value error, ')}"
    return f"{shown(place)} is of another kind than it should be"
