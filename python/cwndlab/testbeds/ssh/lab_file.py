"""The lab file (`--lab FILE`): which machines the names of an experiment stand for, and what the path is."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from cwndlab.errors import InputError, one_of, shown
from cwndlab.experiment import locate, yaml_nodes
from cwndlab.experiment.schema.leaves import Name, Word, leaf, word
from cwndlab.experiment.schema.section import Section, about, required
from cwndlab.experiment.units import BadValue
from cwndlab.testbeds.live import user_programs
from cwndlab.testbeds.live.addresses import family_of
from cwndlab.testbeds.live.user_programs import Around, Command, Logger, Program

PORT = 22
"""Port of sshd, unless the file says another."""

_TARGET = re.compile(
    r"(?:(?P<user>[A-Za-z_][A-Za-z0-9_.-]{0,63})@)?(?P<host>\[[0-9A-Fa-f:.%]{2,64}\]|[A-Za-z0-9._-]{1,253})"
    r"(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)
_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,31}", re.ASCII)


def _target(text: str) -> str:
    found = _TARGET.fullmatch(text)
    if found is None or not 0 < int(found["port"] or PORT) < 65536:
        raise BadValue(shown(text) if text else "nothing", "USER@ADDRESS:PORT; user and port may be left out")
    return text


def _address(text: str) -> str:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        expected = "an IPv4 or IPv6 address such as 10.0.1.1 or fd00:1::1"
        raise BadValue(shown(text) if text else "nothing", expected) from None
    if isinstance(found, ipaddress.IPv6Address) and (found.is_link_local or found.ipv4_mapped):
        raise BadValue(shown(text), "an address that is not of one link alone, nor of IPv4 within IPv6")
    return str(found)


def _address6(text: str) -> str:
    found = _address(text)
    if family_of(found) != "ipv6":
        raise BadValue(shown(text), "an IPv6 address such as fd00:1::1")
    return found


def _interface(text: str) -> str:
    if not _INTERFACE.fullmatch(text):
        raise BadValue(shown(text) if text else "nothing", "the name of an interface such as eth1") from None
    return text


def _text(text: str) -> str:
    if not text.strip():
        raise BadValue("nothing", "some words")
    return " ".join(text.split())


def _string(parse: Any, what: str) -> Any:
    return leaf(parse, str, {"type": "string", "description": what})


Target = Annotated[str, *_string(_target, "USER@ADDRESS:PORT, as ssh takes it")]
Address = Annotated[str, *_string(_address, "an IPv4 or IPv6 address")]
Address6 = Annotated[str, *_string(_address6, "an IPv6 address")]
Interface = Annotated[str, *_string(_interface, "the name of an interface")]
Text = Annotated[str, *_string(_text, "some words")]


class Machine(Around):
    """A machine: the way in, what is run there around runs, and which links it carries."""

    section = "machine"
    ssh: Target = required("the way in: USER@ADDRESS:PORT")
    key: Text | None = about("file of the private key, instead of those that ssh would try")
    jump: Target | None = about("a machine in between, as ssh -J")
    become: Annotated[str, *word("none", "sudo", "doas")] = about("how the user gets root's rights", "none")
    links: dict[Word, Interface] = about(
        "links of the experiment that it makes, each with the interface by which packets leave",
        {},
    )


class Host(Machine):
    """A host of the experiment."""

    section = "host"
    address: Address = required("its address on the test network")
    address6: Address6 | None = about("its IPv6 address there, where `address` is of IPv4")
    interface: Interface | None = about("its interface on the test network [the one that has the address]")

    @property
    def addresses(self) -> dict[str, str]:
        """Addresses of the host by IP version."""
        found = {family_of(self.address): self.address}
        return found if self.address6 is None else {**found, "ipv6": self.address6}


class Router(Machine):
    """A machine in between."""

    section = "router"
    emulator: Annotated[str, *word("kernel", "own")] = about(
        "what makes its links: the kernel (tc, dummynet), or our own emulator", "kernel"
    )


class Build(Section):
    """One of the builds that are compared on a lab: machines of its own, or commands that switch to it."""

    section = "build"
    hosts: dict[Name, Host] = about("hosts that are other machines with this build, each whole", {})
    switch: dict[Name, list[Command]] = about("commands by machine that switch to this build", {})


class LabFile(Section):
    """A lab file."""

    section = "lab"
    lab: Name = required("the lab's name")
    known_hosts: Text | None = about("file of the host keys that are known [~/.ssh/known_hosts]")
    agent: dict[Word, Text] | None = about(
        "files of our agent by system and processor, such as linux-x86_64 [those that make agent made]"
    )
    path: Text = required("what the path between the hosts really is, kept with the results")
    hosts: dict[Name, Host] = required("the machines of the experiment's hosts, by their names there")
    routers: dict[Name, Router] = about("the machines in between, whose settings are kept as well", {})

    programs: dict[Name, Program] = about("what carries flows out instead of iperf3, by their names", {})
    loggers: dict[Name, Logger] = about("programs that write down what happens, by name", {})
    builds: dict[Name, Build] = about("what `cwndlab compare --build` compares, by name", {})

    @property
    def machines(self) -> dict[str, Machine]:
        """All machines by name."""
        return {**self.hosts, **self.routers}

    @property
    def emulating(self) -> str | None:
        """The router where cwndlab's emulator makes the links."""
        return next((name for name, router in self.routers.items() if router.emulator == "own"), None)


def read(path: Path) -> LabFile:
    """The lab of `FILE`, or of `FILE@BUILD` as it is with that build; raises `ExperimentError`, one line with
    file, line and key, and InputError for a build that is not there."""
    file, build = of_build(path)
    tree = yaml_nodes.parse(yaml_nodes.read_file(file), str(file))
    lab = locate.check(LabFile, tree)
    _check_machines(lab, tree)
    for name, own in lab.builds.items():
        for kind, known in (("hosts", lab.hosts), ("switch", lab.machines)):
            for machine in getattr(own, kind):
                if machine not in known:
                    bad = BadValue(shown(machine), one_of(known))
                    raise locate.fault(tree, ("builds", name, kind, machine), bad)
        _check_machines(lab.model_copy(update={"hosts": {**lab.hosts, **own.hosts}}), tree)
    if build is None:
        return lab
    if build not in lab.builds:
        raise InputError(f"{file}: there is no build {shown(build)}; {_builds(lab)}")
    return lab.model_copy(update={"hosts": {**lab.hosts, **lab.builds[build].hosts}})


def of_build(path: Path) -> tuple[Path, str | None]:
    """The file, and the build that is named behind it."""
    name, sign, build = path.name.rpartition("@")
    return (path.with_name(name), build) if sign and name and not path.exists() else (path, None)


def _builds(lab: LabFile) -> str:
    return f"builds has {', '.join(lab.builds)}" if lab.builds else "it has no builds"


def _check_machines(lab: LabFile, tree: yaml_nodes.Mapping) -> None:
    carried: dict[str, str] = {}
    for kind in ("hosts", "routers"):
        for name, machine in getattr(lab, kind).items():
            if kind == "routers" and name in lab.hosts:
                raise locate.fault(tree, (kind, name), BadValue(problem="is a host as well"))
            for link in machine.links:
                if link in carried:
                    bad = BadValue(problem=f"{carried[link]} makes this link already")
                    raise locate.fault(tree, (kind, name, "links", link), bad)
                carried[link] = name
    own = [name for name, router in lab.routers.items() if router.emulator == "own"]
    for name in own[1:]:
        bad = BadValue(problem=f"{own[0]} has our emulator already, which one router of a lab can have")
        raise locate.fault(tree, ("routers", name, "emulator"), bad)
    if not lab.hosts:
        raise locate.fault(tree, ("hosts",), BadValue("nothing", "at least one host"))


def parts(target: str) -> tuple[str | None, str, int]:
    """User, host and port of a target."""
    found = _TARGET.fullmatch(target)
    assert found is not None  # as it was checked
    return found["user"], found["host"].strip("[]"), int(found["port"] or PORT)


TEMPLATE = """\
# A lab for testbed ssh: which machines the hosts of experiments are. Check it with: cwndlab lab check FILE
lab: my-lab
# What lies between the hosts, in words; it is kept with all results.
path: two hosts and a router on 1 Gbit/s Ethernet, no other traffic
# known_hosts: ~/.ssh/known_hosts

hosts:
  a:                            # a name of the experiment's hosts
    ssh: root@192.0.2.11:22     # how ssh gets there; not over the test network, if that can be helped
    # key: ~/.ssh/id_ed25519    # unless ssh-agent or the usual files have it
    # jump: me@gateway.example  # a machine in between
    # become: sudo              # sudo, doas or none
    address: 10.0.1.1           # on the test network; address6: fd00:1::1 for family: ipv6
    interface: eth1
    # setup: [ip link set eth1 txqueuelen 1000]       # before the first run; teardown: after the last
    # before_run: [sysctl -w net.ipv4.route.flush=1]  # before each run; after_run: after each
  b:
    ssh: root@192.0.2.12
    address: 10.0.2.1
    interface: eth1

# Machines that make links of the experiment (`cwndlab run --dry-run` names them). Without any the path is
# real, and the experiment's network has to say what it is.
routers:
  r:
    ssh: root@192.0.2.13
    links:
      bottleneck: eth2          # packets towards b leave here
      bottleneck.reverse: eth1  # packets towards a
    # emulator: own              # our emulator instead of the kernel's queue disciplines

# What `cwndlab compare --build --base before --new after` compares: machines, or commands that switch one.
# builds:
#   before: {switch: {a: [grub-reboot before, reboot]}}   # `reboot` is waited for
#   after: {switch: {a: [grub-reboot after, reboot]}}
# or
#   after: {hosts: {a: {ssh: root@192.0.2.14, address: 10.0.1.2, interface: eth1}}}
"""


def commands(path: Path) -> Iterator[str]:
    """Yield the commands that a lab file has run on its machines, and the links that these make, a
    line each.
    """
    lab = read(path)
    for name, machine in lab.machines.items():
        how = " by our emulator" if name == lab.emulating else ""
        yield from (
            f"{name} makes link {link} at {interface}{how}" for link, interface in machine.links.items()
        )
        yield from user_programs.lines(name, machine)
    yield from user_programs.described(lab.programs, lab.loggers)
    for build, own in lab.builds.items():
        yield from (f"build {build} has {host} at {machine.ssh}" for host, machine in own.hosts.items())
        for name, words in own.switch.items():
            yield from (f"build {build} switches {name}: {command}" for command in words)
