"""TEACUP configurations to experiment files: every run TEACUP would carry out, under the names it would give
them.

What each setting became is said with its line: mapped (means the same here), approximated (does not quite),
dropped (has no counterpart). The configuration is read by `source`; nothing of it is executed.

Facts on TEACUP are those of versions 0.4 to 1.1 (CAIA technical reports 140314A and 150414A): a test ID is
the prefix and, for each parameter varied, in the order of TPCONF_vary_parameters, `_SHORTNAME_VALUE` with
underscores in the value made hyphens; values not varied come from TPCONF_variable_defaults.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from json import dumps
from math import prod
from pathlib import Path
from typing import Any

import yaml

from cwndlab.errors import CwndlabError, InputError, printable
from cwndlab.experiment import units
from cwndlab_teacup import lab, source
from cwndlab_teacup.hosts import Hosts
from cwndlab_teacup.reader import KINDS, Finding, safe
from cwndlab_teacup.router import Router
from cwndlab_teacup.source import undated
from cwndlab_teacup.sweep import Leaves, Parameter, axes_of, linked, simplify
from cwndlab_teacup.traffic import Traffic
from cwndlab_teacup.values import STAMP, Place, Text, as_text, refuse

MAX_RUNS = 50_000
"""Runs of one configuration at most."""


@dataclass(frozen=True)
class Converted:
    """A configuration as an experiment file."""

    experiment: str
    """The file's text."""
    name: str
    test_ids: list[str]
    """Test IDs of all runs, in TEACUP's order."""
    findings: list[Finding]
    lab: str | None
    """Text of a lab file with the machines. None where the configuration does not say their addresses."""

    def told(self, *, as_json: bool = False) -> list[str]:
        """Outcome of each setting, as lines of text or of JSON."""
        if not as_json:
            return as_text_list(self.findings)
        return [
            dumps(
                {"kind": found.kind, "file": found.place.file, "line": found.place.line, "text": found.text}
            )
            for found in self.findings
        ]


def recognises(path: Path) -> bool:
    """Whether a file is a TEACUP configuration: Python that sets TPCONF_ names."""
    if not path.is_file() or path.suffix != ".py":
        return False
    with path.open("rb") as file:
        return b"TPCONF_" in file.read(1 << 20)


def convert(path: Path, stack: str | None = None, prefix: str | None = None) -> Converted:
    """Make an experiment file of a TEACUP configuration.

    `stack` is what hosts run whose system the configuration does not say; `prefix` begins the test IDs in
    place of TPCONF_test_id. Raises InputError for a file that is no such configuration.
    """
    return _Converter(source.read(path), stack, prefix).convert()


def as_text_list(findings: Sequence[Finding]) -> list[str]:
    """The findings as lines, by kind."""
    return [
        printable(f"{finding.kind:<12} {Path(finding.place.file).name}:{finding.place.line}  {finding.text}")
        for kind in KINDS
        for finding in findings
        if finding.kind == kind
    ]


@dataclass
class _Converter(Traffic, Hosts, Router):
    ways: list[tuple[str, str]] = field(default_factory=list)
    """The keys of the link of each router, there and back."""

    def convert(self) -> Converted:
        for name in ("TPCONF_hosts", "TPCONF_router_queues", "TPCONF_traffic_gens"):
            if name not in self.source.settings:
                raise InputError(f"{self.source.file}: no TEACUP configuration: {name} is not set")
        parameters = list(self._parameters())
        sizes = [len(parameter.rows) for parameter in parameters]
        if prod(sizes) > MAX_RUNS:
            refuse(
                self.source.place("TPCONF_vary_parameters"), f"{prod(sizes)} runs are more than {MAX_RUNS}"
            )
        cells = list(itertools.product(*map(range, sizes)))
        leaves = [self._leaves(self._variables(parameters, cell)) for cell in cells]
        name = self._name()
        tree, sweep, repeat = self._factor(parameters, cells, leaves)
        self._rest()
        text = self._write(name, tree, sweep, repeat)
        prefix = self._prefix()
        ids = [prefix + "".join(map(Parameter.label, parameters, cell)) for cell in cells]
        findings = sorted(self.found.values(), key=lambda finding: (finding.place.file, finding.place.line))
        header = [
            f"# {len(ids)} runs from the TEACUP configuration {self.source.file.name}.",
            "# What became of its settings:",
            *(f"#   {line}" for line in as_text_list(findings)),
        ]
        safe = "\n".join(map(printable, header))
        machines = lab.of(self.source, name, _hosts_of(leaves[0]), [ways[0] for ways in self.ways])
        return Converted(f"{safe}\n\n{text}", name, ids, findings, machines)

    def _prefix(self) -> str:
        if self.prefix is not None:
            return self.prefix
        return undated(str(self.source.get("TPCONF_test_id", "")))

    def _name(self) -> str:
        wanted = self.prefix or undated(str(self.source.get("TPCONF_test_id", ""))) or self.source.file.stem
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", wanted).strip("-_")[:32] or "teacup"
        if "TPCONF_test_id" in self.source.settings:
            dated = STAMP in str(self.source.get("TPCONF_test_id"))
            place = self.source.place("TPCONF_test_id")
            self._say("mapped", place, f"TPCONF_test_id: experiment {name}, the beginning of test IDs")
            if dated and self.prefix is None:
                self._say(
                    "approximated", place, "TPCONF_test_id: test IDs are given without the date and time"
                )
        return name

    def _leaves(self, variables: Mapping[str, Any]) -> Leaves:
        traffic = list(self._traffic(variables))
        ends = dict.fromkeys(
            host for flow in traffic for host in (*flow["responders"], flow["from"], flow["to"])
        )
        crossings = self._crossings(list(ends), traffic, variables)
        leaves: Leaves = {}
        flows = [
            flow
            for flow in traffic
            if any(self._crosses(flow, crossing.left, crossing.right) for crossing in crossings)
        ]
        for flow in traffic:
            if flow not in flows:
                ends_text = f"{flow['from']} to {flow['to']}"
                self._say(
                    "dropped", flow["place"], f"flow {flow['name']}: {ends_text} does not cross the router"
                )
        if not flows:
            refuse(
                self.source.place("TPCONF_traffic_gens"),
                "no flow that has a counterpart here crosses the router",
            )
        leaves["duration"] = units.format_time(max(flow["stop"] for flow in flows))
        copies = self._copies(flows)
        for crossing in crossings:
            left, right = (
                [host for host in side if copies.get(host) != 0] for side in (crossing.left, crossing.right)
            )
            for host in [*left, *right]:
                leaves |= self._host(host, variables)
                if host in copies:
                    leaves[f"hosts.{safe(host)}.count"] = copies[host]
            leaves |= crossing.leaves(list(map(safe, left)), list(map(safe, right)))
            for way, (near, far) in zip(crossing.ways, ((left, right), (right, left)), strict=True):
                link = self._link(self._between(crossing.pipes, near, far), crossing)
                leaves |= {f"{way}.{key}": value for key, value in link.items()}
        self.ways = [crossing.ways for crossing in crossings]
        for flow in flows:
            for key in ("from", "to"):
                leaves[f"flows.{flow['name']}.{key}"] = safe(flow[key])
            leaves[f"flows.{flow['name']}.app"] = flow["app"]
            leaves[f"flows.{flow['name']}.start"] = units.format_time(flow["start"])
            leaves[f"flows.{flow['name']}.stop"] = units.format_time(flow["stop"])
            leaves |= {
                f"flows.{flow['name']}.{key}": flow[key] for key in ("cc", "sndbuf", "rcvbuf") if key in flow
            }
        return leaves

    def _factor(
        self, parameters: Sequence[Parameter], cells: Sequence[tuple[int, ...]], leaves: Sequence[Leaves]
    ) -> tuple[Leaves, list[dict[str, Any]], int]:
        """Find the part that all runs share, the axes of the rest, and how often each cell is run."""
        place = self.source.place("TPCONF_vary_parameters")
        keys = list(dict.fromkeys(key for leaf in leaves for key in leaf))
        if any(leaf.keys() != set(keys) for leaf in leaves):
            refuse(place, "runs that differ in more than values (flows, hosts) have no counterpart")
        simplify(leaves, self.ways)
        keys = list(leaves[0])
        at = {cell: place_ for place_, cell in enumerate(cells)}
        depends = {key: axes_of(key, parameters, cells, leaves, at) for key in keys}
        groups = linked([len(parameter.rows) for parameter in parameters], depends.values())
        sweep: list[dict[str, Any]] = []
        repeat = 1
        for group in groups:
            varying = [key for key in keys if depends[key] & set(group)]
            sizes = [len(parameters[axis].rows) for axis in group]
            names = " and ".join(parameters[axis].name for axis in group)
            if not varying:
                repeat *= prod(sizes)
                if prod(sizes) > 1:
                    same = all("V_runs" in parameters[axis].variables for axis in group)
                    kind = "mapped" if same else "approximated"
                    why = "" if same else ", as its values make no difference here"
                    self._say(kind, parameters[group[0]].place, f"{names}: repeat {prod(sizes)}{why}")
                continue
            rows = []
            for combination in itertools.product(*map(range, sizes)):
                cell = [0] * len(parameters)
                for axis, row in zip(group, combination, strict=True):
                    cell[axis] = row
                rows.append(leaves[at[tuple(cell)]])
            columns = {key: [row[key] for row in rows] for key in varying}
            sweep.append(columns if len(columns) == 1 else {"zip": columns})
            self._say(
                "mapped",
                parameters[group[0]].place,
                f"{names}: an axis of the sweep over {', '.join(varying)}",
            )
        base = {key: leaves[0][key] for key in keys if not depends[key]}
        return base, sweep, repeat

    def _write(self, name: str, base: Leaves, sweep: list[dict[str, Any]], repeat: int) -> str:
        tree: dict[str, Any] = {"experiment": name, "description": f"From TEACUP's {self.source.file.name}"}
        flows: dict[str, dict[str, Any]] = {}
        first = {key: column[0] for axis in sweep for key, column in axis.get("zip", axis).items()}
        for key, value in {**base, **first}.items():
            words = key.split(".")
            if words[0] == "flows":
                here, words = flows.setdefault(words[1], {"name": words[1]}), words[2:]
            else:
                here = tree
            for word in words[:-1]:
                here = here.setdefault(word, {})
            here[words[-1]] = value
        ordered = {"experiment", "description", "duration", "hosts", "network"}
        tree = {
            key: tree[key]
            for key in ("experiment", "description", "duration", "hosts", "network")
            if key in tree
        } | {key: value for key, value in tree.items() if key not in ordered}
        tree["flows"] = list(flows.values())
        if links := tree["network"].get("links"):
            tree["network"] = {
                "nodes": list(
                    dict.fromkeys(link["to"] for link in links.values() if "bottleneck" not in link)
                ),
                "links": [{"name": name, **link} for name, link in links.items()],
            }
        if sweep:
            tree["sweep"] = sweep
        tree["repeat"] = repeat
        tree["record"] = {"tcp": "10ms", "queue": "10ms"}
        text = yaml.dump(tree, Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)
        self._check(text, self.source.place("TPCONF_hosts"))
        return text

    def _check(self, text: str, place: Place) -> None:
        from cwndlab.testbeds.loader import load

        try:
            load(text)
        except CwndlabError as error:
            self._say(
                "dropped", place, f"the simulator refuses the file: {str(error).removeprefix('<text>:')}"
            )

    def _rest(self) -> None:
        """Name what nothing was made of."""
        said = " ".join(finding.text for finding in self.found.values())
        used = {
            "TPCONF_hosts": "hosts",
            "TPCONF_host_internal_ip": "who is left and right of the router",
            "TPCONF_router_queues": "network.dumbbell" if "dumbbell" in self.ways[0][0] else "network.links",
            "TPCONF_traffic_gens": "flows",
            "TPCONF_parameter_list": "what each parameter sets",
            "TPCONF_variable_defaults": "values that are not varied",
            "TPCONF_TCP_algos": "cc",
            "TPCONF_duration": "duration",
            "TPCONF_host_os": "stacks",
            "TPCONF_runs": "repeats",
            "TPCONF_delays": "delays",
            "TPCONF_loss_rates": "loss",
            "TPCONF_bandwidths": "rates",
            "TPCONF_aqms": "queue kinds",
            "TPCONF_buffer_sizes": "queue limits",
            "TPCONF_router": "the router in the middle, or several, each between hosts of its own",
            "TPCONF_host_TCP_algos": "cc of single hosts",
            "TPCONF_host_TCP_algo_params": "sysctls",
            "TPCONF_linux_kern_hosts": "stacks",
            "TPCONF_vary_parameters": "sweep",
            "TPCONF_test_id": "names",
        }
        if not self.source.get("TPCONF_host_init_custom_cmds"):
            used["TPCONF_host_init_custom_cmds"] = "no commands"
        for name, setting in self.source.settings.items():
            if not name.startswith("TPCONF_"):
                continue
            if name not in used:
                commented = name == "TPCONF_host_init_custom_cmds"
                why = (
                    "comments in the lab file"
                    if commented
                    else "about the lab, not the experiment, or unknown"
                )
                self._say("dropped", setting.place, f"{name}: {why}")
            elif name not in said:
                self._say("mapped", setting.place, f"{name}: {used[name]}")
        for place, what in self.source.ignored:
            self._say("dropped", place, what)
        self._commands()

    def _commands(self) -> None:
        """Name each command that TEACUP would have run on a host."""
        commands = self.source.get("TPCONF_host_init_custom_cmds", {})
        place = self.source.place("TPCONF_host_init_custom_cmds")
        if not isinstance(commands, dict):
            refuse(place, "TPCONF_host_init_custom_cmds is no dictionary")
        for host, wanted in commands.items():
            for command in wanted if isinstance(wanted, list | tuple) else [wanted]:
                at = command.place(0) if isinstance(command, Text) else place
                said = f"a command on host {as_text(host)}, a comment in the lab file: {as_text(command)}"
                self._say("dropped", at, said)


def _hosts_of(leaves: Leaves) -> list[str]:
    """The hosts that an experiment has."""
    return [key.split(".")[1] for key in leaves if re.fullmatch(r"hosts\.[^.]+\.stack", key)]


class _Plain(yaml.SafeDumper):
    """Writes short lists and mappings on one line, and everything without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Never an alias: experiment files have none."""
        return True
