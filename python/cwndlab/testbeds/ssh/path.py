"""What carries packets between the machines: the real path, with the links that machines make by tc."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from cwndlab.contract.scenario import Link, Scenario
from cwndlab.contract.summary import LinkSummary
from cwndlab.tables import SCHEMAS
from cwndlab.testbeds.live.linux import tc
from cwndlab.testbeds.live.path import PathReport
from cwndlab.testbeds.ssh.machine import Clock, Machine

INTERVAL_S = 0.05
"""Between two looks at a queue."""

LOOP = (
    'PATH=$PATH:/usr/sbin:/sbin; while :; do date +%s%N; tc -s -j qdisc show dev "$1"; echo; sleep "$2"; done'
)
"""Print the time and an interface's queue disciplines again and again."""


class MadeLinks:
    """The links that machines of the lab make, and their counters over time."""

    def __init__(
        self,
        run_id: int,
        scenario: Scenario,
        made: Mapping[str, tuple[Machine, str]],
        clocks: Mapping[str, Clock],
        limit_s: float,
    ) -> None:
        """Nothing is in place; `made` are machine and interface by link, `clocks` are known when it stops."""
        self._run_id, self._made, self._clocks, self._limit_s = run_id, made, clocks, limit_s
        self._links: dict[str, Link] = {link["name"]: link for link in scenario["links"]}
        self._jobs: dict[str, str] = {}
        self._zero: int | None = None

    def start(self) -> None:
        """Put the queue disciplines in place, and look at them from then on."""
        for name, (machine, interface) in self._made.items():
            undo = tc.remove(interface)
            for command in tc.commands(self._links[name], interface):
                machine.change(command, "", undo)
                undo = ["true"]  # all of them go with the first
            words = ["sh", "-c", LOOP, "sh", interface, str(INTERVAL_S)]
            self._jobs[name] = machine.start(words, self._limit_s)

    def mark_start(self, zero_ns: int) -> None:
        """The run begins: what was counted before is not of it."""
        self._zero = zero_ns

    def stop(self) -> PathReport:
        """Take the counters; the queue disciplines go with the run."""
        links: list[LinkSummary] = []
        rows: list[tuple[int, str, int, int, int]] = []
        for name, job in self._jobs.items():
            machine, _ = self._made[name]
            machine.signal([job], "TERM")
            if self._zero is None or machine.name not in self._clocks:
                continue
            zero = self._zero + self._clocks[machine.name].offset_ns
            looks = _looks(machine.said(job))
            if not looks:
                raise RuntimeError(f"{machine.name}: tc shows nothing of link {name}")
            first = next((leaf for at, leaf in reversed(looks) if at < zero), looks[0][1])
            last = looks[-1][1]
            links.append(
                {
                    "link": name,
                    "packets": last["packets"] - first["packets"],
                    "bytes": last["bytes"] - first["bytes"],
                    "drops": last["drops"] - first["drops"],
                    "ce_marks": None,
                    "busy_ns": None,
                }
            )
            if self._links[name]["observe"]:
                rows += [
                    (at - zero, name, leaf["backlog"], leaf["qlen"], max(0, leaf["drops"] - first["drops"]))
                    for at, leaf in looks
                    if at >= zero
                ]
        self._jobs.clear()
        return PathReport([("queue", _queue_rows(self._run_id, sorted(rows)))] if rows else [], links)


def _looks(text: str) -> list[tuple[int, dict[str, Any]]]:
    """Time of the machine's clock and the counters of the link's queue, at each look."""
    found = []
    for part in text.split("\n\n"):
        stamp, _, shown = part.strip().partition("\n")
        try:
            disciplines = json.loads(shown)
        except ValueError:
            continue  # the one that was being printed when it ended
        leaf = next((each for each in disciplines if each.get("handle") == "2:"), None)
        if leaf is not None and stamp.isdigit():
            found.append((int(stamp), leaf))
    return found


def _queue_rows(run_id: int, rows: list[tuple[int, str, int, int, int]]) -> pa.RecordBatch:
    columns = [
        pa.array([run_id] * len(rows), pa.uint32()),
        pa.array([row[0] for row in rows], pa.uint64()),
        pa.array([row[1] for row in rows], pa.utf8()).dictionary_encode(),
        pa.array([row[2] for row in rows], pa.uint64()),
        pa.array([row[3] for row in rows], pa.uint32()),
        pa.array([row[4] for row in rows], pa.uint64()),
        pa.nulls(len(rows), pa.uint64()),
    ]
    return pa.record_batch(columns, names=SCHEMAS["queue"].names)
