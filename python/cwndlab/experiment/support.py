"""Which keys of the schema a testbed carries out; the others are refused, never ignored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cwndlab.experiment.catalogue import Catalogue, catalogue
from cwndlab.experiment.schema import Section
from cwndlab.loggers import LOGGERS

LIVE_KEYS = ("tool", "report")
"""Keys of app `bulk` that say how real testbeds send, and nothing to a model."""


@dataclass(frozen=True, slots=True)
class Support:
    """What a testbed publishes: for each section of the schema (`Section.section`) the keys it carries out.

    A section that is not listed is carried out with all its keys. ``only_off`` has keys, in the same form,
    that may be written only to say false.
    """

    testbed: str
    keys: Mapping[str, frozenset[str]]
    only_off: Mapping[str, frozenset[str]]
    real: bool = False
    """Whether real hosts carry it out, so that a Scenario says with which tools, emulator and loggers."""
    loggers: tuple[str, ...] = ()
    """Those it has of what may run beside the traffic."""

    def catalogue(self) -> Catalogue:
        """What the testbed knows: stacks, congestion controls, sysctls, queues; raises InputError if it
        cannot say."""
        if self.testbed == "netns":
            from cwndlab.testbeds.netns import machine  # asks the kernel

            return machine.known()
        return catalogue()

    def refused(self, spec: Section, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
        """Yield the path of every key that the file wrote and the testbed does not carry out."""
        carried = self.keys.get(spec.section)
        for key, value in spec.written():
            off = key in self.only_off.get(spec.section, ()) and value is False
            if carried is not None and key not in carried and not off:
                yield (*path, key)
            else:
                yield from self._inside(value, (*path, key))

    def _inside(self, value: object, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
        if isinstance(value, Section):
            yield from self.refused(value, path)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                yield from self._inside(item, (*path, index))
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from self._inside(item, (*path, key))


def _keys(text: str) -> frozenset[str]:
    return frozenset(text.split())


SIM = Support(
    "sim",
    {
        "experiment": _keys(
            "experiment description duration hosts network flows repeat seed start_jitter measure record"
            " pause order emulator netns"
        ),
        "host": _keys("stack cc sndbuf rcvbuf mss ecn hz sysctl nic noise ack_every egress ingress count"),
        "link": _keys("rate delay queue loss duplicate corrupt jitter shaper mtu overhead schedule reverse"),
        "cable": _keys(
            "name from to one_way bottleneck"
            " rate delay queue loss duplicate corrupt jitter shaper mtu overhead schedule reverse"
        ),
        "change": _keys("rate delay loss queue down"),
    },
    only_off={},
)
"""The simulator. Queue disciplines, losses and apps are those of the engine's catalogue.

Keys that say how real testbeds go about it (pause, order, emulator, netns, an app's tool) change nothing of
what is modelled, and are taken so that one file serves all testbeds."""

NETNS = Support(
    "netns",
    {
        "experiment": SIM.keys["experiment"] | {"loggers"},
        "host": _keys("stack cc sndbuf rcvbuf mss ecn sysctl nic egress ingress count"),
        "nic": _keys("rate tx_queue tso gro coalesce"),
        "coalesce": _keys("gro_flush_timeout napi_defer_hard_irqs"),
        "link": SIM.keys["link"],
        "cable": SIM.keys["cable"],
        "change": SIM.keys["change"],
    },
    only_off={"nic": _keys("lro")},
    real=True,
    loggers=LOGGERS,
)
"""This host's kernel. Stacks, congestion controls and sysctls are those it has; queue disciplines, losses and
apps those of the engine."""

TESTBEDS: Mapping[str, Support] = {"sim": SIM, "netns": NETNS}
"""What each testbed carries out."""
