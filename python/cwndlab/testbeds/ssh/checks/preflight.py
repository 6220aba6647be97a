"""The refusals of testbed ssh before anything starts, all of them at once, with what the machines have
instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import cast

from cwndlab.contract.scenario import Egress, Flow, Host, Link, Scenario
from cwndlab.experiment.scenario.queries import base_rtt_ns, ip_of, sender_ip
from cwndlab.testbeds.live import addresses, preflight, user_programs
from cwndlab.testbeds.live.addresses import Addresses, family_of
from cwndlab.testbeds.live.freebsd import rules as freebsd_rules
from cwndlab.testbeds.live.freebsd.shell import ByShell
from cwndlab.testbeds.live.lab import Reach
from cwndlab.testbeds.live.linux import rules, tc
from cwndlab.testbeds.live.linux.trial import Trials
from cwndlab.testbeds.live.run_values import RunValues
from cwndlab.testbeds.live.scenario import LiveScenario, interface_queues
from cwndlab.testbeds.live.traffic import tools
from cwndlab.testbeds.ssh.machines import scripts
from cwndlab.testbeds.ssh.machines.site import Site
from cwndlab.testbeds.ssh.observation import monitors
from cwndlab.testbeds.ssh.path import emulator

ROOM = 20 << 20
"""Number of bytes that have to be free on a machine."""

RTT_SHARE, RTT_SLACK_NS = 0.2, 2_000_000
"""Distance allowed between the idle round trip and the experiment's."""


def troubles(scenario: LiveScenario, site: Site, values: RunValues) -> Iterator[str]:
    """Yield all that these machines cannot carry out, a line each."""
    yield from user_programs.untold(scenario, site.file.machines, values)
    if scenario["record"]["tcp"]["kind"] == "per-ack":
        yield "record.tcp: per-ack is recorded by testbeds sim and netns; give an interval such as 10ms"
    yield from _machines(scenario, site)
    own = site.file.emulating
    by_own = site.file.routers[own].links if own is not None else {}
    changing = dict.fromkeys(change["link"] for change in scenario["schedule"])
    for link in (link for link in changing if link not in by_own):
        yield f"schedule: link {link} changes while a run goes on only where our emulator makes it"
    missing = [host["name"] for host in scenario["hosts"] if host["name"] not in site.file.hosts]
    if missing:
        yield f"{site.path}: has no host {' and '.join(missing)}"
    yield from _flows(scenario, site)
    for host in scenario["hosts"]:
        if host["name"] not in missing:
            yield from _host(scenario, host, site)
    yield from _links(scenario, site)
    yield from _disciplines(scenario, site)
    yield from _captures(scenario, site)
    for name, log in scenario["live"].get("programs", {}).items():
        for place in log["hosts"]:
            if place in site.file.hosts:
                yield from _program(site, place, log["command"][0], f"logger {name}")
    without = list(_addresses(scenario, site))
    yield from without
    if not missing and not without:
        yield from round_trips(scenario, site)


def _addresses(scenario: LiveScenario, site: Site) -> Iterator[str]:
    """Yield the reasons why hosts cannot have packets of their IP version, a line each."""
    own = site.addresses(scenario)
    for host in (host for host in scenario["hosts"] if host["name"] in site.file.hosts):
        name, family = host["name"], ip_of(host)
        if name not in own:
            told = "address6: fd00:1::1, say" if family == "ipv6" else "address: 10.0.1.1, say"
            yield f"{site.path}: host {name} has no address of {family} ({told})"
        elif family == "ipv6" and not site.driven()[name].asks_sockets:
            yield f"host {name}: SIFTR of FreeBSD logs connections of IPv4 alone; family: ipv4"
        elif family == "ipv6":
            machine = site.machines[name]
            try:
                found, told = machine.interface_of(own[name]), machine.interface()
            except OSError as error:
                yield str(error)
                continue
            if found != told:
                yield f"host {name}: {own[name]} is at {found}, and its interface is {told}"


def _machines(scenario: LiveScenario, site: Site) -> Iterator[str]:
    """Machines of this experiment without room for a run, and names of it that stand for the same machine."""
    used = {*(host["name"] for host in scenario["hosts"]), *site.file.routers}
    names: dict[str, list[str]] = {}
    for name, (identity, free) in site.states().items():
        if name not in used:
            continue
        if free is not None and free < ROOM:
            yield (
                f"{name}: {free >> 20} MiB are free for {scripts.BASE}, and a run needs {ROOM >> 20} MiB"
                " for its journal and logs"
            )
        if identity:
            names.setdefault(identity, []).append(name)
    for same in names.values():
        if len(same) > 1:
            yield f"{' and '.join(same)} are the same machine"


def _captures(scenario: LiveScenario, site: Site) -> Iterator[str]:
    made = {link: name for name, machine in site.file.machines.items() for link in machine.links}
    for point in monitors.points(scenario):
        if point in site.file.hosts or point in made:
            yield from _program(site, made.get(point, point), "tcpdump", f"record.pcap at {point}")
        else:
            yield f"record.pcap: {point} is no host, and no link that a machine makes"


def round_trips(scenario: LiveScenario, site: Site) -> Iterator[str]:
    """Yield the differences of the path's round trips from the experiment's, a line each, apart from what
    machines make.
    """
    made = {link for machine in site.file.machines.values() for link in machine.links}
    links: list[Link] = [
        {**link, "delay_ns": 0} if link["name"] in made else link for link in scenario["links"]
    ]
    hosts = [{**host, "egress": None} for host in scenario["hosts"]]
    real, own = cast(Scenario, {**scenario, "links": links, "hosts": hosts}), site.addresses(scenario)
    for from_, to in dict.fromkeys((flow["from"], flow["to"]) for flow in scenario["flows"]):
        address = own[to]
        told, found = base_rtt_ns(real, from_, to), site.round_trip_ns(from_, to, family_of(address))
        if found is None:
            yield f"{from_}: {to} does not answer a ping of {address}"
        elif differs(found, told):
            without = ", apart from links that machines make" if made else ""
            yield (
                f"{from_} to {to}: the round trip is {found / 1e6:.3f} ms, and the experiment says"
                f" {told / 1e6:.3f} ms{without}"
            )


def differs(found_ns: int, told_ns: int) -> bool:
    """Whether an idle round trip is another than described."""
    return abs(found_ns - told_ns) > max(RTT_SLACK_NS, RTT_SHARE * told_ns)


def _flows(scenario: LiveScenario, site: Site) -> Iterator[str]:
    hosts = [host["name"] for host in scenario["hosts"] if host["name"] in site.file.hosts]
    without = [host for host in hosts if site.agent(host) is None]
    for flow in scenario["flows"]:
        own, name = scenario["live"]["flows"][flow["name"]], flow["name"]
        tool = own["tool"]
        if "program" in own:
            yield from _program_of_lab(scenario, flow, own["program"], site)
            continue
        if tool not in tools.PROGRAMS:
            if without:
                yield f"flow {name}: app {flow['app']['kind']} by {tool} needs {_agent(without)}"
                continue
            try:
                preflight.check_own(scenario, flow)
            except ValueError as error:
                yield str(error)
            continue
        reason = tools.refusal(tool, flow, sender_ip(scenario, flow))
        if reason is not None:
            yield f"flow {name}: {reason}"
        for end in (flow["from"], flow["to"]):
            if end in site.file.hosts:
                yield from _program(site, end, tools.PROGRAMS[tool], f"flow {name}")


def _program_of_lab(
    scenario: LiveScenario, flow: Flow, program: Mapping[str, Sequence[str]], site: Site
) -> Iterator[str]:
    reason = user_programs.refusal(program, flow, scenario["flows"])
    if reason is not None:
        yield f"flow {flow['name']}: {reason}"
    for end, words in ((flow["from"], program["client"]), (flow["to"], program["server"])):
        if end in site.file.hosts and words:
            yield from _program(site, end, words[0], f"flow {flow['name']}")


def _agent(machines: list[str]) -> str:
    return (
        f"our agent, which is not there for {' and '.join(machines)} (make agent, or agent: in the lab file)"
    )


def _host(scenario: LiveScenario, host: Host, site: Site) -> Iterator[str]:
    name = host["name"]
    driven = site.driven()[name]
    own = driven.kernel
    if host["stack"] not in own.stacks:
        yield f"host {name}: runs {own.stack}, not {host['stack']}; write stack: {own.stack}"
    asks = driven.asks_sockets and not site.agent(name)
    needed = [*driven.programs, *(["ss"] if asks else [])]
    if not driven.asks_sockets and driven.siftr is None:
        yield f"host {name}: has no module siftr, by which connections are looked at"
    for program in [*needed, *(["ping"] if "ping" in scenario["live"]["loggers"] else [])]:
        yield from _program(site, name, program, "every run")
    for flow in scenario["flows"]:
        if flow["from"] == name and flow["cc"] and flow["cc"] not in own.congestion_controls:
            yield f"host {name}: has no congestion control {flow['cc']}; {', '.join(own.congestion_controls)}"
    wanted = driven.system.sysctls(host, scenario["flows"])
    yield from (f"host {name}: has no sysctl {key}" for key in wanted if not own.has(key))
    ingress = host["ingress"]
    if ingress["before_gro"] is not None:
        yield f"host {name}: ingress.before_gro is not made by machines; after_gro is"
    if ingress["after_gro"] is not None and not driven.asks_sockets:
        yield from _program(site, name, "ipfw", "ingress.after_gro")
        yield from _ipfw(host, driven.reach)
    elif ingress["after_gro"] is not None:
        yield from _program(site, name, "nft", "ingress.after_gro")
        loss = ingress["after_gro"]["loss"]
        if loss is not None and loss["kind"] == "gilbert":
            yield f"host {name}: {rules.GILBERT}"
    shown = driven.reach.interfaces()
    try:
        interface = site.machines[name].interface()
    except OSError as error:
        yield str(error)
        return
    if interface not in shown:
        yield f"host {name}: has no interface {interface}; {', '.join(shown)}"
    else:
        yield from _roots(scenario, host, interface, site)


def _ipfw(host: Host, reach: Reach) -> Iterator[str]:
    """Yield the reasons why a FreeBSD host cannot drop packets that come in."""
    assert isinstance(reach, ByShell)  # of a FreeBSD machine
    try:
        freebsd_rules.check(host)
    except ValueError as error:
        yield str(error)
    if (reason := freebsd_rules.refusal(reach)) is not None:
        yield f"host {host['name']}: {reason}, and is to have ingress.after_gro"


def _roots(scenario: LiveScenario, host: Host, interface: str, site: Site) -> Iterator[str]:
    """Yield the reasons why a host cannot have what it is to have at the root of its interface."""
    name, queue = host["name"], interface_queues(scenario).get(host["name"])
    if host["egress"] is not None:
        yield from _egress(name, host["egress"], interface, site)
    elif queue is not None:
        try:
            tc.queue(queue)
        except ValueError as error:
            yield f"host {name}: nic.qdisc: {error}"
        yield from _root(name, "nic.qdisc", interface, site)


def _egress(host: str, told: Egress, interface: str, site: Site) -> Iterator[str]:
    """Yield the reasons why a host cannot have netem at its egress."""
    driven = site.driven()[host]
    if not driven.asks_sockets:
        yield f"host {host}: egress is netem's, which Linux hosts have"
        return
    try:
        tc.egress(host, told)
    except ValueError as error:
        yield str(error)
    yield from _root(host, "egress", interface, site)


def _root(host: str, key: str, interface: str, site: Site) -> Iterator[str]:
    """Yield the reasons why a host cannot have what a key puts at the root of its interface."""
    yield from _program(site, host, "tc", f"host {host}: {key}")
    if interface in site.file.hosts[host].links.values():
        yield f"host {host}: makes a link at {interface}, where its {key} would be"
    elif (reason := tc.refusal(site.driven()[host].reach, interface)) is not None:
        yield f"host {host}: {reason}, and is to have {key}"


def _links(scenario: LiveScenario, site: Site) -> Iterator[str]:
    links: dict[str, Link] = {link["name"]: link for link in scenario["links"]}
    for machine, described in site.file.machines.items():
        for name, interface in described.links.items():
            if name not in links:
                yield f"{site.path}: {machine} makes link {name}, which is none of {', '.join(links)}"
                continue
            driven = site.driven()[machine]
            own = machine == site.file.emulating
            yield from _emulator(machine, links[name], site) if own else _kernel(machine, links[name], site)
            shown = driven.reach.interfaces()
            used = emulator.families(scenario)
            refusal = partial(emulator.refusal, used=used) if own else driven.links.refusal
            if interface not in shown:
                yield f"{machine}: has no interface {interface}; {', '.join(shown)}"
            elif (reason := refusal(driven.reach, interface)) is not None:
                yield f"{machine}: {reason}, and is to make link {name}"


def _disciplines(scenario: LiveScenario, site: Site) -> Iterator[str]:
    """Queue disciplines and rules that machines refuse when they are tried, with the words of tc and nft."""
    refused: dict[tuple[str, str, str], list[str]] = {}
    for machine, purpose, trials in _trials(scenario, site):
        try:
            found = site.tried[machine].refused(trials)
        except OSError as error:
            yield f"{error} (while what the run needs was tried)"
            continue
        for kind, said in found.items():
            refused.setdefault((machine, kind, said), []).append(purpose)
    for (machine, kind, said), purposes in refused.items():
        what = kind if kind == rules.TRIAL else f"queue discipline {kind}"
        yield f"{machine}: refuses {what} ({', '.join(purposes)}): {said}"


def _trials(scenario: LiveScenario, site: Site) -> Iterator[tuple[str, str, Trials]]:
    """Machine, purpose, and what is to be tried, where the machine has the programs for it; what cannot be
    made at all is said elsewhere."""
    links: dict[str, Link] = {link["name"]: link for link in scenario["links"]}
    for machine, described in site.file.machines.items():
        driven = site.driven()[machine]
        for name in described.links:
            if name in links and machine != site.file.emulating:
                with suppress(ValueError):
                    site.program(machine, driven.link_program, f"link {name}")
                    yield machine, f"link {name}", driven.links.trials(links[name])
    for host in scenario["hosts"]:
        name, told = host["name"], host["egress"]
        if told is not None and name in site.file.hosts and site.driven()[name].asks_sockets:
            with suppress(ValueError):
                site.program(name, "tc", f"host {name}: egress")
                yield name, "egress", tc.egress_trials(name, told)
    for name, queue in interface_queues(scenario).items():
        if name in site.file.hosts:
            with suppress(ValueError):
                site.program(name, "tc", f"host {name}: nic.qdisc")
                yield name, "nic.qdisc", tc.queue_trials(queue)
    own = site.addresses(scenario)
    if len(own) == len(scenario["hosts"]):
        known = Addresses(own, addresses.sockets(scenario, own))
        for host in scenario["hosts"]:
            if site.driven()[host["name"]].asks_sockets:
                with suppress(ValueError):
                    if trials := rules.trials(host, known):
                        site.program(host["name"], "nft", "ingress.after_gro")
                        yield host["name"], "ingress.after_gro", trials


def _kernel(machine: str, link: Link, site: Site) -> Iterator[str]:
    """Yield the reasons why a machine's kernel cannot make a link."""
    driven = site.driven()[machine]
    try:
        driven.links.check(link)
    except ValueError as error:
        yield str(error)
    yield from _program(site, machine, driven.link_program, f"link {link['name']}")


def _emulator(machine: str, link: Link, site: Site) -> Iterator[str]:
    """Yield the reasons why cwndlab's emulator at a router cannot make a link."""
    if not site.driven()[machine].asks_sockets:
        yield f"{machine}: emulator: own needs Linux"
    if site.agent(machine) is None:
        yield f"link {link['name']} by emulator: own needs {_agent([machine])}"
    for program in ("ip", "ethtool"):
        yield from _program(site, machine, program, f"link {link['name']}")


def _program(site: Site, machine: str, name: str, purpose: str) -> Iterator[str]:
    try:
        site.program(machine, name, purpose)
    except ValueError as error:
        yield f"{machine}: {error}"
