"""What `import cwndlab` gives a program: its types, the command line's names, dictionaries, all series."""

import inspect
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer

import cwndlab
import stored_results
from cwndlab.cli import reference
from cwndlab.cli.application import app
from cwndlab.report import interface

SCRIPT = '''
"""A user's script."""

import polars as pl

import cwndlab
from cwndlab import Experiment, ResultSet

TEXT = {"experiment": "x", "sweep": [{"hosts.a.cc": ["cubic", "bbr"]}]}


def ask(experiment: Experiment) -> ResultSet:
    try:
        return experiment.run(out="out", jobs=2, force=True, shard=None)
    except cwndlab.ExperimentError as error:
        print(error.place.line, error.excerpt())
        raise
    except cwndlab.StoppedError:
        return cwndlab.open("out")


def tell(results: ResultSet) -> float:
    frame: pl.DataFrame = results.series(0, flow="f1", table="queue")
    lazy: pl.LazyFrame = results.series("tcp")
    means = lazy.group_by("hosts.a.cc").agg(pl.col("cwnd_bytes").mean()).collect()
    figure = results.plot("cwnd", "x.png", run=[0, 3], flow="f1", window=(0, None), average=0.5, size="1col")
    figure.savefig("again.png")
    compared = results.compare(by="hosts.a.cc", metric=["goodput_mbps"], all_pairs=True, confidence=0.9)
    for each in compared.overall:
        print(each.metric, each.difference)
    print(results.report().name, means.height + frame.height, results.summary["goodput_mbps"])
    return compared.each[0].difference


tell(ask(cwndlab.load(TEXT, set=["repeat=2"])))
'''

WRONG = {
    'results.plot("cwnd", widow=(0, 2))': 'Unexpected keyword argument "widow"',
    'results.plot("cwnd", average="1s")': 'Argument "average"',
    'results.compare(by="cc", metrics=["x"])': 'Unexpected keyword argument "metrics"',
    'cwndlab.load("x.yaml").run(job=2)': 'Unexpected keyword argument "job"',
    "cwndlab.load(3)": 'Argument 1 to "load"',
    'results.series("tcp").height': '"LazyFrame" has no attribute "height"',
    "cwndlab.Experimint": 'has no attribute "Experimint"',
}


@pytest.mark.slow
def test_a_script_passes_the_strict_checker_and_its_errors_are_found(tmp_path):
    (tmp_path / "right.py").write_text(SCRIPT)
    wrong = "import cwndlab\n\nresults = cwndlab.open('out')\n" + "".join(f"{line}\n" for line in WRONG)
    (tmp_path / "wrong.py").write_text(wrong)
    words = ["--strict", "--config-file=", "--no-error-summary", "right.py", "wrong.py"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    said = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line.partition(":")[0] for line in said] == ["wrong.py"] * len(WRONG), done.stdout + done.stderr
    for place, (line, message) in enumerate(zip(said, WRONG.values(), strict=True), 4):
        assert line.startswith(f"wrong.py:{place}: ") and message in line.replace("; maybe", ""), line


OF_THE_TERMINAL = {
    "run": {
        "help",
        "dry_run",
        "report",
        "open",
        "junit",
        "quiet",
        "json",
        "set",
        "cc",
        "cc_private",
        "guest",
    },
    "compare": {"help", "a", "b", "ministat", "json", "kernel", "patch", "guest"},
    "plot": {"help", "figure"},
    "report": {"help"},
}
"""Options of commands that no method has: how something is printed, what `load` and `together` take, files of
other tools, the numbered figures of publications, and both sides of a patch."""


@pytest.mark.parametrize("name", OF_THE_TERMINAL)
def test_methods_have_the_options_of_the_command_line_under_its_names(name):
    program: Any = typer.main.get_command(app)
    known = {
        max(each.opts, key=len).lstrip("-").replace("-", "_")
        for each in program.commands[name].params
        if each.param_type_name == "option"
    }
    method = getattr(interface.Experiment if name == "run" else interface.ResultSet, name)
    there = inspect.signature(method).parameters
    assert not [each.name for each in there.values() if each.kind is each.VAR_KEYWORD]
    assert known - OF_THE_TERMINAL[name] == there.keys() & known
    assert not there.keys() & OF_THE_TERMINAL[name]


HOST = {"stack": "linux-6.18"}
GIVEN: dict[str, Any] = {
    "experiment": "of-a-dictionary",
    "duration": "1s",
    "seed": 3,
    "hosts": {"a": HOST, "b": HOST},
    "network": {
        "dumbbell": {
            "left": ["a"],
            "right": ("b",),
            "bottleneck": {"rate": "10mbit", "delay": "5ms", "queue": {"kind": "pfifo", "limit": "20p"}},
        }
    },
    "flows": [{"name": "f1", "from": "a", "to": "b", "app": "bulk", "bytes": "50KB"}],
    "sweep": [{"hosts.a.cc": ["cubic", "bbr"]}],
    "repeat": 2,
}


def test_a_dictionary_is_an_experiment_and_its_errors_have_a_place():
    experiment = cwndlab.load(GIVEN, set=["seed=7"])
    assert len(experiment.plan().runs) == 4
    assert cwndlab.load(experiment.as_yaml()).plan() == experiment.plan()
    with pytest.raises(cwndlab.ExperimentError, match=r"<dict>:\d+: hosts.b.cc: found 'cubick'") as found:
        cwndlab.load(GIVEN | {"hosts": {"a": HOST, "b": HOST | {"cc": "cubick"}}}).plan()
    assert "cc: cubick" in found.value.excerpt()[0]


@pytest.mark.parametrize("value", [object(), b"raw", {1, 2}, 1 + 2j])
def test_a_value_that_no_file_can_hold_is_refused_in_one_line(value):
    with pytest.raises(cwndlab.ExperimentError, match=r"<dict>.*expected") as found:
        cwndlab.load({"experiment": "x", "seed": value})
    assert "\n" not in str(found.value)
    within: list[object] = []
    within.append(within)
    with pytest.raises(cwndlab.ExperimentError, match="a value within itself"):
        cwndlab.load({"experiment": within})


@pytest.mark.parametrize("place", [Path("results/mine"), "results/mine", Path("mine"), 7])
def test_a_path_where_the_testbed_is_meant_is_refused_in_one_line(place):
    told = rf"testbed: found '{place}'; expected one of sim, .* \(where results go is called out\)"
    with pytest.raises(cwndlab.InputError, match=told):
        cwndlab.load(GIVEN).run(place)


@pytest.mark.slow
def test_the_series_of_all_runs_are_those_of_each_and_read_as_they_are_asked_for(tmp_path, monkeypatch):
    results = cwndlab.open(stored_results.results(tmp_path / "r"))
    lazy = results.series("tcp")
    every = lazy.collect()
    assert every.schema == lazy.collect_schema()
    assert every["run_id"].unique(maintain_order=True).to_list() == results.runs["run_id"].to_list()
    for run in results.runs.iter_rows(named=True):
        of_run = every.filter(pl.col("run_id") == run["run_id"])
        assert of_run.drop("run_id", "repeat", *results.keys).equals(results.series(run["run_index"]))
        assert of_run["hosts.a.cc"].unique().to_list() == [run["hosts.a.cc"]]
    read: list[object] = []
    one = interface.ResultSet._of_run
    monkeypatch.setattr(
        interface.ResultSet, "_of_run", lambda self, run, *more: read.append(run) or one(self, run, *more)
    )
    asked = lazy.filter(pl.col("hosts.a.cc") == "cubic").select("t_s", "run_id").collect()
    wanted = results.runs.filter(pl.col("hosts.a.cc") == "cubic")["run_id"].to_list()
    assert read == wanted and asked["run_id"].unique(maintain_order=True).to_list() == wanted
    read.clear()
    assert lazy.head(2).collect().height == 2
    assert len(read) == 1
    assert results.series("tcp", flow="f1").collect()["flow"].unique().to_list() == ["f1"]
    with pytest.raises(cwndlab.InputError, match="flow: 'f9' does not exist"):
        results.series("tcp", flow="f9")
    with pytest.raises(cwndlab.InputError, match="did you mean tcp"):
        results.series("tpc")
    sides = cwndlab.together({"one": results, "other": results}).series("tcp").collect()
    assert sides["results"].unique(maintain_order=True).to_list() == ["one", "other"]
    assert sides.height == 2 * every.height


@pytest.mark.slow
def test_an_experiment_runs_anew_in_place_and_its_results_write_their_report(tmp_path):
    experiment = cwndlab.load(GIVEN)
    out = tmp_path / "out"
    experiment.run(out=out)
    with pytest.raises(cwndlab.InputError, match="--resume"):
        experiment.run(out=out)
    with pytest.raises(cwndlab.InputError, match="force goes with out"):
        experiment.run(force=True)
    results = experiment.run(out=str(out), force=True)
    assert results.report() == out / "report.html"
    assert results.report(str(tmp_path / "x.html")).read_text() == (out / "report.html").read_text()
    share = experiment.run(out=tmp_path / "share", shard="2/2")
    assert share.summary.is_empty()


def test_a_kernel_is_named_alone_and_a_patch_with_it():
    experiment = cwndlab.load(GIVEN)
    with pytest.raises(cwndlab.InputError, match="patch goes with kernel"):
        experiment.run(patch="mine.diff")
    with pytest.raises(cwndlab.InputError, match="kernel goes with testbed kernel alone"):
        experiment.run("netns", kernel="6.12")
    with pytest.raises(cwndlab.InputError, match="kernel goes with testbed kernel alone"):
        cwndlab.load(GIVEN, kernel="6.12", lab="lab.yaml")


def test_the_package_says_its_version():
    assert cwndlab.__version__ == version("cwndlab")


def test_help_python_prints_every_public_name_with_its_signature():
    from cwndlab.cli import groups, pages

    page = reference.expanded(pages.page("python").text(), groups.flat(typer.main.get_command(app)))
    assert "\n::: " not in page
    for name in cwndlab.__all__:
        assert re.search(rf"^### (class )?{name}$", page, re.MULTILINE), name
    for kind in (interface.Experiment, interface.ResultSet):
        for name in dir(kind):
            if not name.startswith("_") and name not in getattr(kind, "__dataclass_fields__", ()):
                assert f"\n### {kind.__name__}.{name}" in page, name
    assert "    average: float | None = None,\n" in page
    assert "- `average`: Length of a throughput window." in page
    assert "### ResultSet.keys: list[str]\n\nThe swept keys, in the order of the sweep.\n" in page
    undescribed = re.findall(r"^### (.+)\n(?:\n```python\n[^`]*```\n)?\n+(?=###|\Z)", page, re.MULTILINE)
    assert undescribed == []
