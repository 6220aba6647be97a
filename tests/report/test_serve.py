"""`cwndlab live`: what is served, to whom, and what is said where there is nothing to serve."""

from __future__ import annotations

import contextlib
import http.client
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import needs
from cwndlab.contract.scenario import Scenario
from cwndlab.errors import CwndlabError, InputError
from cwndlab.experiment.scenario import planner
from cwndlab.report.live_page import link, serve, templates
from cwndlab.results import software
from cwndlab.testbeds import loader
from experiments import dumbbell
from patience import PATIENCE

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_files_have_their_types_and_the_policy_and_nothing_else_is_there() -> None:
    needs.need_page()
    with serve.server(0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert server.server_address[0] == "127.0.0.1"
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
        for path, kind in (
            ("/", "text/html"),
            ("/engine_bg.wasm", "application/wasm"),
            ("/main.js?x", "text/javascript"),
        ):
            connection.request("GET", path)
            answer = connection.getresponse()
            assert (answer.status, len(answer.read()) > 1000) == (200, True)
            assert str(answer.getheader("Content-Type")).startswith(kind)
            assert str(answer.getheader("Content-Security-Policy")).startswith(
                "default-src 'none'; script-src 'self'"
            )
        for path in ("/../serve.py", "/%2e%2e/serve.py", "//etc/passwd", "/page", "/nothing"):
            connection.request("GET", path)
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (404, b"not here\n")
        server.shutdown()


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of a server whose clients may be silent for a second, and are two at a time."""
    files = {"index.html": ROOT / "python/cwndlab/report/live_page/page/main.js"}
    monkeypatch.setattr(serve, "page_files", lambda: files)
    monkeypatch.setattr(serve, "SILENT_S", 1.0)
    monkeypatch.setattr(serve, "WHOLE_S", 4.0)
    monkeypatch.setattr(serve, "CLIENTS", 2)
    with serve.server(0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def asked(port: int, host: str | None) -> int:
    """The status of the answer; until a place is free, there is none."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return asked_once(port, host)
        except ConnectionError:
            assert time.monotonic() < deadline
        time.sleep(0.05)


def asked_once(port: int, host: str | None) -> int:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.putrequest("GET", "/", skip_host=True)
        for each in () if host is None else host.split("|"):
            connection.putheader("Host", each)
        connection.endheaders()
        with connection.getresponse() as answer:
            return answer.status


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:8642", 200),
        ("LOCALHOST:1", 200),
        ("evil.example:8642", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("[::1]:8642", 421),
        ("0x7f000001", 421),
        ("localhost@evil.example", 421),
        ("localhost|evil.example", 421),
        ("evil.example|localhost", 421),
        ("", 421),
        (None, 421),
    ],
)
def test_only_who_asks_for_this_machine_is_answered(serving: int, host: str | None, status: int) -> None:
    assert asked(serving, host) == status


def test_a_browser_that_goes_away_leaves_no_traceback(
    serving: int, capsys: pytest.CaptureFixture[str]
) -> None:
    for sent in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        client = socket.create_connection(("127.0.0.1", serving))
        client.sendall(sent)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        client.close()
        time.sleep(0.1)
    assert asked(serving, "localhost") == 200
    assert capsys.readouterr().err == ""


def test_a_lack_of_threads_takes_no_place_for_ever(
    serving: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    started = threading.Thread.start
    for kind in (threading.Thread, threading.Timer):
        for _ in range(serve.CLIENTS + 1):
            monkeypatch.setattr(kind, "start", refuse)
            with pytest.raises(ConnectionError):
                asked_once(serving, "localhost")
        monkeypatch.setattr(kind, "start", started)
    assert asked(serving, "localhost") == 200
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_who_is_silent_or_slow_is_ended_and_others_have_their_turn(serving: int) -> None:
    begun = time.monotonic()
    silent, slow = (socket.create_connection(("127.0.0.1", serving), timeout=PATIENCE) for _ in range(2))
    speaker = threading.Thread(target=speak, args=[slow], daemon=True)
    speaker.start()
    with socket.create_connection(("127.0.0.1", serving), timeout=PATIENCE) as third:
        assert third.recv(1) == b""  # both places are taken
    assert silent.recv(1) == b""
    assert speaker.is_alive(), "who speaks is not silent"
    speaker.join(PATIENCE)
    assert not speaker.is_alive()
    assert time.monotonic() - begun >= serve.WHOLE_S
    assert asked(serving, "localhost") == 200
    silent.close()
    slow.close()


def speak(to: socket.socket) -> None:
    """Send a byte now and then until the other end has had enough."""
    with contextlib.suppress(OSError):
        while True:
            to.sendall(b"G")
            time.sleep(0.1)


def test_a_page_that_was_not_built_is_built_in_a_clone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    page = clone / "python/cwndlab/report/live_page/page"
    page.mkdir(parents=True)
    monkeypatch.setattr(serve, "resources", lambda package: page.parent)
    monkeypatch.setattr(software, "PACKAGE", clone / "python" / "cwndlab")
    said: list[str] = []
    with pytest.raises(CwndlabError, match=r"engine\.js is not there"):  # a wheel has no Makefile
        serve.build(said.append)
    (clone / "crates" / "web").mkdir(parents=True)
    (clone / "Makefile").write_text("web:\n\t@exit 1\n")
    with pytest.raises(CwndlabError, match="could not be built"):
        serve.build(said.append)
    (clone / "Makefile").write_text(
        "web:\n\t@touch "
        + " ".join(f"python/cwndlab/report/live_page/page/{name}" for name in serve.BUILT)
        + "\n"
    )
    serve.build(said.append)
    assert len(said) == 2 and "make web" in said[0]
    serve.build(said.append)
    assert len(said) == 2
    assert set(serve.page_files()) == set(serve.BUILT)


def test_a_page_that_was_not_built_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "page").mkdir()
    monkeypatch.setattr(serve, "resources", lambda package: tmp_path)
    with pytest.raises(
        CwndlabError, match=r"^the live lab was not built: engine.js is not there; .*`make web`$"
    ):
        serve.page_files()


def test_a_port_that_is_taken_is_told() -> None:
    needs.need_page()
    with serve.server(0) as server, pytest.raises(InputError, match=rf"--port {server.server_port}: "):
        serve.server(server.server_port)


@pytest.mark.slow
def test_the_command_says_where_it_is_and_ends_with_ctrl_c() -> None:
    needs.need_page()
    program = [sys.executable, "-m", "cwndlab", "live", "--no-open", "--port", "0", "http://x/#rate=1mbit"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        said = running.stdout.readline()
        assert said.startswith("http://127.0.0.1:") and "/#rate=1mbit " in said
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE) == 130


def test_every_file_of_the_page_has_a_type() -> None:
    names = {file.suffix for file in (ROOT / "python/cwndlab/report/live_page/page").iterdir()}
    assert names <= set(serve.TYPES)


def scenario(text: str) -> Scenario:
    return planner.make(loader.load(text)).runs[0].scenario


FILE = dumbbell(
    "mine",
    duration="30s",
    a="stack: freebsd-9.2, cc: newreno",
    b="stack: freebsd-9.2",
    bottleneck="rate: 10mbit, delay: 20ms, queue: {kind: pfifo, limit: 90p}",
    more="measure: {from: 10s}\n",
)


def test_a_run_has_an_address_where_the_page_can_show_it() -> None:
    assert link.of_scenario(scenario(FILE)) == (
        "rate=10mbit&rtt=40ms&buffer=90p&queue=pfifo&duration=30s&measure=10s&start_jitter=41.28928ms&access=1gbit"
        "&experiment=mine&f=freebsd-9.2,newreno,0s,0s,,f1,a,b"
    )


def test_a_run_whose_rate_changes_has_an_address_too() -> None:
    changed = FILE.replace("delay: 20ms,", "delay: 20ms, schedule: [{at: 9s, set: {rate: 2mbit}}],")
    found = link.of_scenario(scenario(changed))
    assert found is not None and "&rate_then=2mbit&rate_at=9s&" in found
    twice = changed.replace("[{at", "[{at: 1s, set: {rate: 1mbit}}, {at")
    assert link.of_scenario(scenario(twice)) is None


def test_the_first_of_several_repeats_has_its_phases_in_the_address() -> None:
    found = link.of_scenario(scenario(FILE + "repeat: 2\n"))
    assert found is not None and "&phase_jitter=1.2112ms&" in found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("app: bulk", "app: voip"),
        ("app: bulk", "app: bulk, stop: 20s"),
        ("delay: 20ms", "delay: 20ms, schedule: [{at: 9s, set: {loss: {random: 1%}}}]"),
        ("delay: 20ms", "delay: 20ms, jitter: {sd: 1ms}"),
        ("stack: freebsd-9.2, cc", "hz: 100, stack: freebsd-9.2, cc"),
        ("measure: {from: 10s}", "record: {tcp: per-ack}"),
        ("left: [a]", "access_of: {b: {delay: 1ms}}\n    left: [a]"),
    ],
)
def test_a_run_that_the_page_cannot_show_has_none(old: str, new: str) -> None:
    assert link.of_scenario(scenario(FILE.replace(old, new))) is None


def test_a_repeat_is_not_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = planner.make(loader.load(FILE + "repeat: 2\n")).runs
    monkeypatch.delattr(templates, "plan")
    assert link.of_scenario(runs[1].scenario) is None
