"""The schema for SchemaStore: in draft-07 it says the same of every file, and its entry matches few names."""

import fnmatch
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator, Draft202012Validator

import malformed
from cwndlab.testbeds.schema import for_editors

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("schemastore", ROOT / "packaging" / "schemastore.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def documents(program: ModuleType) -> dict[str, str]:
    found: dict[str, str] = program.documents()
    return found


@pytest.fixture(scope="module")
def schema(documents: dict[str, str]) -> Any:
    return json.loads(documents["src/schemas/json/cwndlab.json"])


def test_it_is_a_schema_of_draft_07_of_its_own_address(schema: Any, documents: dict[str, str]) -> None:
    Draft7Validator.check_schema(schema)
    entry = json.loads(documents["catalog-entry.json"])
    assert entry.keys() == {"name", "description", "fileMatch", "url"}
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert schema["$id"] == entry["url"]


def test_no_reference_has_neighbours_which_draft_07_would_not_see(schema: Any) -> None:
    ahead, references = [schema], 0
    while ahead:
        value = ahead.pop()
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                assert value.keys() == {"$ref"}
                assert value["$ref"].removeprefix("#/definitions/") in schema["definitions"]
                references += 1
            ahead += value.values()
        elif isinstance(value, list):
            ahead += value
    assert references > 20


def test_files_beside_it_are_valid_or_not_as_their_folder_says(
    schema: Any, documents: dict[str, str]
) -> None:
    files = {name: text for name, text in documents.items() if name.endswith(".yaml")}
    validator = Draft7Validator(schema)
    said = {name: validator.is_valid(yaml.safe_load(text)) for name, text in files.items()}
    assert said == {name: "negative" not in name for name in files}
    assert set(said.values()) == {True, False}


def test_both_drafts_say_the_same_of_every_malformed_file(schema: Any) -> None:
    ours, theirs = Draft202012Validator(for_editors()), Draft7Validator(schema)
    told = []
    for name, old, new in malformed.EDITS:
        try:
            content = yaml.safe_load(malformed.GOOD.replace(old, new, 1))
        except yaml.YAMLError:
            continue
        assert ours.is_valid(content) == theirs.is_valid(content), name
        told.append(ours.is_valid(content))
    assert True in told and False in told


def test_names_that_others_use_are_not_taken(documents: dict[str, str]) -> None:
    patterns = json.loads(documents["catalog-entry.json"])["fileMatch"]

    def taken(name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    assert taken("home.cwndlab.yaml") and taken("home.cwndlab.yml")
    assert not any(map(taken, ["experiment.yaml", "cwndlab.yaml", "docker-compose.yml", "home.yaml"]))


def test_a_word_of_a_later_draft_is_no_surprise(program: ModuleType) -> None:
    with pytest.raises(ValueError, match="prefixItems is a word of a later draft than 07"):
        program.in_draft_07({"properties": {"a": {"prefixItems": []}}})
