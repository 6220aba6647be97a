"""Experiments of an evaluation with their contenders: one side, beside others in the same places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cwndlab import testbeds
from cwndlab.analysis.review.paths import BUFFERS, Plain
from cwndlab.analysis.review.sides import Side
from cwndlab.errors import InputError
from cwndlab.execution import runner
from cwndlab.experiment.catalogue import DATAGRAMS, Stack
from cwndlab.experiment.experiment import Experiment
from cwndlab.experiment.scenario.notes import MEMORY
from cwndlab.experiment.suites import evaluations
from cwndlab.experiment.suites.evaluations import SUITES, Subject
from cwndlab.testbeds import loader

AXIS = "contender"
PROPOSED = "proposed"
GUESTS_END = "-guest"
"""End of the name of a receiver that stands beside another: a connection of a guest ends at a guest."""


@dataclass(frozen=True)
class Arrangement:
    """An experiment with some of the contenders, and where it is carried out."""

    experiment: Experiment
    testbed: str
    lab: Path | None


def arranged(suite: str, name: str, side: Side, stack: Stack, repeats: int) -> list[Arrangement]:
    """Load an experiment of a suite for a side: once, or for two kernels with one, twice.

    Raises InputError, for a guest and a kernel also where they cannot carry it out.
    """
    proposed, others = {PROPOSED: side.cc}, {shown: each for each, shown in SUITES[suite].incumbents.items()}
    pairs: list[tuple[Mapping[str, str], Path | None]]
    if side.lab is None:
        pairs = [({**proposed, **others}, None)]
    elif side.lab == side.beside:
        pairs = [({**proposed, **others}, side.lab)]
    else:
        pairs = [(proposed, side.lab), (others, side.beside)]
    testbed = testbeds.MODEL if side.lab is None else testbeds.GUEST
    found = []
    for contenders, lab in pairs:
        text = _text(suite, name, contenders, stack, repeats)
        loaded = loader.load(text, testbed=testbed, lab=lab, modules=side.modules)
        if side.whole:
            runner.check(loaded, testbed, lab=lab)
        found.append(Arrangement(loaded, testbed, lab))
    return found


def _text(suite: str, name: str, contenders: Mapping[str, str], stack: Stack, repeats: int) -> str:
    """The experiment with an axis of the contenders: the senders that name no congestion control."""
    # The base loader leaves every value as it is written, `off` too.
    content: dict[str, Any] = yaml.load(evaluations.text_of(suite, name), yaml.BaseLoader)
    senders = {str(flow["from"]).partition(".")[0] for flow in content["flows"]}
    free = [host for host in content["hosts"] if host in senders and "cc" not in content["hosts"][host]]
    kernel = incumbents_stack(stack)
    # Where short transfers follow each other, hosts learn of earlier ones, as their systems do.
    memory = {
        key: value for key, value in MEMORY.items() if key in kernel.sysctls and _has_transfers(content)
    }
    for host in content["hosts"].values():
        host |= {"stack": kernel.name, "sysctl": {**BUFFERS.get(kernel.family, {}), **memory}}
    subject = SUITES[suite].subject
    keys = {
        Subject.CC: [f"hosts.{host}.cc" for host in free],
        Subject.MEDIA: [
            f"flows.{flow['name']}.app.controller" for flow in content["flows"] if _is_media(flow)
        ],
        Subject.QUEUE: ["network.dumbbell.bottleneck.queue"],
    }[subject]
    # A queue that the file describes has a size for tail drop.
    own = content["network"]["dumbbell"]["bottleneck"]["queue"] if subject is Subject.QUEUE else {}
    levels: dict[str, dict[str, object]] = {
        shown: dict.fromkeys(keys, own if own and own["kind"] == each else each)
        for shown, each in contenders.items()
    }
    if stack.guest:
        for host in (*free, *_receivers(content, free)):
            levels[PROPOSED] |= {f"hosts.{host}.stack": stack.name, f"hosts.{host}.sysctl": {}}
    content["sweep"] = [*content.get("sweep", []), {"name": AXIS, "values": levels}]
    content["repeat"] = repeats
    return yaml.dump(content, sort_keys=False, Dumper=Plain)


def _has_transfers(content: Mapping[str, Any]) -> bool:
    apps = [flow.get("app") for flow in content["flows"]]
    return any(isinstance(app, Mapping) and app["kind"] == "background" for app in apps)


def _is_media(flow: Mapping[str, Any]) -> bool:
    app = flow.get("app")
    return isinstance(app, Mapping) and app["kind"] == "media"


def incumbents_stack(stack: Stack) -> Stack:
    """The stack of the incumbents, and of all hosts that no guest runs on."""
    if not stack.guest:
        return stack
    known = loader.support(testbeds.MODEL).catalogue()
    return known.stacks[known.newest["linux"]]


def _receivers(content: dict[str, Any], free: list[str]) -> list[str]:
    """Where the contenders' connections end: at hosts of their own, in the place of those there are."""
    made: dict[str, None] = {}
    for flow in content["flows"]:
        app = flow.get("app", "bulk")
        kind = app["kind"] if isinstance(app, dict) else app
        if str(flow["from"]).partition(".")[0] not in free or kind in DATAGRAMS:
            continue
        receiver, dot, number = str(flow["to"]).partition(".")
        flow["to"] = f"{receiver}{GUESTS_END}{dot}{number}"
        made[receiver] = None
    dumbbell = content["network"].get("dumbbell")
    if dumbbell is None:
        raise InputError(
            "a guest ends its connections at hosts of their own, and this network has no place for them"
        )
    for receiver in made:
        twin = f"{receiver}{GUESTS_END}"
        content["hosts"][twin] = dict(content["hosts"][receiver])
        for side in ("left", "right"):
            if receiver in dumbbell[side]:
                dumbbell[side] = [*dumbbell[side], twin]
        if receiver in (of := dumbbell.get("access_of", {})):
            of[twin] = of[receiver]
    return [f"{receiver}{GUESTS_END}" for receiver in made]
