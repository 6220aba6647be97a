"""The tables of loadlatency's page: our sessions beside others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from suite_rows import Row, flows, of_suite, table

from cwndlab.experiment.catalogue import catalogue
from cwndlab.results import loadlatency
from cwndlab.results.resultset import ResultSet

# loadlatency on netns ---

SESSIONS = {
    ("1gbit", "pfifo"): "LAN, pfifo",
    ("1gbit", "fq_codel"): "LAN, fq_codel",
    ("800kbit", "pfifo"): "ADSL, pfifo",
    ("800kbit", "fq_codel"): "ADSL, fq_codel",
}

LOADS = ("upload_kib_s", "download_kib_s", "responsiveness_hz", "smoothness_hz")


def loadlatency_netns(*several: ResultSet) -> list[str]:
    """The sessions as a whole, then each scenario, on the live kernel beside the simulator."""
    live, simulated = _sessions(several, "netns"), _sessions(several, "sim")
    both = [name for name in SESSIONS.values() if name in live and name in simulated]
    if not both:
        raise ValueError("no session is in results of both testbeds")
    head = ["up, KiB/s: netns", "sim", "down: netns", "sim", "responsiveness, Hz: netns", "sim"]
    head += ["smoothness, Hz: netns", "sim"]
    whole, lines = [], []
    for name in both:
        ours, theirs = live[name], simulated[name]
        overall = [side.overall() for side in (ours, theirs)]
        factors = ours.factors(theirs)
        apart = f"{median(factors):.2f} ({max(factors):.2f})" if factors else ""
        whole.append([name, *_beside(*overall), apart, ours.marks()])
        rows = [
            [
                _scenario(number),
                *_beside(row, theirs.rows.get(number, {})),
                metric(row["rpm"]),
                row["status"],
            ]
            for number, row in sorted(ours.rows.items())
        ]
        lines += ["", f"{name}:", "", *table(["scenario", *head, "RPM: netns", "netns"], rows, 1)]
    first = [
        "all scenarios",
        *head,
        "capacities apart: median (largest) factor",
        "complete, unreliable, failed",
    ]
    return [*table(first, whole, 1), *lines]


def loadlatency_linux(*several: ResultSet) -> list[str]:
    """The sessions as a whole on the simulator."""
    sessions = _sessions(several, "sim")
    rows = [
        [name, *(metric(sessions[name].overall().get(what)) for what in LOADS)]
        for name in SESSIONS.values()
        if name in sessions
    ]
    return table(["", "up, KiB/s", "down", "responsiveness, Hz", "smoothness, Hz"], rows, 1)


def _beside(ours: Row, theirs: Row) -> list[str]:
    return [metric(side.get(what)) for what in LOADS for side in (ours, theirs)]


@dataclass
class _Session:
    """The scenarios of one path and queue."""

    rows: dict[int, Row]
    series: loadlatency.Series | None

    def overall(self) -> Row:
        """The metrics of all scenarios together, by the summary's names; none unless all 19 ran."""
        if self.series is None or len(self.series.scenarios) < len(catalogue().load_scenarios):
            return {}
        whole = self.series.document({})["overall"]
        return {
            "upload_kib_s": whole["upload_capacity_kib_s"],
            "download_kib_s": whole["download_capacity_kib_s"],
            "responsiveness_hz": whole["responsiveness_hz"],
            "smoothness_hz": whole["smoothness_hz"],
        }

    def factors(self, other: _Session) -> list[float]:
        """How far the capacities are apart, each as the larger over the smaller."""
        found = []
        for number, row in self.rows.items():
            for what in ("upload_kib_s", "download_kib_s"):
                ours, theirs = row.get(what), other.rows.get(number, {}).get(what)
                if ours and theirs:
                    found.append(max(ours / theirs, theirs / ours))
        return found

    def marks(self) -> str:
        """How many runs are complete, unreliable, and failed or missing."""
        states = [row["status"] for row in self.rows.values()]
        complete, unreliable = states.count("complete"), states.count("unreliable")
        return f"{complete}, {unreliable}, {len(states) - complete - unreliable}"


def _sessions(several: Iterable[ResultSet], testbed: str) -> dict[str, _Session]:
    """The sessions that ran on one testbed, by their names."""
    found: dict[str, _Session] = {}
    for results in several:
        if of_suite(results, "loadlatency-linux").header.testbed != testbed:
            continue
        for run in flows([results]):
            rows = list(run.values())
            row = next((row for row in rows if row["load_scenario"] is not None), rows[0])
            session = found.setdefault(_session(row), _Session({}, None))
            session.rows[int(row["flows.ll.app.scenario"])] = row
        for one in loadlatency.series(results):
            found[_session(one.cell)].series = one
    return found


def _session(cell: Row) -> str:
    queue = str(cell["network.dumbbell.bottleneck.queue"])
    kind = "fq_codel" if "fq_codel" in queue else "pfifo"
    return SESSIONS[cell["network.dumbbell.bottleneck.rate"], kind]


def _scenario(number: int) -> str:
    uploads, downloads = catalogue().load_scenarios[number - 1]
    return f"{number}: {uploads}, {downloads}"


def metric(value: float | None) -> str:
    """Three digits, whole numbers from 100 on; empty for none."""
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 or value == 0 else f"{value:#.3g}"
