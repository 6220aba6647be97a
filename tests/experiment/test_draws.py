"""Distributions of datagrams and transfers, as text and in files beside the experiment."""

from pathlib import Path

import polars as pl
import pytest

from cwndlab.errors import InputError
from cwndlab.experiment import draws, units
from cwndlab.experiment.units import BadValue
from cwndlab.report import interface
from experiments import dumbbell


def experiment(app: str, kind: str = "udp-vbr") -> str:
    return dumbbell(
        "datagrams",
        duration="10s",
        a="stack: linux-6.8",
        bottleneck="rate: 100mbit, delay: 1ms, queue: {kind: pfifo, limit: 1000p}",
        flow=f"name: f1, from: a, to: b, app: {{kind: {kind}, {app}}}",
    )


@pytest.mark.parametrize(
    ("text", "scenario"),
    [
        ("20ms", {"kind": "constant", "value": 20_000_000}),
        ("exp(20ms)", {"kind": "exponential", "mean": 20_000_000}),
        ("uniform(1ms, 2ms)", {"kind": "uniform", "low": 1_000_000, "high": 2_000_000}),
        ("normal(20ms 5ms)", {"kind": "normal", "mean": 20_000_000, "deviation": 5_000_000}),
        ("lognormal(20ms 5ms)", {"kind": "lognormal", "mean": 20_000_000, "deviation": 5_000_000}),
        ("pareto(20ms 1.5)", {"kind": "pareto", "mean": 20_000_000, "shape_milli": 1500}),
        ("extreme(55ms 6ms)", {"kind": "extreme", "mode": 55_000_000, "scale": 6_000_000}),
        ("file(game.csv)", {"kind": "file", "name": "game.csv"}),
    ],
)
def test_distributions_as_text(text: str, scenario: dict[str, object]):
    drawn = draws.parse(text, units.parse_time, "20ms")
    assert drawn.scenario == scenario
    assert draws.parse(drawn.text, units.parse_time, "20ms") == drawn


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("epx(20ms)", "epx(20ms)"),
        ("exp(20ms 1ms)", "expected exp(mean)"),
        ("pareto(20ms 1)", "a shape above 1"),
        ("exp(20ms", "expected 20ms, exp(20ms), uniform"),
        ("exp(20)", "without a unit"),
        ("file()", "expected 20ms"),
    ],
)
def test_what_is_no_distribution_is_refused(text: str, said: str):
    with pytest.raises(BadValue) as refused:
        draws.parse(text, units.parse_time, "20ms")
    assert said in str(refused.value)


def delays(results: interface.ResultSet) -> pl.DataFrame:
    samples = results.series(results.summary["run_id"][0], table="samples")
    return samples.filter(pl.col("kind").cast(pl.String) == "one-way-delay")


@pytest.mark.slow
def test_a_run_sends_what_the_distributions_say(tmp_path: Path):
    text = experiment("size: uniform(100B 300B), interval: exp(2ms)")
    results = interface.load(text, ["repeat=1"]).run(out=tmp_path / "results")
    (row,) = results.summary.to_dicts()
    # 500 a second of 200 bytes on average; a standard deviation of the count is 71 of 5000.
    assert delays(results).height == pytest.approx(5000, abs=300)
    assert row["goodput_mbps"] == pytest.approx(0.8, rel=0.08)
    assert (row["app"], row["cc"], row["mos"]) == ("udp-vbr", None, None)


def test_a_run_sends_what_a_file_says_over_and_over(tmp_path: Path):
    (tmp_path / "steps.csv").write_text("interval_ms,bytes\n100,200\n0.5, 1000\n")
    file = tmp_path / "x.yaml"
    file.write_text(experiment("size: file(steps.csv), interval: file(steps.csv)"))
    results = interface.load(file).run(out=tmp_path / "results")
    found = delays(results)
    assert found.height in (199, 200)
    gaps = found["t_s"].diff().drop_nulls()
    assert gaps.to_list()[:4] == pytest.approx([0.1, 0.0005, 0.1, 0.0005], abs=2e-4)
    assert results.summary["goodput_mbps"][0] == pytest.approx(100 * 1200 * 8 / 10e6, rel=0.02)


DATAGRAMS = ("udp-vbr", "interval", "size: 100B, interval: file(x.csv)")
SIZES = ("background", "sizes", "load: 1mbit, sizes: file(x.csv)")


@pytest.mark.parametrize(
    ("of", "content", "said"),
    [
        (DATAGRAMS, "ms,bytes\n1,2\n", "expected interval_ms,bytes"),
        (DATAGRAMS, "interval_ms,bytes\n", "found 0 datagrams in x.csv"),
        (DATAGRAMS, "interval_ms,bytes\n1\n", "a time in ms and bytes"),
        (DATAGRAMS, "interval_ms,bytes\n0,100\n", "not all at once"),
        (SIZES, "10000\n", "expected bytes"),
        (SIZES, "bytes\n", "found 0 sizes in x.csv"),
        (SIZES, "bytes\n0\n", "a number of bytes above 0"),
        (SIZES, "bytes\n1.5\n", "a number of bytes above 0"),
    ],
)
def test_a_file_that_says_something_else_is_refused(
    tmp_path: Path, of: tuple[str, str, str], content: str, said: str
):
    kind, key, keys = of
    (tmp_path / "x.csv").write_text(content)
    file = tmp_path / "x.yaml"
    file.write_text(experiment(keys, kind))
    with pytest.raises(InputError, match=rf"flows\.f1\.app\.{key}: found") as refused:
        interface.load(file).plan()
    assert said in str(refused.value)


def test_files_lie_beside_the_experiment(tmp_path: Path):
    file = tmp_path / "x.yaml"
    file.write_text(experiment("size: 100B, interval: file(../steps.csv)"))
    with pytest.raises(InputError, match="the name of a file beside the experiment"):
        interface.load(file).plan()


@pytest.mark.parametrize("size", ["exp(0B)", "0B", "uniform(0B 0B)", "uniform(2B 1B)", "extreme(0B 0B)"])
def test_numbers_that_draw_nothing_are_refused(size: str):
    with pytest.raises(InputError, match=r"expected (a number above 0|the smaller one first)"):
        interface.load(experiment(f"size: {size}, interval: 1ms"))


def transfers(tmp_path: Path, sizes: str) -> tuple[int, float]:
    """Transfers of 10 s of background traffic of 40 Mbit/s, and its goodput in Mbit/s."""
    file = tmp_path / "x.yaml"
    file.write_text(experiment(f"load: 40mbit, connections: 1000, sizes: {sizes}", "background"))
    results = interface.load(file).run(out=tmp_path / "results", force=True)
    samples = results.series(results.summary["run_id"][0], table="samples")
    return (
        samples.filter(pl.col("kind").cast(pl.String) == "completion").height,
        results.summary["goodput_mbps"][0],
    )


def test_transfers_have_the_sizes_of_their_distribution(tmp_path: Path):
    (tmp_path / "sizes.csv").write_text("bytes\n10000\n20000\n120000\n")
    for sizes in ("50KB", "lognormal(50KB 50KB)", "file(sizes.csv)"):
        count, goodput = transfers(tmp_path, sizes)
        # 1000 transfers, with a standard deviation of 32.
        assert count == pytest.approx(1000, abs=130), sizes
        assert goodput == pytest.approx(40, rel=0.2), sizes


@pytest.mark.parametrize("key", ["size: 10KB", "shape: 1.2"])
def test_sizes_say_mean_and_shape_alone(key: str):
    name = key.partition(":")[0]
    with pytest.raises(InputError, match=rf"flows\.f1\.app\.{name}: stands beside sizes"):
        interface.load(experiment(f"load: 1mbit, sizes: exp(10KB), {key}", "background")).plan()
