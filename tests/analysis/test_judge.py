"""Faults of congestion controls, each named by the reference that is fed with what they saw."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import cwndlab
import mvfst
from cwndlab.analysis.judge import sources, stream, verdicts, words
from cwndlab.analysis.judge.verdicts import Judgement
from cwndlab.cli.application import main
from cwndlab.errors import InputError
from cwndlab.formats import ack_stream, base, exporters
from experiments import dumbbell

MSS = 1448
CUBIC = "cubic@linux-6.18"
FAULTY = Path(__file__).with_name("faulty_cubic.py")


def judged(path: Path, against: str = CUBIC, mss: int = MSS, **chosen: str) -> Judgement:
    source = sources.read(path, chosen.get("flow"), chosen.get("run"))
    return verdicts.judge(stream.of(source), against, mss)


CAPTURED = ", pcap: [a]"
"""A capture at the sender, which tells what was acknowledged."""

DROPS = "rate: 20mbit, delay: 20ms, queue: {kind: pfifo, limit: 60p}"


def simulated(
    tmp_path: Path,
    cc: str,
    modules: list[str],
    stack: str = "linux-6.18",
    *,
    path: str = DROPS,
    host: str = "",
    app: str = "bulk",
    pcap: str = "",
) -> Path:
    # FreeBSD's own buffers hold less than the path does: nothing would be lost.
    host += ", sndbuf: 2MB, rcvbuf: 2MB" if stack.startswith("freebsd") else ""
    text = dumbbell(
        "judged",
        duration="20s",
        a=f"stack: {stack}, cc: {cc}{host}",
        bottleneck=path,
        flow=f"name: f1, from: a, to: b, app: {app}",
        more=f"record: {{tcp: per-ack{pcap}}}\n",
    )
    cwndlab.load(text, cc=modules).run(out=tmp_path / "results")
    return tmp_path / "results"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "compared", "named"),
    [
        ("FastConvergenceOfTheWindow", "loss", "0.70 x 0.85: the factor of fast convergence"),
        ("TwoReductions", "loss", "0.70 x 0.70: the window is reduced twice for one loss"),
        ("Pinned", "loss", "the window is pinned at its minimum, 2.0 packets"),
        ("TwiceTheGrowth", "avoidance", "the window grows twice as fast"),
        ("NoGrowth", "avoidance", "the window does not grow"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, fault: str, compared: str, named: str) -> None:
    found = judged(simulated(tmp_path, "mine", [f"mine={FAULTY}:{fault}"]))
    assert found.first is not None
    assert found.first.compared == compared
    assert named in found.causes[compared]
    assert "RFC 9438 section" in found.causes[compared]


@pytest.mark.slow
@pytest.mark.parametrize("stack", ["freebsd-13", "freebsd-15-current"])
@pytest.mark.parametrize(
    ("fault", "cc", "told"),
    [
        ("TwoReductions", "cubic", ("loss", "0.70 x 0.70: the window is reduced twice for one loss")),
        ("NewRenoWithTwiceTheGrowth", "newreno", ("avoidance", "the window grows twice as fast")),
    ],
)
def test_a_fault_is_named_beside_a_reference_of_freebsd(
    tmp_path: Path, stack: str, fault: str, cc: str, told: tuple[str, str]
) -> None:
    results = simulated(tmp_path, "mine", [f"mine={FAULTY}:{fault}"], stack)
    found = judged(results, f"{cc}@{stack}")
    assert found.first is not None
    compared, named = told
    assert found.first.compared == compared, words.text(found, fault)
    assert named in found.causes[compared]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "named"),
    [
        ("SlowStartOfTwiceTheBytes", "the window grows twice as fast"),
        ("NoSlowStart", "there is no slow start from the beginning on"),
    ],
)
def test_a_fault_of_slow_start_is_named_where_a_capture_tells_what_was_acknowledged(
    tmp_path: Path, fault: str, named: str
) -> None:
    found = judged(simulated(tmp_path, "mine", [f"mine={FAULTY}:{fault}"], pcap=CAPTURED))
    assert found.first is not None
    assert found.first.compared == "slow-start", words.text(found, fault)
    assert named in found.causes["slow-start"]


APPS = [
    "bulk",
    "{kind: on-off, on: 100ms, off: 2000ms}",
    "{kind: on-off, on: 1500ms, off: 300ms, rate: 10mbit, write: 1448B}",
    "{kind: rate-limited, rate: 10mbit, write: 16KB}",
    "{kind: on-off, on: 700ms, off: 800ms, distribution: exponential}",
]


@pytest.mark.slow
@pytest.mark.parametrize("path", [DROPS, DROPS.replace("queue", "loss: {random: 0.1%}, queue")])
@pytest.mark.parametrize("app", APPS)
@pytest.mark.parametrize("against", ["cubic@linux-6.18", "reno@linux-6.12", "cubic@linux-7.3"])
def test_a_sender_of_linux_that_its_application_holds_back_is_as_its_reference(
    tmp_path: Path, against: str, app: str, path: str
) -> None:
    cc, _, stack = against.partition("@")
    results = simulated(tmp_path, cc, [], stack, app=app, path=path, pcap=CAPTURED)
    found = judged(results, against)
    assert found.first is None, words.text(found, against)
    told = {each.compared: each.count for each in found.spreads()}
    assert told["slow-start"] >= 2
    assert not any("slow start is not judged" in note for note in found.notes)


RESTS = "{kind: on-off, on: 1500ms, off: 2000ms, rate: 25mbit, write: 4KB}"
SLOW = "{kind: on-off, on: 1500ms, off: 100ms, rate: 1mbit, write: 16KB}"
TAIL = "queue: {kind: pfifo, limit: 20p}"

HELD_BACK = [
    # Linux 3.9 counts ACKs, also those whose data the receiver had read before.
    ("cubic@linux-3.9", RESTS, f"rate: 5mbit, delay: 100ms, loss: {{random: 0.1%}}, {TAIL}"),
    (
        "reno@linux-3.9",
        "{kind: rate-limited, rate: 15mbit, write: 1448B}",
        f"rate: 20mbit, delay: 50ms, loss: {{random: 0.1%}}, {TAIL}",
    ),
    # The end of a recovery leaves no burst: the window is what is in flight, and the threshold is judged.
    ("cubic@linux-3.9", RESTS, f"rate: 5mbit, delay: 50ms, loss: {{random: 1%}}, {TAIL}"),
    # A loss that a loss probe mended reduces at once, in the ACK that tells it.
    (
        "reno@linux-6.12",
        SLOW,
        "rate: 50mbit, delay: 5ms, loss: {random: 1%}, queue: {kind: fq_codel}",
    ),
]
"""Senders that their application holds back, each with application and path."""


@pytest.mark.slow
@pytest.mark.parametrize("pcap", ["", CAPTURED])
@pytest.mark.parametrize(("against", "app", "path"), HELD_BACK)
def test_what_a_sender_of_linux_does_of_its_own_is_no_difference(
    tmp_path: Path, against: str, app: str, path: str, pcap: str
) -> None:
    cc, _, stack = against.partition("@")
    found = judged(simulated(tmp_path, cc, [], stack, path=path, app=app, pcap=pcap), against)
    assert found.first is None, words.text(found, against)
    assert {each.compared for each in found.spreads()} & {"loss", "avoidance"}


@pytest.mark.slow
@pytest.mark.parametrize("against", ["newreno@freebsd-13", "cubic@freebsd-15-current"])
def test_slow_start_of_freebsd_is_as_its_reference(tmp_path: Path, against: str) -> None:
    cc, _, stack = against.partition("@")
    found = judged(simulated(tmp_path, cc, [], stack, pcap=CAPTURED), against)
    assert found.first is None, words.text(found, against)
    assert {each.compared: each.count for each in found.spreads()}["slow-start"] >= 2


CODEL = "rate: 20mbit, delay: 20ms, queue: {kind: codel, limit: 1000p, ecn: true}"
RANDOM = "rate: 20mbit, delay: 20ms, loss: {random: 0.1%}, queue: {kind: pfifo, limit: 60p}"
# One timeout of FreeBSD, two in a row of Linux, which has found what was lost without a timeout after 0.2 s.
SHORT = DROPS + ", schedule: [{at: 8s, set: {down: true}}, {at: 8.2s, set: {down: false}}]"
OUTAGE = SHORT.replace("8.2s", "9s")

PATHS = [
    ("", CODEL, ", ecn: on", {"ecn", "avoidance"}),
    ("", RANDOM, "", {"loss", "avoidance"}),
    ("freebsd", SHORT, "", {"loss", "timeout", "threshold", "avoidance"}),
    ("linux", OUTAGE, "", {"loss", "timeout", "threshold", "avoidance"}),
]

OWN = [
    "cubic@freebsd-13",
    "newreno@freebsd-13",
    "cubic@freebsd-15-current",
    "newreno@freebsd-15-current",
    "cubic@linux-6.12",
    "reno@linux-6.18",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("against", "path", "host", "kinds"),
    [
        (against, *rest)
        for family, *rest in PATHS
        for against in OWN
        if against.partition("@")[2].startswith(family)
    ],
)
def test_ecn_chance_and_a_timeout_make_no_difference(
    tmp_path: Path, against: str, path: str, host: str, kinds: set[str]
) -> None:
    cc, _, stack = against.partition("@")
    found = judged(simulated(tmp_path, cc, [], stack, path=path, host=host), against)
    assert found.first is None, words.text(found, against)
    assert {each.compared for each in found.spreads()} >= kinds


@pytest.mark.slow
@pytest.mark.parametrize(
    "app", ["{kind: on-off, on: 1500ms, off: 800ms}", "{kind: rate-limited, rate: 8mbit}"]
)
@pytest.mark.parametrize("against", [each for each in OWN if "freebsd" in each])
def test_an_application_that_rests_or_has_a_rate_makes_no_difference(
    tmp_path: Path, against: str, app: str
) -> None:
    """FreeBSD takes every window for one that was used."""
    cc, _, stack = against.partition("@")
    found = judged(simulated(tmp_path, cc, [], stack, app=app), against)
    assert found.first is None, words.text(found, against)
    assert {each.compared for each in found.spreads()} >= {"loss", "avoidance"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cc", "against"),
    [
        ("cubic", CUBIC),
        ("mine", CUBIC),
        ("reno", "reno@linux-6.18"),
        ("cubic", "cubic@linux-6.8"),
        ("cubic", "cubic@freebsd-13"),
        ("newreno", "newreno@freebsd-13"),
        ("cubic", "cubic@freebsd-15-current"),
        ("newreno", "newreno@freebsd-15-current"),
    ],
)
def test_a_sender_without_a_fault_is_as_the_reference(tmp_path: Path, cc: str, against: str) -> None:
    modules = [f"mine={FAULTY}:Cubic"] if cc == "mine" else []
    stack = against.partition("@")[2]
    found = judged(simulated(tmp_path, cc, modules, stack), against)
    told = {each.compared: each for each in found.spreads()}
    assert found.first is None, words.text(found, cc)
    assert told["loss"].count >= 3
    assert told["avoidance"].count > 100
    told_how = [note for note in found.notes if "not what was acknowledged" in note]
    assert [note.partition("; ")[2] for note in told_how] == [
        "with record: {tcp: per-ack, pcap: [a]} a capture at the sender tells"
    ]


def test_results_with_a_row_now_and_then_are_refused(tmp_path: Path) -> None:
    # Slow start that ends between two rows looks like growth five times as fast as CUBIC's.
    path = "rate: 20mbit, delay: 20ms"
    host, more = "stack: linux-6.18, cc: cubic", "record: {tcp: 20ms}\n"
    text = dumbbell("judged", duration="1s", a=host, bottleneck=path, more=more)
    cwndlab.load(text).run(out=tmp_path / "r")
    with pytest.raises(InputError, match=r"rows every 20 ms .* record: \{tcp: per-ack\}"):
        sources.read(tmp_path / "r", None, None)


@pytest.mark.slow
def test_recoveries_count_and_not_each_loss_where_both_are_told(tmp_path: Path) -> None:
    """Exported as qlog, a loss stands where the path dropped the packet, a round trip before the reaction."""
    results = cwndlab.ResultSet(simulated(tmp_path, "cubic", []))
    [file] = exporters.export(results, "qlog", tmp_path / "out")
    found = judged(file)
    told = {each.compared: (each.count, each.differ) for each in found.spreads()}
    assert told["loss"][0] >= 3
    assert told["loss"][1] == 0


@pytest.mark.slow
def test_the_other_algorithm_is_told_by_its_factor(tmp_path: Path) -> None:
    found = judged(simulated(tmp_path, "reno", []))
    assert "the factor of Reno (RFC 5681), not CUBIC's" in found.causes["loss"]
    ratios = {each.compared: each.ratios for each in found.spreads()}["loss"]
    assert ratios is not None and ratios[1] == pytest.approx(0.5 / 0.7, abs=0.01)


Row = tuple[float, str, int, float | None, int, int]


def csv_of(tmp_path: Path, rows: Iterator[Row]) -> Path:
    file = tmp_path / "acks.csv"
    lines = (",".join("" if cell is None else str(cell) for cell in row) for row in rows)
    file.write_text("\n".join([ack_stream.HEADER, *lines]) + "\n")
    return file


def acks(*, growth: int = 1, factor: float = 0.7, every: int = 1, limited: bool = False) -> Iterator[Row]:
    """Slow start to 160 packets, a loss, and three round trips of 50 ms without growth to speak of."""
    at, window = 0.0, 10 * MSS
    for n in range(8):
        packets = 4 if limited else window // MSS
        flight = packets * MSS
        if n == 4:
            yield round(at, 6), "loss", MSS, None, flight, window
            window = int(factor * window)
        for _ in range(0, packets, every):
            at += 0.05 * every / packets
            window += growth * every * MSS if n < 4 and not limited else 0
            yield round(at, 6), "ack", every * MSS, 50.0, flight, window


def test_slow_start_and_a_reduction_of_a_csv_are_compared(tmp_path: Path) -> None:
    found = judged(csv_of(tmp_path, acks()))
    told = {each.compared: (each.count, each.differ) for each in found.spreads()}
    assert told["slow-start"][1] == 0
    assert told["slow-start"][0] >= 3
    assert told["loss"] == (1, 0)


def test_twice_the_growth_of_slow_start_is_named(tmp_path: Path) -> None:
    found = judged(csv_of(tmp_path, acks(growth=2)))
    assert found.first is not None and found.first.compared == "slow-start"
    assert "twice as fast" in found.causes["slow-start"]


def test_a_connection_without_slow_start_is_named(tmp_path: Path) -> None:
    found = judged(csv_of(tmp_path, acks(growth=0)))
    assert found.first is not None and found.first.compared == "slow-start"
    assert "there is no slow start from the beginning on" in found.causes["slow-start"]


def test_growth_of_a_window_that_is_not_used_up_is_named(tmp_path: Path) -> None:
    rows = ((at, event, n, rtt, 4 * MSS, cwnd) for at, event, n, rtt, _, cwnd in acks() if event == "ack")
    found = judged(csv_of(tmp_path, rows))
    assert found.first is not None and found.first.compared == "slow-start"
    assert "the window grows though the sender does not use it up" in found.causes["slow-start"]


@pytest.mark.parametrize(
    ("left", "named"),
    [
        (110, "slow start goes on above its threshold of 70 packets"),
        (20, "slow start ends at 20 packets, below its threshold of 70"),
    ],
)
def test_slow_start_that_ends_at_another_window_than_the_threshold_is_named(left: int, named: str) -> None:
    """After a timeout the threshold is told; the window leaves slow start elsewhere."""
    rows, at, window = [], 0.0, 100
    for n in range(12):
        acked = window
        if n == 2:
            window = 1
        for _ in range(acked if n != 2 else 1):
            at += 0.05 / acked
            window += 1 if n > 2 and window < left else 0
            threshold = 70 if n >= 2 else 10
            rows.append((at, window * MSS, threshold * MSS, min(window, acked) * MSS))
    tcp = pl.DataFrame(
        {
            "t_ns": [int(1e9 * row[0]) for row in rows],
            "cwnd_bytes": [row[1] for row in rows],
            "ssthresh_bytes": [row[2] for row in rows],
            "inflight_bytes": [row[3] for row in rows],
            "delivered_bytes": [MSS * n for n in range(len(rows))],
            "rtt_ns": [50_000_000] * len(rows),
            "srtt_ns": [50_000_000] * len(rows),
            "state": ["open"] * len(rows),
        }
    )
    events = pl.DataFrame({"t_ns": [int(1e9 * 0.1001)], "kind": ["rto"], "value": [0]})
    source = sources.Source("log", "f", tcp, events, MSS, simulated=False, before=False, others=0)
    found = verdicts.judge(stream.of(source), CUBIC, MSS)
    assert named in found.causes.get("slow-start", ""), words.text(found, "log")


def test_a_window_that_falls_stands_for_a_loss_that_nothing_tells(tmp_path: Path) -> None:
    found = judged(csv_of(tmp_path, (row for row in acks(factor=0.49) if row[1] != "loss")))
    assert "the window is reduced twice for one loss" in found.causes["loss"]
    assert any("losses are not recorded" in note for note in found.notes)


def test_a_window_that_the_application_leaves_unused_is_no_fault(tmp_path: Path) -> None:
    found = judged(csv_of(tmp_path, acks(limited=True)))
    assert found.first is None


def test_rows_that_are_too_sparse_say_so(tmp_path: Path) -> None:
    file = csv_of(tmp_path, (row for n, row in enumerate(acks()) if n % 60 == 0 or row[1] != "ack"))
    found = judged(file)
    assert any("too few to judge growth" in note for note in found.notes)
    assert {each.compared for each in found.verdicts} <= set(verdicts.REDUCTIONS)
    rows = [row for n, row in enumerate(acks()) if n % 900 == 0]
    found = judged(csv_of(tmp_path, iter(rows)))
    assert found.verdicts == []
    assert "These rows cannot tell" in words.text(found, "rows")


def test_rows_without_an_ack_tell_nothing(tmp_path: Path) -> None:
    """A log whose flight never falls, as one that samples it after the sender has filled it again."""
    kept = ((at, event, 0, rtt, flight, window) for at, event, _, rtt, flight, window in acks(factor=0.49))
    found = judged(csv_of(tmp_path, kept))
    assert found.verdicts == []
    assert "0.00 ACKs in a round trip are too few to tell anything" in found.notes


def test_an_event_that_is_none_is_refused(tmp_path: Path) -> None:
    file = csv_of(tmp_path, iter([(0.0, "akc", MSS, 50.0, MSS, MSS)]))
    with pytest.raises(InputError, match="event 'akc' is none of ack, loss, timeout, ecn, app-limited"):
        base.read(file)


def test_what_is_no_reference_is_refused_with_those_there_are(tmp_path: Path) -> None:
    file = csv_of(tmp_path, acks())
    with pytest.raises(InputError, match=r"bbr@linux-6\.18: no reference; there are .*cubic@linux-6\.18"):
        judged(file, "bbr@linux-6.18")
    with pytest.raises(InputError, match="--flow"):
        judged(file, flow="nobody")


@pytest.mark.parametrize(
    ("factor", "against", "named"),
    [
        (0.595, "cubic@freebsd-15-current", "is 0.70 x 0.85: the factor of fast convergence"),
        (0.7, "cubic@freebsd-15-current", "keeps from the second reduction on: the first halves"),
        (0.0125, "cubic@freebsd-13", "the window is pinned at its minimum, 2.0 packets"),
        (0.25, "newreno@freebsd-13", "0.50 x 0.50: the window is reduced twice for one loss"),
        (0.7, "newreno@freebsd-15-current", "the factor of CUBIC (RFC 9438), not Reno's"),
    ],
)
def test_a_wrong_factor_is_named_beside_freebsd(
    tmp_path: Path, factor: float, against: str, named: str
) -> None:
    found = judged(csv_of(tmp_path, acks(factor=factor)), against)
    assert found.first is not None and found.first.compared == "loss"
    assert named in found.causes["loss"]


def test_freebsd_adds_what_is_acknowledged_in_slow_start_and_the_first_loss_halves(tmp_path: Path) -> None:
    for factor, against in ((0.5, "newreno@freebsd-15-current"), (0.49, "cubic@freebsd-13")):
        found = judged(csv_of(tmp_path, acks(factor=factor)), against)
        told = {each.compared: (each.count, each.differ) for each in found.spreads()}
        assert told["slow-start"][0] >= 3
        assert (told["slow-start"][1], told["loss"]) == (0, (1, 0)), words.text(found, against)


def test_text_has_80_columns_and_json_the_same_figures(tmp_path: Path) -> None:
    found = judged(csv_of(tmp_path, acks(factor=0.49)))
    assert found.first is not None
    text = words.text(found, "acks.csv, flow")
    assert max(map(len, text.splitlines())) <= 80
    document: dict[str, Any] = json.loads(words.as_json(found, "acks.csv, flow"))
    assert document["first"]["found_bytes"] == found.first.found
    assert f"{found.first.found} bytes" in text
    assert document["first"]["why"] == found.causes["loss"]
    assert len(document["verdicts"]) == len(found.verdicts)


@pytest.mark.parametrize("newer", [False, True])
@pytest.mark.parametrize(("factor", "differ"), [(0.7, 0), (0.5, 1), (0.49, 1)])
def test_logs_of_mvfst_are_judged(tmp_path: Path, newer: bool, factor: float, differ: int) -> None:
    file = tmp_path / "mvfst.qlog"
    file.write_text(mvfst.Sender(newer=newer, factor=factor).run())
    found = judged(file, mss=mvfst.SIZE)
    told = {each.compared: (each.count, each.differ) for each in found.spreads()}
    assert told["slow-start"] == (3, 0)
    assert told["loss"] == (1, differ)
    assert found.first is not None
    assert (found.first.compared == "loss") == (differ > 0)


STREAMS = Path(__file__).with_name("streams")

KNOWN = [
    ("quinn-0.11.14.csv", 1452, "loss", "0.595 is 0.70 x 0.85: the factor of fast convergence"),
    ("quiche-0.25.0.sqlog", 1350, "avoidance", "the window is pinned at its minimum, 2.0 packets"),
    ("msquic-before-2304.csv", 1200, "threshold", "0.70 x 0.70: the window is reduced twice for one loss"),
    (
        "ngtcp2-before-2287.csv",
        1200,
        "avoidance",
        "packets here, and growth counted by ACKs is slower",
    ),
    ("quicly-dc9905b.csv", 1200, "slow-start", "there is no slow start from the beginning on"),
]
"""Streams of public stacks with known faults: packet, what is compared first, and words of the cause."""


@pytest.mark.parametrize(("file", "mss", "compared", "named"), KNOWN)
def test_a_known_fault_of_a_public_stack_is_named(file: str, mss: int, compared: str, named: str) -> None:
    found = judged(STREAMS / f"{file}.xz", mss=mss)
    assert found.first is not None
    assert (found.first.compared, named in found.causes[compared]) == (compared, True), found.causes


@pytest.mark.parametrize(
    ("file", "mss", "kinds"),
    [
        ("quinn-0.11.19.csv", 1452, {"slow-start", "loss", "avoidance"}),
        ("quiche-0.28.0.sqlog", 1350, {"loss", "avoidance"}),
        ("msquic-2304.csv", 1200, {"slow-start", "timeout", "threshold"}),
        ("ngtcp2-2287.csv", 1200, {"slow-start", "loss", "avoidance"}),
        ("quicly-2444845.csv", 1200, {"slow-start", "loss", "avoidance"}),
    ],
)
def test_the_stack_that_was_mended_is_as_the_reference(file: str, mss: int, kinds: set[str]) -> None:
    found = judged(STREAMS / f"{file}.xz", mss=mss)
    told = {each.compared: each.differ for each in found.spreads()}
    assert set(told) >= kinds
    assert {kind: told[kind] for kind in kinds} == dict.fromkeys(kinds, 0), words.text(found, file)


def test_a_recovery_without_a_loss_is_no_reason() -> None:
    found = judged(STREAMS / "quiche-0.25.0.sqlog.xz", mss=1350)
    assert "the sender began a recovery 23 times though nothing was lost: it is no reason" in found.notes


def test_qlog_of_results_with_a_row_now_and_then_is_refused(tmp_path: Path) -> None:
    host, path = "stack: linux-6.18, cc: cubic", "rate: 20mbit, delay: 20ms"
    text = dumbbell("judged", duration="1s", a=host, bottleneck=path, more="record: {tcp: 20ms}\n")
    results = cwndlab.load(text).run(out=tmp_path / "r")
    for form in ("qlog", "qlog-0.3"):
        [file] = exporters.export(results, form, tmp_path / form)
        with pytest.raises(InputError, match="rows every 20 ms do not tell"):
            sources.read(file, None, None)
        with pytest.raises(SystemExit) as ended:
            main(["data", "import", str(file), "-o", str(tmp_path / f"{form}-in")])
        assert not ended.value.code
        with pytest.raises(InputError, match="rows every 20 ms do not tell"):
            sources.read(tmp_path / f"{form}-in", None, None)


def test_the_factor_of_an_ecn_echo_is_known(tmp_path: Path) -> None:
    rows = ((at, event if event != "loss" else "ecn", *rest) for at, event, *rest in acks(factor=0.85))
    found = judged(csv_of(tmp_path, rows))
    assert "is the factor of ABE (RFC 8511)" in found.causes["ecn"]
    found = judged(csv_of(tmp_path, acks(factor=0.85)))
    assert "(1 + 0.7) / 2: the factor of a sender that stands for two connections" in found.causes["loss"]
