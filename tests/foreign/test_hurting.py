"""Hooks that hang, fork, print and close files: their run fails with the reason, and nothing else does."""

import json
import multiprocessing
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import cwndlab as api
from cwndlab.errors import InputError
from cwndlab.execution.executors import processes, watchdog
from cwndlab.foreign.compilation import HERE
from experiments import dumbbell

MODULES = Path(__file__).parent / "modules"

EXPERIMENT = dumbbell(
    "own",
    duration="1s",
    a="stack: linux-6.18, cc: new",
    b="stack: linux-6.18",
    bottleneck="rate: 20mbit, delay: 10ms, queue: {kind: pfifo, limit: 50p}",
    flow="name: f, from: a, to: b",
)

HOW = "hosts.a.sysctl.module.tcp_hurts.how"
BYTES = "hosts.a.sysctl.module.tcp_hurts.bytes"
HURTS = f"new={MODULES}/tcp_hurts.c,abi=linux-6.12"

OVERDUE = "took more than 5 s in {} of new, at 0."
STOPPED = "was stopped for 5 s; the last call was"
FORKED = "new: {} forked: what it made of its process was ended, at 0."
CLOSED = "files of its process were closed"
WRITTEN = "files of its process were written to"
CHANGED = "user, limits, timer, umask, tracer or blocked signals of its process were changed"

FAILURES = {
    1: OVERDUE,
    2: OVERDUE,
    3: OVERDUE,
    4: OVERDUE,
    5: FORKED,
    6: CLOSED,
    7: "more than 64 files were left open",
    8: None,
    9: None,
    10: None,  # a copy that no function of the C library makes is ended, and goes unnoticed
    11: CLOSED,
    13: CHANGED,
    14: CHANGED,
    15: CHANGED,
    16: WRITTEN,
    18: None,
    20: CHANGED,
    21: (STOPPED, OVERDUE.format("cong_avoid")),  # stopped between hooks, or in one
    22: OVERDUE,
    23: CHANGED,
}


def rows(results, run):
    return results.rows(run).drop_columns(["run_id"]).to_pylist()


@pytest.mark.slow
def test_what_a_module_does_to_its_process_is_its_runs_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # After each a run that does nothing, in the same part.
    values = [value for how in (0, *FAILURES) for value in (how, 100 + how)]
    sweep = f"sweep: [{{{HOW}: {values}}}]"
    results = api.load(EXPERIMENT + sweep, cc=[HURTS]).run(out="out", jobs=2)
    fine = api.load(EXPERIMENT, ["hosts.a.cc=reno"]).run(out="fine")
    for record in results.records():
        wrong = FAILURES.get(int(record.cell[HOW]))
        assert record.status == ("complete" if wrong is None else "failed"), record.error
        if wrong is not None:
            wrong = wrong.format("cong_avoid") if isinstance(wrong, str) else wrong
            assert (record.error or "").startswith(wrong), record.error
        else:
            assert rows(results, record.run_id) == rows(fine, 0)
    assert not [path for path in Path("out/runs").iterdir() if path.name.startswith(".")]
    log = Path("out/modules/output.log").read_text()
    assert {path.stat().st_mode & 0o444 for path in Path("out").rglob("*")} == {0o444}
    assert log.startswith(f"run {values.index(8)}:\nwhat a hook says, again and again\n")
    assert log.endswith("\nand more\n")
    assert len(log) < watchdog.OUTPUT_BYTES + 100


@pytest.mark.slow
def test_what_was_done_before_hooks_that_hang_is_kept(tmp_path):
    (tmp_path / "own.yaml").write_text(EXPERIMENT + f"sweep: [{{{HOW}: [100, 101, 102, 103, 1, 2, 3, 4]}}]")
    command = [sys.executable, "-m", "cwndlab", "run", "own.yaml", "--cc", HURTS, "-o", "out", "--jobs", "1"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as sweep:
        while sweep.poll() is None and not (tmp_path / "out" / "runs" / "0-3").is_dir():
            time.sleep(0.1)
        sweep.terminate()
        assert sweep.stderr is not None
        assert "4 of 8 runs" in sweep.stderr.read()


def test_what_a_worker_said_before_nonsense_is_heard():
    ours, theirs = multiprocessing.Pipe()
    nothing: Any = None
    worker = processes._Worker(nothing, ours, ours, nothing, nothing, "0-1")
    os.write(theirs.fileno(), b'["advance", 1, 7]\nnonsense\n["advance"')
    messages = worker.messages()
    assert next(messages) == ["advance", 1, 7]
    with pytest.raises(ValueError, match="line 1 column 1"):
        next(messages)
    os.write(theirs.fileno(), b", 2, 8]\n")
    assert list(worker.messages()) == [["advance", 2, 8]]
    worker.held = bytes(processes.MESSAGE_BYTES)
    os.write(theirs.fileno(), b"x")
    with pytest.raises(ValueError, match="1048577"):
        list(worker.messages())


@pytest.mark.slow
def test_a_hook_that_stops_the_clock_stops_it_for_its_run_alone(tmp_path):
    sweep = f"sweep: [{{{HOW}: [18, 19]}}]"
    first, second = api.load(EXPERIMENT + sweep, cc=[HURTS]).run(out=tmp_path / "out", jobs=1).records()
    assert first.status == "complete"
    assert (second.error or "").startswith("new: cong_avoid used more than 0.2 s of processor time")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who may become somebody else")
@pytest.mark.slow
def test_a_hook_that_becomes_another_user_fails_its_run(tmp_path):
    results = api.load(EXPERIMENT, [f"{HOW}=17"], cc=[HURTS]).run(out=tmp_path / "out")
    assert (next(iter(results.records())).error or "").startswith(CHANGED)


@pytest.mark.slow
def test_what_a_hook_prints_is_in_no_json(tmp_path):
    (tmp_path / "own.yaml").write_text(EXPERIMENT)
    program = [sys.executable, "-m", "cwndlab", "run", "own.yaml", "--json", "--cc", HURTS, "-o", "out"]
    for jobs in ("1", "2"):
        command = [*program, "--jobs", jobs, "--set", f"{HOW}=8"]
        command[command.index("out")] = f"out-{jobs}"
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        json.loads(done.stdout)
        assert "what a hook says" not in done.stdout + done.stderr


@pytest.mark.parametrize("number", [1, 4, 8, 200, 4096, 100_000, 200_000])
@pytest.mark.slow
def test_an_overrun_of_the_private_block_is_found(tmp_path, number):
    results = api.load(EXPERIMENT, [f"{HOW}=12", f"{BYTES}={number}"], cc=[HURTS]).run(out=tmp_path / "out")
    record = next(iter(results.records()))
    wrong = "new: cong_avoid stopped: touched byte 104 of its private block, which has 104, at 0."
    assert (record.error or "").startswith(wrong)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("Sleeps", OVERDUE),
        ("Forks", FORKED),
        ("Closes", CLOSED),
        ("Prints", None),
        ("Threads", None),
    ],
)
@pytest.mark.slow
def test_so_is_what_a_class_of_python_does(tmp_path, name, wrong):
    option = f"new={MODULES}/plain_fails.py:{name}"
    record = next(iter(api.load(EXPERIMENT, cc=[option]).run(out=tmp_path / "out").records()))
    assert record.status == ("complete" if wrong is None else "failed")
    assert (record.error or "").startswith((wrong or "").format("on_ack"))


@pytest.mark.slow
def test_what_its_init_does_is_said(tmp_path):
    source = (MODULES / "tcp_hurts.c").read_text()
    hung = source.replace("return tcp_register", 'printf("{");\n\tfflush(stdout);\n\treturn tcp_register')
    (tmp_path / "tcp_hurts.c").write_text(hung)
    assert (
        api.load(EXPERIMENT, cc=[f"new={tmp_path}/tcp_hurts.c,abi=linux-6.12"])
        .run(out=tmp_path / "out")
        .complete
    )
    for what, line in (
        ("_exit(3)", "the process ended with 3"),
        ("close(1), close(2), _exit(0)", "without an answer"),
    ):
        (tmp_path / "tcp_hurts.c").write_text(hung.replace('printf("{")', what))
        with pytest.raises(InputError, match=line):
            api.load(EXPERIMENT, cc=[f"new={tmp_path}/tcp_hurts.c,abi=linux-6.12"])


WHERE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
__attribute__((constructor)) static void where(void)
{
	char folder[4096];
	struct stat state;
	Dl_info info;
	FILE *said = fopen(getenv("SAID"), "a");

	dladdr((void *)where, &info);
	strcpy(folder, info.dli_fname);
	*strrchr(folder, '/') = 0;
	stat(folder, &state);
	fprintf(said, "%o %s\\n", state.st_mode & 07777, folder);
	fclose(said);
}
"""


@pytest.mark.parametrize("kind", ["module", "library"])
@pytest.mark.slow
def test_a_copy_is_in_a_folder_of_its_own_that_nobody_can_guess(tmp_path, monkeypatch, kind):
    shared, said = tmp_path / "shared", tmp_path / "said"
    shared.mkdir()
    monkeypatch.setenv("TMPDIR", str(shared))
    monkeypatch.setenv("SAID", str(said))
    if kind == "module":
        (tmp_path / "where.c").write_text(WHERE)
        option = f"new={MODULES}/tcp_own_reno.c,{tmp_path}/where.c,abi=linux-6.12"
    else:
        option = f"new={tmp_path}/libnew.so"
        (tmp_path / "new.c").write_text(WHERE + f'#define HOW 0\n#include "{MODULES}/library_fails.c"\n')
        command = ["cc", "-shared", "-fPIC", f"-I{HERE / 'plain'}", tmp_path / "new.c"]
        subprocess.run([*command, "-o", tmp_path / "libnew.so"], check=True)
    assert api.load(EXPERIMENT, cc=[option]).run(out=tmp_path / "out").complete
    copies = [line.split() for line in said.read_text().splitlines()]
    assert len(copies) >= 2
    assert {mode for mode, _ in copies} == {"700"}
    for _, folder in copies:
        assert re.fullmatch(rf"{re.escape(str(shared))}/cwndlab-cc-\w{{6}}", folder)
    assert len({folder for _, folder in copies}) == len(copies)
    assert not list(shared.iterdir())
