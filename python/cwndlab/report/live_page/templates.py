"""Writes what the page makes Scenarios of: the plan's own, with names where the page puts values.

`python -m cwndlab.report.live_page.templates FILE`, a part of `make web`. Each is planned twice, with
different values: a number that does not come from one value alone would show.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import yaml

from cwndlab.contract.scenario import Link, Scenario
from cwndlab.experiment.catalogue import Catalogue
from cwndlab.experiment.scenario import planner
from cwndlab.report.live_page import settings as lab
from cwndlab.report.live_page.settings import Flow, Settings
from cwndlab.testbeds import loader

MAX_FLOWS = 4

Json = Any

Part = Callable[[Scenario], Json]
"""Function that picks the part of a Scenario that is the template."""

_FIRST = Settings(
    flows=(), rate=7_000_003, rtt=62_000_034, buffer=1237, loss=1_000_033, buffers=1_300_021, merge=37,
    processing=43_019,
    rate_then=3_000_089, rate_at=7_000_000_093, duration=61_000_000_039, measure=5_000_000_041,
    seed=1009, start_jitter=1_000_047, access=9_000_000_049, tcp=11_000_051,
    queue_every=13_000_053, experiment="EXPERIMENT",
)  # fmt: skip
_SECOND = Settings(
    flows=(), rate=5_000_011, rtt=46_000_058, buffer=4547, loss=2_000_069, buffers=2_500_009, merge=53,
    processing=59_023,
    rate_then=1_000_103, rate_at=9_000_000_107, duration=71_000_000_081, measure=3_000_000_083,
    seed=2003, start_jitter=2_000_087, access=8_000_000_093, tcp=17_000_099,
    queue_every=19_000_101, experiment="OTHER",
)  # fmt: skip


def plan(settings: Settings, families: Mapping[str, str]) -> Scenario:
    """Return the Scenario that the plan makes of the settings' experiment file."""
    return planner.make(loader.load(lab.yaml_text(settings, families))).runs[0].scenario


def families_of(catalogue: Catalogue) -> dict[str, str]:
    """Return the family of each stack that the page has: guests do not run in a browser."""
    return {name: stack.family for name, stack in catalogue.stacks.items() if not stack.guest}


def templates(catalogue: Catalogue) -> Json:
    """Return everything that the page needs of Python."""
    families = families_of(catalogue)
    return {
        "stacks": [
            {"name": stack.name, "inferred": stack.inferred, "family": stack.family, "cc": list(stack.cc)}
            for stack in catalogue.stacks.values()
            if not stack.guest
        ],
        "bases": [_template(_whole, Settings(_flows(count)), families) for count in range(1, MAX_FLOWS + 1)],
        "hosts": dict(_hosts(families)),
        "queues": dict(_queues(families)),
        "loss": _template(lambda scenario: _bottleneck(scenario)["loss"], Settings(_flows(1)), families),
        "noise": _template(
            lambda scenario: scenario["hosts"][0]["noise"], Settings(_flows(1), processing=1), families
        ),
        "change": _template(
            lambda scenario: scenario["schedule"], Settings(_flows(1), rate_then=1), families
        ),
        "yaml": {
            "experiment": lab.EXPERIMENT,
            "host": lab.HOST,
            "flow": lab.FLOW,
            "access": lab.ACCESS,
            "loss": lab.LOSS,
            "change": lab.CHANGE,
            "queues": lab.QUEUES,
            "withEcn": list(lab.WITH_ECN),
        },
        "defaults": {name: value for name, value in vars(Settings(())).items() if name != "flows"},
        "presets": yaml.safe_load(
            resources(__package__).joinpath("presets.yaml").read_text(encoding="utf-8")
        ),
    }


def _flows(count: int, scale: int = 1, word: str = "") -> tuple[Flow, ...]:
    """Flows whose numbers and names are each their own."""
    return tuple(
        Flow(
            "linux-6.8",
            "cubic",
            scale * 1_000_000_007 * n,
            scale * 4_000_012 * n,
            names=(f"{word}NAME{n}", f"{word}FROM{n}", f"{word}TO{n}"),
        )
        for n in range(1, count + 1)
    )


def _whole(scenario: Scenario) -> Json:
    """The Scenario without what has templates of its own."""
    return {
        **scenario,
        "hosts": [],
        "links": [
            {
                **link,
                "queue": "@queue" if link["queue"] == _bottleneck(scenario)["queue"] else link["queue"],
                "loss": "@loss" if link["loss"] else None,
            }
            for link in scenario["links"]
        ],
        "flows": [{**flow, "cc": f"{{cc{n}}}"} for n, flow in enumerate(scenario["flows"], 1)],
    }


def _hosts(families: Mapping[str, str]) -> Iterator[tuple[str, Json]]:
    """Yield every host that there can be, by its stack and what is set of it."""
    for stack in families:
        for number in range(8):
            ecn, buffers, merge = bool(number & 1), bool(number & 2), bool(number & 4)
            flows = (
                replace(_flows(1)[0], stack=stack, cc="reno" if families[stack] == "linux" else "newreno"),
            )
            chosen = Settings(flows, ecn=ecn, buffers=1 if buffers else None, merge=int(merge))
            yield lab.host_key(stack, chosen, receives=True), _template(_receiver, chosen, families)


def _receiver(scenario: Scenario) -> Json:
    return {**scenario["hosts"][1], "name": "{host}"}


def _queues(families: Mapping[str, str]) -> Iterator[tuple[str, Json]]:
    for kind in lab.QUEUES:
        for ecn in (False, True):
            chosen = Settings(_flows(1), queue=kind, ecn=ecn)
            yield (
                lab.queue_key(chosen),
                _template(lambda scenario: _bottleneck(scenario)["queue"], chosen, families),
            )


def _bottleneck(scenario: Scenario) -> Link:
    return next(link for link in scenario["links"] if link["name"] == "bottleneck")


def _template(part: Part, chosen: Settings, families: Mapping[str, str]) -> Json:
    """Return a part of the Scenario with names for values; raises ValueError where that is not all of it."""
    first, second = (
        replace(
            example,
            flows=tuple(
                replace(flow, stack=chosen.flows[0].stack, cc=chosen.flows[0].cc)
                for flow in _flows(len(chosen.flows), scale, word)
            ),
            queue=chosen.queue,
            ecn=chosen.ecn,
            buffers=example.buffers if chosen.buffers or part is _whole else None,
            merge=example.merge if chosen.merge else 0,
            processing=example.processing if chosen.processing else 0,
            rate_then=example.rate_then if chosen.rate_then else None,
            rate_at=example.rate_at if chosen.rate_then else 0,
        )
        for example, scale, word in ((_FIRST, 1, ""), (_SECOND, 2, "X"))
    )
    template = _named(part(plan(first, families)), first)
    if filled(template, second) != part(plan(second, families)):
        raise ValueError(f"{chosen}: what the plan makes of other values is not what the page would")
    return template


def _words(settings: Settings) -> dict[str, str]:
    """The names of a Scenario by what they are called in templates."""
    words = {"experiment": settings.experiment}
    for number, flow in enumerate(settings.flows, 1):
        kinds = ("name", "from", "to")
        words |= {f"{kind}{number}": name for kind, name in zip(kinds, flow.named(number), strict=True)}
    return words


def _named(value: Json, settings: Settings) -> Json:
    """A part of a Scenario with `{"$": NAME}` for numbers, and `{NAME}` in words."""
    of_number = {number: name for name, number in lab.numbers(settings).items() if number}
    match value:
        case dict():
            return {key: _named(each, settings) for key, each in value.items()}
        case list():
            return [_named(each, settings) for each in value]
        case str():
            for name, word in _words(settings).items():
                value = value.replace(word, f"{{{name}}}")
        case int() if not isinstance(value, bool) and value in of_number:
            return {"$": of_number[value]}
    return value


def filled(template: Json, settings: Settings) -> Json:
    """A template with the values in it, as the page makes it."""
    match template:
        case {"$": name}:
            return lab.numbers(settings)[name]
        case dict():
            return {key: filled(each, settings) for key, each in template.items()}
        case list():
            return [filled(each, settings) for each in template]
        case str():
            return lab.fill(template, _words(settings))
    return template


def main(file: Path) -> None:
    """Write the templates of this machine's engine."""
    catalogue = loader.support("sim").catalogue()
    file.write_text(json.dumps(templates(catalogue), separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
