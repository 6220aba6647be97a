"""The tables of the suites' pages: each has its place, and is made of the results of its suite."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import window_sweep

from cwndlab import load
from cwndlab.experiment import suites

SCRIPT = Path(__file__).parents[2] / "docs/evidence/suites/tables.py"


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    sys.path.insert(0, str(SCRIPT.parent))  # as for a script, which finds what stands beside it
    spec = importlib.util.spec_from_file_location("suite_tables", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(SCRIPT.parent))
    return module


def test_each_table_has_one_place_on_its_page(tables: ModuleType) -> None:
    for name, table in tables.TABLES.items():
        page = (tables.PAGES / table.page).read_text(encoding="utf-8")
        changed = tables.replaced(page, name, ["| new |"])
        assert changed.count(f"<!-- tables.py: {name} -->\n\n| new |\n\n<!-- end -->") == 1
        with pytest.raises(ValueError, match="exactly once"):
            tables.replaced(page.replace(f"tables.py: {name} -->", ""), name, ["| new |"])


def test_a_table_is_made_of_its_suite(
    tables: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = ["duration=1s", "repeat=2", "record.tcp=100ms", "record.queue=100ms"]
    patch = load(suites.suite("cubic-patch").path, short).run(out=tmp_path / "patch")
    assert tables.main(["cubic-patch", str(patch.path), "--print"]) == 0
    lines = capsys.readouterr().out.splitlines()
    stacks = patch.summary["hosts.a.stack"].unique(maintain_order=True).to_list()
    assert [line.split(" | ")[0] for line in lines[2:]] == [f"| {stack}" for stack in stacks]
    linux = patch.summary.filter(patch.summary["stack"] == "linux-6.8")["goodput_mbps"].to_list()
    assert lines[-1].split(" | ")[1] == f"{sum(linux) / 2:.0f}"
    assert lines[-1].split(" | ")[4] == "725"
    assert tables.main(["tri-point", str(patch.path)]) == 2
    assert "holds cubic-patch, not tri-point" in capsys.readouterr().err


def test_rows_stand_in_the_order_of_their_suites_plan(tables: ModuleType) -> None:
    cells = tables._cells("tri-point-more", ("hosts.a.stack", "hosts.b.stack", "flows.f2.start"))
    assert len(cells) == 36
    assert [cell["flows.f2.start"] for cell in cells[:3]] == ["0s", "50s", "0s"]
    assert cells[-1]["hosts.b.stack"] == "linux-6.8"


@pytest.mark.slow
def test_runs_that_settle_are_of_the_runs_spread(
    tables: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = ["duration=2s", "repeat=2", "hosts.a.sndbuf=64KiB", "record.tcp=100ms", "record.queue=100ms"]
    runs = load(suites.suite("window-sweep").path, short).run(out=tmp_path / "windows")
    assert tables.main(["window-sweep-runs", str(runs.path), "--print"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    # Three tests of two runs each, which share their draws: one spread, a degree of freedom each.
    first, second = runs.summary["goodput_mbps"].to_list()[:2]
    spread = 100 * abs(first - second) / 2**0.5 / ((first + second) / 2)
    assert last.startswith(f"| simulated | 3 | {spread:.2g} % |")
    whole = tables.window_runs()
    assert len(whole) == 2 + len(window_sweep.CORRELATIONS)


def test_an_interval_is_students(tables: ModuleType) -> None:
    assert tables.interval([1.0, 2.0, 3.0]) == "2 ± 2"  # 4.303 x 1 / sqrt(3) = 2.48
    assert tables.interval([100.0, 100.0]) == "100 ± 0"
