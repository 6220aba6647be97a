"""What machines of a lab say is data: without end, damaged, with escapes of a terminal, or nothing at all."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from cwndlab.errors import RunError
from cwndlab.testbeds import labs
from cwndlab.testbeds.live.observation import counters
from cwndlab.testbeds.live.observation.batches import batches
from cwndlab.testbeds.live.shell import parsed
from cwndlab.testbeds.ssh import lab_file
from cwndlab.testbeds.ssh.machines import connection, machine, site
from cwndlab.testbeds.ssh.machines.connection import Connection, loop
from cwndlab.testbeds.ssh.machines.machine import Machine
from cwndlab.testbeds.ssh.observation import sampler

Answer = Callable[["asyncssh.SSHServerProcess[bytes]"], Any]

GARBAGE = b"\x1b[31mroot\x1b]0;title\x07\x00\xff\xfe no such thing\n"


async def _as_a_shell(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Run the command here, as an honest machine does."""
    own = await asyncio.create_subprocess_shell(
        process.command or "true", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    await process.redirect(own.stdin, own.stdout, own.stderr)
    status = await own.wait()
    await process.stdout.drain()
    process.exit(status)


async def _with_garbage(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Answer every line with bytes that mean nothing."""
    while line := await process.stdin.readline():
        if mark := re.search(rb"printf '\\n(cwndlab-[0-9a-f]+) ", line):
            process.stdout.write(GARBAGE + b"\n" + mark[1] + b" 0\n" + mark[1] + b"\n")
    process.exit(0)


async def _with_silence(process: asyncssh.SSHServerProcess[bytes]) -> None:
    await process.stdin.read()


async def _without_end(process: asyncssh.SSHServerProcess[bytes]) -> None:
    process.stdout.write(b"0" * 64 + b"\n")
    try:
        while True:
            process.stdout.write(bytes(1 << 16))
            await process.stdout.drain()
    except (BrokenPipeError, asyncssh.Error, ConnectionError):
        process.close()


async def _with_a_refusal(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Refuse every command before it is told anything, as doas does to those without its leave."""
    process.stderr.write(b"doas: Operation not permitted\n")
    process.exit(1)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Make a lab file of machines that answer in these ways."""
    servers = []
    key = asyncssh.generate_private_key("ssh-ed25519")
    mine = asyncssh.generate_private_key("ssh-ed25519")
    mine.write_private_key(tmp_path / "key")
    mine.write_public_key(tmp_path / "authorized")

    async def serve(answer: Answer) -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            "127.0.0.1", 0, server_host_keys=[key], authorized_client_keys=str(tmp_path / "authorized"),
            process_factory=answer, encoding=None,
        )  # fmt: skip

    def make(**answers: Answer) -> Path:
        hosts, known = "", ""
        for number, (name, answer) in enumerate(answers.items(), start=1):
            server = asyncio.run_coroutine_threadsafe(serve(answer), loop()).result(10)
            servers.append(server)
            where = f"127.0.0.1:{server.get_port()}"
            hosts += f"  {name}: {{ssh: 'root@{where}', key: {tmp_path}/key, address: 10.9.{number}.1}}\n"
            known += f"[127.0.0.1]:{server.get_port()} {key.export_public_key().decode()}"
        (tmp_path / "known").write_text(known)
        file = tmp_path / "lab.yaml"
        file.write_text(f"lab: odd\npath: none\nknown_hosts: {tmp_path}/known\nhosts:\n{hosts}")
        return file

    yield make
    for server in servers:
        loop().call_soon_threadsafe(server.close)


def _machine(file: Path, name: str) -> Machine:
    read = lab_file.read(file)
    made = Machine(name, read.machines[name], read.known_hosts)
    made.connection.open()
    return made


@pytest.mark.slow
def test_a_file_without_end_is_not_fetched(lab: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_OF_A_LOG", 200 << 20)
    odd = _machine(lab(a=_without_end), "a")
    tracemalloc.start()
    with pytest.raises(RunError, match="a: log: is larger than 200 MiB, and was not fetched"):
        odd.get("log")
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()
    with pytest.raises(RunError, match="a: prints more than 16 MiB"):
        odd.put("file", b"text")
    odd.connection.close()


def test_a_file_comes_as_it_is(
    lab: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = _machine(lab(a=_as_a_shell), "a")
    there, here = tmp_path / "log", tmp_path / "here"
    there.write_bytes(bytes(range(256)) * 999)
    monkeypatch.setattr(honest, "path", lambda name: str(tmp_path / name))
    honest.save("log", here)
    assert here.read_bytes() == honest.get("log") == there.read_bytes()
    honest.connection.close()


@pytest.mark.slow
def test_a_machine_that_says_nothing_or_nonsense_is_a_line_and_the_others_are_looked_at(
    lab: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Connection._await

    def sooner(self: Connection, work: Coroutine[Any, Any, Any], limit_s: float, doing: str) -> Any:
        return usual(self, work, min(limit_s, 2.0) if self.name == "silent" else limit_s, doing)

    monkeypatch.setattr(Connection, "_await", sooner)
    file = lab(silent=_with_silence, odd=_with_garbage, honest=_as_a_shell)
    found: dict[str, list[labs.Finding]] = {}
    for each in labs.examine(file):
        found.setdefault(each.machine, []).append(each)
    amiss = [each.detail for each in found["silent"] if each.there is False]
    assert amiss[0] == "no answer within 2 s (uname)"
    assert any("makes no sense" in each.detail for each in found["odd"])
    assert any(each.what == "system" and "Linux" in each.detail for each in found["honest"])
    site.leave(file)


def test_a_command_that_ends_before_it_reads_is_told_by_its_own_words(
    lab: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refusing = _machine(lab(a=_with_a_refusal), "a").connection
    opened = refusing._open
    assert opened is not None
    begin = opened.create_process

    async def ended(*words: Any, **options: Any) -> Any:
        process = await begin(*words, **options)
        await process.wait_closed()
        return process

    monkeypatch.setattr(opened, "create_process", ended)
    with pytest.raises(RunError, match=r"^a: doas: Operation not permitted$"):
        refusing.run(["uname"])
    done = refusing.send(["cat"], b"text")
    assert (done.status, done.err) == (1, "doas: Operation not permitted\n")
    pipe = refusing.begin(["cat"])
    pipe.write(b"text")
    pipe.close()
    assert pipe.line(10.0) == ""
    assert [record for record in caplog.records if record.name == "asyncio" and record.exc_info] == []
    refusing.close()


def test_a_command_of_the_lab_file_that_fails_is_named_with_its_key(lab: Callable[..., Path]) -> None:
    honest = _machine(lab(a=_as_a_shell), "a")
    honest.hook("setup", "true")
    said = "a: before_run: `echo no such module >&2; exit 3`: no such module"
    with pytest.raises(OSError, match=re.escape(said)):
        honest.hook("before_run", "echo no such module >&2; exit 3")
    honest.connection.close()


@pytest.mark.parametrize("told", ["", "9" * 400, "\u00b2" * 19, "-1", "nan", "\x1b[2J"])
def test_a_clock_that_tells_no_time_is_named(told: str, lab: Callable[..., Path]) -> None:
    async def answer(process: asyncssh.SSHServerProcess[bytes]) -> None:
        while await process.stdin.readline():
            process.stdout.write(f"{told}\n".encode())
        process.exit(0)

    odd = _machine(lab(a=answer), "a")
    with pytest.raises(OSError, match=r"^a: its clock says '.*, no time in nanoseconds$"):
        odd.clock()
    odd.connection.close()


@pytest.mark.slow
def test_lab_check_shows_escapes_and_carries_none_out(lab: Callable[..., Path]) -> None:
    file = lab(odd=_with_garbage)
    ran = subprocess.run(
        [sys.executable, "-m", "cwndlab", "lab", "check", str(file)], capture_output=True, check=False
    )
    assert ran.returncode == 1
    assert b"\x1b" not in ran.stdout + ran.stderr
    assert b"\\x1b[31mroot" in ran.stdout
    assert b"fault of cwndlab" not in ran.stderr


@pytest.mark.parametrize(
    "text", ["Tcp:\nTcp: 1\n", "Tcp: a b\nTcp: 1\n", "Tcp: a\nTcp: \u00b2\n", "Ip6InA " + "9" * 5000]
)
def test_counters_that_make_no_sense_are_of_a_host(text: str) -> None:
    with pytest.raises(RunError, match=r"^host a: its counters of TCP and IP make no sense$"):
        counters.changed({"a": ("", text)})


def test_what_ss_and_the_load_of_processors_say_is_data() -> None:
    details = "cubic rto:204 rtt:4/2 mss:1448 cwnd:10"
    text = f"1400000000.0\nESTAB 0 0 10.0.0.1:40000 10.0.1.1:http\n\t {details}\n"
    looked = object.__new__(sampler.SsSampler)
    looked._clocks, looked._zero, looked._flows = {"a": machine.Clock(0, 0)}, 0, []
    looked._end_ns = 1
    assert looked._rows("a", text) == ([], [])
    for told in ("cpu0 1 2 3\n", f"cpu0 {'9' * 5000} 1 2 3 4\n", "cpu0  \n"):
        assert sampler.busiest(told * 2) == 0.0


NUMBERS = b'{"name": "t_ns", "kind": "u64", "nulls": false}'
NAMES = b'{"name": "flow", "kind": "dict", "nulls": false, "values": []}'


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\n",
        b"{}\n",
        b'{"table": "tcp", "rows": 1000000000, "columns": [%s]}\nabc' % NUMBERS,
        b'{"table": "tcp", "rows": -1, "columns": [%s]}\nabc' % NUMBERS,
        b'{"table": "tcp", "rows": 1, "columns": [%s]}\n\x07\x00\x00\x00' % NAMES,
    ],
)
def test_what_an_agent_recorded_is_data(data: bytes) -> None:
    with pytest.raises(RunError, match="what an agent recorded cannot be read"):
        batches(data)


@pytest.mark.parametrize("text", ["", "<html>", b"\xff\xfe", "[" * 100_000])
def test_what_is_no_json_names_its_program(text: str | bytes) -> None:
    with pytest.raises(RunError, match=r"^ip -j link show prints no JSON, but "):
        parsed(text, "ip -j link show")


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"a": 1}', b"\xff"])
def test_what_python_says_of_an_answer_is_kept_from_the_user(data: bytes) -> None:
    with pytest.raises(connection.ANSWER_ERRORS) as raised:
        int(json.loads(data)["offset"])
    assert connection.one_line_of(raised.value) == "its answer makes no sense"
    assert connection.one_line_of(ValueError("no time")) == "no time"


@pytest.mark.parametrize(
    ("printed", "status", "said"),
    [
        (b"Linux", b"\x1b[31mxx", "its answer makes no sense"),
        (b"Linux", b"9" * 5000, "its answer makes no sense"),
        (b"Linux", b"-5", "its answer makes no sense"),
        (b"Linux", None, "its shell ended without an answer"),
        (b"disk\t\x1b]0;x\x07\nsystem\tLinux\nuser\t0", b"0", "its answer makes no sense"),
        (b"disk\tnan\nsystem\tLinux\nuser\t0", b"0", "its answer makes no sense"),
        (b"disk\t" + b"9" * 5000 + b"\nsystem\tLinux\nuser\t0", b"0", "its answer makes no sense"),
    ],
)
def test_no_words_of_python_are_told_of_an_answer(
    lab: Callable[..., Path], printed: bytes, status: bytes | None, said: str
) -> None:
    async def answer(process: asyncssh.SSHServerProcess[bytes]) -> None:
        while line := await process.stdin.readline():
            if status is None:
                break
            if mark := re.search(rb"printf '\\n(cwndlab-[0-9a-f]+) ", line):
                process.stdout.write(printed + b"\n" + mark[1] + b" " + status + b"\n" + mark[1] + b"\n")
        process.exit(0)

    file = lab(odd=answer)
    found = [each.detail for each in labs.examine(file)]
    site.leave(file)
    assert said in found
    assert not re.search("invalid literal|could not convert|Exceeds the limit", " ".join(found))
