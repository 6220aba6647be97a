"""Guests from outside: transport protocols in C, as stacks of an experiment."""

import subprocess
from pathlib import Path

import pytest

import cwndlab as api
from command_line import CommandLine
from cwndlab.errors import InputError
from cwndlab.foreign.compilation import HERE
from experiments import dumbbell

EXAMPLE = Path(__file__).parents[2] / "examples" / "guests" / "fixed_window.c"
FAILS = Path(__file__).parent / "modules" / "guest_fails.c"
HEADER = HERE / "guest"

EXPERIMENT = dumbbell(
    "own",
    duration="8s",
    a="stack: guest:mine",
    b="stack: guest:mine",
    bottleneck="rate: 10mbit, delay: 20ms, queue: {kind: pfifo, limit: 50p}, loss: {random: 1%}",
    flow="name: f, from: a, to: b, app: {kind: fixed, size: 2MB}",
)


def failing(tmp_path: Path, how: int) -> str:
    """A guest that fails so, compiled."""
    library = tmp_path / f"libfails{how}.so"
    flags = ["-shared", "-fPIC", "-fvisibility=hidden", f"-DHOW={how}", f"-I{HEADER}"]
    subprocess.run(["cc", *flags, FAILS, "-o", library], check=True)
    return f"mine={library}"


def rows(results: api.ResultSet, run: int) -> list[dict[str, object]]:
    return results.rows(run).drop_columns(["run_id"]).to_pylist()


@pytest.mark.slow
def test_a_guest_in_c_carries_a_transfer_and_jobs_change_no_byte(tmp_path: Path) -> None:
    sweep = "sweep: [{hosts.a.cc: [window-16, window-64]}]\nrepeat: 2\n"
    named = [f"mine={EXAMPLE}"]
    one, two = (
        api.load(EXPERIMENT + sweep, guest=named).run(out=tmp_path / str(jobs), jobs=jobs) for jobs in (1, 2)
    )
    assert [rows(one, run) for run in range(4)] == [rows(two, run) for run in range(4)]
    for row in one.summary.to_dicts():
        assert row["status"] == "complete"
        assert row["completion_s"] > 1.6
        assert row["stack"] == "guest:mine"
        assert row["srtt_mean_ms"] >= 40
        assert row["retransmit_rate"] > 0
        assert row["rtos"] + row["fast_recoveries"] > 0
    windows = one.summary["cwnd_mean_bytes"].to_list()
    assert sorted(set(windows)) == [16 * 1436, 64 * 1436]
    version = next(iter(one.records())).versions["guest mine"]
    assert version.startswith("fixed-window-1 sha256 ")
    assert (one.path / "modules" / "guest-mine" / "fixed_window.c").read_bytes() == EXAMPLE.read_bytes()


@pytest.mark.slow
def test_connections_of_a_host_share_its_machine(tmp_path: Path) -> None:
    more = """\
  - {name: g, from: a, to: b, app: bulk}
  - {name: h, from: b, to: a, app: {kind: fixed, size: 1MB}}
  - {name: i, from: a, to: b, app: {kind: request-response, requests: 5, request: 100B, response: 10KB}}
"""
    results = api.load(EXPERIMENT + more, ["repeat=1"], guest=[f"mine={EXAMPLE}"]).run(out=tmp_path / "out")
    summary = {row["flow"]: row for row in results.summary.to_dicts()}
    assert all(row["status"] == "complete" for row in summary.values())
    assert summary["f"]["completion_s"] > 1.6
    assert summary["h"]["completion_s"] > 0.8
    assert summary["g"]["goodput_mbps"] > 1


@pytest.mark.slow
def test_a_library_is_what_its_source_is(tmp_path: Path) -> None:
    library = tmp_path / "libmine.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{HEADER}", EXAMPLE, "-o", library], check=True)
    own, made = (
        api.load(EXPERIMENT, ["repeat=1"], guest=[f"mine={file}"]).run(out=tmp_path / f"of-{file.name}")
        for file in (EXAMPLE, library)
    )
    assert rows(own, 0) == rows(made, 0)
    assert [path.name for path in (made.path / "modules" / "guest-mine").iterdir()] == ["module.json"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "line"),
    [
        (1, "guest:mine: refused, and did not say why"),
        (2, "host b: guest:mine: handle crashed (SIGSEGV), at 0."),
        (3, "host b: guest:mine: handle used more than 0.2 s of processor time, at 0."),
        (4, "host b: flow f: its guest sent something else than TCP over IPv4"),
        (5, "host b: guest:mine: poll_transmit stopped: says a length that is larger than its buffer, at 0."),
        (6, "flow f: guest:mine: no more connections"),
    ],
)
def test_a_guest_that_fails_is_one_line(how: int, line: str, tmp_path: Path) -> None:
    text = EXPERIMENT.replace("a: {stack: guest:mine", "a: {stack: linux-6.18")
    results = api.load(text, ["repeat=1"], guest=[failing(tmp_path, how)]).run(out=tmp_path / "out")
    (record,) = results.records()
    assert record.status == "failed"
    assert line in record.error
    assert "\n" not in record.error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "line"),
    [
        (7, "--guest mine: its library: stopped: exports no cwndlab_guest"),
        (
            8,
            "is for version 99 of cwndlab_guest.h, and this cwndlab has version 1",
        ),
        (9, "has no name, or no congestion control"),
        (10, "is without a function that cwndlab_guest.h asks for"),
    ],
)
def test_an_object_that_is_no_guest_is_refused(how: int, line: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        api.load(EXPERIMENT, guest=[failing(tmp_path, how)])
    assert line in str(refused.value)


@pytest.mark.slow
def test_sysctls_are_the_guests_to_judge(tmp_path: Path) -> None:
    text = EXPERIMENT.replace("a: {stack: guest:mine", "a: {stack: guest:mine, sysctl: {net.x: 3}")
    (record,) = api.load(text, ["repeat=1"], guest=[failing(tmp_path, 0)]).run(out=tmp_path / "out").records()
    assert "host a: guest:mine: net.x=3 is not for me" in record.error


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("mine=nowhere.so", "--guest mine: nowhere.so: there is no such file"),
        ("a b=x.so", "--guest: found 'a b=x.so'; expected NAME=FILE.so, NAME=FILE.c or NAME=TREE"),
        ("mine", "--guest: found 'mine='; expected NAME=FILE.so, NAME=FILE.c or NAME=TREE"),
    ],
)
def test_what_names_nothing_is_refused(source: str, line: str) -> None:
    with pytest.raises(InputError) as refused:
        api.load(EXPERIMENT, guest=[source])
    assert line in str(refused.value)


def test_a_source_that_does_not_compile_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "wrong.c"
    file.write_text("int x = y;\n")
    with pytest.raises(InputError, match=r"--guest mine: .*wrong\.c:1:9: error: .y. undeclared"):
        api.load(EXPERIMENT, guest=[f"mine={file}"])


def test_without_the_option_there_is_no_such_stack(tmp_path: Path) -> None:
    cwndlab_in = CommandLine(tmp_path)
    ran = cwndlab_in("check", cwndlab_in.file("x.yaml", EXPERIMENT))
    assert ran.code == 2
    assert "found 'guest:mine'" in ran.err and "(hint: --guest mine=FILE says what it is)" in ran.err
