"""What testbed `netns` takes part in: rows, analogues and what is left out, as the file's section says."""

from dataclasses import replace
from typing import Any

import pytest

from cwndlab.errors import ExperimentError
from cwndlab.experiment import sweep, yaml_nodes
from cwndlab.experiment.catalogue import Catalogue, catalogue
from cwndlab.experiment.scenario import planner
from cwndlab.experiment.subset import Subset
from cwndlab.testbeds.netns.support import SUPPORT as NETNS
from cwndlab.testbeds.schema import Spec
from cwndlab.testbeds.sim.support import SUPPORT as SIM

FILE = """\
experiment: x
duration: 2s
hosts:
  a: {stack: freebsd-15-current, hz: 100, sysctl: {net.inet.tcp.sendbuf_max: 1}}
  b: {stack: linux-6.8, nic: {gro: true, coalesce: {time: 0ms}}}
sweep:
  - zip:
      hosts.a.stack: [freebsd-15-current, linux-6.8, linux-6.8]
      hosts.a.cc: [newreno, newreno, cubic]
      hosts.a.hz: [100, 1000, 1000]
  - hosts.a.sysctl:
      - {kern.ipc.maxsockbuf: 7, net.inet.tcp.sendbuf_max: 8}
      - {kern.ipc.maxsockbuf: 7, net.inet.tcp.sendbuf_max: 9}
netns:
  stacks: {linux-6.8: linux}
  analogues: {net.inet.tcp.sendbuf_max: [net.ipv4.tcp_wmem.max], kern.ipc.maxsockbuf: []}
  without: [hosts.a.hz, hosts.b.nic.coalesce]
"""


@pytest.fixture(scope="module")
def live() -> Catalogue:
    """A machine whose kernel is a Linux of the engine."""
    known = catalogue()
    kernel = replace(known.stacks["linux-6.18"], name="linux-9.9")
    return replace(known, stacks={"linux-9.9": kernel}, newest={"linux": "linux-9.9"})


def part(live: Catalogue, text: str = FILE, support: Any = NETNS) -> Subset:
    tree = yaml_nodes.parse(text, "x.yaml")
    return planner.subset(tree, sweep.read_axes(tree), Spec, support, live)


def test_rows_of_other_systems_are_left_out_and_values_are_the_kernels(live: Catalogue) -> None:
    cells = list(part(live).cells())
    assert [cell.values for cell in cells] == [
        {
            "hosts.a.stack": "linux",
            "hosts.a.cc": cc,
            "hosts.a.sysctl": f"analogue {{net.ipv4.tcp_wmem.max: {n}}}",
        }
        for cc in ("newreno", "cubic")
        for n in (8, 9)
    ]
    hosts = yaml_nodes.plain(cells[0].tree.items["hosts"])
    assert hosts == {
        "a": {"stack": "linux", "cc": "newreno", "sysctl": {"net.ipv4.tcp_wmem.max": "8"}},
        "b": {"stack": "linux", "nic": {"gro": "true"}},
    }
    assert "netns" not in cells[0].tree.items


def test_levels_are_rows_too(live: Catalogue) -> None:
    levels = (
        "  - name: tuning\n    values:\n"
        "      old: {hosts.a.sysctl: {net.inet.tcp.sendbuf_max: 8}}\n"
        "      clock: {hosts.a.hz: 100}\n"
        "      other: {hosts.b.stack: windows-7}\n"
    )
    text = FILE[: FILE.index("      hosts.a.hz")] + levels + FILE[FILE.index("netns:") :]
    cells = list(part(live, text).cells())
    assert [cell.values["tuning"] for cell in cells] == ["analogue old", "clock"] * 2
    hosts = [yaml_nodes.plain(cell.tree.items["hosts"]) for cell in cells]
    assert [host["a"].get("sysctl") for host in hosts[:2]] == [
        {"net.ipv4.tcp_wmem.max": "8"},
        {"net.ipv4.tcp_wmem.max": "1"},
    ]


def test_notes_say_what_stands_for_what(live: Catalogue) -> None:
    assert part(live).notes == (
        "linux of this machine stands for linux-6.8",
        "analogue: net.ipv4.tcp_wmem.max for net.inet.tcp.sendbuf_max",
        "left out: kern.ipc.maxsockbuf, which no namespace of this kernel has",
        "2 of 6 combinations need systems that this machine is not",
    )


def test_other_testbeds_carry_out_everything(live: Catalogue) -> None:
    whole = part(live, support=SIM)
    assert [len(axis.rows) for axis in whole.axes] == [3, 2]
    assert whole.notes == ()
    assert "netns" not in whole.tree.items


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "without: [hosts.a.hz",
            "without: [hosts.a.herz",
            "x.yaml:17: netns.without.1: found the key hosts.a.herz; expected a key that the file writes",
        ),
        (
            "stacks: {linux-6.8: linux}",
            "stacks: {linux-3.9: linux}",
            "x.yaml:15: netns.stacks: leaves no row of the sweep: hosts.a.stack has freebsd-15-current,"
            " linux-6.8, and this kernel stands for linux-3.9",
        ),
        (
            "  analogues:",
            "  analogous:",
            "x.yaml:16: netns.analogous: found the unknown key 'analogous'; expected one of stacks,"
            " analogues, without (hint: did you mean analogues?)",
        ),
    ],
)
def test_a_wrong_section_is_refused_in_one_line(live: Catalogue, old: str, new: str, line: str) -> None:
    with pytest.raises(ExperimentError) as refused:
        part(live, FILE.replace(old, new))
    assert str(refused.value) == line
