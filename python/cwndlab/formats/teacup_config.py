"""TEACUP configurations to experiment files: every run TEACUP would carry out, under the names it would give
them.

What each setting became is said with its line: mapped (means the same here), approximated (does not quite),
dropped (has no counterpart). The configuration is read by `teacup_source`; nothing of it is executed.

Facts on TEACUP are those of versions 0.4 to 1.1 (CAIA technical reports 140314A and 150414A): a test ID is
the prefix and, for each parameter varied, in the order of TPCONF_vary_parameters, `_SHORTNAME_VALUE` with
underscores in the value made hyphens; values not varied come from TPCONF_variable_defaults.
"""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any, NoReturn

import yaml

from cwndlab.errors import CwndlabError, InputError, nearest, shown, unknown
from cwndlab.experiment import units
from cwndlab.experiment.catalogue import catalogue
from cwndlab.formats import teacup_source
from cwndlab.formats.teacup_source import Source, arguments, undated
from cwndlab.formats.teacup_sweep import Leaves, Parameter, axes_of, linked, simplify
from cwndlab.formats.teacup_values import STAMP, Place, Text, as_text, refuse
from cwndlab.text import printable

MAX_RUNS = 50_000
"""Runs of one configuration at most."""

ACCESS_RATE = "1gbit"
"""TEACUP's hosts are on switched Gigabit Ethernet, which is also the rate of a pipe without one."""

AVERAGE_PACKET = 600
"""Bytes that TEACUP takes a packet for where a queue is to hold a `bdp`."""

MIN_BDP = 2048
"""Bytes of a queue that is to hold a `bdp`, at least."""

PIPE = frozenset(
    [
        "source",
        "dest",
        "rate",
        "delay",
        "loss",
        "rtt",
        "queue_size",
        "queue_size_mult",
        "queue_disc",
        "queue_disc_params",
        "bidir",
        "number",
    ]
)
"""Parameters of a pipe that mean something here."""

RATES = {"": 1, "bit": 1, "bits/s": 1, "bps": 8} | {
    f"{prefix}{unit}": scale * size
    for prefix, scale in (("k", 10**3), ("m", 10**6), ("g", 10**9))
    for unit, size in (("", 1), ("bit", 1), ("bits/s", 1), ("bps", 8))
}
"""Units of rates in bit/s, as tc, ipfw and iperf write them: tc's `bps` are bytes."""

SIZES = {"": 1, "b": 1, "bytes": 1, "kbytes": 1000, "mbytes": 10**6, "kbit": 125, "mbit": 125_000} | {
    "k": 1 << 10,
    "kb": 1 << 10,
    "m": 1 << 20,
    "mb": 1 << 20,
}
"""Units of sizes in bytes: tc's kilobytes have 1024, ipfw's Kbytes 1000."""

_NAMED = 12
"""Hosts, and pipes, that a message names at most."""

KINDS = ("mapped", "approximated", "dropped")


@dataclass(frozen=True)
class Finding:
    """What became of one setting."""

    kind: str
    """One of `KINDS`."""
    place: Place
    text: str


@dataclass(frozen=True)
class Converted:
    """A configuration as an experiment file."""

    experiment: str
    """The file's text."""
    name: str
    test_ids: list[str]
    """Of every run, in TEACUP's order."""
    findings: list[Finding]


def convert(path: Path, stack: str | None = None, prefix: str | None = None) -> Converted:
    """Make an experiment file of a TEACUP configuration.

    `stack` is what hosts run whose system the configuration does not say; `prefix` begins the test IDs in
    place of TPCONF_test_id. Raises InputError for a file that is no such configuration.
    """
    return _Converter(teacup_source.read(path), stack, prefix).convert()


def as_text_list(findings: Sequence[Finding]) -> list[str]:
    """The findings as lines, by kind."""
    return [
        printable(f"{finding.kind:<12} {Path(finding.place.file).name}:{finding.place.line}  {finding.text}")
        for kind in KINDS
        for finding in findings
        if finding.kind == kind
    ]


@dataclass
class _Converter:
    source: Source
    stack: str | None
    prefix: str | None
    found: dict[tuple[str, str, str], Finding] = field(default_factory=dict)
    parsed: dict[tuple[str, str], tuple[list[Any], dict[str, Any]]] = field(default_factory=dict)

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
        return Converted(f"{safe}\n\n{text}", name, ids, findings)

    # ---- what TEACUP says

    def _say(self, kind: str, place: Place, text: str) -> None:
        self.found.setdefault((kind, str(place), text), Finding(kind, place, text))

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

    def _parameters(self) -> Iterator[Parameter]:
        entries = self.source.get("TPCONF_parameter_list", {})
        place = self.source.place("TPCONF_vary_parameters")
        names = self.source.get("TPCONF_vary_parameters", [])
        if not isinstance(names, list | tuple) or not isinstance(entries, dict):
            refuse(place, "TPCONF_vary_parameters is no list, or TPCONF_parameter_list no dictionary")
        for name in names:
            entry = entries.get(str(name))
            if entry is None:
                hint = nearest(str(name), map(str, entries))
                refuse(
                    place,
                    f"{shown(str(name))} is not in TPCONF_parameter_list" + (f"; {hint}" if hint else ""),
                )
            yield self._parameter(str(name), entry, self.source.place("TPCONF_parameter_list"))
        self._say(
            "mapped", place, f"TPCONF_vary_parameters: sweep over {', '.join(map(str, names)) or 'nothing'}"
        )

    def _parameter(self, name: str, entry: Any, place: Place) -> Parameter:
        if not isinstance(entry, tuple | list) or len(entry) not in (3, 4):
            refuse(place, f"{name}: expected (variables, short names, values, extra variables)")
        variables, shorts, values = entry[:3]
        extra = entry[3] if len(entry) == 4 else {}
        lists = all(isinstance(part, list | tuple) for part in (variables, shorts, values))
        if not lists or not isinstance(extra, dict) or len(variables) != len(shorts) or not variables:
            refuse(
                place, f"{name}: expected as many short names as variables, a list of values, a dictionary"
            )
        if not values:
            refuse(place, f"{name}: has no values, so there are no runs")
        rows = []
        for value in values:
            row = (value,) if len(variables) == 1 else value
            if not isinstance(row, tuple | list) or len(row) < len(variables):
                refuse(
                    place,
                    f"{name}: {shown(str(value))} has no value for each of {', '.join(map(str, variables))}",
                )
            rows.append(tuple(row[: len(variables)]))
        return Parameter(
            name,
            tuple(map(str, variables)),
            tuple(map(str, shorts)),
            tuple(rows),
            {str(key): value for key, value in extra.items()},
            place,
        )

    def _variables(self, parameters: Sequence[Parameter], cell: Sequence[int]) -> dict[str, Any]:
        """The V_ variables of a run."""
        values: dict[str, Any] = {}
        for parameter, row in zip(parameters, cell, strict=True):
            values.update(parameter.extra)
            values.update(zip(parameter.variables, parameter.rows[row], strict=True))
        defaults = self.source.get("TPCONF_variable_defaults", {})
        if not isinstance(defaults, dict):
            refuse(self.source.place("TPCONF_variable_defaults"), "TPCONF_variable_defaults is no dictionary")
        for key, value in defaults.items():
            values.setdefault(str(key), value)
        return values

    def _arguments(
        self, text: Any, variables: Mapping[str, Any], place: Place
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a parameter string in one run."""
        if not isinstance(text, str):
            refuse(place, "expected a text with parameters")
        used = {name: variables.get(name) for name in re.findall("V_[a-zA-Z0-9_-]*", text)}
        key = (str(text), repr(sorted(used.items())))
        if key not in self.parsed:
            self.parsed[key] = arguments(text, variables, place)
        return self.parsed[key]

    # ---- one run

    def _leaves(self, variables: Mapping[str, Any]) -> Leaves:
        traffic = list(self._traffic(variables))
        ends = dict.fromkeys(
            host for flow in traffic for host in (*flow["responders"], flow["from"], flow["to"])
        )
        pipes = self._pipes(variables)
        left, right = self._sides(list(ends), pipes)
        if sum(flow["from"] in right for flow in traffic) > sum(flow["from"] in left for flow in traffic):
            # The bottleneck is the direction that most of the data take.
            left, right = right, left
        leaves: Leaves = {}
        stops = []
        flows = [flow for flow in traffic if self._crosses(flow, left, right)]
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
        for flow in flows:
            stops.append(flow["stop"])
        leaves["duration"] = units.format_time(max(stops))
        copies = self._copies(flows)
        left, right = ([host for host in side if copies.get(host) != 0] for side in (left, right))
        for host in [*left, *right]:
            leaves |= self._host(host, variables)
            if host in copies:
                leaves[f"hosts.{_safe(host)}.count"] = copies[host]
        leaves["network.dumbbell.left"] = [_safe(host) for host in left]
        leaves["network.dumbbell.right"] = [_safe(host) for host in right]
        leaves["network.dumbbell.access"] = {"rate": ACCESS_RATE, "overhead": 38}
        forward = self._link(self._between(pipes, left, right))
        backward = self._link(self._between(pipes, right, left))
        for direction, link in (("bottleneck", forward), ("reverse", backward)):
            leaves |= {f"network.dumbbell.{direction}.{key}": value for key, value in link.items()}
        for flow in flows:
            for key in ("from", "to"):
                leaves[f"flows.{flow['name']}.{key}"] = _safe(flow[key])
            leaves[f"flows.{flow['name']}.app"] = flow["app"]
            leaves[f"flows.{flow['name']}.start"] = units.format_time(flow["start"])
            leaves[f"flows.{flow['name']}.stop"] = units.format_time(flow["stop"])
            leaves |= {
                f"flows.{flow['name']}.{key}": flow[key] for key in ("cc", "sndbuf", "rcvbuf") if key in flow
            }
        return leaves

    def _crosses(self, flow: Mapping[str, Any], left: Sequence[str], right: Sequence[str]) -> bool:
        """Whether what all its senders send passes the router."""
        senders, to = flow["responders"] or [flow["from"]], flow["to"]
        return any(
            to in near and all(sender in far for sender in senders)
            for near, far in ((left, right), (right, left))
        )

    def _copies(self, flows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        """How many hosts stand behind that of each incast: all its responders; 0 for the others of them."""
        copies: dict[str, int] = {}
        for flow in flows:
            responders = flow["responders"]
            for host in responders:
                if host in copies:
                    refuse(flow["place"], f"host {host} answers in two incasts, which has no counterpart")
            copies |= dict.fromkeys(responders, 0) | ({flow["from"]: len(responders)} if responders else {})
        for flow in flows:
            for host in (flow["from"], flow["to"]):
                if host in copies and not flow["responders"]:
                    refuse(
                        flow["place"],
                        f"host {host} answers in an incast and has other flows, which has no counterpart",
                    )
        return copies

    def _traffic(self, variables: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        place = self.source.place("TPCONF_traffic_gens")
        entries = self.source.get("TPCONF_traffic_gens")
        if not isinstance(entries, list | tuple):
            refuse(place, "TPCONF_traffic_gens is no list")
        seen = set()
        for entry in entries:
            if not isinstance(entry, tuple | list) or len(entry) != 3:
                refuse(place, "expected (start, number, parameters) in TPCONF_traffic_gens")
            start, number, text = entry
            at = text.place(0) if isinstance(text, Text) else place
            if str(number) in seen:
                refuse(at, f"the number {shown(str(number))} of a traffic generator again")
            seen.add(str(number))
            positional, named = self._arguments(text, variables, at)
            task = str(positional[0]) if positional else ""
            name = _safe(f"f{number}")
            begin = self._time(start, at, "start")
            flow = {"name": name, "place": at, "start": begin, "responders": []}
            made = self._task(task, flow, {str(key): value for key, value in named.items()}, variables, at)
            if made is not None:
                yield made

    def _task(
        self, task: str, flow: dict[str, Any], named: dict[str, Any], variables: Mapping[str, Any], at: Place
    ) -> dict[str, Any] | None:
        makers: Mapping[str, Callable[..., dict[str, Any]]] = {
            "start_iperf": self._iperf,
            "start_ping": self._ping,
            "start_nttcp": self._nttcp,
            "start_httperf_dash": self._dash,
            "start_httperf_incast": self._incast,
            "start_httperf_incast_n": self._incast,
        }
        if task not in makers:
            self._say("dropped", at, f"{task or 'a traffic generator without a name'}: has no counterpart")
            return None
        ends = {"start_ping": "dest", "start_httperf_incast": "servers", "start_httperf_incast_n": "servers"}
        other = ends.get(task, "server")
        for key in ("client", other):
            if not as_text(named.get(key, "")):
                refuse(at, f"{task}: {key} is not given")
        client, servers = self._host_of(named.pop("client"), at), as_text(named.pop(other)).split(",")
        if other != "servers" and len(servers) > 1:
            refuse(at, f"{task}: {other} is one host")
        flow |= {"from": client, "to": self._host_of(servers[0], at), "client": client}
        if other == "servers":
            flow["responders"] = [self._host_of(server, at) for server in servers]
        seconds = named.pop("duration", variables.get("V_duration", self.source.get("TPCONF_duration", "")))
        flow["stop"] = flow["start"] + self._time(seconds, at, "duration")
        if flow["stop"] <= flow["start"]:
            refuse(at, f"{task}: a duration of nothing")
        made = makers[task](flow, named, at)
        for key, value in named.items():
            if key not in ("port", "kill", "check", "wait") and as_text(value) != "":
                self._say("dropped", at, f"{task}: {key}={as_text(value)}")
        self._say("mapped", at, f"{task}: flow {flow['name']}")
        return made

    def _iperf(self, flow: dict[str, Any], named: dict[str, Any], at: Place) -> dict[str, Any]:
        proto = as_text(named.pop("proto", "tcp"))
        rate = as_text(named.pop("rate", ""))
        if proto == "udp":
            # iperf 2 sends 1470-byte datagrams, at 1 Mbit/s unless told otherwise.
            flow["app"] = {"kind": "udp-cbr", "rate": self._rate(rate or "1M", at), "payload": 1470}
        elif rate:
            flow["app"] = {"kind": "rate-limited", "rate": self._rate(rate, at)}
        else:
            flow["app"] = {"kind": "bulk", "write": "128KiB"}
        if algorithm := as_text(named.pop("congestion_algo", "")):
            flow["cc"] = algorithm
        if size := as_text(named.pop("buf_size", "")):
            flow["sndbuf"] = flow["rcvbuf"] = self._size(size, at)
        return flow

    def _ping(self, flow: dict[str, Any], named: dict[str, Any], at: Place) -> dict[str, Any]:
        rate = self._number(named.pop("rate", 1), at, "rate")
        if rate <= 0:
            refuse(at, "start_ping: the rate must be above 0")
        interval = round(Fraction(10**9) / rate)
        flow["app"] = {"kind": "ping", "interval": units.format_time(interval), "payload": 56}
        return flow

    def _nttcp(self, flow: dict[str, Any], named: dict[str, Any], at: Place) -> dict[str, Any]:
        interval = self._number(named.pop("interval", "") or 1000, at, "interval")
        size = self._number(named.pop("psize", "") or 100, at, "psize")
        if interval <= 0 or size <= 0:
            refuse(at, "start_nttcp: interval and psize must be above 0")
        rate = round(size * 8 * 1000 / interval)
        flow["app"] = {"kind": "udp-cbr", "rate": units.format_rate(max(rate, 1)), "payload": int(size)}
        return flow

    def _dash(self, flow: dict[str, Any], named: dict[str, Any], at: Place) -> dict[str, Any]:
        rate = self._number(named.pop("rate", "") or 500, at, "rate")
        cycle = self._number(named.pop("cycle", "") or 5, at, "cycle")
        flow["from"], flow["to"] = flow["to"], flow["from"]  # the server sends
        flow["app"] = {
            "kind": "video",
            "rate": units.format_rate(round(rate * 1000)),
            "chunk": units.format_time(round(cycle * 10**9)),
        }
        self._say("approximated", at, "start_httperf_dash: a video player that fetches a chunk each cycle")
        return flow

    def _incast(self, flow: dict[str, Any], named: dict[str, Any], at: Place) -> dict[str, Any]:
        responders = flow["responders"]
        if wanted := as_text(named.pop("num_responders", "")):
            count = self._number(wanted, at, "num_responders")
            if not 1 <= count <= len(responders):
                refuse(at, f"num_responders: {wanted} of {len(responders)} servers")
            del responders[int(count) :]
        if len(set(responders)) < len(responders):
            refuse(at, "a server that answers twice in an incast has no counterpart")
        period = self._number(named.pop("period", ""), at, "period")
        size = self._number(named.pop("response_size", ""), at, "response_size")
        if period <= 0 or size <= 0:
            refuse(at, "an incast: period and response_size must be above 0")
        flow["from"], flow["to"] = responders[0], flow["client"]
        flow["app"] = {
            "kind": "incast",
            "size": units.format_size(round(size * 1024)),
            "think": units.format_time(round(period * 10**9)),
        }
        for key in ("sizes", "server_port_start", "config_dir", "config_in", "docroot"):
            named.pop(key, None)
        hosts = f"{len(responders)} copies of {responders[0]} answer"
        text = "the next round begins a period after the last answer, not after the request"
        self._say("approximated", at, f"an incast: {hosts}; {text}")
        return flow

    def _host(self, host: str, variables: Mapping[str, Any]) -> Leaves:
        name = _safe(host)
        stack = self._stack(host)
        algorithm = self._algorithm(host, stack, variables)
        leaves: Leaves = {f"hosts.{name}.stack": stack, f"hosts.{name}.cc": algorithm}
        ecn = as_text(variables.get("V_ecn", "0"))
        if "V_ecn" in variables:
            leaves[f"hosts.{name}.ecn"] = "on" if ecn == "1" else "off"
        params = self.source.get("TPCONF_host_TCP_algo_params", {})
        wanted = params.get(host, {}) if isinstance(params, dict) else {}
        settings = {}
        place = self.source.place("TPCONF_host_TCP_algo_params")
        for entry in wanted.get(algorithm) or wanted.get(as_text(variables.get("V_tcp_cc_algo", ""))) or []:
            key, equals, value = str(entry).partition("=")
            if not equals:
                refuse(place, f"{shown(str(entry))}: expected SYSCTL = VALUE")
            _, found = self._arguments(f"value={value.strip()}", variables, place)
            settings[key.strip()] = as_text(found.get("value"))
        known = catalogue().stacks[stack].settable() if stack in catalogue().stacks else []
        for key in [key for key in settings if key not in known]:
            self._say("dropped", place, f"{key}: no model here has this sysctl ({stack})")
            del settings[key]
        if any(wanted.values()):
            leaves[f"hosts.{name}.sysctl"] = settings
            self._say("mapped", place, f"TPCONF_host_TCP_algo_params: hosts.{name}.sysctl")
        return leaves

    def _stack(self, host: str) -> str:
        systems = self.source.get("TPCONF_host_os", {})
        place = self.source.place("TPCONF_host_os")
        system = systems.get(host) if isinstance(systems, dict) else None
        if system is None:
            stack = self.stack or "freebsd-9.2"
            where = self.source.place("TPCONF_hosts")
            self._say(
                "approximated",
                where,
                f"host {host}: the configuration does not say its system; {stack} (--stack)",
            )
            return stack
        if system == "Linux":
            kernel = str(self.source.get("TPCONF_linux_kern_hosts", ""))
            version = re.match(r"(\d+)\.(\d+)", kernel)
            stack = "linux-3.9" if not version or int(version[1]) < 5 else "linux-6.8"
            if not kernel.startswith(stack.removeprefix("linux-")):
                self._say(
                    "approximated", place, f"host {host}: Linux {kernel or 'of any version'} as {stack}"
                )
            else:
                self._say("mapped", place, f"host {host}: {stack}")
            return stack
        stacks = {"FreeBSD": "freebsd-9.2", "CYGWIN": "windows-7"}
        if system not in stacks:
            self._say("approximated", place, f"host {host}: {system} as freebsd-9.2")
            return "freebsd-9.2"
        self._say("approximated", place, f"host {host}: {system} of any version as {stacks[system]}")
        return stacks[system]

    def _algorithm(self, host: str, stack: str, variables: Mapping[str, Any]) -> str:
        name = as_text(variables.get("V_tcp_cc_algo", "default"))
        place = self.source.place("TPCONF_TCP_algos")
        if number := re.fullmatch("host([0-9]{1,4})", name):
            algorithms = self.source.get("TPCONF_host_TCP_algos", {}).get(host) or ["default"]
            chosen = int(number[1])
            name = as_text(algorithms[chosen] if chosen < len(algorithms) else algorithms[0])
        known = catalogue().stacks.get(stack)
        if known is None:
            raise unknown("stack", stack, catalogue().stacks)
        if name == "default":
            return known.default_cc
        if name not in known.cc and name not in known.cc_alias:
            self._say(
                "dropped",
                place,
                f"{name} on {stack}: no model here; the file has it, and running it is refused",
            )
        return name

    # ---- the path

    def _pipes(self, variables: Mapping[str, Any]) -> list[dict[str, Any]]:
        place = self.source.place("TPCONF_router_queues")
        queues = self.source.get("TPCONF_router_queues")
        if isinstance(queues, dict):
            if len(queues) > 1:
                refuse(place, "TPCONF_router_queues of several routers has no counterpart yet")
            queues = next(iter(queues.values()), [])
        if not isinstance(queues, list | tuple):
            refuse(place, "TPCONF_router_queues is no list")
        pipes = []
        for entry in queues:
            if not isinstance(entry, tuple | list) or len(entry) != 2:
                refuse(place, "expected (number, parameters) in TPCONF_router_queues")
            at = entry[1].place(0) if isinstance(entry[1], Text) else place
            positional, named = self._arguments(entry[1], variables, at)
            if positional:
                refuse(at, f"expected NAME=VALUE, not {shown(as_text(positional[0]))}")
            pipe = {**named, "place": at, "number": as_text(entry[0])}
            for end in ("source", "dest"):
                if end not in pipe:
                    refuse(at, f"a pipe without {end}")
            pipes.append(pipe)
            if as_text(pipe.get("bidir", "0")) == "1":
                pipes.append({**pipe, "source": pipe["dest"], "dest": pipe["source"]})
        return pipes

    def _sides(self, hosts: list[str], pipes: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
        if not pipes:
            refuse(self.source.place("TPCONF_router_queues"), "TPCONF_router_queues has no pipe")
        first = pipes[0]
        right = [host for host in hosts if self._within(host, first["dest"], first["place"])]
        left = [
            host
            for host in hosts
            if host not in right and self._within(host, first["source"], first["place"])
        ]
        if not left or not right:
            # The first pipe may be of hosts that carry no traffic here.
            for pipe in pipes[1:]:
                right = [host for host in hosts if self._within(host, pipe["dest"], pipe["place"])]
                left = [h for h in hosts if h not in right and self._within(h, pipe["source"], pipe["place"])]
                if left and right:
                    break
            else:
                self._no_pipe(hosts, pipes)
        outside = [host for host in hosts if host not in left and host not in right]
        for host in outside:
            self._say("dropped", first["place"], f"host {host}: not behind the router")
        return left, right

    def _no_pipe(self, hosts: list[str], pipes: list[dict[str, Any]]) -> NoReturn:
        """Refuse pipes of which none has hosts of the traffic at both ends."""
        ends = []
        for host in hosts[:_NAMED]:
            known = self._addresses(host)
            ends.append(f"{host} ({', '.join(known) if known else 'no address in TPCONF_host_internal_ip'})")
        more = [f"{len(hosts) - _NAMED} more"] if len(hosts) > _NAMED else []
        looked = dict.fromkeys(f"{as_text(pipe['source'])} to {as_text(pipe['dest'])}" for pipe in pipes)
        refuse(
            pipes[0]["place"],
            f"no pipe leads from one end of the traffic to the other: hosts with traffic are "
            f"{', '.join(ends + more)}; looked for one at each end of {', '.join(list(looked)[:_NAMED])}",
        )

    def _between(
        self, pipes: list[dict[str, Any]], sources: list[str], dests: list[str]
    ) -> dict[str, Any] | None:
        """The pipe that packets pass on that way."""
        fitting = [
            pipe
            for pipe in pipes
            if any(self._within(host, pipe["source"], pipe["place"]) for host in sources)
            and any(self._within(host, pipe["dest"], pipe["place"]) for host in dests)
        ]
        for pipe in fitting[1:]:
            self._say(
                "dropped",
                pipe["place"],
                f"pipe {pipe['number']}: a second one in a direction; the first is for all",
            )
        return fitting[0] if fitting else None

    def _link(self, pipe: dict[str, Any] | None) -> Leaves:
        if pipe is None:
            return {
                "rate": ACCESS_RATE,
                "delay": "0ms",
                "overhead": 14,
                "queue": {"kind": "pfifo", "limit": "1000p"},
            }
        at = pipe["place"]
        text = {key: as_text(value) for key, value in pipe.items() if key != "place"}
        dummynet = self._router_is_freebsd()
        rate = self._rate(text["rate"], at) if text.get("rate") else ACCESS_RATE
        delay = self._number(text.get("delay") or 0, at, "delay")
        if not 0 <= delay <= 10**7:
            refuse(at, f"a delay of {text.get('delay')} ms")
        link: Leaves = {
            "rate": rate,
            "delay": units.format_time(round(delay * 10**6)) if delay else "0ms",
            # tc counts the Ethernet header, dummynet does not.
            "overhead": 0 if dummynet else 14,
            "queue": self._queue(text, rate, delay, dummynet, at),
        }
        loss = self._number(text.get("loss") or 0, at, "loss")
        if not 0 <= loss <= 1:
            refuse(at, f"a loss rate of {text.get('loss')}; it must be from 0 to 1")
        link["loss"] = {"random": units.format_share(round(loss * 10**9))}
        if loss and not dummynet:
            self._say("approximated", at, "loss: before the queue here, behind it with TEACUP's netem")
        for key in sorted(text.keys() - PIPE):
            self._say("dropped", at, f"pipe {text['number']}: {key}={text[key]}")
        self._say("mapped", at, f"pipe {text['number']}: a direction of network.dumbbell.bottleneck")
        return link

    def _router_is_freebsd(self) -> bool:
        routers = self.source.get("TPCONF_router", [])
        systems = self.source.get("TPCONF_host_os", {})
        known = [systems.get(str(router)) for router in routers] if isinstance(systems, dict) else []
        if not any(known):
            place = self.source.place("TPCONF_router")
            self._say("approximated", place, "TPCONF_router: taken for Linux, as its system is not said")
        return "FreeBSD" in known

    def _queue(
        self, text: Mapping[str, str], rate: str, delay: Fraction, dummynet: bool, at: Place
    ) -> dict[str, Any]:
        kind = {"fifo": "pfifo", "": "pfifo"}.get(text.get("queue_disc", ""), text.get("queue_disc", ""))
        size = text.get("queue_size", "")
        known = catalogue().queues
        if kind not in known:
            self._say(
                "dropped", at, f"queue_disc {kind}: no model here; the file has it, and running it is refused"
            )
        params = {param.name: param.unit for param in known[kind]} if kind in known else {}
        in_bytes = params.get("limit") == "bytes"
        queue: dict[str, Any] = {"kind": kind}
        if size.lower() == "bdp":
            bits = units.parse_rate(rate)
            rtt = self._number(text["rtt"], at, "rtt") if text.get("rtt") else Fraction(2 * int(delay))
            whole = Fraction(bits) * rtt / 1000 / 8
            times = self._number(text.get("queue_size_mult") or 1, at, "queue_size_mult")
            if in_bytes or dummynet:
                count = max(int(int(whole) * times), MIN_BDP)
            else:
                count = max(int(int(whole / AVERAGE_PACKET) * times), 1)
            kind_in_bytes = in_bytes or dummynet
            queue["limit"] = units.format_size(count) if kind_in_bytes else f"{count}p"
            if dummynet and kind == "pfifo":
                queue["kind"] = "bfifo"
        elif not size:
            queue["limit"] = ("50p" if dummynet else "1000p") if not in_bytes else "1000B"
        elif size.isdigit():
            if len(size) > 12:
                refuse(at, f"a queue of {size}")
            queue["limit"] = f"{size}B" if in_bytes else f"{size}p"
        else:
            queue["limit"] = self._size(size, at)
            if kind == "pfifo":
                queue["kind"] = "bfifo"
        words = text.get("queue_disc_params", "").replace("=", " ").split()
        self._queue_params(queue, words, params, at)
        return queue

    def _queue_params(
        self, queue: dict[str, Any], words: list[str], params: Mapping[str, str], at: Place
    ) -> None:
        while words:
            word = words.pop(0)
            unit = params.get(word)
            if unit == "bool":
                queue[word] = True
            elif word.removeprefix("no") in params and params[word.removeprefix("no")] == "bool":
                queue[word.removeprefix("no")] = False
            elif unit is not None and words:
                value = words.pop(0)
                bare = re.fullmatch(r"[0-9]{1,12}", value)
                ends = {"ns": "us", "bytes": "B", "packets": "p", "bps": "bit"}
                if unit == "ppb":
                    queue[word] = units.format_share(round(self._number(value, at, word) * 10**9))
                elif unit == "bps":
                    queue[word] = self._rate(value, at)
                elif unit == "bytes" and not bare:
                    queue[word] = self._size(value, at)
                else:
                    queue[word] = value + ends.get(unit, "") if bare else value.replace("usec", "us")
                    if unit == "count" and bare:
                        queue[word] = int(value)
            else:
                self._say("dropped", at, f"queue_disc_params: {word}")

    # ---- names and numbers

    def _host_of(self, word: Any, at: Place) -> str:
        """The host of a name or an address."""
        text = as_text(word).split(":")[0].strip()
        hosts = [str(host) for host in self.source.get("TPCONF_hosts")]
        if text in hosts:
            return text
        for host in hosts:
            if text in self._addresses(host):
                return host
        hint = nearest(text, hosts)
        refuse(at, f"{shown(text)} is none of TPCONF_hosts" + (f"; {hint}" if hint else ""))

    def _addresses(self, host: str) -> list[str]:
        internal = self.source.get("TPCONF_host_internal_ip", {})
        found = internal.get(host, []) if isinstance(internal, dict) else []
        return [str(address) for address in (found if isinstance(found, list | tuple) else [found])]

    def _within(self, host: str, where: Any, at: Place) -> bool:
        text = as_text(where)
        if text == host or text in self._addresses(host):
            return True
        try:
            network = ipaddress.ip_network(text, strict=False)
        except ValueError:
            known = [str(name) for name in self.source.get("TPCONF_hosts")]
            if text in known or text in [str(name) for name in self.source.get("TPCONF_router", [])]:
                return False
            refuse(at, f"{shown(text)} is neither a host nor a network such as 172.16.10.0/24")
        for address in self._addresses(host):
            try:
                if ipaddress.ip_address(address) in network:
                    return True
            except ValueError:
                place = self.source.place("TPCONF_host_internal_ip")
                refuse(place, f"{shown(address)} is no address")
        return False

    def _number(self, value: Any, at: Place, what: str) -> Fraction:
        text = as_text(value).strip()
        if not re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,15})?([eE]-?[0-9]{1,2})?", text):
            refuse(at, f"{what}: {shown(text)} is no number")
        return Fraction(text)

    def _time(self, value: Any, at: Place, what: str) -> int:
        seconds = self._number(value, at, what)
        if not 0 <= seconds <= 10**6:
            refuse(at, f"{what}: {as_text(value)} s is out of range")
        return round(seconds * 10**9)

    def _rate(self, text: str, at: Place) -> str:
        """A rate as tc, ipfw and iperf write it."""
        match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) *([A-Za-z/]*)", text)
        if match is None or match[2].lower() not in RATES:
            refuse(at, f"{shown(text)} is no rate such as 10mbit")
        bits = round(Fraction(match[1]) * RATES[match[2].lower()])
        if not 1 <= bits <= 10**13:
            refuse(at, f"a rate of {text} is out of range")
        return units.format_rate(bits)

    def _size(self, text: str, at: Place) -> str:
        """A size as tc, ipfw and iperf write it: their kilobytes have 1024 bytes, ipfw's Kbytes 1000."""
        match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) *([A-Za-z]*)", text)
        if match is None or match[2].lower() not in SIZES:
            refuse(at, f"{shown(text)} is no size such as 100k")
        return units.format_size(round(Fraction(match[1]) * SIZES[match[2].lower()]))

    # ---- from runs to a sweep

    def _factor(
        self, parameters: Sequence[Parameter], cells: Sequence[tuple[int, ...]], leaves: Sequence[Leaves]
    ) -> tuple[Leaves, list[dict[str, Any]], int]:
        """What all runs share, the axes of the rest, and how often each cell is run."""
        place = self.source.place("TPCONF_vary_parameters")
        keys = list(dict.fromkeys(key for leaf in leaves for key in leaf))
        if any(leaf.keys() != set(keys) for leaf in leaves):
            refuse(place, "runs that differ in more than values (flows, hosts) have no counterpart")
        simplify(leaves)
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
        if sweep:
            tree["sweep"] = sweep
        if repeat > 1:
            tree["repeat"] = repeat
        tree["record"] = {"tcp": "10ms", "queue": "10ms"}
        text = yaml.dump(tree, Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)
        self._check(text, self.source.place("TPCONF_hosts"))
        return text

    def _check(self, text: str, place: Place) -> None:
        from cwndlab.testbeds.loading import load

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
            "TPCONF_router_queues": "network.dumbbell",
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
            "TPCONF_router": "the router in the middle",
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
                self._say("dropped", setting.place, f"{name}: about the lab, not the experiment, or unknown")
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
                self._say("dropped", at, f"a command on host {as_text(host)}: {as_text(command)}")


class _Plain(yaml.SafeDumper):
    """Writes short lists and mappings on one line, and everything without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Never an alias: experiment files have none."""
        return True


def _safe(name: str) -> str:
    """A name as the experiment file allows it."""
    made = re.sub(r"[^A-Za-z0-9_-]", "-", name)[:32].lstrip("-_")
    return made or "x"
