"""Formats, plots and testbeds of another package, installed beside cwndlab and named nowhere in it."""

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoints
from pathlib import Path

import pytest

from cwndlab import testbeds
from cwndlab.cli import main
from cwndlab.errors import CwndlabError, ExperimentError, InputError
from cwndlab.experiment import extensions
from cwndlab.formats import base, exporters, importers
from cwndlab.formats.capture import Options
from cwndlab.report.plots import plot
from cwndlab.results.resultset import ResultSet
from cwndlab.testbeds import loader

ENTRY_POINTS = """
[cwndlab.importers]
rounds = rounds
[cwndlab.exporters]
rounds = rounds:write
[cwndlab.plots]
rounds = rounds:draw
[cwndlab.testbeds]
wire = wire:KIND
"""


TWO_FLOWS = """
experiment: two
duration: 5s
hosts:
  a: {stack: freebsd-13, cc: cubic}
  b: {stack: freebsd-13}
network:
  dumbbell: {left: [a], right: [b], bottleneck: {rate: 10mbit, delay: 10ms, queue: {kind: pfifo, limit: 50p}}}
flows:
  - {name: one, from: a, to: b}
  - {name: two, from: a, to: b}
repeat: 1
"""


def status(command: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        main(command)
    return int(ended.value.code or 0)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    extensions.load.cache_clear()
    yield
    extensions.load.cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def made(entry_points: str) -> None:
        packages = tmp_path / "packages"
        about = packages / "cwndlab_rounds-1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: cwndlab-rounds\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(entry_points)
        monkeypatch.syspath_prepend(packages)
        monkeypatch.syspath_prepend(Path(__file__).parent)

    return made


@pytest.fixture
def results(tmp_path: Path, install: Callable[[str], None]) -> ResultSet:
    install(ENTRY_POINTS)
    (tmp_path / "log").write_text("rounds 1\n0 14480\n0.1 28960\n0.2 57920\n")
    return importers.results([tmp_path / "log"], Options(), tmp_path / "results")


def test_a_format_is_read_and_written(results: ResultSet, tmp_path: Path) -> None:
    assert results.series(0)["cwnd_bytes"].to_list() == [14480, 28960, 57920]
    (file,) = exporters.export(results, "rounds", tmp_path / "out")
    assert file.read_text() == (tmp_path / "log").read_text()
    (tmp_path / "damaged").write_text("rounds 1\nx\n")
    with pytest.raises(InputError, match="expected lines of SECONDS CWND_BYTES"):
        base.read(tmp_path / "damaged")


def test_a_kind_of_plot_is_drawn(results: ResultSet, tmp_path: Path) -> None:
    figure = plot(results, "rounds", tmp_path / "rounds.png", runs=["0"])
    assert figure.data["cwnd_bytes"].to_list() == [14480, 28960, 57920]
    assert (tmp_path / "rounds.png").stat().st_size > 1000
    with pytest.raises(InputError, match="did you mean rounds"):
        plot(results, "round")


def test_a_testbed_carries_runs_out(
    tmp_path: Path, install: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    install(ENTRY_POINTS)
    file = tmp_path / "two.yaml"
    file.write_text(TWO_FLOWS)
    out = tmp_path / "out"
    assert status(["run", str(file), "--testbed", "wire", "-o", str(out), "--no-report", "-q"]) == 0
    results = ResultSet(out)
    assert results.header.testbed == "wire"
    assert results.summary["goodput_mbps"].to_list() == [16.0, 16.0]
    assert not any(brief.by_chance for brief in results.briefs)
    assert status(["doctor"]) == 0
    assert "+ wire                 ready; no plug is loose" in capsys.readouterr().out
    with pytest.raises(InputError, match="did you mean wire"):
        testbeds.find("wier")
    with pytest.raises(ExperimentError, match="not supported by testbed wire"):
        loader.load(TWO_FLOWS.replace("cc: cubic", "cc: cubic, mss: 1000"), testbed="wire")


def test_a_package_that_cannot_be_loaded_is_named(tmp_path: Path, install: Callable[[str], None]) -> None:
    install("[cwndlab.importers]\nrounds = no_such_module_of_rounds\n")
    (tmp_path / "log").write_text("rounds 1\n")
    with pytest.raises(CwndlabError, match=r"^cwndlab-rounds: rounds of .* cannot be loaded: "):
        base.read(tmp_path / "log")


def test_what_is_not_installed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, results: ResultSet
) -> None:
    extensions.load.cache_clear()
    monkeypatch.setattr(extensions, "entry_points", lambda group: EntryPoints())
    (tmp_path / "config.py").write_text("TPCONF_router = []\n")
    with pytest.raises(InputError, match=r"TEACUP's .*: pip install 'cwndlab\[teacup\]'$"):
        importers.read([tmp_path / "config.py"], Options())
    with pytest.raises(InputError, match=r"xplot: pip install 'cwndlab\[teacup\]'$"):
        list(exporters.export(results, "xplot", tmp_path / "out"))
