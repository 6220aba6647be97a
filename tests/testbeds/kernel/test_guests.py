"""A real kernel in virtual time: what it makes of an experiment, and that it makes the same twice.

The kernel is the newest that was built (`make kernel` builds one of Debian's sources), or what
CWNDLAB_TEST_KERNEL names.
"""

import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import cwndlab
from cwndlab.errors import InputError, RunError
from cwndlab.execution.merge import merge
from cwndlab.experiment.catalogue import catalogue
from cwndlab.testbeds.kernel import guest, inventory, store
from cwndlab.testbeds.kernel.store import Kernel
from cwndlab.testbeds.netns import ip
from dask_cluster import DaskCluster

pytestmark = [pytest.mark.live, pytest.mark.slow]

ONE = """\
experiment: one
duration: 30s
hosts: {a: {stack: linux, cc: cubic}, b: {stack: linux}}
network:
  dumbbell:
    left: [a]
    right: [b]
    bottleneck: {rate: 10mbit, delay: 20ms, queue: {kind: pfifo, limit: 90p}}
flows: [{name: f, from: a, to: b}]
"""
CELLS = """\
experiment: cells
duration: 4s
repeat: 2
hosts: {a: {stack: linux, cc: cubic}, b: {stack: linux, cc: bbr}, c: {stack: linux}}
network:
  dumbbell:
    left: [a, b]
    right: [c]
    bottleneck:
      rate: 20mbit
      delay: 10ms
      loss: {random: 0.5%}
      jitter: {sd: 1ms, kind: normal, reorder: true}
      queue: pfifo
flows: [{name: f, from: a, to: c}, {name: g, from: b, to: c}]
sweep: [network.dumbbell.bottleneck.queue: [{kind: pfifo, limit: 50p}, fq_codel]]
"""


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    """A kernel that was built."""
    reason = guest.ready()
    named, built = os.environ.get("CWNDLAB_TEST_KERNEL"), store.kernels()
    if reason is not None:
        pytest.skip(reason)
    if named is None and not built:
        pytest.skip("no kernel was built (make kernel)")
    return store.find(named) if named is not None else built[-1]


def run(kernel: Kernel, text: str, out: Path, *options: str, expects: int = 0) -> str:
    """Run an experiment; returns what was said."""
    file = out.with_suffix(".yaml")
    file.write_text(text, encoding="utf-8")
    command = ["run", str(file), "--kernel", kernel.name, "-o", str(out), "--no-report", *options]
    done = subprocess.run(
        [sys.executable, "-m", "cwndlab", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == expects, done.stdout + done.stderr
    return done.stdout + done.stderr


def digests(out: Path) -> dict[str, str]:
    """Hashes of everything that runs recorded, but for clock times and facts of the machine."""
    return {
        str(file.relative_to(out)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted((out / "runs").rglob("*.parquet"))
    }


def test_a_cubic_flow_fills_the_link_and_its_queue(kernel: Kernel, tmp_path: Path) -> None:
    import polars as pl

    run(kernel, ONE, tmp_path / "one")
    summary = pl.read_csv(tmp_path / "one" / "summary.csv").row(0, named=True)
    assert 9.4 < float(summary["goodput_mbps"]) < 9.57
    assert 115 < float(summary["rtt_p50_ms"]) < 140
    assert 4 <= int(summary["fast_recoveries"]) <= 8
    (record,) = (tmp_path / "one").rglob("runs.jsonl")
    assert kernel.sha256[:16] in record.read_text(), "results say which kernel made them"
    (file,) = (tmp_path / "one").rglob("0-counters.json")
    counted = json.loads(file.read_text())
    assert counted.keys() == {"a", "b"}
    assert counted["a"]["TcpExt.TCPSackRecovery"][1] >= int(summary["fast_recoveries"])
    (rows,) = (tmp_path / "one").rglob("tcp.parquet")
    assert counted["a"]["Tcp.RetransSegs"] == [0, pl.read_parquet(rows)["retransmits"].max()]


def test_a_flow_of_ipv6_has_the_packets_of_ipv4_20_bytes_less_payload_each(
    kernel: Kernel, tmp_path: Path
) -> None:
    if not ip.has_v6(inventory.of(kernel).kernel.sysctls):
        pytest.skip(f"{kernel.name} was built without IPv6")
    queue = "network.dumbbell.bottleneck.queue={kind: pfifo, limit: 3000p}"
    changes = [
        "duration=6s",
        "measure={from: 2s, to: 6s}",
        "record={pcap: [a]}",
        queue,
    ]
    counted = {}
    for family in ("ipv4", "ipv6"):
        cell = cwndlab.load(ONE, [*changes, f"network.family={family}"], kernel=kernel.name)
        results = cell.run(kernel=kernel.name, out=tmp_path / family)
        (counted[family],) = results.record(0).summary["flows"]
    (four, six), packets = counted.values(), 4 * 10e6 / 8 / 1514
    # Nothing is lost and the link never idle: packets of 1,500 bytes pass, 52 or 72 of them headers.
    assert four["goodput_bytes"] % 1448 == six["goodput_bytes"] % 1428 == 0
    assert four["goodput_bytes"] // 1448 == six["goodput_bytes"] // 1428
    assert abs(six["goodput_bytes"] // 1428 - packets) <= 1
    assert four["wire_bytes"] == six["wire_bytes"]
    again = cwndlab.load(ONE, [*changes, "network.family=ipv6"], kernel=kernel.name)
    again.run(kernel=kernel.name, out=tmp_path / "again")
    assert digests(tmp_path / "ipv6") == digests(tmp_path / "again")
    first, second = (sorted((tmp_path / name).rglob("*.pcap")) for name in ("ipv6", "again"))
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]
    # Version, then TCP behind it: no neighbour was asked for, no group reported.
    assert {(version >> 4, header) for file in first for version, header in _headers(file)} == {(6, 6)}


def _headers(capture: Path) -> Iterator[tuple[int, int]]:
    """The first byte of each IP packet of a capture, and the seventh."""
    data, at = capture.read_bytes(), 24
    while at < len(data):
        (kept,) = struct.unpack_from("<I", data, at + 8)
        yield data[at + 16], data[at + 22]
        at += 16 + kept


def test_python_names_a_kernel_as_the_command_line_does(kernel: Kernel, tmp_path: Path) -> None:
    changes = ["duration=2s"]
    results = cwndlab.load(ONE, changes, kernel=kernel.name).run(kernel=kernel.name, out=tmp_path / "out")
    assert results.complete
    assert results.summary["testbed"].to_list() == ["kernel"]
    with pytest.raises(cwndlab.ExperimentError, match="this kernel was built without tcp_nosuch"):
        cwndlab.load(ONE, ["hosts.a.cc=nosuch"], kernel=kernel.name)


def test_a_file_with_different_kernels_is_refused(kernel: Kernel) -> None:
    names = ["hosts.a.stack=linux-3.9", "hosts.b.stack=linux-6.12"]
    with pytest.raises(
        cwndlab.ExperimentError, match=r"'linux-6.12' beside 'linux-3.9'; expected one kernel"
    ):
        cwndlab.load(ONE, names, kernel=kernel.name).plan()
    cwndlab.load(ONE, names[:1], kernel=kernel.name).plan()
    with pytest.raises(cwndlab.ExperimentError, match="expected one of") as told:
        cwndlab.load(ONE, ["hosts.a.stack=linux-1.0"], kernel=kernel.name)
    choices = str(told.value).partition("expected one of ")[2].split(", ")
    assert len(choices) == len(set(choices))


def test_every_congestion_control_of_the_kernel_runs(kernel: Kernel, tmp_path: Path) -> None:
    every = inventory.of(kernel).kernel.congestion_controls
    assert len(every) > 10
    changes = ["duration=2s", "repeat=1", "record={tcp: 100ms, queue: 100ms}"]
    swept = f"{ONE}sweep: [hosts.a.cc: [{', '.join(every)}]]\n"
    experiment = cwndlab.load(swept, changes, kernel=kernel.name)
    results = experiment.run(kernel=kernel.name, out=tmp_path / "out", jobs=2)
    assert results.complete
    assert results.summary["cc"].to_list() == list(every)
    assert results.summary["goodput_mbps"].min() > 1


def test_every_queue_of_a_file_is_one_of_the_kernel(kernel: Kernel, tmp_path: Path) -> None:
    has = inventory.of(kernel)
    ordinary = [kind for kind in catalogue().queues if kind != "netem"]
    assert {"pfifo", "bfifo", "red", "codel", "fq_codel", "pie", "fq_pie", "cake", "dualpi2"} <= {*ordinary}
    queues = [kind for kind in ordinary if has.has_queue(kind)]
    one = ONE.replace("{kind: pfifo, limit: 90p}", "pfifo")
    told = {
        "red": "{kind: red, limit: 400KB, min: 30KB, max: 90KB, probability: 10%}",
        "choke": "{kind: choke, limit: 200p, min: 20p, max: 60p}",
    }
    swept = ", ".join(told.get(kind, kind) for kind in queues)
    text = f"{one}sweep: [network.dumbbell.bottleneck.queue: [{swept}]]\n"
    results = cwndlab.load(text, ["duration=5s"], kernel=kernel.name).run(
        kernel=kernel.name, out=tmp_path / "out", jobs=2
    )
    assert results.complete
    assert results.summary["goodput_mbps"].min() > 5
    for kind in set(ordinary) - set(queues):
        with pytest.raises(InputError, match=f"has no queue discipline {kind}"):
            cwndlab.load(ONE, [f"network.dumbbell.bottleneck.queue={kind}"], kernel=kernel.name).run(
                kernel=kernel.name, out=tmp_path / kind
            )


def test_a_link_changes_in_mid_run(kernel: Kernel, tmp_path: Path) -> None:
    import polars as pl

    slower = "[{at: 4s, set: {rate: 2mbit}}, {at: 8s, set: {down: true}}]"
    sets = ["--set", f"network.dumbbell.bottleneck.schedule={slower}", "--set", "duration=10s"]
    run(kernel, ONE, tmp_path / "slower", *sets)
    (file,) = (tmp_path / "slower").rglob("samples.parquet")
    seconds = pl.read_parquet(file).filter(pl.col("kind") == "goodput")["value"].to_list()
    # What is received in order comes in bursts where packets are lost.
    assert 9e6 < 8 * sum(seconds[1:4]) / 3 < 9.6e6
    assert 1.5e6 < 8 * sum(seconds[4:8]) / 4 < 2e6
    assert seconds[9] == 0, "nothing passes, and what was on its way has arrived"


def test_a_queue_is_looked_at_at_every_multiple_of_the_interval(kernel: Kernel, tmp_path: Path) -> None:
    import polars as pl

    sets = ["duration=3s", "record={queue: 5ms}", "hosts.a.cc=reno"]
    run(kernel, ONE, tmp_path / "out", *(part for change in sets for part in ("--set", change)))
    (file,) = (tmp_path / "out").rglob("queue.parquet")
    seen = pl.read_parquet(file).filter(pl.col("hop") == "bottleneck")
    assert seen["t_ns"].to_list() == list(range(0, 3 * 10**9, 5 * 10**6))
    # What waits is there before it is dropped, and a full queue is what drops.
    drops, packets = seen["drops"].to_list(), seen["backlog_packets"].to_list()
    assert drops == sorted(drops)
    assert drops[-1] > 0
    first = next(place for place, count in enumerate(drops) if count)
    assert max(packets[first - 1 : first + 1]) == 90
    assert packets[0] == 0


@pytest.mark.parametrize("queue", ["{kind: pfifo, limit: 40p}", "{kind: codel, limit: 100p}"])
def test_every_acknowledgement_and_every_change_of_a_queue_agree_with_looks(
    kernel: Kernel, tmp_path: Path, queue: str
) -> None:
    import polars as pl

    changes = ["--set", "duration=5s", "--set", f"network.dumbbell.bottleneck.queue={queue}"]
    for name, record in (
        ("often", "{tcp: per-ack, queue: per-change, pcap: [a]}"),
        ("looks", "{tcp: 10ms, queue: 10ms}"),
    ):
        run(kernel, ONE, tmp_path / name, *changes, "--set", f"record={record}")

    def table(out: str, name: str) -> pl.DataFrame:
        (file,) = (tmp_path / out).rglob(f"{name}.parquet")
        return pl.read_parquet(file)

    acknowledged, looks = table("often", "tcp"), table("looks", "tcp")
    (capture,) = (tmp_path / "often").rglob("*access.a.reverse.pcap")
    assert acknowledged["t_ns"].to_list() == sorted(set(times(capture)))
    states = ["cwnd_bytes", "ssthresh_bytes", "retransmits", "state", "srtt_ns"]
    known = (
        looks.select("t_ns", *states)
        .join_asof(
            acknowledged.select("t_ns", *(pl.col(name).alias(f"acked-{name}") for name in states)), on="t_ns"
        )
        .filter(pl.col("acked-cwnd_bytes").is_not_null())
    )
    for name in states[:-1]:
        assert known[name].to_list() == known[f"acked-{name}"].to_list()
    # To wake takes a part of a microsecond of virtual time, by which packets may be later.
    late = (known["srtt_ns"].cast(int) - known["acked-srtt_ns"].cast(int)).abs()
    assert late.median() == 0
    assert late.max() < 500_000
    changes_of, looked = (
        table(out, "queue").filter(pl.col("hop") == "bottleneck") for out in ("often", "looks")
    )
    counts = ["backlog_bytes", "backlog_packets", "drops"]
    same = looked.join_asof(
        changes_of.select("t_ns", *(pl.col(name).alias(f"{name}-changed") for name in counts)), on="t_ns"
    ).filter(pl.col("drops-changed").is_not_null())
    assert same["drops"].max() > 0
    # So a look may come before a change in one run and after it in the other, now and then.
    for name, step in zip(counts, (1514, 1, 1), strict=True):
        apart = (same[name].cast(int) - same[f"{name}-changed"].cast(int)).abs()
        assert apart.max() <= step
        assert (apart > 0).mean() < 0.02, name


def times(capture: Path) -> list[int]:
    """The times of a capture's packets, in ns."""
    data, found = capture.read_bytes(), []
    (magic,), at = struct.unpack_from("<I", data), 24
    assert magic == 0xA1B23C4D, "a capture with nanoseconds"
    while at < len(data):
        seconds, rest, kept = struct.unpack_from("<III", data, at)
        found.append(seconds * 10**9 + rest)
        at += 16 + kept
    return found


def test_any_number_of_jobs_writes_the_same_bytes_twice(kernel: Kernel, tmp_path: Path) -> None:
    found = []
    for number, jobs in enumerate(("1", "2", "1", "2")):
        run(kernel, CELLS, tmp_path / str(number), "--jobs", jobs)
        found.append(digests(tmp_path / str(number)))
    assert len(found[0]) >= 4
    assert found[1:] == [found[0]] * 3
    repeats = [data for name, data in found[0].items() if name.endswith("/tcp.parquet")]
    assert len(set(repeats)) == len(repeats), "repeats draw by the guest's seed"


def test_shards_and_the_workers_of_a_cluster_write_the_same_bytes(kernel: Kernel, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="Dask is an extra")
    short = CELLS.replace("4s", "1s")
    run(kernel, short, tmp_path / "whole", "--jobs", "1")
    whole = digests(tmp_path / "whole")
    assert len(whole) >= 4
    shards = [tmp_path / "one", tmp_path / "two"]
    for number, shard in enumerate(shards, 1):
        run(kernel, short, shard, "--shard", f"{number}/2")
    merge(shards, tmp_path / "merged")
    assert digests(tmp_path / "merged") == whole
    (tmp_path / "dask").mkdir()
    cluster = DaskCluster(tmp_path / "dask", workers=1)
    try:
        cluster.wait_for_workers()
        run(kernel, short, tmp_path / "cluster", "--cluster", str(cluster.file))
    finally:
        cluster.close()
    assert digests(tmp_path / "cluster") == whole


def test_a_kernel_that_fails_is_the_runs_error_with_its_console(kernel: Kernel) -> None:
    # The first process fails, which no kernel survives.
    step = {"write": {"node": 5, "path": "/proc/sys/net/ipv4/ip_forward", "text": "1"}}
    with pytest.raises(RunError, match=r"the kernel failed: .*panicked at .*Kernel panic"):
        guest.boot(kernel, {"nodes": 1, "steps": [step]}, seed=1)


def test_what_the_kernel_refuses_is_told(kernel: Kernel) -> None:
    step = {"write": {"node": 0, "path": "/proc/sys/net/ipv4/tcp_no_such", "text": "1"}}
    with pytest.raises(RunError, match="tcp_no_such"):
        guest.boot(kernel, {"nodes": 1, "steps": [step]}, seed=1)


@pytest.fixture
def place_of_all() -> Iterator[Path]:
    """A folder whose parents everybody may pass: pytest closes its own whenever it starts."""
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


def test_nobody_can_run_it(kernel: Kernel, place_of_all: Path) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root, to become somebody else")
    shutil.copytree(kernel.folder, place_of_all / "cache" / "cwndlab" / "kernels" / kernel.name)
    (place_of_all / "one.yaml").write_text(ONE.replace("30s", "3s"), encoding="utf-8")
    for place in (place_of_all, *place_of_all.rglob("*")):
        os.chown(place, 65534, 65534)
    who = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"]
    command = ["-m", "cwndlab", "run", "one.yaml", "--kernel", kernel.name, "-o", "out", "--no-report"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(place_of_all / "cache"), "HOME": str(place_of_all)}
    done = subprocess.run(
        [*who, sys.executable, *command],
        cwd=place_of_all,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
