"""What a kernel has and lacks, found out and put into words, on kernels that are not this one."""

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import pytest
from pyroute2.netlink.exceptions import NetlinkError

import cwndlab as api
from cwndlab.errors import InputError
from cwndlab.execution import estimate
from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.scenario import defaults
from cwndlab.experiment.schema import Host
from cwndlab.testbeds.live.linux import kernel as kernel_of_linux
from cwndlab.testbeds.netns import machine, namespaces

AVAILABLE = "net.ipv4.tcp_available_congestion_control"
ALLOWED = "net.ipv4.tcp_allowed_congestion_control"
CHOSEN = "net.ipv4.tcp_congestion_control"


class Modular:
    """Stands for a host whose kernel has congestion controls that are modules not loaded yet."""

    def __init__(self, modules: set[str], restricted: set[str]) -> None:
        self.listed, self.asked, self.chosen = ["reno", "cubic"], list[str](), "cubic"
        self._modules, self._restricted = modules, restricted

    def files(self, pattern: str) -> dict[str, str]:
        allowed = ["reno", "cubic"]
        texts = {AVAILABLE: " ".join(self.listed), ALLOWED: " ".join(allowed), CHOSEN: self.chosen}
        found = {kernel_of_linux.path(name): f"{text}\n" for name, text in texts.items()}
        return {path: text for path, text in found.items() if path.startswith(pattern)}

    def writable(self, path: str) -> bool:
        return path == kernel_of_linux.path(CHOSEN)

    def uname(self) -> str:
        return "Linux host 6.18.1 #1 SMP x86_64"

    def write(self, path: str, cc: str) -> None:
        assert path == kernel_of_linux.path(CHOSEN)
        self.asked.append(cc)
        if cc not in self._modules:
            raise FileNotFoundError(2, "No such file or directory")
        self.listed.append(cc)
        if cc in self._restricted:
            raise PermissionError(1, "Operation not permitted")
        self.chosen = cc


def test_congestion_controls_that_are_modules_are_found() -> None:
    modular: Any = Modular(modules={"bbr", "dctcp"}, restricted={"bbr"})
    found = kernel_of_linux.read(modular)
    assert {"reno", "cubic", "bbr"} <= set(found.congestion_controls)
    assert not {"reno", "cubic"} & set(modular.asked), "what is there needs no module"
    assert found.sysctls == {CHOSEN: "cubic"}, "the default is the kernel's own, not the last one tried"
    assert found.release == "6.18.1"


UNNAMED = """\
experiment: unnamed
duration: 1s
hosts:
  a: {stack: linux}
  b: {stack: linux, cc: reno}
  c: {stack: linux, sysctl: {net.ipv4.tcp_wmem: 4096 16384 4194304}}
network:
  dumbbell: {left: [a, b], right: [c], access: {rate: 1gbit}, bottleneck: {rate: 10mbit, delay: 5ms}}
flows:
  - {name: f1, from: a, to: c, app: bulk}
  - {name: f2, from: b, to: c, app: bulk}
  - {name: f3, from: c, to: a, app: ping}
repeat: 1
"""


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Puts a kernel in the place of this machine's: one that begins with BBR."""

    def be(*controls: str, release: str = "6.18.1", wmem: str = "4096\t16384\t33554432") -> None:
        sysctls = {CHOSEN: "bbr", "net.ipv4.tcp_ecn": "2", "net.ipv4.tcp_wmem": wmem}
        known = kernel_of_linux.Kernel(release, controls, controls, sysctls)
        monkeypatch.setattr(machine, "kernel", lambda: known)
        machine.known.cache_clear()

    yield be
    machine.known.cache_clear()


def test_a_file_that_names_no_cc_means_the_models_default(
    kernel: Callable[..., None],
) -> None:
    kernel("reno", "bbr", "cubic")
    (here,) = api.load(UNNAMED, (), "netns").plan().runs
    (model,) = api.load(UNNAMED).plan().runs
    for run in (here, model):
        assert [flow["cc"] for flow in run.scenario["flows"]] == ["cubic", "reno", "cubic"]
        assert run.notes == ("a names no cc: cubic, the default of linux-6.18, was taken",)
    assert model.warnings == ()
    assert here.warnings == (
        "this machine's own default congestion control is bbr; a got cubic, the default of linux-6.18",
        "net.ipv4.tcp_wmem.max is 33554432 on this machine, and 4194304 in the model linux-6.18",
    )
    for part in ("warning: this machine's own default", "note: a names no cc: cubic"):
        assert part in estimate.as_text(api.load(UNNAMED, (), "netns").plan(), 1, 0)


def test_another_version_of_linux_than_the_simulators_is_warned_about(kernel: Callable[..., None]) -> None:
    kernel("reno", "cubic", release="6.1.0-25-amd64", wmem="4096\t16384\t4194304")
    (run,) = api.load(UNNAMED, (), "netns").plan().runs
    assert "stack linux is linux-6.1 on this machine, and linux-6.18 on testbed sim" in run.warnings


@pytest.mark.parametrize(
    ("stack", "said"),
    [
        ("linux-6.12", []),
        ("linux-6.8", ["stack linux-6.8 is linux-6.12 on this machine, and linux-6.8 on testbed sim"]),
        ("linux", ["stack linux is linux-6.12 on this machine, and linux-6.18 on testbed sim"]),
    ],
)
def test_a_kernel_is_compared_with_the_model_that_the_file_names(stack: str, said: list[str]) -> None:
    sysctls = {"net.ipv4.tcp_ecn": "2", CHOSEN: "cubic"}
    known = kernel_of_linux.known(kernel_of_linux.Kernel("6.12.117", ("cubic",), ("cubic",), sysctls), 1000)
    linuxes = [name for name in catalogue().stack_names() if name.startswith("linux")]
    hosts = {"a": Host(stack=stack)}
    assert (
        list(defaults.warnings({}, hosts, replace(known, newest=dict.fromkeys(linuxes, "linux-6.12"))))
        == said
    )


def test_a_kernel_without_the_default_is_refused_where_a_host_names_none(kernel: Callable[..., None]) -> None:
    kernel("reno", "bbr")
    with pytest.raises(InputError, match=r"hosts\.a: names no cc, and this kernel lacks cubic, the default"):
        api.load(UNNAMED, (), "netns")
    assert api.load(UNNAMED, ["hosts.a.cc=bbr"], "netns").plan().runs[0].warnings


class Netlink:
    """Stands for a socket of rtnetlink of a kernel that answers new interfaces with `code`, an errno or 0."""

    code = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        pass

    def link(self, command: str, **options: Any) -> None:
        assert (command, options["kind"]) == ("add", "veth")
        if self.code:
            raise NetlinkError(self.code)


@pytest.mark.parametrize(
    ("interfaces", "packets", "complaint"),
    [
        (1, 0, "needs root, or the capabilities CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN"),
        (95, 0, "this kernel does not make (Operation not supported); try modprobe veth"),
        (0, 1, "needs root, or the capabilities CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN"),
        (0, 97, "kernel has not (Address family not supported by protocol); try modprobe af_packet"),
    ],
)
def test_what_runs_need_in_a_namespace_is_tried_in_one(
    interfaces: int, packets: int, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*family_and_type: int) -> socket.socket:
        assert family_and_type == (socket.AF_PACKET, socket.SOCK_RAW)
        raise OSError(packets, os.strerror(packets))

    monkeypatch.setattr(namespaces, "in_scratch", lambda work: work())
    monkeypatch.setattr("pyroute2.IPRoute", Netlink)
    monkeypatch.setattr(Netlink, "code", interfaces)
    monkeypatch.setattr(machine.socket, "socket", opened)
    reason = machine.trouble()
    assert reason is not None
    assert complaint in reason
    assert reason.startswith("testbed netns needs ")
    assert "\n" not in reason
