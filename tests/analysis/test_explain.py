"""`cwndlab explain`: simulated connections, of whose path and limit only a capture tells."""

import json
from pathlib import Path

import numpy as np
import pytest

import cwndlab
from cwndlab.analysis.explain import counterfactual, evidence, explain, fits, limiters, model, path, words
from cwndlab.analysis.explain.model import Outcome
from cwndlab.errors import InputError
from cwndlab.results import limits
from experiments import dumbbell

pytestmark = pytest.mark.slow

RATE_MBPS, RTT_MS, BUFFER = 20, 40, 66

LIMITED = {
    "path": {},
    "rwnd": {"hosts.b.rcvbuf": "40KB"},
    "sndbuf": {"hosts.a.sndbuf": "20KB"},
    "app": {"flows.f1.app": "{kind: rate-limited, rate: 6mbit, write: 4KB}"},
    "rests": {"flows.f1.app": "{kind: on-off, on: 200ms, off: 800ms}"},
    "loss": {"network.dumbbell.bottleneck.loss": "{random: 0.3%}"},
}
"""Keys that make a limit."""

KINDS = {"rests": "app", "loss": "path"}


def text(duration: str = "8s", stack: str = "linux-6.18", cc: str = "cubic", more: str = "") -> str:
    return dumbbell(
        "explained",
        duration=duration,
        a=f"stack: {stack}, cc: {cc}",
        bottleneck=f"rate: {RATE_MBPS}mbit, delay: {RTT_MS // 2}ms, queue: {{kind: pfifo, limit: {BUFFER}p}}",
        more=f"record: {{pcap: [a, b], tcp: off, queue: off}}\nrepeat: 1\n{more}",
    )


def captures(place: Path, changes: dict[str, str], written: str | None = None) -> tuple[Path, Path]:
    """The captures of both ends of a run."""
    results = cwndlab.load(written or text(), [f"{key}={value}" for key, value in changes.items()]).run(
        out=place / "results"
    )
    sender, receiver = results.captures(results.runs["run_id"][0])
    return sender, receiver


def goodput(place: Path, changes: dict[str, str]) -> float:
    results = cwndlab.load(text(), [f"{key}={value}" for key, value in changes.items()]).run(out=place)
    return float(results.summary["goodput_mbps"][0])


def test_shares_of_all_of_the_time_are_all_of_it() -> None:
    assert limits.percentage(100 * (0.6 + 0.3 + 0.1)) == "100 %"
    assert [limits.percentage(share) for share in (0, 0.2, 99.6)] == [
        "0 %",
        "less than 1 %",
        "more than 99 %",
    ]


@pytest.mark.parametrize("limit", LIMITED)
def test_limiter_and_path_are_told(tmp_path: Path, limit: str) -> None:
    sender, receiver = captures(tmp_path, LIMITED[limit])
    for file, where in ((sender, evidence.SENDER), (receiver, evidence.RECEIVER)):
        found = evidence.read(file, None)
        assert found.packets is not None
        assert found.packets.taken_at == where
        seen = path.of(found)
        assert seen.rtt_s is not None
        assert 1e3 * seen.rtt_s.value == pytest.approx(RTT_MS, rel=0.05)
        if limit == "app":
            continue  # whose few packets at a time are no trains
        assert seen.rate_bps is not None
        assert seen.rate_bps.value / 1e6 == pytest.approx(RATE_MBPS, rel=0.05)
        assert limiters.timeline(found, seen).main() == KINDS.get(limit, limit)


def test_a_connection_over_ipv6_is_simulated_over_ipv6(tmp_path: Path) -> None:
    """20 bytes of header more are 1.4 % of goodput less, and no error of the model."""
    found = evidence.read(captures(tmp_path, {"network.family": "ipv6"})[0], None)
    setup = model.setup(found, path.of(found), "linux-6.18", "cubic")
    assert setup is not None
    assert found.goodput_bps is not None
    assert model.run(setup).goodput_bps == pytest.approx(found.goodput_bps, rel=0.01)


def test_what_an_application_limits_leaves_on_its_own(tmp_path: Path) -> None:
    found = evidence.read(captures(tmp_path, LIMITED["app"])[0], None)
    seen = path.of(found)
    assert limiters.timeline(found, seen).main() == "app"
    # Of three packets at a time, one of them short, no rate is told that is wrong.
    assert seen.rate_bps is None or seen.rate_bps.value / 1e6 == pytest.approx(RATE_MBPS, rel=0.05)


def test_a_full_buffer_is_told_by_its_losses(tmp_path: Path) -> None:
    seen = path.of(evidence.read(captures(tmp_path, {})[0], None))
    assert seen.buffer_full
    assert seen.buffer_bytes is not None
    assert seen.buffer_bytes.value / 1514 == pytest.approx(BUFFER, rel=0.1)
    assert (seen.loss, seen.policed) == (None, False)


def test_losses_without_a_queue_are_the_paths(tmp_path: Path) -> None:
    seen = path.of(evidence.read(captures(tmp_path, LIMITED["loss"])[0], None))
    assert seen.loss is not None
    assert seen.loss.low <= 0.003 <= seen.loss.high
    assert not seen.policed


def test_a_policer_is_told_from_loss(tmp_path: Path) -> None:
    policer = (
        "shaper: {kind: policer, rate: 10mbit, burst: 60KB}, delay: 20ms, queue: {kind: pfifo, limit: 100p}"
    )
    written = dumbbell(
        "policed",
        duration="10s",
        a="stack: linux-6.18, cc: cubic",
        bottleneck=policer,
        access="100mbit",
        more="record: {pcap: [a, b], tcp: off, queue: off}\nrepeat: 1\n",
    )
    file = captures(tmp_path, {}, written)[0]
    seen = path.of(evidence.read(file, None))
    assert seen.policed
    assert seen.rate_bps is not None and seen.policer_bytes is not None
    assert seen.rate_bps.value == pytest.approx(10e6, rel=0.05)
    assert seen.policer_bytes.value == pytest.approx(60_000, rel=0.2)
    assert "Limited by a policer on the path" in words.text(explain.of(file, None, None, None))


@pytest.mark.parametrize("limit", ["rwnd", "sndbuf", "rests"])
def test_a_change_gives_what_a_second_run_has(tmp_path: Path, limit: str) -> None:
    file = captures(tmp_path, LIMITED[limit])[0]
    what_if = explain.of(file, None, "linux-6.18", "cubic").what_if
    assert isinstance(what_if, counterfactual.Counterfactual)
    assert what_if.off is not None and abs(what_if.off) <= counterfactual.NEAR
    (change, *_) = what_if.changes
    second = {key: value for key, value in change.cells.items() if ".sysctl." not in key}
    assert set(second) == set(LIMITED[limit])
    assert change.after.goodput_bps / 1e6 == pytest.approx(goodput(tmp_path / "second", second), rel=0.1)


def test_a_model_that_is_off_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = captures(tmp_path, LIMITED["rests"])[0]
    monkeypatch.setattr(model, "run", lambda found: Outcome(1e6, 40.0, "path"))
    said = explain.of(file, None, "linux-6.18", "cubic")
    assert isinstance(said.what_if, counterfactual.Counterfactual)
    assert said.what_if.changes == ()
    assert "No counterfactual: the model carries 1 Mbit/s before the change" in words.text(said)


@pytest.mark.parametrize("cc", ["cubic", "reno", "bbr"])
def test_the_control_that_fits_is_the_one_that_sent(tmp_path: Path, cc: str) -> None:
    found = evidence.read(captures(tmp_path, {}, text("15s", cc=cc))[0], None)
    seen = path.of(found)
    fitting = fits.of(found, seen, limiters.timeline(found, seen))
    assert fitting.each[0].cc == cc
    assert fitting.controls == [cc]


def test_equal_controls_are_not_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fits, "CANDIDATES", (("linux-6.18", "cubic"), ("linux-6.12", "cubic")))
    found = evidence.read(captures(tmp_path, {})[0], None)
    seen = path.of(found)
    fitting = fits.of(found, seen, limiters.timeline(found, seen))
    assert fitting.alike == 2


def test_a_control_that_a_buffer_hides_is_not_told(tmp_path: Path) -> None:
    found = evidence.read(captures(tmp_path, LIMITED["rwnd"])[0], None)
    seen = path.of(found)
    fitting = fits.of(found, seen, limiters.timeline(found, seen))
    assert (fitting.each, fitting.alike) == ((), 0)
    assert "the congestion window limited it for" in fitting.refused


def test_a_control_that_a_window_hides_beside_a_full_link_is_not_told(tmp_path: Path) -> None:
    found = evidence.read(captures(tmp_path, {"hosts.b.rcvbuf": "130KB"})[0], None)
    seen = path.of(found)
    line = limiters.timeline(found, seen)
    assert line.main() == "path"
    assert fits.of(found, seen, line).refused.startswith("the receiver's window, too, was full for")


def test_a_stack_is_told_by_the_receiver_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = text("15s", stack="freebsd-15-current", cc="newreno")
    found = evidence.read(captures(tmp_path, {"hosts.b.stack": "linux-6.18"}, written)[0], None)
    seen = path.of(found)
    line = limiters.timeline(found, seen)
    told = fits.of(found, seen, line)
    assert "freebsd-15-current" in [each.stack for each in told.each[: told.alike]]
    monkeypatch.setattr(fits, "RECEIVERS", ())
    alone = fits.of(found, seen, line)
    assert "freebsd-15-current" not in [each.stack for each in alone.each[: alone.alike]]


def test_a_short_connection_tells_no_control(tmp_path: Path) -> None:
    said = explain.of(captures(tmp_path, {"flows.f1.bytes": "200KB"}, text("4s"))[0], None, None, None)
    assert said.fits.refused == "it lasted for 5 round trips only"
    assert said.line.detail() == limiters.SLOW_START
    assert isinstance(said.what_if, str) and said.what_if.startswith("it was in slow start")


def test_rates_are_no_finer_than_times() -> None:
    assert path._step(np.array([0.001, 0.0045])) == pytest.approx(1e-4)
    assert path._step(np.array([0.001, 0.004500007])) == pytest.approx(1e-9)


SIFTR = (
    "o,{t:.6f},10.0.0.1,40000,10.0.1.1,5001,{ssthresh},{cwnd},0,{snd_wnd},65536,6,6,4,1448,40000,1,{flags},230000,"
    "{hiwat},{cc},65536,0,{flight},0,1,0"
)
"""A record of FreeBSD 14's SIFTR, its srtt in microseconds."""


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({"cwnd": 100_000, "flight": 99_000}, "path"),
        ({"snd_wnd": 60_000, "flight": 59_000}, "rwnd"),
        ({"hiwat": 70_000, "cc": 69_000, "flight": 60_000}, "sndbuf"),
        ({"cc": 2_000, "flight": 20_000}, "app"),
        # Zero is no size: whoever writes it does not know.
        ({"cc": 2_000, "flight": 20_000, "snd_wnd": 0, "hiwat": 0}, "unknown"),
    ],
)
def test_rows_of_siftr_say_which_window_was_full(tmp_path: Path, fields: dict[str, int], limit: str) -> None:
    usual = {"cwnd": 400_000, "snd_wnd": 900_000, "hiwat": 500_000, "cc": 0, "flight": 0, "ssthresh": 300_000}
    values = {**usual, "flags": 0, **fields}
    start = "\t".join(
        (
            "enable_time_secs=1000",
            "enable_time_usecs=0",
            "siftrver=1.3.0",
            "sysname=FreeBSD",
            "sysver=1500000",
            "ipmode=4",
        )
    )
    file = tmp_path / "siftr.log"
    file.write_text("\n".join([start, *(SIFTR.format(t=1000 + n / 100, **values) for n in range(100)), ""]))
    found = evidence.read(file, None)
    assert limiters.timeline(found, path.of(found)).main() == limit


def test_iperf3_says_what_it_does_not_tell() -> None:
    file = Path(__file__).parents[1] / "formats" / "iperf" / "parallel3.json"
    said = words.text(explain.of(file, None, None, None))
    missing = "it does not tell the receiver's window and the send buffer; one of them or the application"
    assert missing in " ".join(said.split())
    assert "No counterfactual:" in said


def test_tcp_probe_tells_both_windows(tmp_path: Path) -> None:
    row = (
        "nc-1 [0] ..s. {t:.6f}: tcp_probe: family=AF_INET src=10.0.0.1:40000 dest=10.0.1.1:5001 mark=0x0"
        " data_len=1448 snd_nxt=0x{nxt:x} snd_una=0x{una:x} snd_cwnd=90 ssthresh=40 snd_wnd=65700 srtt=40000"
        " rcv_wnd=29312 sock_cookie=1\n"
    )
    file = tmp_path / "trace.txt"
    file.write_text(
        "".join(row.format(t=10 + n / 100, nxt=n * 2896 + 65000, una=n * 2896) for n in range(99))
    )
    found = evidence.read(file, None)
    line = limiters.timeline(found, path.of(found))
    assert (line.main(), line.unsaid) == ("rwnd", "")


def test_what_ss_counted_is_told(tmp_path: Path) -> None:
    sample = (
        "{t}\nESTAB 0 0 10.0.0.1:40000 10.0.1.1:5001\n\t cubic rto:240 rtt:40/1 mss:1448 cwnd:90 ssthresh:70"
        " bytes_acked:{acked} unacked:20 busy:{busy}ms rwnd_limited:{full}ms({share}%)\n"
    )
    file = tmp_path / "ss.txt"
    file.write_text(
        "".join(
            sample.format(t=100 + n, acked=90_000 * n, busy=100 * n, full=40 * n, share=40)
            for n in range(1, 30)
        )
    )
    said = words.text(explain.of(file, None, None, None))
    assert "The system itself counted, of the time with data: the receiver's window 40 %" in said


def test_text_is_the_answer_first_and_json_the_same(tmp_path: Path) -> None:
    said = explain.of(captures(tmp_path, LIMITED["rwnd"])[0], None, None, None)
    written, document = words.text(said), json.loads(words.as_json(said))
    first, second, third, *_ = written.splitlines()
    assert first.startswith("10.0.0.1:")
    assert second == "Limited by the receiver's window, 100 % of the time."
    assert third.startswith("By simulation, `rcvbuf: auto`: ")
    assert max(map(len, written.splitlines())) <= words.WIDTH
    assert (document["limited_by"], document["taken_at"]) == ("rwnd", "the sender")
    assert document["counterfactual"]["changes"][0]["set"]["hosts.b.rcvbuf"] == "auto"
    # The experiment it rests on can be run again.
    changed = [f"{key}={value}" for key, value in document["counterfactual"]["set"].items()]
    plan = cwndlab.load(document["counterfactual"]["experiment"], changed).plan()
    assert len(plan.runs) == 1


def test_slots_of_a_sender_that_rests_are_the_applications(tmp_path: Path) -> None:
    """Bursts at the path's rate are its, silence is the application's."""
    file = captures(tmp_path, {"flows.f1.app": "{kind: on-off, on: 2s, off: 2s}"})[0]
    found = evidence.read(file, None)
    line = limiters.timeline(found, path.of(found))
    # From 2 s to 4 s of the 6 s between the first data and the last acknowledgement.
    assert line.shares()["app"] == pytest.approx(1 / 3, abs=0.07)
    assert line.intervals[0].begin_s == pytest.approx(found.begin_s)
    for one, other in zip(line.intervals, line.intervals[1:], strict=False):
        assert one.end_s == other.begin_s
        assert one.limiter != other.limiter


def test_bad_input_is_a_line(tmp_path: Path) -> None:
    sender, receiver = captures(tmp_path, {}, text("1s"))
    with pytest.raises(InputError, match="no such file"):
        evidence.read(tmp_path / "none.pcap", None)
    with pytest.raises(InputError, match="--flow: 'f' does not exist"):
        evidence.read(sender, "f")
    with pytest.raises(InputError, match="--stack: 'linus' does not exist"):
        explain.of(receiver, None, "linus", None)
    with pytest.raises(InputError, match=r"--cc of linux-6\.18: 'cubik' does not exist"):
        explain.of(sender, None, "linux-6.18", "cubik")
    (tmp_path / "text.log").write_text("nothing that anybody logs\n")
    with pytest.raises(InputError, match="of no known format"):
        evidence.read(tmp_path / "text.log", None)


def test_a_capture_of_few_packets_is_refused(tmp_path: Path) -> None:
    sender, _ = captures(tmp_path, {"flows.f1.bytes": "10KB"}, text("1s"))
    with pytest.raises(InputError, match="has 7 packets with data; expected 20 or more"):
        evidence.read(sender, None)


def test_a_model_has_the_window_that_was_offered(tmp_path: Path) -> None:
    """A FreeBSD as installed offers less than this Linux did."""
    written = dumbbell(
        "wide",
        duration="3s",
        a="stack: linux-6.18",
        bottleneck="rate: 500mbit, delay: 20ms, queue: {kind: pfifo, limit: 2000p}",
        more="record: {pcap: [a, b], tcp: off, queue: off}\nrepeat: 1\n",
    )
    found = evidence.read(captures(tmp_path, {}, written)[0], None)
    assert found.packets is not None
    raised = model.as_large(found, "freebsd-15-current", "freebsd-15-current")
    assert int(raised["hosts.b.sysctl.net.inet.tcp.recvbuf_max"]) >= found.packets.window.max()
    assert int(raised["hosts.a.sysctl.net.inet.tcp.sendbuf_max"]) >= limiters.flights(found.packets).max()
    assert model.as_large(found, "windows-7", "windows-7") == {}


RECORDED = Path(__file__).parents[2] / "groundtruth" / "freebsd" / "stack"


@pytest.mark.parametrize("cc", ["newreno", "cubic", "cdg"])
def test_recordings_of_freebsd(cc: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """FreeBSD 11 itself sent over 10 Mbit/s and 40 ms, with 90 packets of room; CDG is not tried."""
    candidates = (("linux-6.18", "reno"), ("freebsd-11", "newreno"), ("linux-6.18", "bbr"))
    monkeypatch.setattr(fits, "CANDIDATES", candidates)
    found = evidence.read(RECORDED / f"f11_{cc}_10m_40ms_b90.pcap.gz", None)
    seen = path.of(found)
    line = limiters.timeline(found, seen)
    assert line.main() == "path"
    assert seen.rate_bps is not None and seen.rtt_s is not None and seen.buffer_bytes is not None
    assert seen.rate_bps.value == pytest.approx(10e6, rel=0.01)
    assert seen.rtt_s.value == pytest.approx(0.04, rel=0.01)
    assert seen.buffer_full is (cc != "cdg")
    if seen.buffer_full:
        assert seen.buffer_bytes.value / 1514 == pytest.approx(90, rel=0.05)
    fitting = fits.of(found, seen, line)
    assert fitting.controls == (["reno"] if cc == "newreno" else [])
