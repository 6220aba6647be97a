"""TCP_INFO of the sockets of a run at an interval."""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from cwndlab import _native
from cwndlab.contract.scenario import Flow, Scenario
from cwndlab.testbeds.live import guests
from cwndlab.testbeds.live.addresses import Ends


class TcpInfoSampler:
    """Sampler of both ends of every connection of a run."""

    def __init__(
        self,
        run_id: int,
        scenario: Scenario,
        ends: Mapping[str, Ends],
        namespaces: Mapping[str, str],
    ) -> None:
        """Prepare; nothing runs yet."""
        flows = guests.connections(scenario)

        def found(flow: Flow, role: str) -> dict[str, Any]:
            host = flow["from"] if role == "from" else flow["to"]
            return socket(flow, ends[flow["name"]], namespaces[host], role)

        self._samplers = [
            _native.TcpSampler(
                json.dumps(config(run_id, scenario, [found(flow, role) for flow in flows], role))
            )
            for role in ("from", "to")
        ]
        self.troubles: list[str] = []
        """Failures of the sampling, complete after `stop`."""
        self.at_acks: pa.Table | None = None

    def start(self) -> None:
        """Start sampling."""
        for sampler in self._samplers:
            sampler.start()

    def mark_start(self, zero_ns: int) -> None:
        """The run begins at this CLOCK_MONOTONIC time."""
        for sampler in self._samplers:
            sampler.mark_start(zero_ns)

    def stop(self) -> tuple[pa.Table, pa.Table]:
        """End it: rows of the senders, and of the receivers."""
        tables = []
        for sampler in self._samplers:
            batches, report = sampler.stop()
            self.troubles += json.loads(report)["errors"]
            rows = [pa.record_batch(batch) for _, batch in batches]
            tables.append(pa.Table.from_batches(rows) if rows else pa.table({}))
        return tables[0], tables[1]


def config(run_id: int, scenario: Scenario, sockets: list[dict[str, Any]], role: str) -> dict[str, Any]:
    """Configuration of a sampler (crates/live/src/sampler); `role` is `from` or `to`."""
    return {
        "run_id": run_id,
        "interval_ns": guests.interval_ns(scenario),
        "flows": [flow["name"] for flow in guests.connections(scenario)],
        "sockets": sockets,
        "recoveries": role == "from",
    }


def socket(flow: Flow, ends: Ends, namespace: str | None, role: str) -> dict[str, Any]:
    """The sockets of one end of a flow, in a namespace or in the sampler's own."""
    many = flow["app"]["kind"] == "background"
    source, target = None if many else ends.source_port, ends.target_port
    at_sender = role == "from"
    return {
        "flow": ends.flow,
        "netns": namespace,
        "local_port": source if at_sender else target,
        "remote_port": target if at_sender else source,
    }
