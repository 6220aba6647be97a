"""Public stacks in C as guests, by the adapters in examples/guests: ngtcp2, and a tree of lwIP.

CWNDLAB_LWIP names such a tree: that of Debian's source package lwip, say.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import cwndlab as api
from cwndlab.foreign.compilation import HERE
from experiments import dumbbell

GUESTS = Path(__file__).parents[2] / "examples" / "guests"
FLAGS = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{HERE / 'guest'}"]
STRICT = ["-Wall", "-Wextra", "-Werror"]


@pytest.fixture(scope="module")
def ngtcp2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if subprocess.run(
        ["cc", "-x", "c", "-fsyntax-only", "-include", "ngtcp2/ngtcp2.h", os.devnull],
        capture_output=True,
        check=False,
    ).returncode:
        pytest.skip("needs ngtcp2 (Debian: libngtcp2-dev)")
    library = tmp_path_factory.mktemp("ngtcp2") / "ngtcp2.so"
    subprocess.run(["cc", *FLAGS, *STRICT, GUESTS / "ngtcp2.c", "-lngtcp2", "-o", library], check=True)
    return library


@pytest.fixture(scope="module")
def lwip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = os.environ.get("CWNDLAB_LWIP")
    if not tree:
        pytest.skip("no tree of lwIP: CWNDLAB_LWIP names none")
    core, own = Path(tree) / "src" / "core", GUESTS / "lwip"
    library = tmp_path_factory.mktemp("lwip") / "lwip.so"
    sources = [own / "lwip.c", *sorted(core.glob("*.c")), *sorted((core / "ipv4").glob("*.c"))]
    folders = [f"-I{own}", f"-I{core.parent / 'include'}"]
    subprocess.run(["cc", *FLAGS, *folders, *sources, "-o", library], check=True)
    return library


def experiment(cc: str, other: str) -> str:
    """A transfer either way between the guest and another stack, over a short queue and a link that loses."""
    return (
        dumbbell(
            "public",
            duration="40s",
            a=f"stack: guest:mine, cc: {cc}",
            b=f"stack: {other}",
            bottleneck="rate: 10mbit, delay: 15ms, queue: {kind: pfifo, limit: 25p}, loss: {random: 0.3%}",
            flow="name: f, from: a, to: b, app: {kind: fixed, size: 3MB}",
        )
        + "  - {name: g, from: b, to: a,"
        + " app: {kind: request-response, requests: 5, request: 100B, response: 20KB}}\n"
    )


def carried(text: str, guest: Path, folder: Path) -> list[dict[str, Any]]:
    """The summary of a run's flows, which is the same at any number of processes, two hosts of it in one."""
    one, two = (
        api.load(text + "repeat: 2\n", guest=[f"mine={guest}"]).run(out=folder / str(jobs), jobs=jobs)
        for jobs in (1, 2)
    )
    for run in range(2):
        first, second = (results.rows(run).drop_columns(["run_id"]).to_pylist() for results in (one, two))
        assert first == second
    flows: list[dict[str, Any]] = one.summary.to_dicts()
    assert [flow["status"] for flow in flows] == ["complete"] * 4, flows
    return flows


@pytest.mark.slow
@pytest.mark.parametrize("cc", ["cubic", "reno", "bbr", "bbr2"])
def test_ngtcp2_carries_transfers(cc: str, ngtcp2: Path, tmp_path: Path) -> None:
    flows = carried(experiment(cc, "guest:mine"), ngtcp2, tmp_path)
    for flow in flows:
        if flow["flow"] == "f":
            # 3 MB take 2.4 s at 10 Mbit/s without headers.
            assert 2.4 < flow["completion_s"] < 20, flow
            assert flow["srtt_mean_ms"] >= 30, flow
            assert flow["cwnd_mean_bytes"] > 2000, flow
            assert 0.1 < flow["retransmit_rate"] * 100 < 50, flow


@pytest.mark.slow
@pytest.mark.parametrize("other", ["guest:mine", "linux-6.18", "freebsd-15-current"])
def test_lwip_carries_transfers_with_any_tcp(other: str, lwip: Path, tmp_path: Path) -> None:
    flows = carried(experiment("newreno", other), lwip, tmp_path)
    for flow in flows:
        if flow["flow"] == "f":
            assert 2.4 < flow["completion_s"] < 40, flow
            assert flow["cwnd_mean_bytes"] > 1460, flow
            assert flow["rtos"] + flow["fast_recoveries"] > 0, flow
