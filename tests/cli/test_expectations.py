"""What an experiment expects: said for each cell, in the report, in the exit code, and as JUnit XML."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from command_line import CommandLine
from experiments import dumbbell

LIMITS = "sweep:\n  - network.dumbbell.bottleneck.queue.limit: [2p, 50p]\nrepeat: 2\n"


def file(expected: str) -> str:
    return dumbbell(
        "guard",
        duration="1s",
        a="stack: freebsd-13, cc: newreno",
        bottleneck="rate: 10mbit, delay: 10ms, queue: {kind: pfifo, limit: 50p}",
        more=f"{LIMITS}expect:\n{expected}",
    )


@pytest.fixture
def run(tmp_path: Path):
    cwndlab = CommandLine(tmp_path)

    def carry_out(expected: str, *options: str):
        (tmp_path / "x.yaml").write_text(file(expected))
        return cwndlab("run", "x.yaml", "-o", "out", *options)

    return carry_out


@pytest.mark.slow
def test_what_holds_is_said_and_the_exit_code_is_0(run):
    done = run('  flows.f1.goodput_mbps: "> 5, <= 10"\n  utilisation: "> 50%"\n')
    assert done.code == 0, done.err
    assert "holds in 2 of 2 cells: flows.f1.goodput_mbps > 5, <= 10" in done.err
    assert "holds in 2 of 2 cells: utilisation > 50%" in done.err


@pytest.mark.slow
def test_what_does_not_hold_is_named_with_its_cell(run, tmp_path: Path):
    done = run('  flows.f1.goodput_mbps: ">= 9"\n  rtos: "< 100"\n', "--junit", "out.xml")
    assert done.code == 1
    assert "FAILS in 1 of 2 cells: flows.f1.goodput_mbps >= 9\n  limit 2p, run 0, flow f1: 6." in done.err
    assert "error: 1 of 4 expectations do not hold" in done.err
    assert "FAILS in 1 of 2 cells" in (tmp_path / "out" / "report.html").read_text()
    suite = ElementTree.parse(tmp_path / "out.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "1", "0")
    (failure,) = suite.findall(".//failure")
    assert failure.text is not None and failure.text.count("flow f1: 6.") == 2  # one for each repeat


@pytest.mark.slow
def test_a_metric_without_a_value_is_not_as_expected(run):
    done = run('  jain: "> 0.5"\n')  # of a single flow there is none
    assert done.code == 1
    assert "limit 2p, run 0: no jain (and 1 more)" in done.err


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ('  goodput: "> 1"\n', "x.yaml:18: expect.goodput: found the metric 'goodput'; expected a metric"),
        ('  flows.f2.jain: "> 1"\n', "x.yaml:18: expect.flows.f2.jain: found the flow 'f2'; expected f1"),
        ('  jain: "about 1"\n', "x.yaml:18: expect.jain: found 'about 1'; expected a comparison such as"),
        ('  jain: ""\n', "x.yaml:18: expect.jain: found nothing; expected a comparison such as"),
        ("  jain: [1]\n", "x.yaml:18: expect.jain: found a list"),
    ],
)
@pytest.mark.slow
def test_what_cannot_be_expected_is_refused_before_anything_runs(run, tmp_path: Path, expected, message):
    refused = run(expected)
    assert (refused.code, refused.err.count("error: ")) == (2, 1)
    assert message in refused.err
    assert not (tmp_path / "out").exists()
