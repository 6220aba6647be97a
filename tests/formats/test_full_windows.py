"""How long a capture shows the receiver's window full, beside what the sender counted."""

import pytest

import cwndlab
from cwndlab import _native
from cwndlab.formats import full_windows

TEXT = """\
experiment: captured
duration: 3s
hosts: {a: {stack: freebsd-13}, b: {stack: freebsd-13, rcvbuf: RCVBUF}}
network: {dumbbell: {left: [a], right: [b], bottleneck: {rate: 50mbit, delay: 10ms}}}
flows: [{name: f, from: a, to: b, app: bulk}]
record: {pcap: [a]}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("rcvbuf", "least", "most"), [("60KB", 95, 100), ("4MB", 0, 1)])
def test_a_full_window_is_seen_at_the_sender(rcvbuf, least, most, tmp_path):
    cwndlab.load(TEXT.replace("RCVBUF", rcvbuf)).run(out=tmp_path / "r", jobs=1)
    (capture,) = (tmp_path / "r").rglob("*.pcap")
    (connection,) = full_windows.connections(_native.Capture(str(capture), False))
    assert least <= connection["forward"]["window_full_pct"] <= most
    assert "window_full_pct" not in connection["backward"]
