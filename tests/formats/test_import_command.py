"""`cwndlab data import` and `cwndlab data export` as a user calls them, and TEACUP's trees of results."""

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import logs
import pytest

import cwndlab
from cwndlab.formats import importers
from cwndlab.formats.capture import Options
from cwndlab_teacup import tree as teacup_tree
from patience import PATIENCE

pytestmark = pytest.mark.slow

BASELINE = Path(__file__).parent / "teacup" / "baseline.py"


def command(directory: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cwndlab", *map(str, arguments)],
        cwd=directory,
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_a_configuration_becomes_an_experiment_that_runs(tmp_path: Path) -> None:
    ran = command(tmp_path, "data", "import", BASELINE)
    assert (
        ran.returncode == 0
        and "126 runs: baseline.yaml; run them with: cwndlab run baseline.yaml" in ran.stderr
    )
    assert ran.stdout.startswith("mapped       baseline.py:16  TPCONF_router")
    planned = command(tmp_path, "run", "baseline.yaml", "--dry-run")
    assert planned.returncode == 0 and "126" in planned.stdout
    ids = command(
        tmp_path, "data", "import", BASELINE, "-o", "again.yaml", "--test-ids", "--test-id", "exp_1"
    )
    assert len(ids.stdout.splitlines()) == 126 and ids.stdout.startswith(
        "exp_1_tcp_newreno_down_2mbit_up_2mbit"
    )
    refused = command(tmp_path, "data", "import", BASELINE)
    assert refused.returncode == 2
    assert refused.stderr == "error: baseline.yaml: is there already; give another name with -o\n"


def test_logs_become_results_and_back(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(logs.siftr13())
    ran = command(tmp_path, "data", "import", "log", "-o", "results")
    assert ran.returncode == 0 and "27.51" in ran.stdout and ran.stderr == "results: results\n"
    assert command(tmp_path, "plot", "results", "--kind", "cwnd").returncode == 0
    assert command(tmp_path, "show", "results", "--verify").returncode == 0
    exported = command(tmp_path, "data", "export", "results", "--format", "siftr")
    assert exported.returncode == 0 and (tmp_path / exported.stdout.strip()).exists()
    assert command(tmp_path, "data", "import", exported.stdout.strip(), "-o", "back", "-q").stdout == ""
    # SIFTR does not say what was delivered, and neither does a graph or a file of Flent made of it.
    nothing = command(tmp_path, "data", "export", "results", "--format", "flent")
    assert nothing.returncode == 2 and nothing.stderr.count("\n") == 1
    assert "these runs hold nothing that flent has a place for" in nothing.stderr
    assert cwndlab.open(tmp_path / "back").series(0)["cwnd_bytes"].to_list() == [
        logs.cwnd(n) for n in range(20)
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["missing.log"], "missing.log: No such file or directory"),
        (["noise"], "noise: of no known format; known are pcap or pcapng, loadlatency, SIFTR, "),
        (["empty"], "empty: is empty"),
        (["folder"], "folder: no file of a known format"),
        (["log", "-o", "folder"], "folder: not empty"),
        (["log", "--count", "bits"], "count: 'bits' is not one of ip, frame, payload"),
    ],
)
def test_bad_input_is_one_line_and_code_2(tmp_path: Path, arguments: list[str], told: str) -> None:
    (tmp_path / "noise").write_text("nothing that anybody wrote\n")
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "noise").write_text("x\n")
    (tmp_path / "log").write_text(logs.siftr13())
    ran = command(tmp_path, "data", "import", *arguments)
    assert ran.returncode == 2, ran.stderr
    assert ran.stderr.startswith("error: ") and told in ran.stderr and ran.stderr.count("\n") == 1


def tree(directory: Path, nested: bool = True) -> Path:
    """What TEACUP leaves of four runs: logs of both hosts, of the router and of iperf."""
    prefix = "20140502-120000_exp"
    place = directory / prefix if nested else directory
    place.mkdir(parents=True)
    receiver = logs.siftr13().replace("10.0.0.1,40000,10.0.1.1,5001", "10.0.1.1,5001,10.0.0.1,40000")
    receiver = re.sub(r"(,131072,65536,0,)\d+", r"\g<1>0", receiver)  # it has nothing in flight
    for tcp in ("newreno", "cubic"):
        for run in (0, 1):
            test_id = f"{prefix}_tcp_{tcp}_del_20_run_{run}"
            files = {
                f"{test_id}_newtcp20_siftr.log.gz": logs.siftr13(),
                f"{test_id}_newtcp27_siftr.log.gz": receiver.replace(
                    "," + str(5 * logs.MSS) + ",0,", ",0,0,"
                ),
                f"{test_id}_newtcp20_1_iperf.log.gz": "nothing\n",
                f"{test_id}_newtcp20_ctl.dmp.gz": "nothing\n",
                f"{test_id}_newtcprt3_router.dmp.gz": "nothing\n",
                f"{test_id}_newtcp20_uname.log.gz": "FreeBSD\n",
            }
            for name, content in files.items():
                (place / name).write_bytes(gzip.compress(content.encode()))
    (place / f"{prefix}_varying_params.log.gz").write_bytes(gzip.compress(b"#V_var_name\n"))
    return directory


@pytest.mark.parametrize("nested", [True, False])
def test_a_tree_of_teacup_becomes_a_sweep(tmp_path: Path, nested: bool) -> None:
    found = importers.results([tree(tmp_path / "tree", nested)], Options(), tmp_path / "out")
    assert found.keys == ["tcp", "del"]
    rows = found.summary.select("tcp", "del", "repeat", "flow").rows()
    assert sorted(rows) == [(tcp, "20", run, logs.FLOW) for tcp in ("cubic", "newreno") for run in (0, 1)]
    assert found.record(0).facts["test_id"] == "20140502-120000_exp_tcp_cubic_del_20_run_0"
    assert found.series(0)["cwnd_bytes"].to_list() == [logs.cwnd(n) for n in range(logs.ROWS)]
    found.verify()


def test_names_say_what_was_varied() -> None:
    varied = teacup_tree.varied
    found = varied("20140502-1_x_tcp_newreno_down_2mbit_up_1mbit_del_20_aqm_fq-codel_bs_50_run_3")
    assert list(found) == ["tcp", "down", "up", "del", "aqm", "bs", "run"]
    assert list(found.values()) == ["newreno", "2mbit", "1mbit", "20", "fq-codel", "50", "3"]
    assert varied("my_exp_tcp_cubic", ["my_exp"]) == {"tcp": "cubic"}
    assert varied("plain") == {}


def test_captures_of_a_tree_add_what_stacks_do_not_log(tmp_path: Path) -> None:
    text = """
experiment: tree
duration: 4s
hosts: {a: {stack: freebsd-13}, b: {stack: freebsd-13}}
network:
  dumbbell:
    left: [a]
    right: [b]
    bottleneck: {rate: 10mbit, delay: 20ms, queue: {kind: pfifo, limit: 40p}, loss: {random: 0.5%}}
flows: [{from: a, to: b}]
record: {pcap: [a, b]}
"""
    truth = cwndlab.load(text).run(out=tmp_path / "truth")
    place = tmp_path / "tree"
    place.mkdir()
    for host in ("a", "b"):
        capture = next(path for path in truth.captures(0) if path.name.endswith(f"-{host}.pcap"))
        (place / f"exp_tcp_newreno_run_0_{host}.dmp.gz").write_bytes(gzip.compress(capture.read_bytes()))
    flow = "10.0.0.1:10000-10.0.1.1:5201"
    log = logs.siftr13().replace("10.0.0.1,40000,10.0.1.1,5001", "10.0.0.1,10000,10.0.1.1,5201")
    (place / "exp_tcp_newreno_run_0_a_siftr.log.gz").write_bytes(gzip.compress(log.encode()))
    found = importers.results([place], Options(), tmp_path / "out")
    (row,) = found.summary.iter_rows(named=True)
    counted = truth.record(0).summary["flows"][0]
    assert (row["flow"], row["tcp"]) == (flow, "newreno")
    assert row["drop_rate"] == pytest.approx(counted["drops"] / counted["segments_sent"], rel=0.05)
    assert row["cwnd_max_bytes"] == logs.cwnd(logs.ROWS - 1), "from the stack's log"
    kinds = found.series(0, table="samples")["kind"].cast(str).unique().to_list()
    assert {"spp-rtt", "one-way-delay", "throughput", "segments-per-ack"} <= set(kinds)


def test_another_stack_and_several_files_of_a_folder(tmp_path: Path) -> None:
    text = BASELINE.read_text().replace("TPCONF_host_os", "TPCONF_host_systems")
    (tmp_path / "config.py").write_text(text)
    ran = command(tmp_path, "data", "import", "config.py", "--stack", "linux-3.9")
    assert ran.returncode == 0 and "does not say its system; linux-3.9 (--stack)" in ran.stdout
    assert "stack: linux-3.9" in (tmp_path / "baseline.yaml").read_text()
    refused = command(tmp_path, "data", "import", "config.py", "--stack", "linux-3.8", "-o", "other.yaml")
    assert (
        refused.returncode == 2 and "linux-3.8" in refused.stderr and not (tmp_path / "other.yaml").exists()
    )
    (tmp_path / "folder").mkdir()
    for name, content in (
        ("a.log", logs.siftr13()),
        ("b.txt", logs.ss()),
        ("notes", "nothing\n"),
        ("empty", ""),
    ):
        (tmp_path / "folder" / name).write_text(content)
    assert command(tmp_path, "data", "import", "folder", "-o", "out", "-q").returncode == 0
    assert cwndlab.open(tmp_path / "out").summary["file"].to_list() == ["a.log", "b.txt"]
