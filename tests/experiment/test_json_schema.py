"""The JSON Schema: it enumerates what the engine knows, and accepts and refuses what loading does."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

import malformed
from cwndlab import load
from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.suites import suites
from cwndlab.experiment.template import TEMPLATE
from cwndlab.testbeds.schema import for_editors

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
FILES = {path.stem: path.read_text() for path in [*EXAMPLES, *(suite.path for suite in suites())]}
FILES["template"] = TEMPLATE
SCHEMA = for_editors()
VALIDATOR = Draft202012Validator(SCHEMA)


def definition(name: str) -> dict[str, Any]:
    found = SCHEMA["$defs"][name]
    assert isinstance(found, dict)
    return found


def kinds(union: dict[str, Any]) -> dict[str, set[str]]:
    """Return the kinds of a union and the parameters of each."""
    branches = [
        definition(option["$ref"].rpartition("/")[2]) for option in union["oneOf"] if "$ref" in option
    ]
    return {
        branch["properties"]["kind"]["const"]: set(branch["properties"]) - {"kind"} for branch in branches
    }


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_stacks_and_congestion_controls_are_the_engines() -> None:
    known = catalogue()
    host = definition("Host")["properties"]
    assert set(host["stack"]["enum"]) == set(known.stacks) | set(known.newest)
    ccs = {cc for stack in known.stacks.values() for cc in (*stack.cc, *stack.cc_alias)}
    assert set(host["cc"]["enum"]) == ccs
    assert set(definition("Flow")["properties"]["cc"]["enum"]) == ccs


def test_sysctls_are_the_engines() -> None:
    known = {name for stack in catalogue().stacks.values() for name in stack.sysctls}
    names = set(definition("Host")["properties"]["sysctl"]["propertyNames"]["enum"])
    assert known <= names
    assert all(f"{name}.min" in known for name in names - known)


def test_queues_and_their_parameters_are_the_engines() -> None:
    queue = definition("Link")["properties"]["queue"]
    assert set(queue["oneOf"][0]["enum"]) == set(catalogue().queues)
    known = {name: {param.name for param in kind.known()} for name, kind in catalogue().queues.items()}
    assert kinds(queue) == known


def test_apps_and_their_parameters_are_the_engines() -> None:
    app = definition("Flow")["properties"]["app"]
    assert set(app["oneOf"][0]["enum"]) == set(catalogue().apps)
    known = {name: {param.name for param in kind.known()} for name, kind in catalogue().apps.items()}
    assert kinds(app) == known


def test_losses_are_the_engines() -> None:
    assert set(definition("Loss")["properties"]) == set(catalogue().losses)


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_files_that_load_are_valid(text: str) -> None:
    VALIDATOR.validate(yaml.safe_load(text))
    VALIDATOR.validate(yaml.safe_load(load(text).as_yaml()))


SHAPE = [
    "unknown top-level key", "unknown key of a host", "unknown key of a queue", "missing key",
    "missing end of a flow", "a list for a mapping", "a mapping for a list", "a rate without unit",
    "a rate with another tool's unit", "a time with a rate's unit", "no repeat", "unknown stack",
    "unknown congestion control", "unknown queue", "limit of a queue that has none", "unknown app",
    "unknown sysctl",
    "two kinds of loss", "sweep over the seed", "sweep as a mapping", "an axis with two keys",
    "a named axis without values", "a named axis without a name", "a named axis with a key more",
    "a named axis with a list", "a named axis without levels", "an axis with a dot in its name",
    "a level that is a word", "a level with a long name", "a level with the seed",
    "an axis without values", "a path as a name", "a shell word as a name", "a path as a host",
]  # fmt: skip


@pytest.mark.parametrize("name", SHAPE)
def test_malformed_files_are_invalid(name: str) -> None:
    ((old, new),) = [(old, new) for case, old, new in malformed.EDITS if case == name]
    assert not VALIDATOR.is_valid(yaml.safe_load(malformed.GOOD.replace(old, new, 1)))


def test_the_good_file_is_valid() -> None:
    VALIDATOR.validate(yaml.safe_load(malformed.GOOD))
    named = malformed.GOOD.replace(malformed.AXIS, malformed.TUNING)
    VALIDATOR.validate(yaml.safe_load(named))
    VALIDATOR.validate(yaml.safe_load(load(named).as_yaml()))


def test_every_key_is_described() -> None:
    for name, entry in SCHEMA["$defs"].items():
        for key, value in entry.get("properties", {}).items():
            assert key == "kind" or value.get("description"), f"{name}.{key}"
