"""Results damaged at random: refused in one line, or without effect on what is printed."""

import pytest
from damage import Fuzzer

import stored_results
from cwndlab.results import display

pytestmark = pytest.mark.slow


def test_flipped_bits_and_cuts_are_refused_or_change_nothing(tmp_path):
    fuzzer = Fuzzer(tmp_path, seed=1)
    assert [wrong for _ in range(100) if (wrong := fuzzer.flip())] == []
    assert fuzzer.refused["refused by --verify"] > 75
    assert fuzzer.refused["refused by a plain read"] > 25


def test_values_altered_on_purpose_make_no_traceback(tmp_path):
    fuzzer = Fuzzer(tmp_path, seed=2)
    assert [wrong for _ in range(40) if (wrong := fuzzer.alter())] == []
    assert fuzzer.refused["refused"] > 40 / 3


def test_the_value_that_was_altered_is_named(tmp_path):
    fuzzer = Fuzzer(tmp_path, seed=3)
    with fuzzer._copy() as results:
        file = min(results.rglob("runs.jsonl"))
        file.write_text(file.read_text().replace('"segments_sent"', '"sent"'))
        stored_results.seal(results)
        answer = fuzzer._answer("show", results)
    wrong = "run 0: summary: no 'flows.0.segments_sent'; the results are damaged"
    assert (answer.code, answer.text) == (2, f"error: {file}: {wrong}\n")


def test_a_run_that_its_part_lacks_is_named(tmp_path):
    fuzzer = Fuzzer(tmp_path, seed=4)
    with fuzzer._copy() as results:
        file = min(results.rglob("runs.jsonl"))
        file.write_text("".join(file.read_text().splitlines(keepends=True)[:2]))
        stored_results.seal(results)
        answer = fuzzer._answer("by", results)
    assert answer.code == 2 and f"{file.parent}: lacks run 2-" in answer.text


def test_a_number_beyond_all_in_a_table_makes_no_fault():
    assert display._numbers([-1e308, 0.5], 100.0, [-1e308, 0.5]) == ["-inf", "50"]
