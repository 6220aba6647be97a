"""Writes the modules of python/cwndlab/contract from the engine's JSON Schemas: `make contract`."""

import json
import keyword
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Schema = Mapping[str, Any]

PACKAGE = Path(__file__).resolve().parents[2] / "python/cwndlab/contract"
WIDTH = 110

MADE = "Made from crates/contract by `make contract`; not edited by hand."
TABLES = "The columns of the tables."

HEAD = '''"""{about} {made}"""

from __future__ import annotations

from typing import {typing}

from typing_extensions import TypedDict
'''

WORDS = {"integer": "int", "number": "float", "string": "str", "boolean": "bool", "null": "None"}


def main() -> None:
    """Write the modules."""
    from cwndlab import _native

    for name, text in modules(json.loads(_native.schemas())).items():
        (PACKAGE / f"{name}.py").write_text(text, encoding="utf-8")


def modules(schemas: Schema) -> dict[str, str]:
    """The text of a module for each document, with the types that those before it did not need."""
    definitions: Schema = schemas["$defs"]
    homes: dict[str, str] = {}
    texts = {}
    for document in schemas["required"]:
        schema = schemas["properties"][document]
        order: dict[str, None] = {}
        pending = list(references(schema))
        while pending:
            name = pending.pop(0)
            if name not in homes and name not in order:
                order[name] = None
                pending = [*references(definitions[name]), *pending]
        texts[document] = module(schema["description"], {name: definitions[name] for name in order}, homes)
        homes.update(dict.fromkeys(order, document))
    texts["tables"] = tables(schemas["tables"])
    return texts


def tables(all_columns: Iterable[tuple[str, Iterable[tuple[str, str]]]]) -> str:
    """The text of the module that names the columns of every table."""
    lines = ["TABLES: dict[str, dict[str, str]] = {\n"]
    for table, own in all_columns:
        lines.append(f'    "{table}": {{\n')
        lines += [f'        "{name}": "{kind}",\n' for name, kind in own]
        lines.append("    },\n")
    lines.append("}\n")
    about = "Columns of each table behind `run_id`: names, or numbers of so many bits."
    return f'''"""{TABLES} {MADE}"""\n\n''' + "".join(lines) + docstring(about, "")


def module(about: str, definitions: Schema, homes: Mapping[str, str]) -> str:
    """The text of a module, each type before those it needs; `homes` says where others are."""
    parts = [list(definition(name, schema)) for name, schema in definitions.items()]
    # An alias is made when the module is loaded, so it stands behind all classes.
    classes = [text for part in parts for text in part if not is_alias(text)]
    aliases = [text for part in reversed(parts) for text in part if is_alias(text)]
    body = "".join(f"\n\n{text}" for text in classes) + ("\n\n" if aliases else "") + "".join(aliases)
    used = [name for name in ("Literal", "NotRequired", "TypeAlias") if re.search(rf"\b{name}\b", body)]
    borrowed: dict[str, set[str]] = {}
    for name in set(references(definitions)) & set(homes):
        borrowed.setdefault(homes[name], set()).add(python_name(name))
    imports = [
        f"from cwndlab.contract.{home} import {', '.join(sorted(names))}\n"
        for home, names in sorted(borrowed.items())
    ]
    head = HEAD.format(about=about, made=MADE, typing=", ".join(used))
    return head + ("\n" if imports else "") + "".join(imports) + body


def is_alias(text: str) -> bool:
    """Whether a definition is another name for a type."""
    return text.partition("\n")[0].find(": TypeAlias") >= 0


def references(schema: object) -> Iterator[str]:
    """The names of the types that a schema needs."""
    if isinstance(schema, Mapping):
        if "$ref" in schema:
            yield schema["$ref"].rpartition("/")[2]
        for value in schema.values():
            yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def python_name(name: str) -> str:
    """The name of a type in Python; in Rust, a `Config` is not to be taken for the thing itself."""
    return name.removesuffix("Config")


def definition(name: str, schema: Schema) -> Iterator[str]:
    """A type, with a class for each of its kinds."""
    own = python_name(name)
    choices: list[Schema] = schema.get("oneOf") or schema.get("anyOf") or []
    if any("properties" in choice for choice in choices):
        kinds = []
        for choice in choices:
            word: str = choice["properties"]["kind"]["const"]
            kinds.append(own + "".join(part.capitalize() for part in re.split("[-_]", word)))
            yield typed_dict(kinds[-1], choice)
        yield alias(own, kinds, schema)
    elif "properties" in schema:
        yield typed_dict(own, schema)
    elif choices and all("const" in choice for choice in choices):
        words = [json.dumps(choice["const"]) for choice in choices]
        meanings = [f"`{choice['const']}`: {first_lower(prose(choice))}" for choice in choices]
        yield alias(own, words, schema, "Literal", meanings)
    else:
        yield alias(own, [spelled(schema)], schema)


def alias(
    name: str, members: list[str], schema: Schema, of: str = "", meanings: list[str] | None = None
) -> str:
    """A name for one of several types, or one of several words, with what they mean."""
    text = " ".join([prose(schema), *(meanings or [])])
    inside = f"{of}[{', '.join(members)}]" if of else " | ".join(members)
    line = f"{name}: TypeAlias = {inside}\n"
    if len(line) > WIDTH:
        if of:
            line = f"{name}: TypeAlias = {of}[\n" + "".join(f"    {member},\n" for member in members) + "]\n"
        else:
            body = "\n    | ".join(members)
            line = f"{name}: TypeAlias = (\n    {body}\n)\n"
    return line + docstring(text, "")


def typed_dict(name: str, schema: Schema) -> str:
    """A class for an object; a key that is a word of Python's comes from a base without a body."""
    required: list[str] = schema["required"]
    properties: Schema = schema["properties"]
    bases, before, fields = [], "", ""
    for key in [*required, *(key for key in properties if key not in required)]:
        words, about = spelled(properties[key]), prose(properties[key])
        if keyword.iskeyword(key):
            base = f"_{name}{key.capitalize()}"
            bases.append(base)
            before += f'{base} = TypedDict("{base}", {{"{key}": {words}}})\n{docstring(about, "")}\n\n'
        else:
            fields += f"    {key}: {words if key in required else f'NotRequired[{words}]'}\n"
            fields += docstring(about, "    ")
    head = f"class {name}({', '.join(bases) or 'TypedDict'}):\n{docstring(prose(schema), '    ')}"
    return f"{before}{head}\n{fields}"


def spelled(schema: Schema) -> str:
    """The type of a value in Python's words."""
    if "$ref" in schema:
        return python_name(schema["$ref"].rpartition("/")[2])
    if "const" in schema:
        return f"Literal[{json.dumps(schema['const'])}]"
    if "anyOf" in schema:
        return union(spelled(choice) for choice in schema["anyOf"])
    found = schema["type"]
    return union(plain(one, schema) for one in ([found] if isinstance(found, str) else found))


def union(types: Iterable[str]) -> str:
    """One of several types, None last."""
    members = dict.fromkeys(part for words in types for part in words.split(" | "))
    return " | ".join(sorted(members, key="None".__eq__))


def plain(word: str, schema: Schema) -> str:
    """A type of JSON in Python's words."""
    if word == "array":
        items: list[Schema] = schema.get("prefixItems") or [schema["items"]]
        return f"list[{union(spelled(item) for item in items)}]"
    if word == "object":
        return f"dict[str, {spelled(schema['additionalProperties'])}]"
    return WORDS[word]


def prose(schema: Schema) -> str:
    """Return Rust's documentation without its links; a key that says its kind has nothing to say."""
    text = " ".join(schema.get("description", "").split())
    return re.sub(r"\[(`[^`]+`)\]", r"\1", text)


def first_lower(text: str) -> str:
    """A sentence behind a colon."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def docstring(text: str, indent: str) -> str:
    """A documentation string, in one line if it fits."""
    if not text:
        return ""
    if len(indent) + len(text) + 6 <= WIDTH:
        return f'{indent}"""{text}"""\n'
    # Three less, so that what is too long with its closing quotes has two lines.
    lines = textwrap.wrap(text, WIDTH - 3 - len(indent), initial_indent='"""', break_on_hyphens=False)
    return "".join(f"{indent}{line}\n" for line in lines) + f'{indent}"""\n'


if __name__ == "__main__":
    main()
