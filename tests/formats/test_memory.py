"""Memory that reading long logs takes: it does not depend on their length."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import logs
import pytest

from cwndlab.errors import InputError
from cwndlab.formats import ack_stream, base
from patience import PATIENCE

pytestmark = pytest.mark.slow

MOST_MB = 300

IMPORT = """
import re, sys
from pathlib import Path
from cwndlab.formats import importers
from cwndlab.formats.capture import Options

importers.results([Path(sys.argv[1])], Options(), Path(sys.argv[2]))
# What getrusage tells would be that of the process that started this one, too.
print(int(re.search("VmHWM: *([0-9]+)", Path("/proc/self/status").read_text().replace("\\t", " "))[1]) >> 10)
"""


def siftr(n: int) -> str:
    fields = f"21720,{(10 + n // 40 % 80) * logs.MSS},1073725440,65700,65700,6,6,4,{logs.MSS},{1280 + n % 50}"
    return (
        f"{'io'[n % 2]},0x00000000,{at(n, 10**4)},10.0.0.1,{40000 + n % 3},10.0.1.1,5001,{fields},"
        f"1,480,230,600000,131072,65536,0,{n % 50 * logs.MSS},0,0,0\n"
    )


def web10g(n: int) -> str:
    if n == 0:
        return logs.web10g().split("\n", 1)[0] + "\n"
    return (
        f"{at(n, 10)},7,10.0.0.1,40000,10.0.1.1,5001,{n},{n},{n // 10},{n},{40 + n % 7},42,"
        f"{logs.cwnd(n % 90)},{15 * logs.MSS},1,{100 * n},{300 * n},{600 * n},2,{n * 10 * logs.MSS}\n"
    )


def ttprobe(n: int) -> str:
    una, nxt = n * logs.MSS % 2**32, (n + 9) * logs.MSS % 2**32
    return (
        f"o,{at(n, 1000)},10.0.0.1,{40000 + n % 3},10.0.1.1,5001,0,{logs.MSS},"
        f"{40000 + n % 77},{n % 90 * logs.MSS},15,65700,65700,4,{una},{nxt},{n % 9}\n"
    )


def trace(n: int) -> str:
    return (
        f"  x-1 [000] ..s1. {at(n, 1000)}: tcp_probe: family=AF_INET src=10.0.0.1:{40000 + n % 3} "
        f"dest=10.0.1.1:5001 mark=0x0 data_len=0 snd_nxt=0x{n * 9 % 2**32:x} snd_una=0x{n % 2**32:x} "
        f"snd_cwnd={n % 90} ssthresh=40 snd_wnd=65700 srtt={n % 99999} rcv_wnd=65700 sock_cookie=1\n"
    )


def ss(n: int) -> str:
    return (
        f"{at(n, 10)}\nESTAB 0 0 10.0.0.1:{40000 + n % 5} 10.0.1.1:5001\n\t cubic rto:204 "
        f"rtt:{n % 50}.5/0.5 mss:1448 cwnd:{n % 99} ssthresh:40 bytes_acked:{n * 1448} unacked:{n % 20}\n"
    )


def iperf(n: int) -> str:
    rest = f"{n % 99}.5 MBytes  {n % 999} Mbits/sec  {n % 9}   {n % 999 + 1} KBytes"
    return f"[  3] {n}.0-{n + 1}.0 sec  {rest}\n"


def qlog(n: int) -> str:
    """Events that a QUIC stack logs: a packet sent, an ACK, a window, in turn."""
    packet, kind = divmod(n - 1, 3)
    if n == 0:
        trace = {"vantage_point": {"type": "server"}, "common_fields": {"ODCID": "c0ffee"}}
        return json.dumps({"qlog_version": "0.3", "qlog_format": "NDJSON", "trace": trace}) + "\n"
    header = {"packet_type": "1RTT", "packet_number": packet}
    ack = {"frame_type": "ack", "acked_ranges": [[0, max(packet - 50, 0)]]}
    name, data = (
        ("transport:packet_sent", {"header": header, "raw": {"length": 1200}}),
        ("transport:packet_received", {"header": header, "frames": [ack]}),
        ("recovery:metrics_updated", {"congestion_window": 12_000 + packet % 999, "latest_rtt": 40 + n % 9}),
    )[kind]
    return json.dumps({"time": n / 10, "name": name, "data": data}) + "\n"


def acks(n: int) -> str:
    """Every other event is a loss, which is a row of a second table."""
    if n == 0:
        return ack_stream.HEADER + "\n"
    return f"{n / 1000:.6f},{'ack' if n % 2 else 'loss'},1448,{40 + n % 9},{n % 99 * 1448},{n % 90 * 1448}\n"


def at(n: int, rate: int) -> str:
    """The time of record n, of so many in a second."""
    return f"{logs.START + n // rate}.{n % rate * 10**6 // rate:06}"


def again(n: int) -> str:
    """Records of SIFTR that come again and again: those of a log that was made to harm are in no order."""
    return siftr(n % 160)


LINES: dict[str, Callable[[int], str]] = {
    made.__name__: made for made in (siftr, web10g, ttprobe, trace, ss, iperf, qlog, acks, again)
}


def web10g_again(n: int) -> str:
    """Line `n` of a log of Web10G whose records are in no order; its other columns are a second table."""
    return web10g(n and n % 229 + 1)


LINES |= {web10g_again.__name__: web10g_again}

MEGABYTES = {"siftr": 60, "again": 170, "web10g_again": 120}
"""Length of a log, 25 of others; of those in no order as long as fills a row group of the results."""


@pytest.mark.parametrize(("kind", "megabytes"), [(kind, MEGABYTES.get(kind, 25)) for kind in LINES])
def test_a_long_log_takes_no_more_memory_than_a_short_one(tmp_path: Path, kind: str, megabytes: int) -> None:
    file, size, number = tmp_path / "log.gz", 0, 0
    with gzip.open(file, "wt", compresslevel=1) as log:
        while size < megabytes << 20:
            size += log.write(LINES[kind](number))
            number += 1
    command = [sys.executable, "-c", IMPORT, str(file), str(tmp_path / "out")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) <= MOST_MB


def iperf3_json(n: int) -> str:
    stream = {"socket": 5, "start": 0, "end": 1, "seconds": 1.0, "bytes": 1250000, "bits_per_second": 1e7}
    stream |= {"retransmits": 0, "snd_cwnd": 14480, "rtt": 40000, "omitted": False, "sender": True}
    row = json.dumps({"streams": [stream], "sum": stream})
    return '{"start": {"tcp_mss": 1448}, "intervals": [' + ",".join([row] * (n // len(row))) + "]}"


def flent_json(n: int) -> str:
    point = {"t": 1.7e9, "val": 9.5e6, "tcp_cwnd": 10, "tcp_rtt": 40.5, "dur": 0.2}
    rows = n // len(json.dumps([point, 0.2, 9.5]))
    rates = {"TCP upload": [9.5] * rows}
    content = {"version": 4, "metadata": {}, "x_values": [0.2] * rows, "results": rates}
    return json.dumps(content | {"raw_values": {"TCP upload": [point] * rows}})


@pytest.mark.parametrize("made", [iperf3_json, flent_json])
def test_json_takes_no_more_memory_than_a_log_or_is_refused(
    tmp_path: Path, made: Callable[[int], str]
) -> None:
    file = tmp_path / "document.json"
    file.write_text(made(base.MAX_JSON_BYTES - (1 << 20)))
    command = [sys.executable, "-c", IMPORT, str(file), str(tmp_path / "out")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) <= MOST_MB
    file.write_text('{"intervals": [' + "[]," * base.MAX_JSON_OBJECTS + "[]]}")
    with pytest.raises(InputError, match="objects and lists of JSON"):
        base.read(file)


def distinct_texts() -> str:
    return ",".join(f'"{n:07}"' for n in range(10**6))


def distinct_names() -> str:
    return "{" + ",".join(f'"{n:07}":1' for n in range(10**6)) + "}"


def one_text() -> str:
    return '"' + "x" * (25 << 20) + '\\ud83d\\ude00"'


def numbers() -> str:
    return "1.5," * (7 << 20) + "1"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (distinct_texts, "texts of JSON that take more than 64 MiB"),
        (distinct_names, "texts of JSON that take more than 64 MiB"),
        (one_text, "texts of JSON that take more than 64 MiB"),
        (numbers, "values of JSON"),
    ],
)
def test_json_that_takes_many_times_its_bytes_is_refused(
    tmp_path: Path, made: Callable[[], str], said: str
) -> None:
    file = tmp_path / "document.json"
    file.write_text('{"intervals": [' + made() + '], "start": {"tcp_mss": 1448}}')
    assert file.stat().st_size < base.MAX_JSON_BYTES
    with pytest.raises(InputError, match=said):
        base.read(file)


def test_text_beyond_ascii_takes_no_more_memory(tmp_path: Path) -> None:
    """One character of four bytes made the whole document four times as large."""
    file = tmp_path / "document.json"
    written = iperf3_json(base.MAX_JSON_BYTES - (1 << 20)).replace("{", '{"title": "\U0001f600 \u00fc", ', 1)
    file.write_text(written, encoding="utf-8")
    assert '"title": "\U0001f600 \u00fc"' in json.dumps(json.loads(base.json_text(file)), ensure_ascii=False)
    command = [sys.executable, "-c", IMPORT, str(file), str(tmp_path / "out")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) <= MOST_MB
