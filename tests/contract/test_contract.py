"""What crosses between Python and Rust is what its types say, and those are the engine's."""

import json
import runpy
from pathlib import Path

import jsonschema
import pytest

import cwndlab
from cwndlab import _native

ROOT = Path(__file__).parents[2]
TYPES = ROOT / "python/cwndlab/contract"
SCHEMAS = json.loads(_native.schemas())

LOADLATENCY = """
experiment: loaded
duration: 3s
hosts: {a: {stack: linux-6.18}, b: {stack: freebsd-13}}
network: {dumbbell: {left: [a], right: [b], bottleneck: {rate: 10mbit, delay: 10ms, queue: {kind: fq_codel}}}}
flows:
  - {name: loaded, from: a, to: b, app: {kind: loadlatency, scenario: 4, idle: 500ms}}
  - {name: echoes, from: a, to: b, app: ping}
"""


def check(document, value):
    schema = {**SCHEMAS["properties"][document], "$defs": SCHEMAS["$defs"]}
    jsonschema.Draft202012Validator(schema).validate(value)


def test_the_types_are_those_of_the_engine():
    made = runpy.run_path(str(ROOT / "crates/contract/typed_dicts.py"))["modules"](SCHEMAS)
    there = {file.stem: file.read_text(encoding="utf-8") for file in TYPES.glob("[!_]*.py")}
    differing = sorted(name for name in made | there if made.get(name) != there.get(name))
    assert differing == [], "crates/contract has changed: run `make contract`"


def test_the_page_of_parameters_is_the_catalogues():
    made = runpy.run_path(str(ROOT / "docs/parameters.py"))
    assert made["page"]() == made["PAGE"].read_text(encoding="utf-8"), "run `make contract`"


@pytest.mark.parametrize("name", ["two-flows", "chain", "incast", "network", "pause-frames"])
def test_scenarios_of_the_examples_follow_their_schema(name):
    for run in cwndlab.load(ROOT / f"examples/{name}.yaml").plan().runs[:3]:
        check("scenario", run.scenario)


def test_a_summary_follows_its_schema():
    scenario = cwndlab.load(LOADLATENCY).plan().runs[0].scenario
    check("scenario", scenario)
    run = _native.Simulation(json.dumps(scenario), 0)
    while not run.advance(1_000_000):
        pass
    summary = json.loads(run.summary())
    check("summary", summary)
    loads = [flow["load"] for flow in summary["flows"] if "load" in flow]
    assert {"observed", "longest_gap_ns"} <= {key for load in loads for key in load}


def test_the_catalogue_follows_its_schema():
    check("catalogue", json.loads(_native.catalogue()))
