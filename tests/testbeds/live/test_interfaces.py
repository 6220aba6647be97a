"""How interfaces of namespaces are set up: offloads and polling, as experiments say."""

import ctypes
import fcntl
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest
from dumbbell import DUMBBELL

import cwndlab as api
from cwndlab.testbeds.live import session
from cwndlab.testbeds.live.run_values import RunValues
from cwndlab.testbeds.netns import kernel_path, namespaces, network
from cwndlab.testbeds.netns.lab import EMULATOR, NetnsLab
from cwndlab.testbeds.netns.layout import Layout, lay_out
from cwndlab.testbeds.netns.reach import Namespace

pytestmark = pytest.mark.live


READ_POLLING = """\
mount -t sysfs sysfs /sys; cd "/sys/class/net/$1"; cat gro_flush_timeout napi_defer_hard_irqs
"""


def test_an_interface_is_polled_as_the_experiment_says() -> None:
    nic = "nic: {gro: true, coalesce: {gro_flush_timeout: 30us, napi_defer_hard_irqs: 2}}"
    text = DUMBBELL.replace("b: {stack: linux, cc: cubic}", f"b: {{stack: linux, cc: cubic, {nic}}}")
    values = {}
    with built(text) as (layout, made):
        for node in ("a", "b"):
            (port,) = (port for port, _ in layout.interfaces(node))
            command = ["sh", "-c", READ_POLLING, "sh", port.interface]
            namespace = namespaces.NAMESPACES / names(made)[node]
            enter = ["nsenter", f"--net={namespace}", "unshare", "--mount"]
            shown = subprocess.check_output([*enter, *command], text=True)
            values[node] = shown.split()
    assert values == {"a": ["0", "0"], "b": ["30000", "2"]}


SENDING = {"TX checksums": 0x16, "scattered buffers": 0x18, "TSO": 0x1E, "GSO": 0x23}
RECEIVING = {"RX checksums": 0x14, "GRO": 0x2B}
"""Commands of SIOCETHTOOL that read what `tso` and `gro` switch (linux/ethtool.h)."""
SIOCETHTOOL = 0x8946


@pytest.mark.parametrize(("tso", "gro"), [(False, False), (True, False), (False, True), (True, True)])
def test_offloads_are_off_but_those_that_the_experiment_sets(tso: bool, gro: bool) -> None:
    nic = f"nic: {{tso: {str(tso).lower()}, gro: {str(gro).lower()}}}"
    text = DUMBBELL.replace("b: {stack: linux, cc: cubic}", f"b: {{stack: linux, cc: cubic, {nic}}}")
    with built(text) as (layout, made):
        (port,) = (port for port, _ in layout.interfaces("b"))
        assert offloads(names(made)["b"], port.interface) == {
            **dict.fromkeys(SENDING, tso),
            **dict.fromkeys(RECEIVING, gro),
        }
        others = [
            (names(made)[node], port.interface)
            for node in (*layout.hosts, *layout.nodes)
            for port, _ in layout.interfaces(node)
            if node != "b"
        ]
        emulator = names(made)[EMULATOR]
        ends = [network.emulated_end(number, side) for number in range(len(layout.cables)) for side in "ab"]
        for place, interface in [*others, *((emulator, end) for end in ends)]:
            assert not any(offloads(place, interface).values()), (place, interface)


def names(lab: NetnsLab) -> dict[str, str]:
    """The namespaces of a lab, by host and node."""
    return {place: cast(Namespace, live.reach).namespace for place, live in lab.places.items()}


def offloads(namespace: str, interface: str) -> dict[str, bool]:
    """Which offloads of an interface are on, by `SENDING` and `RECEIVING`."""

    def ask() -> dict[str, bool]:
        found = {}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            for name, command in {**SENDING, **RECEIVING}.items():
                # struct ethtool_value, to which struct ifreq leads.
                value = ctypes.create_string_buffer(struct.pack("II", command, 0), 8)
                request = struct.pack("16sP16x", interface.encode(), ctypes.addressof(value))
                fcntl.ioctl(asked, SIOCETHTOOL, request)
                found[name] = bool(struct.unpack("II", value.raw)[1])
        return found

    return namespaces.inside(namespace, ask)


@contextmanager
def built(text: str) -> Iterator[tuple[Layout, NetnsLab]]:
    """The namespaces and interfaces of an experiment's first run."""
    scenario = api.load(text, testbed="netns").plan().runs[0].scenario
    lab = NetnsLab(0, scenario, RunValues(0, 0, {}))
    try:
        lab.lock()
        session.set_up(scenario, lab)
        yield lay_out(scenario), lab
    finally:
        lab.close()


@pytest.mark.parametrize(("limit", "refused"), [("64KB", None), ("5GB", "Illegal value")])
def test_a_link_of_the_kernels_is_tried_with_its_parameters(limit: str, refused: str | None) -> None:
    bottleneck = "network.dumbbell.bottleneck"
    chosen = [f"{bottleneck}.queue={{kind: bfifo, limit: {limit}}}", f"{bottleneck}.delay=0ms"]
    said = list(kernel_path.troubles(api.load(DUMBBELL, chosen).plan().runs[0].scenario))
    about = [each for each in said if "bfifo" in each]
    assert about == [each for each in said if refused is not None and refused in each]
    assert bool(about) == (refused is not None)
