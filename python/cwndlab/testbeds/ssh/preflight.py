"""What testbed ssh refuses before anything starts, all of it at once, with what the machines have instead."""

from __future__ import annotations

from collections.abc import Iterator

from cwndlab.contract.scenario import Host, Link
from cwndlab.testbeds.live import preflight
from cwndlab.testbeds.live.linux import rules, tc
from cwndlab.testbeds.live.scenario import LiveScenario
from cwndlab.testbeds.live.traffic import tools
from cwndlab.testbeds.ssh.site import Site


def check(scenario: LiveScenario, site: Site) -> None:
    """Raises ValueError, one line with everything that these machines cannot carry out."""
    troubles = list(dict.fromkeys(_troubles(scenario, site)))
    if troubles:
        raise ValueError("; ".join(troubles))


def _troubles(scenario: LiveScenario, site: Site) -> Iterator[str]:
    try:
        preflight.check_record(scenario)
    except ValueError as error:
        yield str(error)
    if scenario["record"]["pcap"]:
        yield "record.pcap: testbed ssh takes no captures yet"
    if scenario["schedule"]:
        yield "schedule: testbed ssh changes no link while a run goes on"
    missing = [host["name"] for host in scenario["hosts"] if host["name"] not in site.file.hosts]
    if missing:
        yield f"{site.path}: has no host {' and '.join(missing)}"
    yield from _flows(scenario, site)
    for host in scenario["hosts"]:
        if host["name"] not in missing:
            yield from _host(scenario, host, site)
    yield from _links(scenario, site)


def _flows(scenario: LiveScenario, site: Site) -> Iterator[str]:
    for flow in scenario["flows"]:
        tool = scenario["live"]["flows"][flow["name"]]["tool"]
        name = flow["name"]
        if tool not in tools.PROGRAMS:
            yield f"flow {name}: app {flow['app']['kind']} by {tool} needs a program of ours at the hosts"
            continue
        reason = tools.refusal(tool, flow)
        if reason is not None:
            yield f"flow {name}: {reason}"
        for end in (flow["from"], flow["to"]):
            if end in site.file.hosts:
                yield from _program(site, end, tools.PROGRAMS[tool], f"flow {name}")


def _host(scenario: LiveScenario, host: Host, site: Site) -> Iterator[str]:
    name = host["name"]
    own = site.kernels()[name]
    if host["stack"] != own.stack:
        yield f"host {name}: runs {own.stack}, not {host['stack']}; write stack: {own.stack}"
    needed = ["timeout", "ss", "awk", "tee", "ethtool"]
    for program in [*needed, *(["ping"] if "ping" in scenario["live"]["loggers"] else [])]:
        yield from _program(site, name, program, "every run")
    for flow in scenario["flows"]:
        if flow["from"] == name and flow["cc"] and flow["cc"] not in own.congestion_controls:
            yield f"host {name}: has no congestion control {flow['cc']}; {', '.join(own.congestion_controls)}"
    wanted = site.systems().sysctls(host, scenario["flows"])
    yield from (f"host {name}: has no sysctl {key}" for key in wanted if key not in own.sysctls)
    ingress = host["ingress"]
    if ingress["before_gro"] is not None:
        yield f"host {name}: ingress.before_gro is not made by machines; after_gro is"
    if ingress["after_gro"] is not None:
        yield from _program(site, name, "nft", "ingress.after_gro")
        loss = ingress["after_gro"]["loss"]
        if loss is not None and loss["kind"] == "gilbert":
            yield f"host {name}: {rules.GILBERT}"
    shown = site.reaches[name].interfaces()
    interface = site.file.hosts[name].interface
    if interface not in shown:
        yield f"host {name}: has no interface {interface}; {', '.join(shown)}"


def _links(scenario: LiveScenario, site: Site) -> Iterator[str]:
    links: dict[str, Link] = {link["name"]: link for link in scenario["links"]}
    for machine, described in site.file.machines.items():
        for name, interface in described.links.items():
            if name not in links:
                yield f"{site.path}: {machine} makes link {name}, which is none of {', '.join(links)}"
                continue
            try:
                tc.commands(links[name], interface)
            except ValueError as error:
                yield str(error)
            yield from _program(site, machine, "tc", f"link {name}")
            shown = site.reaches[machine].interfaces()
            if interface not in shown:
                yield f"{machine}: has no interface {interface}; {', '.join(shown)}"
            elif any(
                each["parent"] == "root" and each["handle"] != "0:" for each in shown[interface]["qdiscs"]
            ):
                yield f"{machine}: {interface} has queue disciplines already, and is to make link {name}"


def _program(site: Site, machine: str, name: str, purpose: str) -> Iterator[str]:
    try:
        site.program(machine, name, purpose)
    except ValueError as error:
        yield f"{machine}: {error}"
