"""Links as queue disciplines of a kernel, decided and put into messages without one that has them."""

from types import ModuleType
from typing import Any

import pytest
from pyroute2.netlink.rtnl.tcmsg import sched_codel, sched_fq_codel, sched_netem
from pyroute2.netlink.rtnl.tcmsg.common import tick_in_usec

from cwndlab import load
from cwndlab.testbeds.netns import kernel_path, machine

TEXT = """\
experiment: x
duration: 2s
hosts: {a: {stack: linux}, b: {stack: linux}}
network: {dumbbell: {left: [a], right: [b], bottleneck: {rate: 10mbit, queue: {kind: pfifo, limit: 30p}}}}
flows: [{name: f, from: a, to: b}]
"""
HAS = ("pfifo", "bfifo", "htb", "netem")


def scenario(**bottleneck: str) -> dict[str, Any]:
    return load(TEXT, [f"network.dumbbell.bottleneck.{key}={value}" for key, value in bottleneck.items()]) \
        .plan().runs[0].scenario  # fmt: skip


class Recorder:
    """Stands for a socket of rtnetlink; keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int, dict[str, Any]]] = []

    def link_lookup(self, ifname: str) -> tuple[int]:
        assert ifname == "eth0"
        return (7,)

    def tc(self, command: str, kind: str, index: int, handle: int, **options: Any) -> None:
        assert command in {"add", "add-class"}
        assert index == 7
        self.told.append((kind, handle, options))


def kernel(monkeypatch: pytest.MonkeyPatch, *has: str) -> None:
    """Have a kernel with these queue disciplines, which takes every parameter."""
    monkeypatch.setattr(machine, "queue_kinds", lambda: has)
    monkeypatch.setattr(kernel_path, "refusal", lambda link: None)


def shaped(link: dict[str, Any]) -> list[tuple[str, int, dict[str, Any]]]:
    socket = Recorder()
    kernel_path.put(socket, link, "eth0")
    return socket.told


def test_delay_loss_and_duplicates_are_netems_above_rate_and_queue() -> None:
    link = scenario(delay="5ms", loss="{random: 1%}", duplicate="0.5%")["links"][0]
    told = shaped(link)
    assert [(kind, handle, options.get("parent")) for kind, handle, options in told] == [
        ("netem", 0x30000, None),
        ("htb", 0x10000, 0x30001),
        ("htb", 0x10001, 0x10000),
        ("pfifo", 0x20000, 0x10001),
    ]
    message = sched_netem.get_parameters(told[0][2])
    assert message["delay"] == pytest.approx(5000 * tick_in_usec)
    assert message["loss"] / 2**32 == pytest.approx(0.01)
    assert message["duplicate"] / 2**32 == pytest.approx(0.005)
    assert (message["limit"], message["jitter"], message["gap"]) == (kernel_path.NETEM_LIMIT, 0, 0)


def test_a_link_of_rate_and_queue_alone_has_no_netem() -> None:
    told = shaped(scenario()["links"][0])
    assert [kind for kind, _, _ in told] == ["htb", "htb", "pfifo"]
    assert told[-1][2] == {"parent": 0x10001, "limit": 30}


@pytest.mark.parametrize(
    ("queue", "plugin", "message"),
    [
        ("{kind: codel, ce_threshold: 1ms}", sched_codel, {"TCA_CODEL_CE_THRESHOLD": 1000}),
        ("{kind: codel}", sched_codel, {"TCA_CODEL_CE_THRESHOLD": None, "TCA_CODEL_TARGET": 5000}),
        (
            "{kind: fq_codel, quantum: 300B, ce_threshold: 2ms, target: 7ms, flows: 16}",
            sched_fq_codel,
            {
                "TCA_FQ_CODEL_QUANTUM": 300,
                "TCA_FQ_CODEL_CE_THRESHOLD": 2000,
                "TCA_FQ_CODEL_TARGET": 7000,
                "TCA_FQ_CODEL_FLOWS": 16,
            },
        ),
        (
            "{kind: fq_codel}",
            sched_fq_codel,
            {"TCA_FQ_CODEL_QUANTUM": 1514, "TCA_FQ_CODEL_CE_THRESHOLD": None, "TCA_FQ_CODEL_LIMIT": 10240},
        ),
    ],
)
def test_the_kernel_is_told_what_the_experiment_says_of_a_queue(
    queue: str, plugin: ModuleType, message: dict[str, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel(monkeypatch, *HAS, "codel", "fq_codel")
    made = scenario(queue=queue)
    assert list(kernel_path.troubles(made)) == []
    _, _, options = shaped(made["links"][0])[-1]
    attributes = dict(plugin.get_parameters(options)["attrs"])
    assert {name: attributes.get(name) for name in message} == message


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ("memory_limit: 1MB", "emulator kernel leaves memory_limit of fq_codel at the kernel's own 33554432"),
        ("drop_batch: 8", "emulator kernel leaves drop_batch of fq_codel at the kernel's own 64"),
        ("quantum: 255B", "the kernel's quantum of fq_codel is at least 256 bytes, not 255"),
    ],
)
def test_what_the_kernel_cannot_be_told_of_a_queue_is_refused(
    key: str, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel(monkeypatch, *HAS, "fq_codel")
    said = list(kernel_path.troubles(scenario(queue=f"{{kind: fq_codel, {key}}}")))
    assert said[0].startswith("link bottleneck: ")
    assert complaint in said[0]
    assert "\n" not in said[0]
    taken = scenario(queue="{kind: fq_codel, memory_limit: 32MiB, drop_batch: 64}")
    assert list(kernel_path.troubles(taken)) == []


@pytest.mark.parametrize(
    ("bottleneck", "has", "complaint"),
    [
        ({"delay": "5ms"}, HAS[:-1], "needs queue discipline netem for delay, loss and duplicates"),
        ({"loss": "{random: 1%}"}, ("htb", "pfifo"), "pfifo; try modprobe sch_netem, or use emulator"),
        ({"queue": "{kind: codel}"}, HAS, "needs queue discipline codel; this kernel has"),
        ({"loss": "{nth: {every: 5}}"}, HAS, "loss other than random needs emulator: own"),
        ({"corrupt": "1%"}, HAS, "corruption needs emulator: own"),
    ],
)
def test_what_the_kernel_lacks_is_said_in_one_line(
    bottleneck: dict[str, str], has: tuple[str, ...], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "queue_kinds", lambda: has)
    said = list(kernel_path.troubles(scenario(**bottleneck)))
    assert complaint in said[0]
    assert all(trouble.startswith("link bottleneck") for trouble in said)
    assert not any("\n" in trouble for trouble in said)


def test_a_kernel_with_netem_takes_links_with_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel(monkeypatch, *HAS)
    assert list(kernel_path.troubles(scenario(delay="5ms", loss="{random: 1%}"))) == []


def test_everything_that_a_kernel_lacks_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel(monkeypatch, "pfifo")
    said = list(kernel_path.troubles(scenario(delay="5ms", queue="{kind: codel}", overhead="20")))
    of_bottleneck = [trouble.split("; ")[0] for trouble in said if trouble.startswith("link bottleneck: ")]
    assert of_bottleneck == [
        "link bottleneck: emulator kernel needs queue discipline htb",
        "link bottleneck: emulator kernel needs queue discipline codel",
        "link bottleneck: emulator kernel needs queue discipline netem for delay, loss and duplicates",
        "link bottleneck: the kernel counts 14 bytes of overhead, not 20",
    ]
