"""What a notebook shows of results, experiments and comparisons: short, in words, escaped."""

from __future__ import annotations

import pytest

import cwndlab
from cwndlab.report.interface import Experiment, ResultSet

TEXT = """\
experiment: small
description: Which of two is <b>faster</b>?
duration: 2s
hosts:
  a: {stack: freebsd-13, cc: newreno}
  b: {stack: freebsd-13}
network:
  dumbbell:
    left: [a]
    right: [b]
    bottleneck: {rate: 10mbit, delay: 5ms, queue: {kind: pfifo, limit: 20p}, loss: {random: 0.1%}}
flows:
  - {name: f1, from: a, to: b, app: bulk}
sweep:
  - hosts.a.cc: [newreno, cubic]
repeat: 5
"""


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return cwndlab.load(TEXT)


@pytest.fixture(scope="module")
def results(experiment: Experiment, tmp_path_factory: pytest.TempPathFactory) -> ResultSet:
    return experiment.run(out=tmp_path_factory.mktemp("notebook") / "results")


def test_an_experiment_is_one_line_and_its_file_as_html(experiment: Experiment):
    assert len(repr(experiment)) < 200 and "small" in repr(experiment)
    shown = experiment._repr_html_()
    assert "&lt;b&gt;faster" in shown and "<b>" not in shown


def test_results_are_a_table(results: ResultSet):
    assert len(repr(results)) < 300
    shown = results._repr_html_()
    assert "small: 10 runs on sim" in shown and shown.count("<tr>") == 11


def test_a_comparison_is_what_compare_prints(results: ResultSet):
    found = results.compare(by="cc")
    assert "cubic" in str(found) and len(str(found)) < 5000
    assert len(repr(found)) < 500
    assert len(repr(found.each[0])) < 200
    assert len(repr(found.each[0].contrast)) < 500
    assert "<table>" in found._repr_html_()
