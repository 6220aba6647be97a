"""Whole command lines: what they print, where, and how they end."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import SMALL
from cwndlab.cli import groups
from cwndlab.experiment.suites import evaluations

pytestmark = pytest.mark.slow

SNAPSHOTS = Path(__file__).parent / "snapshots"


def check_snapshot(name, text):
    """Compare with the stored text; with CWNDLAB_UPDATE_SNAPSHOTS set, store it instead."""
    file = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("CWNDLAB_UPDATE_SNAPSHOTS"):
        SNAPSHOTS.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def masked(text):
    """The text with what an engine or a date decides replaced, so that snapshots show form only."""
    text = re.sub(r"\d{4}-\d\d-\d\d-\d{6}(\.\d+)?", "DATE", text)
    return re.sub(r"(?<= )[ ]*\d+(\.\d+)?(?=( |$))", lambda found: "#".rjust(len(found[0])), text, flags=re.M)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "init",
        "run",
        "dev watch",
        "advise",
        "dev script",
        "data suites",
        "compare --testbed",
        "show",
        "plot",
        "report",
        "live",
        "compare --cc",
        "explain",
        "judge",
        "compare",
        "data import",
        "data export",
        "loadlatency",
        "loadlatency serve",
        "loadlatency run",
        "data trace",
        "dev schema",
        "doctor",
        "data merge",
        "lab",
        "lab init",
        "lab check",
        "demo",
        "help",
        "data cite",
        "dev completion",
        "data bundle",
        "data reproduce",
        "compare --build",
        "check",
    ],
)
def test_help(cwndlab, command):
    ran = cwndlab(*command.split(), "--help")
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= 80
    check_snapshot(f"help-{command.replace(' ', '-') or 'cwndlab'}", ran.out)


@pytest.mark.parametrize("name", groups.MOVED)
def test_a_name_of_before_works_and_says_the_new_one(inside, name):
    new = groups.MOVED[name]
    ran = inside(name, "--help")
    assert (ran.code, ran.err) == (0, f"note: cwndlab {name} is now cwndlab {new}\n")
    assert ran.out == inside(*new.split(), "--help").out


@pytest.mark.parametrize(
    "words",
    [("--testbed", "nets", "x.yaml"), ("x.yaml", "--testbed", "nets"), ("-q", "--testbed=nets", "x.yaml")],
)
def test_a_side_of_compare_keeps_its_value_wherever_it_stands(inside, words):
    ran = inside("compare", *words)
    assert (ran.code, ran.out) == (2, "")
    assert "--testbed nets: has no kernel" in ran.err


@pytest.mark.parametrize("words", [("--cc", "old.c", "new.c"), ("old.c", "new.c", "--cc")])
def test_the_side_of_compare_may_stand_behind_its_files(inside, words):
    ran = inside("compare", *words)
    assert (ran.code, ran.out) == (2, "")
    assert "old.c" in ran.err


def test_no_command_is_a_question_for_help(cwndlab):
    assert cwndlab() == cwndlab("--help")


def test_run_prints_the_summary_and_where_it_is(cwndlab):
    cwndlab.file("small.yaml")
    ran = cwndlab("run", "small.yaml")
    assert ran.code == 0
    table, _, answer = ran.out.partition("\n\n")
    check_snapshot("run", masked(table) + "\n--- stderr\n" + masked(ran.err))
    assert max(map(len, ran.out.splitlines())) <= 80
    assert " ".join(answer.split()).startswith("cubic against newreno: ")


def test_the_congestion_control_of_a_host_that_names_none_is_said(cwndlab):
    cwndlab.file("small.yaml", SMALL.replace(", cc: newreno", "").partition("sweep:")[0])
    said = "note: a names no cc: newreno, the default of freebsd-9.2, was taken\n"
    assert said in cwndlab("run", "small.yaml", "--dry-run").out
    ran = cwndlab("run", "small.yaml", "-o", "out", "--no-report")
    assert ran.err.startswith(said)


def test_every_share_is_written_in_per_cent_or_as_a_fraction(cwndlab, small):
    for share in ("75%", "0.75", "0", "0%"):
        ran = cwndlab("plot", small, "--kind", "throughput", "--overlap", share, "-o", "x.png")
        assert (ran.code, ran.out) == (0, "x.png\n")
    for option, kind in (("--overlap", "throughput"), ("--confidence", "bar")):
        for share in ("100%", "1", "-1%", "75 percent", "nan"):
            ran = cwndlab("plot", small, "--kind", kind, option, share)
            assert ran.code == 2
            assert ran.err.startswith(f"error: {option}: found {share!r}; expected a share ")


def test_check_draws_the_plan_and_runs_nothing(cwndlab):
    cwndlab.file("small.yaml")
    ran = cwndlab("check", "small.yaml", "--jobs", "2", "--set", "network.dumbbell.access.rate=1mbit")
    assert (ran.code, ran.err) == (0, "")
    assert max(len(line) for line in ran.out.splitlines() if not line.startswith("note: ")) <= 80
    assert "note: flow f1: access.a lets 1mbit pass, less than bottleneck, 10mbit" in ran.out
    check_snapshot("check", ran.out)
    assert [path.name for path in cwndlab.directory.iterdir()] == ["small.yaml"]
    refused = cwndlab("check", "small.yaml", "--set", "hosts.a.ecn=maybe")
    assert refused.code == 2


def test_dry_run_runs_nothing(cwndlab):
    cwndlab.file("small.yaml")
    ran = cwndlab("run", "small.yaml", "--dry-run", "--jobs", "2", "--set", "repeat=2")
    assert (ran.code, ran.err) == (0, "")
    check_snapshot("dry-run", ran.out)
    assert [path.name for path in cwndlab.directory.iterdir()] == ["small.yaml"]

    planned = [
        json.loads(line) for line in cwndlab("run", "small.yaml", "--dry-run", "--json").out.splitlines()
    ]
    assert [(run["cell"]["hosts.a.cc"], run["repeat"]) for run in planned] == [
        (cc, repeat) for cc in ("newreno", "cubic") for repeat in range(5)
    ]
    assert all(run["scenario"]["duration_ns"] == 2 * 10**9 for run in planned)


def test_json_lines_hold_the_whole_summary(cwndlab, small):
    ran = cwndlab("show", small, "--json")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert (ran.code, ran.err, len(rows)) == (0, "", 10)
    assert rows[0]["hosts.a.cc"] == rows[0]["cc"] == "newreno"
    assert 5 < rows[0]["goodput_mbps"] < 10
    assert rows[0]["jain"] is None


def test_show_the_columns_asked_for(cwndlab, small):
    ran = cwndlab("show", small, "--columns", "run_id, repeat,goodput_mbps", "--verify")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[0].split() == ["cc", "repeat", "run_id", "goodput"]
    assert len(ran.out.splitlines()) == 2 + 10


def test_init_writes_an_experiment_that_runs_and_keeps_what_is_there(cwndlab):
    ran = cwndlab("init")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "wrote experiment.yaml; run it with: cwndlab run experiment.yaml\n"
    assert cwndlab("run", "experiment.yaml", "--dry-run").code == 0
    again = cwndlab("init")
    assert (again.code, again.err) == (2, "error: experiment.yaml: is there already; give another name\n")


def test_report_and_plot_say_what_they_wrote(cwndlab, small):
    assert cwndlab("report", small, "-o", "page.html").out == "page.html\n"
    assert "<html" in (cwndlab.directory / "page.html").read_text(encoding="utf-8")
    ran = cwndlab(
        *("plot", small, "--kind", "throughput", "--where", "hosts.a.cc=cubic", "--where", "repeat=0"),
        *("--window", "0.5:", "--average", "0.2", "-o", "figure.svg"),
    )
    assert (ran.code, ran.out, ran.err) == (0, "figure.svg\n", "")
    assert "<svg" in (cwndlab.directory / "figure.svg").read_text(encoding="utf-8")


def test_suites_are_listed_by_name(cwndlab):
    lines = cwndlab("data", "suites").out.splitlines()
    assert max(map(len, lines)) <= 80
    names = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert names == sorted(names)
    assert {"teacup-140502A", "cubic-patch", "tri-point", *evaluations.SUITES} <= set(names)


def test_a_suite_that_judges_is_no_experiment_and_says_its_command(cwndlab):
    for name in evaluations.SUITES:
        told = f"compare --cc --suite {name}"
        assert told in " ".join(cwndlab("data", "suites").out.split())
        refused = cwndlab("run", name)
        assert refused.code == 2
        assert told in refused.err


def test_schema_is_json_schema(cwndlab):
    schema = json.loads(cwndlab("dev", "schema").out)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert "hosts" in schema["properties"]


def test_doctor_says_what_this_machine_can_do(cwndlab):
    found = {(item["section"], item["what"]): item for item in json.loads(cwndlab("doctor", "--json").out)}
    assert found["testbeds", "sim"]["there"] is True
    assert found["testbeds", "ssh"] == {
        "section": "testbeds",
        "what": "ssh",
        "there": False,
        "detail": "testbed ssh needs --lab FILE (cwndlab lab init writes one)",
    }
    netns = found["testbeds", "netns"]
    assert netns["detail"].startswith("ready" if netns["there"] else "testbed netns needs ")
    assert found["cwndlab", "engine"]["detail"]
    assert found["tools", "tc"].keys() == {"section", "what", "there", "detail"}
    assert [line for line in cwndlab("doctor").out.splitlines() if line.startswith("  + sim")]


def test_doctor_says_how_to_get_the_tools_that_are_not_there(cwndlab, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    found = [item for item in json.loads(cwndlab("doctor", "--json").out) if item["section"] == "tools"]
    assert found
    assert not any(item["there"] for item in found)
    assert all(re.search(r"; Debian: apt install [a-z0-9-]+\)$", item["detail"]) for item in found)


def test_version(cwndlab):
    assert re.fullmatch(r"cwndlab \d+\.\d+\.\d+( \(commit \S+\))?\n", cwndlab("--version").out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rum"], "No such command 'rum'. Did you mean 'run'? (see cwndlab --help)"),
        (["run"], "Missing argument 'FILE|SUITE' (see cwndlab run --help)"),
        (["run", "--jobs", "many", "small.yaml"], "Invalid value for '-j' / '--jobs': "),
        (["run", "--jobs", "0", "small.yaml"], "jobs: 0 is not a number of workers; it must be at least 1"),
        (["run", "--frobnicate"], "No such option: --frobnicate"),
        (["run", "small.yaml", "--testbed", "ssh"], "testbed ssh needs --lab FILE"),
        (["run", "small.yaml", "--lab", "no.yaml"], "no.yaml: cannot be read"),
        (["lab", "check", "small.yaml"], "small.yaml:1: experiment: found the unknown key 'experiment'"),
        (["run", "small.yaml", "--testbed", "simm"], "testbed: 'simm' does not exist; did you mean sim?"),
        (["run", "no.yaml"], "no.yaml: "),
        (["run", "demmo"], "demmo"),
        (["run", "."], ".: "),
        (["run", "small.yaml", "--set", "duration"], "--set"),
        (["run", "small.yaml", "--set", "duratoin=3s"], "did you mean duration?"),
        (["run", "small.yaml", "--set", "duration=3"], "--set"),
        (["run", "small.yaml", "-o", "small.yaml"], "small.yaml: File exists"),
        (["run", "small.yaml", "-o", "full"], "full: not empty; give another directory, or --resume"),
        (["run", "small.yaml", "-o", "full", "--resume"], "full: not a directory of results"),
        (["run", "small.yaml", "--resume"], "results: no results of small to resume"),
        (["run", "bad.yaml"], "bad.yaml:2: duration: "),
        (["show", "nowhere"], "nowhere: no such directory"),
        (["show", "full"], "full: not a directory of results (catalogue.parquet is not there)"),
        (["show"], "results/latest: no such directory"),
        (
            ["show", "RESULTS", "--columns", "godput_mbps"],
            "'godput_mbps' does not exist; did you mean goodput_mbps?",
        ),
        (["plot", "RESULTS", "--kind", "cwmd"], "'cwmd' does not exist"),
        (["plot", "RESULTS", "--window", "early"], "--window: found 'early'; expected FROM:TO"),
        (["plot", "RESULTS", "--window", "1:2:3"], "--window: found '1:2:3'; expected FROM:TO"),
        (["plot", "RESULTS", "--where", "cubic"], "--where: found 'cubic'; expected KEY=VALUE"),
        (["plot", "RESULTS", "--run", "77"], "'77' does not exist"),
        (["plot", "RESULTS", "-o", "figure.bmp"], "'.bmp' does not exist; there is .png, .svg, .pdf"),
        (["plot", "RESULTS", "-o", "no/such/place.png"], "no/such/place.png"),
        (["report", "RESULTS", "-o", "no/such/place.html"], "no/such/place.html"),
        (["report", "nowhere"], "nowhere: no such directory"),
        (["data", "trace", "full"], "full: not a file"),
        (["data", "trace", "no.pcap"], "no.pcap: no such file"),
        (["init", "no/such/place.yaml"], "no/such/place.yaml: No such file or directory"),
    ],
)
def test_bad_command_lines_get_one_line_and_exit_code_2(inside, cwndlab, small, arguments, message):
    cwndlab.file("small.yaml")
    cwndlab.file("bad.yaml", SMALL.replace("duration: 2s", "duration: soon"))
    (cwndlab.directory / "full").mkdir()
    (cwndlab.directory / "full" / "thesis.tex").write_text("years of work")
    ran = inside(*[str(small) if word == "RESULTS" else word for word in arguments])
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    if re.search(r"\.yaml:\d", message):  # of a file every error is said, with its line and marks below
        first, _, place = ran.err.partition("\n")
        assert message in first
        assert set(place.splitlines()[1]) <= set(" |^")
    else:
        assert ran.err.count("\n") == 1
    assert message in ran.err
    assert (cwndlab.directory / "full" / "thesis.tex").read_text() == "years of work"


HEAVY = {
    "numpy",
    "polars",
    "pyarrow",
    "pydantic",
    "matplotlib",
    "scipy",
    "yaml",
    "rich",
    "jinja2",
    "cwndlab._native",
}


@pytest.mark.parametrize("code", ["import cwndlab", "from cwndlab.cli import main; main(['--help'])"])
def test_import_and_help_load_nothing_heavy(code):
    assert not loaded_by(code) & HEAVY


@pytest.mark.parametrize("name", ["claims", "fidelity"])
def test_what_runs_in_a_clone_only_says_so(inside, name):
    ran = inside(name, "suite", "--out", "x")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert f"python -m tools.truth {name}" in ran.err


def test_a_run_that_prints_its_table_loads_nothing_for_plots_and_frames(tmp_path):
    (tmp_path / "small.yaml").write_text(SMALL)
    command = ["run", str(tmp_path / "small.yaml"), "--no-report", "-o", str(tmp_path / "out")]
    loaded = loaded_by(f"from cwndlab.cli import main; main({command!r})")
    assert (tmp_path / "out" / "summary.csv").is_file()
    assert not loaded & {"polars", "matplotlib", "scipy", "jinja2"}


def loaded_by(code):
    """The modules that a Python program has loaded at its end."""
    watched = f"import sys, atexit\natexit.register(lambda: print(*sys.modules, file=sys.stderr))\n{code}"
    ran = subprocess.run([sys.executable, "-c", watched], capture_output=True, text=True, check=True)
    loaded = set(ran.stderr.split())
    assert "cwndlab" in loaded
    return loaded


def on_a_terminal(code, **environment):
    """What a Python program writes to a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", **environment},
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            seen += os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
    assert process.wait() == 0
    os.close(ours)
    return seen.decode()


PROGRESS = """
from cwndlab.execution import progress
progress.QUIET_S = -1
with progress.ProgressDisplay() as display:
    display.start(4, 400)
    for _ in range(3):
        display.advance(1, 100)
"""
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9][0-9;]*m")


def test_progress_is_live_on_a_terminal_and_colourless_on_request():
    assert COLOUR.search(on_a_terminal(PROGRESS))
    plain = on_a_terminal(PROGRESS, NO_COLOR="1")
    assert "3 of 4 runs" in plain
    assert "75%" in plain
    assert not COLOUR.search(plain)


def test_progress_is_a_line_now_and_then_elsewhere():
    code = PROGRESS.replace("QUIET_S", "LINE_S")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == ""
    lines = ran.stderr.splitlines()
    assert [line.split(",")[:2] for line in lines] == [
        ["1 of 4 runs", " 25%"],
        ["2 of 4 runs", " 50%"],
        ["3 of 4 runs", " 75%"],
    ]
    assert all(line.endswith(" left") for line in lines)


def test_a_short_sweep_shows_no_progress(cwndlab):
    cwndlab.file("small.yaml")
    ran = cwndlab("run", "small.yaml", "-o", "out", "--no-report", "--set", "duration=200ms")
    assert ran.err == "results: out\n"


def test_a_reader_that_stops_reading_is_no_error(cwndlab, small):
    process = subprocess.run(
        f"{sys.executable} -m cwndlab show '{small}' --json | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stderr == ""
    assert json.loads(process.stdout)["flow"] == "f1"
