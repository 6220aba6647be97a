"""All that the simulator carries out of an experiment file."""

from pathlib import Path

from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.support import Support
from cwndlab.testbeds.keys import EXPERIMENT, PATH, keys
from cwndlab.testbeds.netns.section import NetnsKeys
from cwndlab.testbeds.sim import NAME

SUPPORT = Support(
    NAME,
    {
        "experiment": EXPERIMENT.union(NetnsKeys.known_keys()),
        "host": keys(
            "stack cc cc_params sndbuf rcvbuf mss family ecn hz sysctl nic noise ack_every cheats egress"
            " ingress count"
        ),
        **PATH,
        **{section: PATH[section].union(["delay_first", "icmp"]) for section in ("link", "cable")},
        "schedule": PATH["schedule"].union(["on"]),
    },
    only_off={},
    catalogue=catalogue,
    fits_path=True,
)
"""Queue disciplines, losses and apps are those of the engine's catalogue.

Keys that say how live testbeds go about it (pause, order, those testbeds' own, an app's tool) change nothing
of what is modelled, and are taken so that one file serves all testbeds."""


def support(lab: Path | None) -> Support:
    """Support of the simulator, whatever a lab file says."""
    return SUPPORT
