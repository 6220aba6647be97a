"""`cwndlab compare` as a user calls it: by a key, two directories, other tools' files, and bad input."""

import json
from pathlib import Path

import pytest

from command_line import SMALL, CommandLine

pytestmark = pytest.mark.slow


def document(bps: float, minute: int, seed: int) -> str:
    """An iperf3 document of a run of 3 s."""
    streams = [
        {"socket": 5, "start": second, "end": second + 1, "bytes": int(bps / 8) + (seed + second) % 3}
        for second in range(3)
    ]
    end = {"socket": 5, "start": 0, "end": 3, "seconds": 3, "bytes": int(3 * bps / 8), "bits_per_second": bps}
    return json.dumps(
        {
            "start": {
                "timestamp": {"timesecs": 1_795_270_000 + 60 * minute},
                "test_start": {"protocol": "TCP"},
            },
            "intervals": [{"streams": [stream]} for stream in streams],
            "end": {"streams": [{"sender": end, "receiver": end}]},
        }
    )


@pytest.fixture
def files(cwndlab: CommandLine) -> Path:
    """Five runs before, five after, taking turns; after is a tenth faster."""
    for name, rate, late in (("before", 9e6, 0), ("after", 9.9e6, 1)):
        (cwndlab.directory / name).mkdir()
        for run in range(5):
            text = document(rate + 1e4 * ((run * 7) % 5), 4 * run + (2 * late if run % 2 else 1 - late), run)
            (cwndlab.directory / name / f"{run}.json").write_text(text)
    return cwndlab.directory


def test_by_a_key_runs_are_paired_and_the_verdict_comes_first(cwndlab: CommandLine, small: Path) -> None:
    ran = cwndlab("compare", small, "--by", "cc", "--metric", "rtt_mean_ms")
    assert (ran.code, ran.err) == (0, "")
    first, second, *_ = ran.out.splitlines()
    assert first.startswith("RTT, mean: ")
    assert second == "  runs           5 pairs that share their random draws (seed and repeat)"
    line = json.loads(
        cwndlab("compare", small, "--by", "hosts.a.cc", "--metric", "rtt_mean_ms", "--json").out
    )
    assert line["sentence"] == first
    assert (line["a"]["label"], line["b"]["label"], line["design"]) == ("newreno", "cubic", "paired")
    other = cwndlab(
        "compare", small, "--by", "cc", "--baseline", "cubic", "--metric", "rtt_mean_ms", "--json"
    )
    assert json.loads(other.out)["difference"] == pytest.approx(-line["difference"])


def test_two_directories_with_the_same_draws_and_the_same_engine_are_identical(
    cwndlab: CommandLine, small: Path
) -> None:
    cwndlab.file("small.yaml")
    assert cwndlab("run", "small.yaml", "-o", "again", "-q", "--no-report").code == 0
    ran = cwndlab("compare", small, "again")
    assert ran.code == 0
    assert (
        "goodput (newreno): identical: the runs of results and again are the same in every metric." in ran.out
    )


def test_two_directories_are_compared_in_the_combinations_of_both(cwndlab: CommandLine, small: Path) -> None:
    cwndlab.file(
        "slower.yaml", SMALL.replace("rate: 10mbit", "rate: 8mbit").replace("newreno, cubic", "cubic")
    )
    assert cwndlab("run", "slower.yaml", "-o", "slower", "-q", "--no-report").code == 0
    ran = cwndlab("compare", small, "slower")
    assert "% lower than results, 95 % sure" in ran.out
    assert "note: 1 combinations are on one side only, and do not count" in ran.out


def test_other_tools_files(cwndlab: CommandLine, files: Path) -> None:
    names = [sorted(str(path) for path in (files / side).iterdir()) for side in ("before", "after")]
    ran = cwndlab("compare", "--a", *names[0], "--b", *names[1], "--ministat", "--equivalent", "20%")
    assert (ran.code, ran.err) == (0, "")
    sentence = ran.out.splitlines()[0]
    assert sentence.startswith("goodput: after is 9.9")
    assert "95 % sure (between +9." in sentence
    assert sentence.endswith("; differs by less than 20 %, 95 % sure.")
    assert "x before\n+ after\n+---" in ran.out
    assert "Difference at 95.0% confidence\n\t0.9 +/- " in ran.out
    assert "note:" not in ran.out
    # A pattern that no shell spelt out means the same.
    unspelt = cwndlab("compare", "--a", "before/*.json", "--b", "after/*.json", "--equivalent", "0.2")
    assert unspelt.out.splitlines()[0] == sentence


def test_runs_one_after_the_other_are_warned_about(cwndlab: CommandLine) -> None:
    for place, name in enumerate(["a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"]):
        cwndlab.file(f"{name}.json", document(9e6 + 1e4 * place, place, place))
    ran = cwndlab("compare", "--a", "a*.json", "--b", "b*.json")
    assert "note: all runs of A came before all of B: a drift of the lab" in ran.out


def test_kernel_logs_are_compared_by_what_they_hold(cwndlab: CommandLine, small: Path) -> None:
    assert cwndlab("data", "export", small, "--format", "siftr", "-o", "logs").code == 0
    ran = cwndlab("compare", "--a", "logs/[0-4]-*", "--b", "logs/[5-9]-*", "--json")
    assert (ran.code, ran.err) == (0, "")
    line = json.loads(ran.out.splitlines()[0])
    # SIFTR knows RTT and cwnd, and not what was delivered.
    assert (line["metric"], line["a"]["runs"], line["b"]["runs"]) == ("rtt_mean_ms", 5, 5)
    assert 20 < line["a"]["mean"] < 60


def test_a_file_of_samples_alone_is_one_run(cwndlab: CommandLine) -> None:
    for name, rate in (("one", 9e6), ("other", 8e6)):
        cwndlab.file(f"{name}.json", document(rate, 0, 1))
    ran = cwndlab("compare", "--a", "one.json", "--b", "other.json")
    assert "other.json is 11.1 % lower than one.json" in ran.out
    assert "in one run of each" in ran.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "compare: give two directories, one with --by KEY, or --a FILES --b FILES"),
        (("nowhere", "here"), "nowhere: no such directory"),
        (("SMALL", "--by", "ccc"), "--by: the swept key: 'ccc' does not exist; there is hosts.a.cc"),
        (
            ("SMALL", "--by", "cc", "--baseline", "reno"),
            "hosts.a.cc: 'reno' does not exist; did you mean newreno?",
        ),
        (
            ("SMALL", "--by", "cc", "--metric", "godput_mbps"),
            "--metric: 'godput_mbps' does not exist; did you mean",
        ),
        (("SMALL", "--by", "cc", "--flow", "f2"), "flow: 'f2' does not exist; there is f1"),
        (("SMALL", "--by", "cc", "--where", "hosts.a.cc=cubic"), "the runs have one value of it, cubic"),
        (("SMALL", "--by", "cc", "--confidence", "2"), "--confidence: found '2'; expected a share"),
        (("SMALL", "SMALL"), "would be compared with itself"),
        (("--a", "x.json"), "--a and --b: give files to both"),
        (("--a", "x.json", "--b", "x.json"), "x.json: would be compared with itself"),
        (("--a", "x.json", "--b", "y*.json"), "y*.json: no file matches"),
        (("--a", "x.json", "--b", "y.json"), "x.json: of no known format; known are "),
        (("SMALL", "--a", "x.json", "--b", "y.json"), "--a and --b compare files: no directory"),
    ],
)
def test_bad_input_gets_one_line(
    cwndlab: CommandLine, small: Path, arguments: tuple[str, ...], said: str
) -> None:
    cwndlab.file("x.json", "{}")
    ran = cwndlab("compare", *(str(small) if word == "SMALL" else word for word in arguments))
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_a_file_in_place_of_results_is_told_its_option(cwndlab: CommandLine) -> None:
    for name in ("a.log", "b.log"):
        (cwndlab.directory / name).write_text("x")
    ran = cwndlab("compare", "a.log", "b.log")
    said = "error: a.log: is a file; other tools' files are named by --a FILES --b FILES\n"
    assert (ran.code, ran.err) == (2, said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give --lab FILE, --base BUILD and --new BUILD, or --patch FILE with its tree"),
        (("--lab", "x.yaml", "--base", "a"), "give --lab FILE, --base BUILD and --new BUILD"),
        (("--patch", "x.diff", "--kernel", "linux", "--base", "a"), "--patch and its tree go without --lab"),
        (("--patch", "x.diff"), "--kernel TREE, or --guest NAME=TREE, goes with --patch FILE"),
    ],
)
def test_builds_are_those_of_machines_or_of_a_tree(cwndlab, words, said):
    ran = cwndlab("compare", "--build", "cubic-patch", *words)
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1
