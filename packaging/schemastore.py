"""Writes what SchemaStore (schemastore.org) wants of the experiment file's JSON Schema: editors look there.

`python packaging/schemastore.py FOLDER`, where FOLDER is a checkout of SchemaStore or an empty folder: the
schema in draft-07, which it asks for, files that are valid and files that are not, and the entry of the
catalogue, to be put into `src/api/json/catalog.json` in the order of names. An editor then completes and
checks every file named `NAME.cwndlab.yaml`, with no line on top of it.
"""

import json
import sys
from pathlib import Path
from typing import Any

from cwndlab.experiment.suites import suites
from cwndlab.experiment.template import TEMPLATE
from cwndlab.testbeds.schema import for_editors

URL = "https://www.schemastore.org/cwndlab.json"
ENTRY = {
    "name": "cwndlab experiment",
    "description": "TCP experiments of cwndlab, the congestion-window laboratory",
    "fileMatch": ["*.cwndlab.yaml", "*.cwndlab.yml"],
    "url": URL,
}
DRAFT_07 = "http://json-schema.org/draft-07/schema#"

WRONG = {
    "a-rate-without-unit": ("rate: 10mbit", "rate: 10"),
    "an-unknown-key": ("duration:", "durration:"),
    "an-unknown-stack": ("stack: freebsd-", "stack: frebsd-"),
}
"""Faults by name: a text of the template, and the one in its place that makes a file invalid."""


def main() -> None:
    """Write the files."""
    folder = Path(sys.argv[1])
    for name, text in documents().items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        print(file)


def documents() -> dict[str, str]:
    """The files by their names in SchemaStore."""
    valid = {"template": TEMPLATE, **{suite.path.stem: suite.path.read_text("utf-8") for suite in suites()}}
    invalid = {name: altered(*change) for name, change in WRONG.items()}
    return {
        "catalog-entry.json": written(ENTRY),
        "src/schemas/json/cwndlab.json": written({"$schema": DRAFT_07, "$id": URL, **in_draft_07(schema())}),
        **{f"src/test/cwndlab/{name}.yaml": text for name, text in valid.items()},
        **{f"src/negative_test/cwndlab/{name}.yaml": text for name, text in invalid.items()},
    }


def schema() -> dict[str, Any]:
    """The schema of this version, without the dialect that it names."""
    return {key: value for key, value in for_editors().items() if key != "$schema"}


def in_draft_07(value: Any) -> Any:
    """Return a schema of draft 2020-12 in draft-07, where a reference stands alone, in `definitions`.

    Raises ValueError for a word of later drafts that it knows nothing of.
    """
    if isinstance(value, list):
        return [in_draft_07(each) for each in value]
    if not isinstance(value, dict):
        return value.replace("#/$defs/", "#/definitions/") if isinstance(value, str) else value
    if later := LATER & value.keys():
        raise ValueError(f"{min(later)} is a word of a later draft than 07")
    done = {"definitions" if key == "$defs" else key: in_draft_07(each) for key, each in value.items()}
    if isinstance(done.get("$ref"), str) and len(done) > 1:
        return {"allOf": [{"$ref": done.pop("$ref")}], **done}
    return done


LATER = {"prefixItems", "unevaluatedProperties", "unevaluatedItems", "dependentRequired", "dependentSchemas",
         "minContains", "maxContains", "$dynamicRef", "$anchor"}  # fmt: skip
"""Words of drafts 2019-09 and 2020-12 that change what is valid."""


def altered(old: str, new: str) -> str:
    """The template with a fault."""
    if old not in TEMPLATE:
        raise ValueError(f"{old!r} is not in the template")
    return TEMPLATE.replace(old, new, 1)


def written(value: object) -> str:
    """JSON as SchemaStore formats it."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
