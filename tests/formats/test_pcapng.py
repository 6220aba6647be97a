"""A run's captures as one pcapng file, as tshark reads it."""

import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

import cwndlab
from cwndlab import _native
from cwndlab.errors import InputError
from cwndlab.formats import exporters
from cwndlab.results.resultset import ResultSet
from experiments import dumbbell
from needs import need
from patience import PATIENCE

pytestmark = pytest.mark.slow

FULL = "rate: 10mbit, delay: 10ms, queue: {kind: pfifo, limit: 20p}"
MARKING = "rate: 10mbit, delay: 10ms, queue: {kind: fq_codel, ecn: true}"


@dataclass(frozen=True)
class Frame:
    """A packet, as tshark tells it."""

    time_ns: int
    point: str
    port: int
    seq: int
    length: int
    ce: bool
    comment: str


def ran(folder: Path, bottleneck: str, more: str = "", points: str = "[bottleneck, a, b]") -> ResultSet:
    text = dumbbell(
        "annotated",
        duration="3s",
        a=f"stack: linux-6.18, cc: cubic{more}",
        bottleneck=bottleneck,
        more=f"record: {{pcap: {points}}}\n",
    )
    return cwndlab.load(text).run(out=folder / "results")


def frames(results: ResultSet, folder: Path) -> list[Frame]:
    need(None if shutil.which("tshark") else "tshark is not on PATH")
    (file,) = exporters.export(results, "pcapng", folder)
    fields = [
        "frame.time_epoch",
        "frame.interface_name",
        "tcp.srcport",
        "tcp.seq",
        "tcp.len",
        "ip.dsfield.ecn",
    ]
    fields.append("frame.comment")
    asked = [word for field in fields for word in ("-e", field)]
    told = subprocess.run(
        ["tshark", "-r", file, "-T", "fields", "-E", "separator=|", *asked],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    found = []
    for line in told.stdout.splitlines():
        time, point, port, seq, length, ecn, comment = line.split("|")
        second, _, fraction = time.partition(".")
        ns = int(second) * 10**9 + int(fraction.ljust(9, "0"))
        found.append(Frame(ns, point, int(port), int(seq), int(length), ecn == "3", comment))
    return found


def test_what_was_dropped_was_sent_again_and_what_waited_longer_say_so(tmp_path):
    results = ran(tmp_path, FULL)
    found = frames(results, tmp_path / "out")
    assert {frame.point for frame in found} == {"a", "b", "bottleneck"}
    assert [frame.time_ns for frame in found] == sorted(frame.time_ns for frame in found)
    # As many packets at each point as its own capture has.
    alone = {file.stem.partition("-")[2]: _native.Capture(str(file), False) for file in results.captures(0)}
    packets = {
        name: sum(
            way["packets"] for each in capture.connections() for way in (each["forward"], each["backward"])
        )
        for name, capture in alone.items()
    }
    assert Counter(frame.point for frame in found) == packets

    events = pl.DataFrame(pl.from_arrow(results.rows(0, "events")))
    drops = events.filter(pl.col("kind").cast(pl.String) == "drop")
    assert drops.height > 3
    here = [frame for frame in found if "dropped here" in frame.comment]
    assert [(frame.point, frame.seq - 1) for frame in here] == [("bottleneck", seq) for seq in drops["seq"]]
    assert all(frame.comment.endswith("dropped here: its queue was full") for frame in here)
    ahead = [frame for frame in found if "dropped at bottleneck" in frame.comment]
    assert [(frame.point, frame.seq) for frame in ahead] == [("a", frame.seq) for frame in here]
    for frame, dropped in zip(ahead, here, strict=True):
        after = f"{(dropped.time_ns - frame.time_ns) / 1e6:.3f}"
        assert f"dropped at bottleneck after {after} ms: its queue was full" in frame.comment

    # Every retransmission that left is told from the others, and numbered by how often its data was sent.
    sent = Counter()
    for frame in found:
        if frame.point == "a" and frame.length:
            number = re.search(r"retransmission (\d+)", frame.comment)
            assert (int(number[1]) if number else 0) == sent[frame.seq], frame
            sent[frame.seq] += 1
    assert sum(sent.values()) > len(sent)

    # What waited is what arrived later after it left than the first did, to the microsecond.
    left = {(frame.seq, times): frame.time_ns for frame, times in copies(found, "a")}
    arrived = [
        frame for frame in found if frame.point == "b" and frame.length == 1448 and sent[frame.seq] == 1
    ]
    took = {frame: frame.time_ns - left[frame.seq, 1] for frame in arrived}
    quickest = min(took.values())
    for frame, time in took.items():
        longer = (time - quickest) // 1000
        expected = f"{longer // 1000}.{longer % 1000:03} ms longer from a than the quickest" if longer else ""
        assert frame.comment == expected
    assert max(took.values()) - quickest > 15_000_000  # a queue of 20 packets at 10 Mbit/s


def copies(found, point):
    seen = Counter()
    for frame in found:
        if frame.point == point and frame.length:
            seen[frame.seq] += 1
            yield frame, seen[frame.seq]


def test_marks_are_told_where_they_are_made_and_behind(tmp_path):
    found = frames(ran(tmp_path, MARKING, ", ecn: on"), tmp_path / "out")
    here = [frame for frame in found if "marked CE here" in frame.comment]
    assert here and {frame.point for frame in here} == {"bottleneck"} and not any(frame.ce for frame in here)
    assert all(
        re.search(r"marked CE here after \d+\.\d{3} ms: its fq_codel$", frame.comment) for frame in here
    )
    behind = [frame for frame in found if frame.ce]
    assert {frame.point for frame in behind} == {"b"}
    assert all("marked CE on the way" in frame.comment for frame in behind)
    assert {frame.seq for frame in behind} == {frame.seq for frame in here}


def test_a_run_without_captures_is_refused(tmp_path):
    results = ran(tmp_path, FULL, points="false")
    with pytest.raises(InputError, match="these runs hold nothing that pcapng has a place for"):
        list(exporters.export(results, "pcapng", tmp_path / "out"))
