"""`cwndlab explain` tried blind: it gets the capture of a connection of a kernel whose path and limit were
drawn. What it says is compared with what was drawn, and with the kernel's own second run after the change.

`python tests/testbeds/kernel/explain_trial.py --kernel NAME --cases 60 --seed 2` prints a row for each case
and how often each goal is met; without `--kernel` runs are on this machine's kernel, in real time. A limit
without which the kernel carries less than 10 % more is drawn again.
"""

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import cwndlab
from cwndlab.analysis.explain import explain, words

SHOWN = 0.1
"""Share by which the second run has to carry more for a limit to count as one."""

LIMITS = ("sndbuf", "rwnd", "app", "app", "on-off", "path", "path", "path", "loss", "loss")
"""Limits, each as likely as it stands here."""

RATES_MBPS, RTTS_MS, BUFFERS = (5, 10, 20, 50, 100, 200), (10, 20, 40, 80, 120), (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Case:
    """Drawn path and limit, with the keys of the experiment that make them, and those of the second run."""

    rate_mbps: int
    rtt_ms: int
    buffer_packets: int
    limit: str
    words: str
    first: dict[str, str] = field(default_factory=dict)
    second: dict[str, str] = field(default_factory=dict)

    @property
    def main(self) -> str:
        """Limit as `explain` names it."""
        return {"on-off": "app", "loss": "path"}.get(self.limit, self.limit)


def draw(chance: random.Random) -> Case:
    """Draw a case."""
    limit = chance.choice(LIMITS)
    rate, rtt, share = chance.choice(RATES_MBPS), chance.choice(RTTS_MS), chance.choice(BUFFERS)
    bdp = rate * rtt * 125
    packets = max(round(share * bdp / 1514), 10)
    cc = chance.choice(("cubic", "reno", "bbr")) if limit == "path" else "cubic"
    first, second, said = {"hosts.a.cc": cc}, {}, cc
    if limit in ("sndbuf", "rwnd"):
        key = "hosts.a.sndbuf" if limit == "sndbuf" else "hosts.b.rcvbuf"
        size = max(round(bdp * chance.uniform(0.1, 0.5)), 8000)
        first[key], second[key], said = f"{size}B", "auto", f"{size} B"
    elif limit == "app":
        part, write = chance.uniform(0.05, 0.6), chance.choice(("4KB", "16KB", "64KB"))
        said = f"{part * rate:.1f} Mbit/s by {write}"
        first["flows.f1.app"] = f"{{kind: rate-limited, rate: {round(1e6 * part * rate)}bit, write: {write}}}"
    elif limit == "on-off":
        on = chance.choice((200, 500))
        said = f"{on} ms on, {3 * on} off"
        first["flows.f1.app"] = f"{{kind: on-off, on: {on}ms, off: {3 * on}ms}}"
    elif limit == "loss":
        loss = chance.choice((0.02, 0.05, 0.1, 0.3))
        first["network.dumbbell.bottleneck.loss"], said = f"{{random: {loss}%}}", f"{loss} % lost"
        second["hosts.a.cc"] = "bbr"
    if limit in ("app", "on-off"):
        second["flows.f1.app"] = "bulk"
    if limit == "path":
        second["network.dumbbell.bottleneck.queue"] = "fq_codel"
    return Case(rate, rtt, packets, limit, said, first, second)


def experiment(case: Case, seconds: int) -> str:
    """The experiment of a case, before what limits it."""
    return f"""\
experiment: trial
duration: {seconds}s
repeat: 1
record: {{pcap: [a], tcp: off, queue: off}}
hosts: {{a: {{stack: linux}}, b: {{stack: linux}}}}
network:
  dumbbell:
    left: [a]
    right: [b]
    bottleneck:
      rate: {case.rate_mbps}mbit
      delay: {case.rtt_ms * 500}us
      queue: {{kind: pfifo, limit: {case.buffer_packets}p}}
flows: [{{name: f1, from: a, to: b, app: bulk}}]
"""


def carried_out(case: Case, keys: dict[str, str], told: argparse.Namespace, place: Path) -> tuple[Path, dict]:
    """Run a case; the capture of its sender, under a name that says nothing, and the row of its summary."""
    shutil.rmtree(place, ignore_errors=True)
    text, changes = experiment(case, told.seconds), [f"{key}={value}" for key, value in keys.items()]
    if told.kernel:
        results = cwndlab.load(text, changes, kernel=told.kernel).run(kernel=told.kernel, out=place)
    else:
        results = cwndlab.load(text, changes, testbed="netns").run(testbed="netns", out=place)
    run = results.runs["run_id"][0]
    files = {file.name.partition("-")[2]: file for file in results.captures(run)}
    for name, file in files.items():
        if name.startswith("access.a") or name.startswith("a."):
            shutil.copy(file, place.parent / f"cap{'.reverse' if 'reverse' in name else ''}.pcap")
    return place.parent / "cap.pcap", results.summary.row(0, named=True)


def try_case(case: Case, told: argparse.Namespace, place: Path) -> dict | None:
    """Return the explanation of a case beside the truth; None where the limit was none."""
    capture, row = carried_out(case, case.first, told, place / "run")
    said = json.loads(words.as_json(explain.of(capture, None, None, None)))
    _, truly = carried_out(case, {**case.first, **case.second}, told, place / "run")
    again = truly
    if (
        case.limit in ("sndbuf", "rwnd", "app", "on-off")
        and truly["goodput_mbps"] < (1 + SHOWN) * row["goodput_mbps"]
    ):
        return None
    path, what_if = said["path"], said["counterfactual"]
    change = next(iter(what_if.get("changes") or ()), None)
    if change is not None and change["set"] != case.second:
        # The kernel does what was said.
        _, again = carried_out(case, {**case.first, **change["set"]}, told, place / "run")
    rate, trip = (path[name] and path[name]["value"] for name in ("rate_bps", "rtt_s"))
    found = {
        "case": case,
        "rate": rate and rate / 1e6 / case.rate_mbps - 1,
        "rtt": trip and 1e3 * trip / case.rtt_ms - 1,
        "buffer": path["buffer_bytes"] and path["buffer_bytes"]["value"] / 1514 / case.buffer_packets - 1,
        "buffer_full": path["buffer_full"],
        "limiter": said["limited_by"],
        "detail": said["limiter"],
        "cc": [each["cc"] for each in said["fits"]["each"][: said["fits"]["alike"]]],
        "kernel": (row["goodput_mbps"], again["goodput_mbps"], again["rtt_p50_ms"]),
        "refused": what_if.get("refused"),
        "after": None,
    }
    if change is not None:
        after = change["after"]
        found["after"] = after["goodput_bps"] / 1e6 / again["goodput_mbps"] - 1
        low, high = (each / 1e6 / again["goodput_mbps"] for each in change["goodput_bps_range"])
        found["within"] = abs(found["after"]) <= 0.1 or low * 0.9 <= 1 <= high * 1.1
        found["said"] = f"{change['words']}: {after['goodput_bps'] / 1e6:.4g}"
        if again["rtt_p50_ms"] and after["rtt_p50_ms"]:
            found["after_rtt"] = after["rtt_p50_ms"] / again["rtt_p50_ms"] - 1
    return found


def percent(value: float | None) -> str:
    """A share in per cent, with its sign."""
    return "-" if value is None else f"{100 * value:+.1f}"


def line(found: dict) -> str:
    """A row of the table."""
    case = found["case"]
    before, after, _ = found["kernel"]
    buffer = percent(found["buffer"]) if found["buffer_full"] else "-"
    cells = (
        f"{case.rate_mbps} Mbit/s, {case.rtt_ms} ms, {case.buffer_packets} p",
        f"{case.limit}: {case.words}",
        found["limiter"] if found["limiter"] == case.main else f"**{found['limiter']}**",
        percent(found["rate"]),
        percent(found["rtt"]),
        buffer,
        f"{before:.4g} to {after:.4g}",
        f"{found['said']} ({percent(found['after'])} %{'' if found['within'] else ', outside'})"
        if found["after"] is not None
        else "refused"
        if found["refused"]
        else "-",
    )
    return f"| {' | '.join(cells)} |"


def report(every: list[dict]) -> list[str]:
    """How often each goal is met."""
    rates = [abs(each["rate"]) for each in every if each["rate"] is not None]
    right = [each for each in every if each["limiter"] == each["case"].main]
    told = [abs(each["after"]) for each in every if each["after"] is not None]
    path = [each for each in every if each["case"].limit == "path"]
    fits = [each for each in path if any(_same(cc, each["case"].words) for cc in each["cc"][:1])]
    alone = [each for each in path if len({_family(cc) for cc in each["cc"]}) == 1]
    middle, worst = (100 * each(rates, default=0) for each in (_median, max))
    wrong = sum(not _same(each["cc"][0], each["case"].words) for each in alone)
    return [
        f"bottleneck within 5 %: {sum(each <= 0.05 for each in rates)} of {len(every)}, told {len(rates)},"
        f" the median off by {middle:.2f} %, the worst by {worst:.1f} %",
        f"limiter right: {len(right)} of {len(every)}",
        f"counterfactual told: {len(told)} of {len(every)}, within 10 % of the kernel's second run:"
        f" {sum(each <= 0.1 for each in told)}, or of what was told for other buffers:"
        f" {sum(bool(each.get('within')) for each in every)},"
        f" the worst off by {100 * max(told, default=0):.1f} %",
        f"control nearest, of the {len(path)} that the path limited: {len(fits)};"
        f" told alone {len(alone)}, wrong of those {wrong}",
    ]


def _median(values: list[float], default: float) -> float:
    return statistics.median(values) if values else default


def _family(cc: str) -> str:
    return "reno" if cc == "newreno" else cc


def _same(cc: str, true: str) -> bool:
    return _family(cc) == _family(true)


def main() -> int:
    """Draw the cases, and try each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernel", help="name of a kernel that was built [this machine's, by testbed netns]")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=12, help="length of each run")
    told = parser.parse_args()
    chance = random.Random(told.seed)
    every: list[dict] = []
    print("| path | limit | said | bottleneck, % | RTT, % | buffer, % | kernel, Mbit/s | said, Mbit/s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as place:
        while len(every) < told.cases:
            found = try_case(draw(chance), told, Path(place))
            if found is not None:
                every.append(found)
                print(line(found), flush=True)
    print("\n".join(["", *report(every)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
