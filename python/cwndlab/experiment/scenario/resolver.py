"""Look-ups for resolving: stacks, congestion controls, impairments, files beside the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from cwndlab.contract import scenario as contract
from cwndlab.errors import nearest, one_of, shown
from cwndlab.experiment import hints, units
from cwndlab.experiment.catalogue import Catalogue, Kind, Stack
from cwndlab.experiment.locate import Misplaced, Path
from cwndlab.experiment.rows import Rows
from cwndlab.experiment.scenario import companion_files
from cwndlab.experiment.scenario.graph import Routes
from cwndlab.experiment.scenario.memo import Memo, Piece
from cwndlab.experiment.scenario.topology import Cables, origin
from cwndlab.experiment.schema import (
    Flow,
    Host,
    Jitter,
    Loss,
    Match,
    Spec,
)
from cwndlab.experiment.schema.cc_params import Constants
from cwndlab.experiment.schema.parameters import Kinded
from cwndlab.experiment.support import Support
from cwndlab.experiment.units import BadValue

_T = TypeVar("_T")
HEADERS: dict[str, int] = {"ipv4": 40, "ipv6": 60}
"""Bytes of an IP and a TCP header without options, by IP version: MTU less MSS (RFC 879, RFC 6691)."""


@dataclass(frozen=True, slots=True)
class PlannedFlow:
    """One flow of the run: where it stands, its ends and the wires it takes there and back, by name."""

    name: str
    path: Path
    from_: str
    to: str
    start_ns: int
    forward: tuple[str, ...]
    back: tuple[str, ...]
    load: tuple[str, str] | None = None
    """Name of the pinger, and the part, of a connection of a loadlatency scenario. None for others."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The flows of a run, and which wires carry their data; equal for equal keys."""

    key: Hashable
    ways: Hashable
    """Equal where flows between the same ends take the same ways."""
    flows: tuple[PlannedFlow, ...]
    pairs: tuple[PlannedFlow, ...]
    """One of the flows between each two ends."""
    carried: Mapping[str, int]
    """The number of flows whose data a wire carries, by its name."""


Draft = tuple[contract.Link, tuple[str, ...]]
"""A link with numbers that are another's, and canonical JSON around them."""


@dataclass(frozen=True, slots=True)
class Known:
    """Parts of the Scenarios of other cells, by the rows of the axes that touch what they are made of."""

    checked: Memo[None] = field(default_factory=Memo)
    cables: Memo[Cables] = field(default_factory=Memo)
    traffic: Memo[Traffic] = field(default_factory=Memo)
    routes: Memo[Routes] = field(default_factory=Memo)
    nodes: Memo[Piece[list[contract.Node]]] = field(default_factory=Memo)
    links: Memo[Piece[list[contract.Link]]] = field(default_factory=Memo)
    drafts: Memo[Piece[list[Draft]]] = field(default_factory=Memo)
    hosts: Memo[Piece[contract.Host]] = field(default_factory=Memo)
    flows: Memo[Piece[contract.Flow]] = field(default_factory=Memo)
    numbers: dict[Hashable, int] = field(default_factory=dict)

    def number(self, key: Hashable) -> int:
        """Return a number for a long key, equal for equal keys and quicker to look up."""
        return self.numbers.setdefault(key, len(self.numbers))


@dataclass(slots=True)
class Resolver:
    """Resolver of a cell of an experiment, for a testbed."""

    spec: Spec
    file: str
    catalogue: Catalogue
    support: Support
    rows: Rows
    known: Known
    notes: list[str] = field(default_factory=list)

    def model(self, flow: PlannedFlow) -> Flow:
        """Return a flow of the run as the file has it."""
        return self.spec.flows[int(flow.path[1])]

    def piece(self, make: Callable[..., _T], *of: object) -> Piece[_T]:
        """Return a part of the Scenario, which is made `of` something, with the notes that come of it."""
        before = len(self.notes)
        made = make(*of)
        notes = tuple(self.notes[before:])
        del self.notes[before:]
        return Piece(made, notes)

    def family(self, host: Host) -> str:
        """Return the IP version of a host."""
        return host.family or self.spec.network.family

    def headers(self, host: Host) -> int:
        """Return the bytes of an IP and a TCP header of a host's packets, without options."""
        return HEADERS[self.family(host)]

    def stack(self, host: str) -> Stack:
        """Return the stack of a host of the file."""
        name = self.spec.hosts[host].stack
        stack = self.catalogue.stack(name)
        if stack is None:
            names = self.catalogue.stack_names()
            own = name.partition("guest:")[2]
            hint = f"--guest {own}=FILE says what it is" if own else nearest(name, names)
            bad = BadValue(shown(name) if name else "nothing", one_of(names), hint)
            raise Misplaced(("hosts", host, "stack"), bad)
        return stack

    def cc(self, name: str, stack: Stack, path: Path) -> str:
        """Return a congestion control by its own name; refuse one that a stack does not have."""
        own = stack.cc_alias.get(name, name)
        if own not in stack.cc:
            hint = hints.word(name, stack.cc)
            is_kernel = self.support.runs_kernel and not stack.guest
            if hint is None and is_kernel and re.fullmatch(r"[a-z0-9_]+", name, re.ASCII):
                hint = self.support.missing_cc.format(name)
            raise Misplaced(path, BadValue(shown(name), f"{one_of(stack.cc)} on {stack.name}", hint))
        return own

    def cc_params(self, section: Constants, cc: str, stack: Stack, path: Path) -> contract.CcParams:
        """Return the constants of a congestion control as the Scenario has them; refuse one without them."""
        if self.support.runs_kernel:
            problem = f"not supported by testbed {self.support.testbed}: real kernels have them as constants"
            raise Misplaced(path, BadValue(problem=problem))
        kind = self.catalogue.cc_params.get(cc)
        able = stack.family in {"freebsd", "linux"}
        if kind is None or not able:
            known = one_of(name for name in self.catalogue.cc_params if name in stack.cc)
            problem = f"{cc} on {stack.name} has no constants that an experiment changes"
            problem += f"; {known} has" if able else ""
            raise Misplaced(path, BadValue(problem=problem))
        names = [param.name for param in kind.params]
        for key, _ in section.written():
            if key not in names:
                raise Misplaced((*path, key), BadValue(f"the constant {key} of {cc}", one_of(names)))
        values = {param.field: param.resolved(getattr(section, param.name)) for param in kind.params}
        return cast(contract.CcParams, {"kind": cc, **values})  # its keys are those of the catalogue

    def buffers(self, flow: PlannedFlow) -> tuple[int | None, int | None]:
        """Return SO_SNDBUF of a flow's sender and SO_RCVBUF of its receiver, None for autotuning."""
        sender, receiver = (self.spec.hosts[origin(end, self.spec.hosts)] for end in (flow.from_, flow.to))
        model = self.model(flow)
        return buffer(model.sndbuf or sender.sndbuf), buffer(model.rcvbuf or receiver.rcvbuf)

    def parameters(self, section: Kinded, kind: Kind, path: Path) -> dict[str, Any]:
        """Return a queue discipline or an app as the Scenario has it; refuse what nobody carries out."""
        what = f"{section.section} {kind.kind}"
        for key, _ in section.written():
            if key != "kind" and all(key != param.name for param in kind.known()):
                problem = f"{key} of {what} is not supported by testbed {self.support.testbed} yet"
                raise Misplaced((*path, key), BadValue(problem=problem))
        given = {
            param.field: param.resolved(section.given(param.name)) for param in kind.params if param.field
        }
        return {"kind": kind.kind, **given}

    def beyond(self, time: int, path: Path) -> None:
        """Refuse a time that lies behind the end of the run."""
        expected = f"a time within the duration, {units.format_time(self.spec.duration)}"
        raise Misplaced(path, BadValue(shown(units.format_time(time)), expected))

    def loss(self, loss: Loss | None, path: Path) -> contract.Loss | None:
        """Return a loss model."""
        if loss is None:
            return None
        ((kind, value),) = loss.written()
        if kind not in self.catalogue.losses:
            problem = f"not supported by testbed {self.support.testbed} yet"
            raise Misplaced((*path, kind), BadValue(problem=problem))
        if loss.random is not None:
            return {"kind": "random", "probability_ppb": loss.random}
        if loss.nth is not None:
            nth, match = loss.nth, loss.nth.match or Match()
            return {
                "kind": "nth",
                "every": nth.every,
                "packet": nth.packet,
                "min_payload": max(nth.min_payload, match.min_payload or 0),
                "dport": match.dport,
                "sport": match.sport,
            }
        if loss.gilbert is not None:
            chain = loss.gilbert
            return {
                "kind": "gilbert",
                "p_ppb": chain.p,
                "r_ppb": chain.r,
                "loss_bad_ppb": chain.loss_bad,
                "loss_good_ppb": chain.loss_good,
            }
        if value != sorted(set(value)):
            raise Misplaced(
                (*path, "list"), BadValue("a list out of order", "packets in ascending order, each once")
            )
        return {"kind": "list", "packets": value}

    def jitter(self, jitter: Jitter | None, path: Path) -> contract.Jitter | None:
        """Return the variation of a delay."""
        if jitter is None:
            return None
        for key, needed in (("sd", True), ("file", jitter.kind == "file")):
            if needed and getattr(jitter, key) is None:
                raise Misplaced((*path, key), BadValue(problem="missing; this key is required"))
        table = None
        if jitter.file is not None:
            if jitter.kind != "file":
                raise Misplaced((*path, "file"), BadValue(f"a file with kind {jitter.kind}", "kind: file"))
            table = self.companion(companion_files.deviations, jitter.file, (*path, "file"))
        kind = cast(contract.JitterKind, "table" if table else jitter.kind)
        return {"kind": kind, "sd_ns": jitter.sd or 0, "reorder": jitter.reorder, "table": table}

    def companion(self, read: Callable[[str, str], _T], name: str, path: Path) -> _T:
        """Return the content of a file beside the experiment."""
        try:
            return read(self.file, name)
        except BadValue as bad:
            raise Misplaced(path, bad) from None


def buffer(value: int | str) -> int | None:
    """Return the size of a socket buffer, None for autotuning."""
    return value if isinstance(value, int) else None
