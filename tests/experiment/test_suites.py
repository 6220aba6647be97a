"""The built-in experiments: complete, as published, with their figures beside them."""

import re
from pathlib import Path

import pytest

from cwndlab.errors import InputError
from cwndlab.experiment import PlannedRun, load
from cwndlab.experiment.catalogue import catalogue
from cwndlab.experiment.template import TEMPLATE
from cwndlab.suites import suite, suites

SHARED = Path(__file__).parents[3] / "shared"


def test_suites_have_titles_and_sources() -> None:
    assert [entry.name for entry in suites()] == ["cubic-patch", "demo", "teacup-140502A"]
    for entry in suites():
        assert entry.title and entry.source, entry.name
        assert entry.load().name == entry.name


def test_an_unknown_suite_names_the_nearest() -> None:
    with pytest.raises(InputError) as refused:
        suite("teacup-140502B")
    assert str(refused.value) == (
        "no file and no suite 'teacup-140502B'; suites are cubic-patch, demo, teacup-140502A"
        " (hint: did you mean teacup-140502A?)"
    )
    assert refused.value.exit_code == 2


def test_load_takes_a_suites_name() -> None:
    assert load("demo").name == "demo"


def test_teacup_is_the_published_matrix() -> None:
    plan = suite("teacup-140502A").load().plan()
    assert len(plan.runs) == 4 * 3 * 7 * 3
    flows = {(run.scenario["hosts"][0]["stack"], run.scenario["flows"][0]["cc"]) for run in plan.runs}
    assert flows == {
        ("freebsd-9.2", "newreno"), ("freebsd-9.2", "cubic"), ("linux-3.9", "reno"), ("linux-3.9", "cubic")
    }  # fmt: skip
    bottlenecks = {
        (link["rate_bps"], link["delay_ns"], link["queue"]["limit_packets"])
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


def test_teacup_hosts_have_the_published_sysctls() -> None:
    """Every sysctl that a profile models and appendix A or B lists has the value listed there.

    But for net.inet.tcp.tso, which the suite switches off as `nic.tso`, and three of Linux without effect
    where buffers are set by option and neither side asks for ECN; the suite's comments say so.
    """
    text = (SHARED / "groundtruth/published/teacup-140502A-settings.txt").read_text()
    listed = {
        **dict(re.findall(r"^- (net\.inet\.tcp[\w.]+): (\d+)$", text, re.MULTILINE)),
        **dict(re.findall(r"^- (net\.ipv4\.tcp\w+) = ([\d ]+)$", text, re.MULTILINE)),
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
        "net.inet.tcp.tso", "net.ipv4.tcp_ecn", "net.ipv4.tcp_moderate_rcvbuf", "net.ipv4.tcp_wmem"
    }  # fmt: skip
    comments = suite("teacup-140502A").path.read_text()
    assert all(name in comments for name in others)
    assert compared >= 20
    runs = suite("teacup-140502A").load().plan().runs
    assert not any(host["nic"]["tso"] for run in runs for host in run.scenario["hosts"])


def test_cubic_patch_is_one_flow_of_300_s_at_41_ms() -> None:
    plan = suite("cubic-patch").load().plan()
    assert [run.scenario["hosts"][0]["stack"] for run in plan.runs] == ["freebsd-13", "linux-6.8"]
    for run in plan.runs:
        made = run.scenario
        links = {link["name"]: link for link in made["links"]}
        assert made["duration_ns"] == 300 * 10**9
        assert sum(links[name]["delay_ns"] for name in ("bottleneck", "bottleneck.reverse")) == 41_000_000
        assert links["bottleneck"]["queue"] == {"kind": "pfifo", "limit_packets": 83}
        assert links["bottleneck"]["rate_bps"] == 10**9
        assert made["flows"][0]["app"]["write_bytes"] == 1 << 20
        assert made["flows"][0]["cc"] == "cubic"


def test_demo_runs_what_the_suites_run() -> None:
    """The demonstration's runs are those of the two suites but for name, seed and what is recorded."""

    def core(run: PlannedRun) -> dict[str, object]:
        return {key: run.scenario[key] for key in run.scenario if key not in {"experiment", "seed", "record"}}

    theirs = [
        core(run) for name in ("teacup-140502A", "cubic-patch") for run in suite(name).load().plan().runs
    ]
    demo = suite("demo").load().plan().runs
    assert len(demo) == 6
    for run in demo:
        assert core(run) in theirs, run.cell


def test_published_figures_are_data() -> None:
    figures = suite("cubic-patch").published()
    default = {
        figure.cell.get("hosts.a.stack"): figure.value
        for figure in figures
        if figure.column == "goodput_mbps"
    }
    assert default == {
        "freebsd-15-current": 715, "freebsd-15-d49540": 693, "freebsd-15-current/rack": 738,
        "freebsd-15-d49540/rack": 730, "linux-6.8": 725,
    }  # fmt: skip
    teacup = suite("teacup-140502A")
    keys = set(teacup.load().plan().keys)
    assert teacup.published()
    for figure in teacup.published():
        assert set(figure.cell) <= keys
        assert figure.source and (figure.note or figure.value is not None)
    assert suite("demo").published() == []


def test_the_template_loads_and_plans() -> None:
    plan = load(TEMPLATE).plan()
    assert (plan.cells, plan.repeat, len(plan.runs)) == (6, 2, 12)
