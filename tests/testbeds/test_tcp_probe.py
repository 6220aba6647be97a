"""What Linux's tracepoint tcp:tcp_probe prints, as rows of senders at each acknowledgement."""

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from cwndlab.errors import RunError
from cwndlab.testbeds.live.addresses import Ends
from cwndlab.testbeds.live.linux import tcp_probe
from cwndlab.testbeds.tables import SCHEMAS

MSS = 1448
ZERO_NS = 100 * 10**9
FLOWS = {
    "f": Ends("f", "a", "b", "10.0.0.1", "10.0.0.2", 10_000, 5201),
    "cross": Ends("cross", "a", "b", "10.0.0.1", "10.0.0.2", None, 5202),
}
END = "overrun: 0\noverrun: 0\n"


def event(
    time: str,
    una: int,
    flight: int = 0,
    cwnd: int = 10,
    *,
    port: int = 10_000,
    to: int = 5201,
    **more: object,
) -> str:
    """A line of trace_pipe, as Linux 6.18 prints it."""
    values = {"ssthresh": 0x7FFFFFFF, "srtt": 20000, "sock_cookie": "1001", **more}
    return (
        f"          <idle>-0       [001] ..s3. {time}: tcp_probe: family=AF_INET src=10.0.0.1:{port}"
        f" dest=10.0.0.2:{to} mark=0x0 data_len=0 snd_nxt={(una + flight) % 2**32:#x} snd_una={una:#x}"
        f" snd_cwnd={cwnd} ssthresh={values['ssthresh']} snd_wnd=65160 srtt={values['srtt']} rcv_wnd=64256"
        f" sock_cookie={values['sock_cookie']} skbaddr=00000000ff7c0de5 skaddr=00000000b8a4a5f5\n"
    )


def sampled(*rows: dict[str, Any]) -> pa.Table:
    """Samples of senders, every column null but those given."""
    schema = pa.unify_schemas([SCHEMAS["tcp"], SCHEMAS["tcp_info"]])
    usual = {"run_id": 0, "flow": "f", "local_port": 10_000, "remote_port": 5201, "mss_bytes": MSS}
    return pa.Table.from_pylist([{**usual, **row} for row in rows], schema=schema)


def told(text: str, *rows: dict[str, Any]) -> tuple[pl.DataFrame, list[str]]:
    samples = sampled(*rows or [{"t_ns": 0}])
    found, troubles = tcp_probe.rows({"a": (text.encode(), ZERO_NS)}, samples, FLOWS)
    assert found.schema == samples.schema
    frame = pl.from_arrow(found)
    assert isinstance(frame, pl.DataFrame)
    return frame, troubles


def test_each_event_is_a_row_in_bytes_and_ns_of_the_run() -> None:
    text = event("100.020001", 5, 14480) + event("100.040123", 14485, 2896, 8, ssthresh=7, srtt=21500) + END
    frame, troubles = told(text)
    assert troubles == []
    assert frame["t_ns"].to_list() == [20_001_000, 40_123_000]
    assert frame["cwnd_bytes"].to_list() == [10 * MSS, 8 * MSS]
    assert frame["ssthresh_bytes"].to_list() == [None, 7 * MSS]
    assert frame["srtt_ns"].to_list() == [20_000_000, 21_500_000]
    assert frame["inflight_bytes"].to_list() == [14480, 2896]
    assert frame["delivered_bytes"].to_list() == [0, 14480]
    assert frame["send_window_bytes"].to_list() == [65160, 65160]


def test_what_the_tracepoint_does_not_tell_is_of_the_nearest_sample() -> None:
    text = event("100.004", 5) + event("100.007", 5) + END
    frame, _ = told(text, {"t_ns": 0, "retransmits": 1}, {"t_ns": 10**7, "retransmits": 4, "rtt_ns": 5})
    assert frame["retransmits"].to_list() == [1, 4]
    assert frame["rtt_ns"].to_list() == [None, None], "that of a sample is of another acknowledgement"


def test_sequence_numbers_go_round_and_late_segments_go_back() -> None:
    begin = 2**32 - 1000
    numbers = [begin, 448, 1896, 1896 - MSS, 3344]
    text = "".join(event(f"100.0{place}", number) for place, number in enumerate(numbers))
    frame, _ = told(text + END)
    assert frame["delivered_bytes"].to_list() == [0, 1448, 2896, 1448, 4344]


def test_connections_of_others_are_left_out() -> None:
    other = event("100.01", 5, port=4000) + event("100.01", 5, to=80) + event("99.9", 5)
    frame, troubles = told(other + event("100.02", 5) + END)
    assert (frame["t_ns"].to_list(), troubles) == ([20_000_000], [])


def test_any_connection_to_its_port_is_a_flows_that_has_several() -> None:
    text = event("100.01", 5, port=40_001, to=5202) + event("100.02", 7, port=40_002, to=5202) + END
    samples = [
        {"t_ns": 0, "flow": "cross", "remote_port": 5202, "local_port": port} for port in (40_001, 40_002)
    ]
    frame, _ = told(text, *samples)
    assert frame["flow"].to_list() == ["cross", "cross"]
    assert frame["delivered_bytes"].to_list() == [0, 0], "each counts its own"


def test_two_connections_of_the_same_ports_are_told_and_left_out() -> None:
    text = event("100.01", 5) + event("100.02", 9, sock_cookie="2002") + END
    frame, (trouble,) = told(text)
    assert frame.height == 0
    assert "10.0.0.1:10000 is a port of 2 connections" in trouble


def test_lines_of_any_number_of_pieces_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_probe, "PIECE", 700)
    text = "".join(event(f"100.{place:06}", 5 + place) for place in range(50)) + END
    assert told(text)[0]["delivered_bytes"].to_list() == list(range(50))


def test_events_of_kernels_before_cookies_are_read() -> None:
    line = event("100.01", 5).replace("family=AF_INET ", "").partition(" sock_cookie")[0] + "\n"
    assert told(line + END)[0].height == 1


def test_events_of_ipv6_are_read() -> None:
    line = event("100.01", 5).replace("AF_INET ", "AF_INET6 ")
    line = line.replace("=10.0.0.1:", "=[fd00::1]:").replace("=10.0.0.2:", "=[fd00::1:1]:")
    flows = {"f": Ends("f", "a", "b", "fd00::1", "fd00::1:1", 10_000, 5201)}
    found, troubles = tcp_probe.rows({"a": ((line + END).encode(), ZERO_NS)}, sampled({"t_ns": 0}), flows)
    assert (found.num_rows, troubles) == (1, [])


def test_lost_events_are_told() -> None:
    _, troubles = told(event("100.01", 5) + "overrun: 3\noverrun: 4\n")
    assert troubles == ["tcp_probe at host a: 7 events were lost for want of room"]


def test_a_script_that_could_not_begin_fails_the_run() -> None:
    with pytest.raises(RunError, match=r"host a: record\.tcp: per-ack: .*: mkdir: Permission denied"):
        told("mkdir: Permission denied\n")


class Nowhere:
    """A host that shows no file."""

    def files(self, *patterns: str) -> dict[str, str]:
        return {}


def test_a_host_without_the_tracepoint_is_refused() -> None:
    scenario: Any = {"record": {"tcp": {"kind": "per-ack"}}}
    host: Any = Nowhere()
    with pytest.raises(ValueError, match=r"which this machine does not show; give an interval such as 10ms$"):
        tcp_probe.check(scenario, host, "this machine")
    scenario["record"]["tcp"] = {"kind": "off"}
    tcp_probe.check(scenario, host, "this machine")
