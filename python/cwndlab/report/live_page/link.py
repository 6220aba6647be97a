"""The way from the Scenario of a run to the address that opens it in the live lab, where that can
express it.
"""

from __future__ import annotations

from typing import Any

from cwndlab.contract.scenario import Scenario
from cwndlab.errors import CwndlabError
from cwndlab.report.live_page import settings as lab
from cwndlab.report.live_page import templates
from cwndlab.report.live_page.settings import Flow, Settings
from cwndlab.testbeds import MODEL, loader


def of_scenario(scenario: Scenario) -> str | None:
    """Return the address, None unless what it opens is this very Scenario."""
    if scenario["repeat"] != 0:
        return None  # the page plans no repeats, and planning takes longer than looking
    families = templates.families_of(loader.support(MODEL).catalogue())
    try:
        settings = _settings(scenario)
        same = templates.plan(settings, families) == scenario
    except (KeyError, IndexError, StopIteration, TypeError, CwndlabError):
        return None  # of another shape
    return lab.address(settings) if same else None


def _settings(scenario: Scenario) -> Settings:
    """Read settings from where they would be."""
    links = {link["name"]: link for link in scenario["links"]}
    hosts = {host["name"]: host for host in scenario["hosts"]}
    bottleneck = links["bottleneck"]
    flows = scenario["flows"]
    if not 1 <= len(flows) <= templates.MAX_FLOWS:
        raise IndexError(f"{len(flows)} flows")
    access = links[f"access.{flows[0]['to']}"]
    queue: Any = bottleneck["queue"]
    loss: Any = bottleneck["loss"] or {}
    record: Any = scenario["record"]
    change: Any = scenario["schedule"][0] if scenario["schedule"] else {"rate_bps": None, "at_ns": 0}
    return Settings(
        tuple(
            Flow(
                hosts[flow["from"]]["stack"],
                flow["cc"],
                flow["start_ns"],
                2 * links[f"access.{flow['from']}"]["delay_ns"],
                receiver=_unless(hosts[flow["to"]]["stack"], hosts[flow["from"]]["stack"]),
                names=_names(number, (flow["name"], flow["from"], flow["to"])),
            )
            for number, flow in enumerate(flows, 1)
        ),
        rate=bottleneck["rate_bps"] or 0,
        rtt=2 * bottleneck["delay_ns"],
        buffer=queue["limit_packets"] if "limit_packets" in queue else _bytes_of(queue) // lab.PACKET,
        queue=queue["kind"],
        loss=loss.get("probability_ppb", 0),
        ecn=hosts[flows[0]["from"]]["ecn"] == "on",
        buffers=flows[0]["sndbuf"],
        merge=hosts[flows[0]["to"]]["ack_every"] or 0,
        processing=_processing(hosts[flows[0]["to"]]["noise"]),
        rate_then=change["rate_bps"],
        rate_at=change["at_ns"],
        duration=scenario["duration_ns"],
        measure=scenario["measure"]["from_ns"],
        seed=scenario["seed"],
        start_jitter=scenario["start_jitter_ns"],
        phase_jitter=max(scenario.get("phase_jitter_ns", {}).values(), default=0),
        access=access["rate_bps"] or 0,
        tcp=record["tcp"]["interval_ns"],
        queue_every=record["queue"]["interval_ns"],
        experiment=scenario["experiment"],
    )


def _processing(noise: Any) -> int:
    return int(noise["processing"]["mean_ns"]) if noise and noise["processing"] else 0


def _bytes_of(queue: Any) -> int:
    return int(queue["memlimit_bytes"] if "memlimit_bytes" in queue else queue["limit_bytes"])


def _unless(value: str, usual: str) -> str:
    return "" if value == usual else value


def _names(number: int, names: tuple[str, str, str]) -> tuple[str, str, str] | None:
    usual = Flow("", "").named(number)
    return None if names == usual else names
