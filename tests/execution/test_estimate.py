"""What a plan says that it will take, beside what runs took."""

import json
import re
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from cwndlab import load
from cwndlab.errors import InputError
from cwndlab.execution import estimate
from cwndlab.execution.cost import PROCESS_MEMORY
from experiments import dumbbell

LINUX, FREEBSD = "stack: linux-6.8, cc: cubic", "stack: freebsd-15-current, cc: newreno"


def text(bottleneck: str, a: str = LINUX, record: str = "", **more: str) -> str:
    stated = {
        "duration": "10s",
        "access": "40gbit",
        "more": f"record: {{{record}}}\n" if record else "",
    } | more
    return dumbbell("x", a=a, bottleneck=bottleneck, **stated)


SWEPT = text("rate: 10mbit, delay: 10ms", more="repeat: 4\n")

FILES = {
    "a full link": text("rate: 100mbit, delay: 10ms, queue: {kind: pfifo, limit: 200p}", record="pcap: true"),
    "every ACK": text("rate: 200mbit, delay: 20ms, queue: {kind: pfifo, limit: 1bdp}", record="tcp: per-ack"),
    "a window": text("rate: 1gbit, delay: 50ms", a=f"{LINUX}, rcvbuf: 256KB, sndbuf: 256KB"),
    "random loss": text("rate: 1gbit, delay: 20ms, loss: {random: 0.1%}", duration="60s"),
    "loss on FreeBSD": text("rate: 100mbit, delay: 20ms, loss: {random: 1%}", a=FREEBSD, duration="60s"),
    "a file": text(
        "rate: 100mbit, delay: 10ms", record="pcap: true", flow="name: f1, from: a, to: b, bytes: 20MB"
    ),
    "datagrams": text(
        "rate: 100mbit",
        record="pcap: true",
        flow="name: f1, from: a, to: b, app: {kind: udp-cbr, rate: 5mbit}",
    ),
    "many flows": text(
        "rate: 200mbit, delay: 10ms, queue: fq_codel", flow="name: f, from: a, to: b, count: 50"
    ),
    "a guest": text("rate: 1gbit, delay: 50ms", a="stack: quinn"),
    "slow start only": text("rate: 10gbit, delay: 100ms", duration="1s"),
    "bursts and a short queue": text(
        "rate: 40gbit, delay: 1ms, queue: {kind: pfifo, limit: 1000p}",
        duration="1s",
        a="stack: linux-6.18, cc: cubic, sndbuf: 1GB, rcvbuf: 1GB",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_packets_and_disk_are_right_within_a_factor_of_three(name: str, tmp_path: Path) -> None:
    experiment = load(FILES[name], ["repeat=1"])
    (cost,) = (json.loads(line)["cost"] for line in estimate.as_json(experiment.plan()).splitlines())
    results = experiment.run(out=tmp_path / "x")
    part = tmp_path / "x" / "runs" / "0-0"
    summary = json.loads((part / "runs.jsonl").read_text())["summary"]
    sent = sum(flow["segments_sent"] for flow in summary["flows"])
    written = sum(file.stat().st_size for file in part.iterdir())
    assert results.complete
    assert 1 / 3 < cost["packets"] / sent < 3
    assert 1 / 3 < cost["disk_bytes"] / written < 3


def test_a_guest_takes_longer_for_a_packet() -> None:
    def seconds(a: str) -> float:
        written = text("rate: 10mbit, delay: 10ms", a=a, duration="60s")
        return float(json.loads(estimate.as_json(load(written, ["repeat=1"]).plan()))["cost"]["seconds"])

    assert seconds("stack: quinn") > 2 * seconds(LINUX)


def test_datagrams_that_no_link_takes_cost_their_sender() -> None:
    flood = "name: f1, from: a, to: b, app: {kind: udp-cbr, rate: 10gbit, payload: 100B}"
    written = text("rate: 1mbit", flow=flood, duration="1000s")
    cost = json.loads(estimate.as_json(load(written, ["repeat=1"]).plan()))["cost"]
    assert cost["packets"] == pytest.approx(12.5e9, rel=0.01) and cost["seconds"] > 1000
    # Drops are events, of which a table takes so many.
    assert 100e6 < cost["disk_bytes"] < 1e9


def test_windows_and_applications_bound_what_is_sent() -> None:
    def packets(written: str) -> int:
        cost = json.loads(estimate.as_json(load(written, ["repeat=1"]).plan()))["cost"]
        return int(cost["packets"])

    full = packets(text("rate: 1gbit, delay: 10ms"))
    assert full > 700_000
    assert packets(text("rate: 1gbit, delay: 10ms", a=f"{LINUX}, rcvbuf: 64KB")) < full / 10
    assert packets(text("rate: 1gbit, delay: 10ms", flow="from: a, to: b, bytes: 1MB")) < 1000
    assert packets(text("rate: 1gbit, delay: 10ms", flow="from: a, to: b, start: 9s")) < full / 5


def test_what_the_disk_has_no_room_for_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 10**12 - 10**6, 10**6))
    much = text("rate: 1gbit, delay: 10ms", record="tcp: per-ack, pcap: true")
    with pytest.raises(InputError) as refused:
        load(much).run(out=tmp_path / "x")
    assert re.search(
        r"x: results take about \d+ MB, and the disk has 1 MB free; record less: record\.pcap at fewer"
        r" places, with a smaller snaplen, or false \(\d+ MB\); record\.tcp 10ms instead of per-ack"
        r" \(2\.\d MB\)",
        str(refused.value),
    )
    assert not (tmp_path / "x").exists()
    assert "warning: results take about" in estimate.as_text(load(much).plan(), 1)


def test_what_memory_has_no_room_for_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = "sndbuf: 2000MB, rcvbuf: 2000MB"
    large = load(
        text("rate: 10gbit, delay: 100ms, queue: {kind: pfifo, limit: 100000000p}", a=f"{LINUX}, {buffers}")
    )
    little = load(text("rate: 10mbit, delay: 10ms", duration="100ms"))
    told = tmp_path / "meminfo"
    told.write_text("MemTotal: 24000000 kB\nMemFree: 100 kB\nMemAvailable:   300000 kB\n")
    monkeypatch.setattr(estimate, "MEMINFO", told)
    with pytest.raises(InputError) as refused:
        large.run(out=tmp_path / "x")
    assert re.search(
        r"x: the largest run takes up to \d+ MB of memory, and 307 MB are free; smaller socket buffers",
        str(refused.value),
    )
    assert not (tmp_path / "x").exists()
    assert "warning: 4 runs at a time take up to" in estimate.as_text(load(SWEPT).plan(), 4)
    assert little.run(out=tmp_path / "y").complete
    told.write_text("nothing that is known")
    assert "warning" not in estimate.as_text(large.plan(), 1)


def test_fast_links_beside_a_slow_one_take_no_memory() -> None:
    """Buffers and fast, long links let a million packets be on their way, and acknowledgements do not."""

    def memory(access: str, bottleneck: str) -> int:
        hosts = f"{LINUX}, count: 20, sndbuf: 256MB, rcvbuf: 256MB"
        nothing = 'tcp: "off", queue: "off"'
        written = text(bottleneck, a=hosts, record=nothing, access=access, duration="600s")
        cost = json.loads(estimate.as_json(load(written, ["repeat=1"]).plan()))["cost"]
        return int(cost["memory_bytes"]) - PROCESS_MEMORY

    wide, slow = (
        "100gbit, delay: 100ms",
        "rate: 100mbit, delay: 50ms, queue: {kind: pfifo, limit: 1bdp}",
    )
    # Measured, such a run takes some 10 MB more than a process of cwndlab that does nothing.
    assert memory(wide, slow) < 50e6
    assert memory(wide, slow.replace("100mbit", "10gbit")) > 600e6
    long = slow.replace("pfifo", "bfifo").replace("1bdp", "500MB")
    assert memory(wide, long) > 200e6, "a long queue can be full"


def test_a_limit_that_is_reached_is_said(tmp_path: Path) -> None:
    little = text("rate: 10mbit, delay: 10ms", record="pcap: [a], limit: 10KB", duration="1s")
    results = load(little).run(out=tmp_path / "x")
    (brief,) = results.briefs
    assert any(said.startswith("table tcp ends at 0.") for said in brief.warnings)
    assert any(
        said.startswith("the capture at a ends early, at its limit of 10000 B") for said in brief.warnings
    )
    assert (tmp_path / "x" / "runs" / "0-0" / "0-a.pcap").stat().st_size <= 10_000
