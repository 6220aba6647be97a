"""Writes tables of pages from results: `.venv/bin/python docs/evidence/suites/tables.py TABLE DIR...`.

A table stands between `<!-- tables.py: TABLE -->` and `<!-- end -->` on its page; what was there is replaced.
`.venv/bin/python docs/evidence/suites/tables.py --help` lists the tables, and of what results each is made.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median, stdev

import numpy as np
import polars as pl
import window_sweep
from loadlatency_tables import loadlatency_linux, loadlatency_netns, metric
from scipy.stats import ttest_ind
from suite_rows import Floats, Row, column, flows, grouped, interval, of_suite, published_of, runs_of, table

from cwndlab import load
from cwndlab.analysis.claims import claims, judge
from cwndlab.errors import CwndlabError
from cwndlab.experiment.suites import suite
from cwndlab.results import limits
from cwndlab.results.resultset import ResultSet

PAGES = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Table:
    """A table of a page: where it stands, what results it takes, and what makes its text of them."""

    page: str
    takes: str
    make: Callable[..., list[str]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrite one table; exit code 2, with one line, for results that are not what it is made of."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog=listed(), formatter_class=RAW
    )
    parser.add_argument("table", choices=TABLES, metavar="TABLE")
    parser.add_argument("results", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--print", action="store_true", help="print the table instead")
    asked = parser.parse_args(arguments)
    table = TABLES[asked.table]
    try:
        lines = table.make(*(ResultSet(directory) for directory in asked.results))
    except (CwndlabError, KeyError, TypeError, ValueError) as error:
        print(f"tables.py: {asked.table}: {error}; it is made of {table.takes}", file=sys.stderr)
        return 2
    if asked.print:
        print("\n".join(lines))
        return 0
    page = PAGES / table.page
    page.write_text(replaced(page.read_text(encoding="utf-8"), asked.table, lines), encoding="utf-8")
    return 0


def replaced(text: str, name: str, lines: Sequence[str]) -> str:
    """The page with that table's lines for the old ones; raises ValueError unless it is there once."""
    marked = re.compile(rf"(<!-- tables\.py: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    if len(marked.findall(text)) != 1:
        raise ValueError(f"the page does not have the marks of {name} exactly once")
    body = "\n".join(["", *lines, "", ""])
    return marked.sub(lambda found: found[1] + body + found[2], text)


def listed() -> str:
    """The tables, as the help prints them."""
    return "\n".join(["tables:", *(f"  {name:20} {table.takes}" for name, table in TABLES.items())])


RAW = argparse.RawDescriptionHelpFormatter

# tri-point ---

STACKS = {
    "freebsd-15-current": "15",
    "freebsd-15-d49540": "15 after",
    "freebsd-15-current/rack": "RACK",
    "freebsd-15-d49540/rack": "RACK after",
    "linux-6.8": "Linux",
}

ALGORITHMS = {"cdg": "CDG", "cubic": "CUBIC", "newreno": "NewReno", "reno": "NewReno"}


def tri_point(*several: ResultSet) -> list[str]:
    """The page's own form, with utilisation, fairness and what limited the flows."""
    runs = runs_of(several, "tri-point")
    rows = []
    for (stack, cc), members in grouped(runs, "hosts.a.stack", "hosts.a.cc").items():
        rows.append(
            [
                f"{ALGORITHMS[cc]} in {_SYSTEM[stack]}",
                "15-CURRENT" if cc == "newreno" and stack != "linux-6.8" else _VERSION[stack],
                interval(column(members, "goodput_mbps")),
                f"{100 * mean(column(members, 'utilisation')):.1f} %",
                f"{mean(column(members, 'jain', max)):.3f}",
                limited(members),
            ]
        )
    head = ["TCP CC", "version", "average(flow1 + flow2)", "utilisation", "Jain"]
    return table([*head, "limited by"], rows, 2)


def limited(runs: Iterable[dict[str, Row]]) -> str:
    """What limited the flows, each limit with its per cent of the time."""
    shares = {kind: mean(column(runs, f"limited_{kind}_pct", mean)) for kind in limits.KINDS}
    named = sorted((-share, kind) for kind, share in shares.items() if share > 0)
    return ", ".join(
        f"{LIMITS[kind]} {-share:.0f}" if share < -1 else f"{LIMITS[kind]} <1" for share, kind in named
    )


LIMITS = {
    "cwnd": "cwnd",
    "path": "full link",
    "rwnd": "receiver's window",
    "sndbuf": "send buffer",
    "app": "application",
    "host": "host",
    "pacing": "pacing",
}


_SYSTEM = {stack: "Linux" if "linux" in stack else "freebsd default stack" for stack in STACKS} | {
    stack: "freebsd RACK stack" for stack in STACKS if stack.endswith("/rack")
}

_VERSION = {stack: "after patch" if "d49540" in stack else "before patch" for stack in STACKS} | {
    "linux-6.8": "kernel 6.8.0"
}


def tri_point_more(*several: ResultSet) -> list[str]:
    """Both flows of each pair, together and apart, with what limited them."""
    runs = runs_of(several, "tri-point-more")
    keys = ("hosts.a.stack", "hosts.a.cc", "hosts.b.stack", "hosts.b.cc", "flows.f2.start")
    groups = grouped(runs, *keys)
    planned = dict.fromkeys(
        tuple(str(cell.get(key)) for key in keys) for cell in _cells("tri-point-more", keys)
    )
    rows = []
    for key in sorted(groups, key=list(planned).index):
        members = groups[key]
        a, a_cc, b, b_cc, start = key
        rows.append(
            [
                f"{STACKS[a]} {ALGORITHMS[a_cc]}",
                f"{STACKS[b]} {ALGORITHMS[b_cc]}",
                start,
                interval(column(members, "goodput_mbps")),
                interval([run["f1"]["goodput_mbps"] or 0.0 for run in members]),
                interval([run["f2"]["goodput_mbps"] or 0.0 for run in members]),
                f"{mean(column(members, 'jain', max)):.2f}",
                limited(members),
                str(sum(any(row["status"] == "failed" for row in run.values()) for run in members)),
                str(len(members)),
            ]
        )
    head = ["flow 1", "flow 2", "flow 2 starts", "flow 1 + flow 2", "flow 1", "flow 2", "Jain"]
    return table([*head, "limited by", "runs that failed", "runs"], rows, 2)


def _cells(name: str, keys: Sequence[str]) -> list[dict[str, str]]:
    """The cells of a suite's plan, in its order."""
    planned = load(suite(name).path, ["repeat=1"]).plan()
    return [{key: str(run.cell[key]) for key in keys} for run in planned.runs]


# teacup-next ---


def teacup_next(*several: ResultSet) -> list[str]:
    """Utilisation in per cent, median RTT in ms and, of several flows, Jain's index."""
    groups = grouped(
        runs_of(several, "teacup-next"),
        "hosts.a.stack",
        "hosts.a.cc",
        "network.dumbbell.bottleneck.queue",
        "network.dumbbell.reverse.shaper.rate",
        "network.dumbbell.reverse.delay",
        "flows.f.count",
    )
    rows: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
    for key, members in groups.items():
        used = 100 * mean(column(members, "utilisation"))
        rtt = mean(column(members, "rtt_p50_ms", mean))
        shared = [run for run in members if len(run) > 1]
        fairness = f" · {mean(column(shared, 'jain', max)):.2f}" if shared else ""
        rows.setdefault(key[:3], {})[key[3:]] = f"{used:.0f} · {rtt:.0f}{fairness}"
    lines, previous = [], ""
    for (stack, cc, queue), cells in rows.items():
        name = NEXT_ROWS[stack] if stack.startswith("windows") else f"{NEXT_ROWS[stack]} {ALGORITHMS[cc]}"
        kind = next(kind for kind in ("pfifo", "pie", "fq_codel") if kind in queue)
        shown = [cells[place] for place in NEXT_COLUMNS]
        lines.append([name if name != previous else "", kind, *shown])
        previous = name
    return table(["TCP", "queue", *NEXT_COLUMNS.values()], lines, 2)


NEXT_COLUMNS = {
    ("10mbit", "20ms", "1"): "one flow",
    ("1mbit", "20ms", "1"): "uplink 1 Mbps",
    ("10mbit", "60ms", "1"): "60 ms back",
    ("10mbit", "20ms", "2"): "two flows",
    ("10mbit", "20ms", "4"): "four flows",
}

NEXT_ROWS = {"freebsd-9.2": "FreeBSD", "linux-3.9": "Linux", "windows-7": "Windows 7 (inferred)"}


# teacup-140502A ---


def teacup_findings(results: ResultSet) -> list[str]:
    """What the report finds, as claims.yaml states it, with our metrics."""
    named = {claim.name: claim for claim in claims()}
    chosen = [named[f"teacup-{name}"] for name in FINDINGS]
    rows = []
    for judged in judge(chosen, {"teacup-140502A": of_suite(results, "teacup-140502A")}):
        claim = judged.claim
        unit = claim.unit.removeprefix("ratio")
        ours = "" if judged.value is None else f"{judged.value:.3g} {unit}".strip()
        star = "\\*" if judged.inferred else ""
        rows.append([claim.says + star, claim.metric, str(claim.expected), ours, judged.verdict])
    return table(["finding", "our figure", "agrees if", "ours", "verdict"], rows, 5)


FINDINGS = (
    *(
        f"{tcp}-fills-{rate}mbit-on-the-wire"
        for rate in (2, 6, 10)
        for tcp in ("freebsd", "linux", "windows")
    ),
    "modest-loss-50p-on-the-wire",
    "modest-loss-90p-on-the-wire",
    "base-rtt",
    "peak-rtt",
    "rtt-quantum-2mbit",
    "rtt-double-2mbit",
    "rtt-quantum-10mbit",
    "rtt-double-10mbit",
    "linux-newreno-half-speed",
    "linux-newreno-half-speed-everywhere",
    "freebsd-cwnd-shows-recovery",
    "linux-cwnd-hides-recovery",
    "cdg-low-rtt",
    "cdg-95-percent",
    "cdg-worse-at-high-rtt",
    "cdg-variable-at-high-rtt-on-the-wire",
)


# cubic-patch ---


def cubic_patch(*several: ResultSet) -> list[str]:
    """Each stack's runs beside the one run that was published."""
    published = published_of("cubic-patch", "hosts.a.stack")
    rows = []
    for (stack,), members in grouped(runs_of(several, "cubic-patch"), "hosts.a.stack").items():
        found = column(members, "goodput_mbps")
        theirs = published[(stack,)]
        spread = f"{min(found):.0f} to {max(found):.0f}"
        apart = f"{100 * (mean(found) / theirs - 1):+.1f} %"
        rows.append([stack, f"{mean(found):.0f}", f"{stdev(found):.0f}", spread, f"{theirs:.0f}", apart])
    head = ["stack", f"ours, mean of {len(found)}", "standard deviation", "range", "published", "ours off by"]
    return table(head, rows, 1)


def cubic_patch_before(*several: ResultSet) -> list[str]:
    """The patch's change against both models of what was there before it."""
    groups = grouped(runs_of(several, "cubic-patch"), "hosts.a.stack")
    found = {stack: column(members, "goodput_mbps") for (stack,), members in groups.items()}
    published = published_of("cubic-patch", "hosts.a.stack")
    rows = []
    for name, end in (("default", ""), ("RACK", "/rack")):
        after = f"freebsd-15-d49540{end}"
        before = published[f"freebsd-15-current{end}",]
        for model in ("current", "d46546"):
            ours, then = found[f"freebsd-15-{model}{end}"], found[after]
            change = 100 * (mean(then) / mean(ours) - 1)
            rows.append(
                [
                    name,
                    f"freebsd-15-{model}{end}",
                    f"{mean(ours):.0f}",
                    f"{stdev(ours):.0f}",
                    f"{100 * (mean(ours) / before - 1):+.1f} %",
                    f"{change:+.1f} %",
                    f"{100 * (published[after,] / before - 1):+.1f} %",
                    f"{welch_p(ours, then):.2g}",
                ]
            )
    head = ["stack", "before the patch", f"ours, mean of {len(ours)}", "standard deviation", "ours off by"]
    return table([*head, "the patch changes", "published", "p (Welch)"], rows, 2)


def welch_p(first: Sequence[float], second: Sequence[float]) -> float:
    """Two-sided p of Welch's test that two samples have one mean."""
    return float(ttest_ind(first, second, equal_var=False).pvalue)


def cubic_patch_queue(*several: ResultSet) -> list[str]:
    """Mean goodput by the size of the queue that drops."""
    limit = "network.dumbbell.bottleneck.queue.limit"
    groups = grouped(runs_of(several, "cubic-patch"), "hosts.a.stack", limit)
    sizes = sorted({size for _, size in groups}, key=lambda size: int(size.rstrip("p")))
    published = published_of("cubic-patch", "hosts.a.stack")
    rows = []
    for stack in dict.fromkeys(stack for stack, _ in groups):
        means = [f"{mean(column(groups[stack, size], 'goodput_mbps')):.0f}" for size in sizes]
        rows.append([stack, *means, f"{published[(stack,)]:.0f}"])
    return table(["stack", *(size.rstrip("p") for size in sizes), "published"], rows, 1)


def cubic_patch_bursts(results: ResultSet) -> list[str]:
    """How finely cwnd grows, and what one acknowledgement lets out, in congestion avoidance."""
    steps: dict[str, list[Floats]] = {}
    sent: dict[str, list[Floats]] = {}
    for run in of_suite(results, "cubic-patch-bursts").runs.iter_rows(named=True):
        frame = results.series(run["run_id"])
        calm = (frame["state"] == "avoidance").to_numpy()
        cwnd, out, acked = (
            frame[name].to_numpy().astype(float) / MSS
            for name in ("cwnd_bytes", "inflight_bytes", "delivered_bytes")
        )
        chosen = calm[1:] & calm[:-1]
        steps.setdefault(run["hosts.a.stack"], []).append(np.diff(cwnd)[chosen])
        sent.setdefault(run["hosts.a.stack"], []).append(np.diff(out + acked)[chosen])
    rows = []
    for stack, pieces in steps.items():
        grown, let_out = np.concatenate(pieces), np.concatenate(sent[stack])
        grown = grown[grown > 0]
        bursts = [np.quantile(let_out, share) for share in (0.5, 0.999)]
        rows.append(
            [stack, f"{np.median(grown):.3f}", f"{grown.max():.2f}", *(f"{burst:.0f}" for burst in bursts)]
        )
    head = [
        "stack",
        "step of cwnd, segments: median",
        "largest",
        "segments sent upon one ACK: median",
        "99.9 %",
    ]
    return table(head, rows, 1)


MSS = 1448
"""Payload of a full packet with timestamps, in bytes."""

# loss-resilience ---

EVERY = "hosts.b.ingress.after_gro.loss.nth.every"


def loss_resilience(*several: ResultSet) -> list[str]:
    """The published table with ours beside it."""
    groups = grouped(runs_of(several, "loss-resilience"), "hosts.a.stack", "hosts.a.cc", EVERY)
    published = published_of("loss-resilience", "hosts.a.stack", "hosts.a.cc", EVERY)
    rows = []
    for (stack, cc), sender in LOSS_ROWS.items():
        cells = []
        for every in ("100", "50", "33", "25"):
            found = column(groups[stack, cc, every], "goodput_mbps")
            spread = f"{metric(min(found))} to {metric(max(found))}"
            cells.append(f"{metric(mean(found))} ({spread}) / {published[stack, cc, every]:g}")
        rows.append([sender, *cells])
    return table(["sender", "1 %", "2 %", "3 %", "4 %"], rows, 1)


def loss_counts(*several: ResultSet) -> list[str]:
    """What the sender counts with the rules as taken, and what stacked rules would have given."""
    groups = grouped(runs_of(several, "loss-resilience"), "hosts.a.stack", "hosts.a.cc", EVERY)
    rows = []
    for (stack, cc), sender in LOSS_ROWS.items():
        cells = []
        for every in ("100", "50", "33", "25"):
            ours, theirs = (
                mean(column(groups[stack, cc, every], name)) for name in ("sender_mbps", "goodput_mbps")
            )
            cells.append(f"{metric(ours)} (+{ours - theirs:.2f})")
        stacked = [mean(column(groups[stack, cc, every], "goodput_mbps")) for every in ("34", "17", "10")]
        rows.append([sender, *cells, *(metric(value) for value in stacked)])
    head = ["sender", "sender's count at 1 % (more than the receiver's)", "2 %", "3 %", "4 %"]
    return table([*head, "stacked, 2nd rule", "3rd", "4th"], rows, 1)


LOSS_ROWS = {
    ("freebsd-15-d46546", "cubic"): "CUBIC, default stack, before",
    ("freebsd-15-d49540", "cubic"): "after",
    ("freebsd-15-current", "newreno"): "NewReno, default stack",
    ("freebsd-15-d46546/rack", "cubic"): "CUBIC, RACK, before",
    ("freebsd-15-d49540/rack", "cubic"): "after",
    ("freebsd-15-current/rack", "newreno"): "NewReno, RACK (fitted)",
    ("linux-6.8", "cubic"): "CUBIC, Linux",
    ("linux-6.8", "newreno"): "NewReno, Linux",
}

# window-sweep ---

WINDOW = "hosts.a.sndbuf"

DIFFERENCES = (0.05, 0.1, 0.3)


def windows(*several: ResultSet) -> list[str]:
    """Average, median, smallest and largest of 155 values a cell, published and ours."""
    values: dict[tuple[str, str], list[float]] = {}
    for results in several:
        of_suite(results, "window-sweep")
        for run in flows([results]):
            row = next(iter(run.values()))
            samples = results.series(row["run_id"], flow=row["flow"], table="samples")
            seconds = samples.filter(pl.col("kind").cast(pl.String) == "goodput")["value"].to_numpy() * 8e-6
            cell = values.setdefault((row["sysctls"], row[WINDOW].removesuffix("iB")), [])
            cell += [*seconds.tolist(), row["goodput_mbps"]]
    tests = list(dict.fromkeys(test for test, _ in values))
    path = suite("window-sweep").path.with_name("window-sweep-cells.csv")
    rows = []
    with path.open(newline="", encoding="utf-8") as stream:
        for cell in csv.DictReader(stream):
            ours = values[tests[int(cell["test"]) - 1], cell["window"]]
            metrics = (mean(ours), median(ours), min(ours), max(ours))
            theirs = [float(cell[f"{name}_mbps"]) for name in ("average", "median", "min", "max")]
            rows.append(
                [
                    cell["test"],
                    cell["window"],
                    *(f"{value:.4g}" for value in theirs),
                    *(f"{value:.0f}" for value in metrics),
                ]
            )
    head = ["test", "window", "published: average", "median", "min", "max", "ours: average"]
    return table([*head, "median", "min", "max"], rows, 2)


def window_runs(*several: ResultSet) -> list[str]:
    """How many runs settle a difference: by the article's seconds, and by the spread of runs at hand."""
    rows = [
        _settled(
            f"published, seconds correlated by {correlation:g}", "", window_sweep.run_spread(correlation)
        )
        for correlation in window_sweep.CORRELATIONS
    ]
    cells: dict[str, list[list[float]]] = {}
    for results in several:
        keys = [key for key in (WINDOW, "sysctls") if key in results.summary.columns]
        for (window, *_), members in grouped(runs_of([results], "window-sweep"), *keys).items():
            if len(members) > 1:
                small = "64K and 128K" if window in ("64KiB", "128KiB") else "512K and more"
                which = f"live, {small}" if results.header.testbed == "netns" else "simulated"
                cells.setdefault(which, []).append(column(members, "goodput_mbps"))
    for which, members in cells.items():
        freedom = sum(len(found) - 1 for found in members)
        squares = sum((len(found) - 1) * (stdev(found) / mean(found)) ** 2 for found in members)
        rows.append(_settled(which, str(freedom), (squares / freedom) ** 0.5))
    head = ["runs", "degrees of freedom", "standard deviation"]
    return table([*head, *(f"to find {100 * share:g} %" for share in DIFFERENCES)], rows, 1)


def _settled(which: str, freedom: str, spread: float) -> list[str]:
    needed = [str(window_sweep.runs_needed(share, spread)) for share in DIFFERENCES]
    return [which, freedom, f"{100 * spread:.2g} %", *needed]


# Pause frames ---

PAUSE = {"true": "yes", "True": "yes", "false": "no", "False": "no"}


def pause_incast(results: ResultSet) -> list[str]:
    """Rounds of incast without pause frames and with them."""
    rows = []
    for run in runs_of([results], "incast"):
        servers = list(run.values())
        first = servers[0]
        samples = results.series(first["run_id"], table="samples").filter(pl.col("kind") == "round")
        rounds = samples["value"].to_numpy() / 1e6
        cells = [first["hosts.server.count"], PAUSE[str(first["network.star.switch.pause"])], len(rounds)]
        lost = mean(row["drop_rate"] for row in servers)
        quantiles = [f"{np.quantile(rounds, share):.3g}" for share in (0.5, 0.95)]
        timeouts = sum(row["rtos"] for row in servers)
        rows.append([*(str(cell) for cell in cells), *quantiles, f"{100 * lost:.2g} %", str(timeouts)])
    head = ["servers", "pause", "rounds", "median, ms", "95 %, ms", "lost", "timeouts"]
    return table(head, rows, 2)


def pause_trunk(results: ResultSet) -> list[str]:
    """Flows to an overloaded cable, and one whose own way is free, with and without pause frames: medians."""
    rows = []
    for (pause,), runs in grouped(runs_of([results], "pause-frames"), "network.switch_of.s1.pause").items():
        ranked = [
            [*sorted((run["a"], run["b"]), key=lambda row: -row["goodput_mbps"]), run["victim"]]
            for run in runs
        ]
        goodputs = [f"{median(rows[i]['goodput_mbps'] for rows in ranked):.3g}" for i in range(3)]
        lost = [f"{100 * median(rows[i]['drop_rate'] for rows in ranked):.3g} %" for i in range(3)]
        probe = median(run["probe"]["rtt_p50_ms"] for run in runs)
        rows.append([PAUSE[str(pause)], *goodputs, f"{probe:.2g} ms", ", ".join(lost)])
    names = ["faster of `a` and `b`, Mbit/s", "slower", "`victim`, Mbit/s"]
    return table(["pause", *names, "RTT of the probe, median", "lost of these three"], rows, 1)


TABLES = {
    "pause-incast": Table("../../queues-and-applications.md", "runs of examples/incast.yaml", pause_incast),
    "pause-trunk": Table(
        "../../queues-and-applications.md", "runs of examples/pause-frames.yaml with repeat=10", pause_trunk
    ),
    "tri-point": Table("tri-point.md", "runs of tri-point", tri_point),
    "tri-point-more": Table(
        "tri-point.md", "runs of tri-point-more, in one directory or several", tri_point_more
    ),
    "teacup-findings": Table("teacup.md", "runs of teacup-140502A", teacup_findings),
    "teacup-next": Table("teacup.md", "runs of teacup-next", teacup_next),
    "cubic-patch": Table("cubic-patch.md", "runs of cubic-patch", cubic_patch),
    "cubic-patch-before": Table(
        "cubic-patch.md",
        "runs of cubic-patch, and such with -d46546 in the place of -current",
        cubic_patch_before,
    ),
    "cubic-patch-queue": Table(
        "cubic-patch.md",
        "runs of cubic-patch with network.dumbbell.bottleneck.queue.limit swept",
        cubic_patch_queue,
    ),
    "cubic-patch-bursts": Table("cubic-patch.md", "runs of cubic-patch-bursts", cubic_patch_bursts),
    "loss-resilience": Table("loss-resilience.md", "runs of loss-resilience", loss_resilience),
    "loss-counts": Table(
        "loss-resilience.md", "runs of loss-resilience, and such of every 34th, 17th and 10th", loss_counts
    ),
    "window-sweep": Table("window-sweep.md", "runs of window-sweep", windows),
    "window-sweep-runs": Table(
        "window-sweep.md",
        "runs of window-sweep, each test with a seed of its own, on sim and on netns",
        window_runs,
    ),
    "loadlatency-linux": Table("loadlatency.md", "runs of loadlatency-linux on sim", loadlatency_linux),
    "loadlatency-netns": Table(
        "loadlatency.md", "runs of loadlatency-linux on netns and on sim", loadlatency_netns
    ),
}

if __name__ == "__main__":
    sys.exit(main())
