"""`emulator: own`: the `path` crate in real time, between the ends of cables in a namespace of its own."""

import json
from pathlib import Path

import pyarrow as pa

from cwndlab import _native
from cwndlab.contract.scenario import Scenario
from cwndlab.experiment.scenario.queries import of_engine
from cwndlab.testbeds.live.addresses import flow_keys
from cwndlab.testbeds.live.path.backend import PathReport
from cwndlab.testbeds.netns.layout import Layout, capture_points
from cwndlab.testbeds.netns.network import Network, emulated_end


class Emulator:
    """The `path` crate in real time (crates/live)."""

    def __init__(
        self, run_id: int, scenario: Scenario, layout: Layout, network: Network, directory: Path
    ) -> None:
        """Check the configuration; captures go to files in `directory`."""
        self._captures = {
            point: directory / f"{number}.pcap" for number, point in enumerate(capture_points(scenario))
        }
        snaplens = capture_points(scenario)
        config = {
            "run_id": run_id,
            "netns": network.emulator,
            "scenario": of_engine(scenario),
            "cables": [
                {
                    "a": emulated_end(number, "a"),
                    "b": emulated_end(number, "b"),
                    "forward": cable.forward["name"] if cable.forward else None,
                    "reverse": cable.reverse["name"] if cable.reverse else None,
                }
                for number, cable in enumerate(layout.cables)
            ],
            "flows": flow_keys(scenario, layout.flows),
            "captures": [
                {"at": point, "snaplen": snaplens[point], "file": str(file)}
                for point, file in self._captures.items()
            ],
            "threads": 1,
            "real_time": True,
        }
        self._emulator = _native.Emulator(json.dumps(config))

    def start(self) -> None:
        """Let packets through."""
        self._emulator.start()

    def mark_start(self, zero_ns: int) -> None:
        """The run begins."""
        self._emulator.mark_start(zero_ns)

    def stop(self) -> PathReport:
        """End it."""
        batches, report = self._emulator.stop()
        told = json.loads(report)
        return PathReport(
            batches=[(table, pa.record_batch(batch)) for table, batch in batches],
            links=told["links"],
            flows={flow["flow"]: flow for flow in told["flows"]},
            health=told["health"],
            captures=self._captures,
        )
