"""The experiment file's JSON Schema (draft 2020-12), so that editors complete and check it.

It is the schema of `schema` with the names of the engine's catalogue filled in: what it enumerates is
what the engine accepts. Keys that a testbed does not carry out yet stay, and say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from cwndlab.experiment.catalogue import Catalogue, catalogue
from cwndlab.experiment.locate import SWEPT
from cwndlab.experiment.schema import Section, Spec
from cwndlab.experiment.schema.parameters import Kinded
from cwndlab.experiment.support import Support
from cwndlab.experiment.sweep import MAX_LEVEL, NAME

DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""The dialect of JSON Schema that is written."""

Schema = dict[str, Any]
_Section = TypeVar("_Section", bound=Section)


def json_schema(schema: type[Spec], testbeds: Iterable[Support]) -> Schema:
    """Return the JSON Schema of experiment files, with what testbeds do not support."""
    known = catalogue()
    document = schema.model_json_schema(by_alias=True)
    # Lab files have sections of their own, one of them also called Host.
    sections = {
        section.__name__: section
        for section in _sections(Section)
        if not section.__module__.endswith(".lab_file")
    }
    definitions: Schema = document.pop("$defs")
    definitions["Spec"] = document
    for name, definition in definitions.items():
        if name in sections:
            _close(definition, sections[name], testbeds)
    _shorthands(definitions)
    _fill_in(definitions, known)
    root = definitions.pop("Spec")
    root["properties"]["sweep"] = _sweep()
    root["$defs"] = _reachable(root, definitions)
    return {"$schema": DIALECT, "title": "cwndlab experiment", **_without_null(root)}


def _sections(section: type[_Section]) -> Iterator[type[_Section]]:
    yield section
    for child in section.__subclasses__():
        yield from _sections(child)


def _close(definition: Schema, section: type[Section], testbeds: Iterable[Support]) -> None:
    """Refuse unknown keys; write defaults as a file would; say what is not carried out."""
    definition["additionalProperties"] = False
    definition.pop("title", None)
    for name, field in section.model_fields.items():
        key = field.alias or name
        entry = definition["properties"][key]
        entry.pop("title", None)
        entry.pop("default", None)
        if not field.is_required() and field.default is not None:
            default = _default_text(section, name)
            if default not in ({}, [], None):
                entry["default"] = default
        for testbed in testbeds:
            carried = testbed.keys.get(section.section)
            if carried is not None and key not in carried:
                what = (
                    "true is not supported"
                    if key in testbed.only_off.get(section.section, ())
                    else "not supported"
                )
                entry["description"] += f" ({what} by testbed {testbed.testbed} yet)"


def _default_text(section: type[Section], name: str) -> Any:
    """Return a key's default as a file would write it, or None where it follows from another link."""
    bare = section.model_construct()
    return next(iter(bare.model_dump(by_alias=True, exclude_none=True, include={name}).values()), None)


def _shorthands(definitions: Schema) -> None:
    """Allow what the file allows besides: a kind alone, and true, false and names as capture points."""
    for definition in list(definitions.values()):
        for key, entry in definition.get("properties", {}).items():
            if key in {"queue", "app"} and definition is not definitions["Record"]:
                kinds = _branch(entry, "oneOf")
                words = [ref["$ref"].rpartition("/")[2] for ref in kinds["oneOf"]]
                names = [definitions[word]["properties"]["kind"]["const"] for word in words]
                kinds["oneOf"] = [{"enum": names}, *kinds["oneOf"]]
                kinds.pop("discriminator", None)
    pcap = definitions["Record"]["properties"]["pcap"]
    pcap["items"] = {"anyOf": [pcap["items"], {"type": "string"}]}
    points = {key: pcap.pop(key) for key in ("type", "items")}
    pcap["anyOf"] = [{"type": "boolean"}, points]


def _fill_in(definitions: Schema, known: Catalogue) -> None:
    """Put the catalogue's names where the schema has words only."""
    stacks = known.stack_names()
    ccs = _unique(cc for stack in known.stacks.values() for cc in (*stack.cc, *stack.cc_alias))
    sysctls = _unique(name for stack in known.stacks.values() for name in stack.settable())
    host, flow = definitions["Host"]["properties"], definitions["Flow"]["properties"]
    host["stack"] = {"enum": stacks, "description": host["stack"]["description"]}
    for entry in (host["cc"], flow["cc"]):
        description = entry["description"]
        entry.clear()
        entry.update({"enum": ccs, "description": description})
    host["sysctl"]["propertyNames"] = {"enum": sysctls}
    loss = definitions["Loss"]["properties"]
    definitions["Loss"]["properties"] = {kind: loss[kind] for kind in loss if kind in known.losses}
    definitions["Loss"].update({"minProperties": 1, "maxProperties": 1})
    _keep_carried(definitions)


def _keep_carried(definitions: Schema) -> None:
    """Keep the parameters of queue disciplines and applications that somebody carries out."""
    for section in _sections(Kinded):
        if section.__name__ in definitions:
            keys = {"kind", *(param.name for param in section.table.known())}
            properties = definitions[section.__name__]["properties"]
            definitions[section.__name__]["properties"] = {
                key: properties[key] for key in properties if key in keys
            }


def _sweep() -> Schema:
    swept = f"^({'|'.join(SWEPT)})(\\..+)?$"
    column = {"type": "array", "minItems": 1, "description": "values of this key"}
    word = {
        "type": "string",
        "pattern": f"^{NAME.pattern}$",
        "description": "the column of this axis in tables",
    }
    level = {
        "type": ["object", "null"],
        "description": "keys that this level sets, with a value each; others are as the file has them",
        "patternProperties": {swept: {}},
        "additionalProperties": False,
    }
    axis: Schema = {
        "minProperties": 1,
        "maxProperties": 1,
        "properties": {
            "zip": {
                "type": "object",
                "description": "keys that change together",
                "patternProperties": {swept: column},
                "additionalProperties": False,
                "minProperties": 1,
            }
        },
        "patternProperties": {swept: column},
        "additionalProperties": False,
    }
    named: Schema = {
        "properties": {
            "name": word,
            "values": {
                "type": "object",
                "description": "levels by their names",
                "propertyNames": {"maxLength": MAX_LEVEL},
                "additionalProperties": level,
                "minProperties": 1,
            },
        },
        "required": ["name", "values"],
        "additionalProperties": False,
    }
    return {
        "type": "array",
        "description": "axes, crossed in this order: a dotted key with its values, zip with several such, "
        "or a name with levels",
        "items": {"type": "object", "if": {"required": ["name"]}, "then": named, "else": axis},
    }


def _branch(entry: Schema, key: str) -> Schema:
    """Return the schema that holds ``key``: the entry, or the part of it that is not null."""
    if key in entry:
        return entry
    return next(option for option in entry["anyOf"] if key in option)


def _reachable(root: Schema, definitions: Schema) -> Schema:
    """Return the definitions that something refers to, in their order."""
    wanted: set[str] = set()
    open_ = [root]
    while open_:
        for name in _references(open_.pop()):
            if name not in wanted:
                wanted.add(name)
                open_.append(definitions[name])
    return {name: definitions[name] for name in definitions if name in wanted}


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].rpartition("/")[2]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _without_null(node: Any) -> Any:
    """Drop the alternative null, which no file can write, and names that no pattern allows."""
    if isinstance(node, list):
        return [_without_null(value) for value in node]
    if not isinstance(node, dict):
        return node
    node = {key: _without_null(value) for key, value in node.items()}
    if "patternProperties" in node:
        node.pop("propertyNames", None)
        node["additionalProperties"] = False
    options = node.get("anyOf")
    if isinstance(options, list):
        rest = [option for option in options if option != {"type": "null"}]
        if len(rest) == 1:
            del node["anyOf"]
            return {**rest[0], **node}
        node["anyOf"] = rest
    return node


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
