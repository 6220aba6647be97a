"""The built-in experiments: complete, as published, with their metrics beside them."""

import csv
import json
import re
from pathlib import Path

import pytest

from cwndlab import load
from cwndlab.errors import InputError
from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.scenario.queries import rate_of
from cwndlab.experiment.suites import suite, suites
from cwndlab.experiment.template import TEMPLATE

GROUNDTRUTH = Path(__file__).parents[2] / "groundtruth"
EVERY = "hosts.b.ingress.after_gro.loss.nth.every"


def test_suites_have_titles_and_sources() -> None:
    assert [entry.name for entry in suites()] == [
        "cubic-patch", "cubic-patch-bursts", "l4s", "loadlatency", "loadlatency-linux", "loss-resilience",
        "lro-acks-a-round", "lro-slow-start", "quic-interop", "teacup-140502A", "teacup-next", "tri-point",
        "tri-point-more", "validate-linux", "validate-loss", "window-sweep",
    ]  # fmt: skip
    for entry in suites():
        assert entry.title and entry.source, entry.name
        assert load(entry.path).name == entry.name


def test_an_unknown_suite_names_the_nearest() -> None:
    with pytest.raises(InputError) as refused:
        suite("teacup-140502B")
    assert str(refused.value) == (
        f"no file and no suite 'teacup-140502B'; suites are {', '.join(entry.name for entry in suites())}"
        " (hint: did you mean teacup-140502A?)"
    )
    assert refused.value.exit_code == 2


def test_load_takes_a_suites_name() -> None:
    assert load("tri-point").name == "tri-point"


@pytest.mark.slow
def test_teacup_is_the_published_matrix() -> None:
    plan = load(suite("teacup-140502A").path).plan()
    assert len(plan.runs) == 6 * 3 * 7 * 3 == 378
    flows = {(run.scenario["hosts"][0]["stack"], run.scenario["flows"][0]["cc"]) for run in plan.runs}
    assert flows == {
        ("freebsd-9.2", "newreno"), ("freebsd-9.2", "cubic"), ("freebsd-9.2", "cdg"), ("linux-3.9", "reno"),
        ("linux-3.9", "cubic"), ("windows-7", "newreno"),
    }  # fmt: skip
    bottlenecks = {
        (rate_of(link), link["delay_ns"], link["queue"]["limit_packets"])
        for run in plan.runs
        for link in run.scenario["links"]
        if link["bottleneck"]
    }
    assert len(bottlenecks) == 63
    for run in plan.runs:
        made = run.scenario
        assert made["duration_ns"] == 90 * 10**9
        assert made["hosts"][0]["stack"] == made["hosts"][1]["stack"]
        assert (made["flows"][0]["sndbuf"], made["flows"][0]["rcvbuf"]) == (600_000, 600_000)
        assert made["links"][0]["delay_ns"] == made["links"][1]["delay_ns"]


@pytest.mark.slow
def test_teacup_hosts_have_the_published_sysctls() -> None:
    """Every sysctl that a profile models and appendix A or B lists has the value listed there.

    But for net.inet.tcp.tso, which the suite switches off as `nic.tso`, three of Linux without effect
    where buffers are set by option and neither side asks for ECN, and three of FreeBSD's host cache, which a
    run of one connection does not ask; the suite's comments say so.
    """
    with (GROUNDTRUTH / "published/teacup-140502A-settings.csv").open() as file:
        listed = {
            row["name"]: row["value"]
            for row in csv.DictReader(file)
            if row["name"].startswith(("net.inet.tcp", "net.ipv4.tcp"))
            and re.fullmatch(r"[\d ]+", row["value"])
        }
    compared, others = 0, set()
    for name in ("freebsd-9.2", "linux-3.9"):
        stack = catalogue().stacks[name]
        for real in dict.fromkeys(map(stack.real_name, stack.sysctls)):
            if real in listed:
                parts = (
                    [real]
                    if real in stack.sysctls
                    else [f"{real}.{part}" for part in ("min", "default", "max")]
                )
                modelled = " ".join(str(stack.sysctls[part].default) for part in parts)
                if modelled != listed[real]:
                    others.add(real)
                compared += 1
    assert others == {
        "net.inet.tcp.hostcache.cachelimit", "net.inet.tcp.hostcache.expire", "net.inet.tcp.hostcache.prune",
        "net.inet.tcp.tso", "net.ipv4.tcp_ecn", "net.ipv4.tcp_moderate_rcvbuf", "net.ipv4.tcp_wmem",
    }  # fmt: skip
    comments = suite("teacup-140502A").path.read_text()
    assert all(name in comments for name in others)
    assert compared >= 20
    runs = load(suite("teacup-140502A").path).plan().runs
    assert not any(host["nic"]["tso"] for run in runs for host in run.scenario["hosts"])


def test_cubic_patch_is_one_flow_of_300_s_at_41_ms() -> None:
    plan = load(suite("cubic-patch").path).plan()
    assert plan.repeat == 10
    stacks = dict.fromkeys(run.scenario["hosts"][0]["stack"] for run in plan.runs)
    assert list(stacks) == [
        "freebsd-15-current", "freebsd-15-d49540", "freebsd-15-current/rack", "freebsd-15-d49540/rack",
        "linux-6.8",
    ]  # fmt: skip
    for run in plan.runs:
        made = run.scenario
        links = {link["name"]: link for link in made["links"]}
        receiver = made["hosts"][1]
        delays = [links[name]["delay_ns"] for name in ("bottleneck", "bottleneck.reverse")]
        assert made["duration_ns"] == 300 * 10**9
        assert receiver["egress"]["delay_ns"] + sum(delays) == 41_000_000
        assert receiver["egress"]["limit_packets"] == 1000
        assert links["bottleneck"]["rate_bps"] == 10**9
        assert made["flows"][0]["app"]["write_bytes"] == 1 << 20
        assert made["flows"][0]["cc"] == "cubic"


@pytest.mark.parametrize(
    ("name", "of_the_system", "of_the_guests_link"),
    [
        ("teacup-140502A", {"stack", "hz", "ecn", "mss", "sysctl"}, set()),
        ("cubic-patch", {"stack", "hz", "sysctl", "tso"}, set()),
        ("cubic-patch-bursts", {"stack", "hz", "sysctl", "tso"}, set()),
        # The one exception: the page's pings, and with them the RTT, differ from guest to guest.
        ("loss-resilience", {"stack", "hz", "sysctl", "tso"}, {"delay_ns"}),
        ("tri-point", {"stack", "hz", "sysctl", "tso"}, set()),
    ],
)
@pytest.mark.slow
def test_rows_of_a_table_differ_in_the_system_alone(
    name: str, of_the_system: set[str], of_the_guests_link: set[str]
) -> None:
    """One description of the testbed: hosts differ between rows in what belongs to the operating system.

    `tso` does where Linux builds bursts whatever the interface can do, and cuts them itself. Links and
    switches differ in nothing; what an experiment varies of them, it varies for all rows alike.
    """
    seen: dict[tuple[str, ...], set[str]] = {}
    apart: set[str] = set()
    varied = {"network.dumbbell.bottleneck.queue.limit", EVERY}
    varied |= {f"network.dumbbell.bottleneck.{rate}" for rate in ("rate", "shaper.rate")}
    if "delay_ns" not in of_the_guests_link:
        varied.add("network.dumbbell.bottleneck.delay")
    for run in load(suite(name).path).plan().runs:
        made = run.scenario
        hosts = [
            {key: value for key, value in host.items() if key not in of_the_system} for host in made["hosts"]
        ]
        for host in hosts:
            host["nic"] = {key: value for key, value in host["nic"].items() if key not in of_the_system}
        links = [
            {key: value for key, value in link.items() if key not in of_the_guests_link}
            for link in made["links"]
        ]
        column = tuple(str(run.cell.get(key)) for key in sorted(varied))
        testbed = json.dumps([hosts, made["nodes"], links], sort_keys=True)
        seen.setdefault(column, set()).add(testbed)
        apart.add(str([[link[key] for key in of_the_guests_link] for link in made["links"]]))
    assert {len(testbeds) for testbeds in seen.values()} == {1}
    assert len(apart) == (2 if of_the_guests_link else 1)


@pytest.mark.slow
def test_published_metrics_are_data() -> None:
    metrics = suite("cubic-patch").published()
    default = {
        metric.cell.get("hosts.a.stack"): metric.value
        for metric in metrics
        if metric.column == "goodput_mbps"
    }
    assert default == {
        "freebsd-15-current": 715, "freebsd-15-d49540": 693, "freebsd-15-current/rack": 738,
        "freebsd-15-d49540/rack": 730, "linux-6.8": 725,
    }  # fmt: skip
    for entry in suites():
        keys = set(load(entry.path).plan().keys)
        for metric in entry.published():
            assert set(metric.cell) <= keys
            assert metric.source and (metric.note or metric.value is not None)
    assert suite("teacup-140502A").published()


def test_published_metrics_are_those_of_the_groundtruth() -> None:
    loss = {
        (metric.cell["hosts.a.stack"], metric.cell["hosts.a.cc"], metric.cell[EVERY]): metric.value
        for metric in suite("loss-resilience").published()
    }
    columns = {
        "100": "every_100th_mbps",
        "50": "every_50th_mbps",
        "33": "every_33rd_mbps",
        "25": "every_25th_mbps",
    }
    rows = list(csv.DictReader((GROUNDTRUTH / "published/loss-resilience.csv").open()))
    assert len(loss) == 4 * len(rows) == 32
    for row in rows:
        cc = "newreno" if row["cc"] == "reno" else row["cc"]
        # Before the patch main had CUBIC as of D46546, which the recordings' `freebsd-15-current` had not.
        stack = row["stack"].replace("current", "d46546") if cc == "cubic" else row["stack"]
        for every, column in columns.items():
            assert loss[stack, cc, every] == float(row[column])
    ours = suite("window-sweep").path
    theirs = GROUNDTRUTH / "published/window-sweep.csv"
    assert ours.with_name("window-sweep-cells.csv").read_text() == theirs.read_text()
    averages = [float(row["average_mbps"]) for row in csv.DictReader(theirs.open())]
    assert [metric.value for metric in suite("window-sweep").published()] == averages
    classic = ours.with_name("loadlatency-2011.txt").read_text()
    assert classic == (GROUNDTRUTH / "loadlatency-2011.txt").read_text()
    printed: dict[int, dict[str, float]] = {}
    for number, rates, hertz in re.findall(
        r"^Scenario (\d+): .*?\.\.\. (.*), ([\d.]+) Hz", classic, re.MULTILINE
    ):
        found = re.findall(r"(\d+) KiB/s (up|down)", rates)
        metrics = {f"{way}load_kib_s": float(rate) for rate, way in found}
        printed[int(number)] = {**metrics, "smoothness_hz": float(hertz)}
    stated: dict[int, dict[str, float]] = {}
    for metric in suite("loadlatency").published():
        if metric.column and metric.value is not None:
            stated.setdefault(int(metric.cell["flows.ll.app.scenario"]), {})[metric.column] = metric.value
    assert stated == printed and len(stated) == 19


def test_the_template_loads_and_plans() -> None:
    plan = load(TEMPLATE).plan()
    assert (plan.cells, plan.repeat, len(plan.runs)) == (6, 2, 12)


@pytest.mark.slow
def test_loadlatency_is_the_tools_nineteen_scenarios_over_four_paths() -> None:
    for name in ("loadlatency", "loadlatency-linux"):
        plan = load(suite(name).path).plan()
        assert len(plan.runs) == 4 * 19
        flows = [len(run.scenario["flows"]) - 1 for run in plan.runs]
        assert flows == 4 * [1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 32, 32, 32, 32, 32]
    ours, todays = (
        suite(name).path.read_text().partition("network:")[2] for name in ("loadlatency", "loadlatency-linux")
    )
    assert ours == todays
