"""All errors of a file are said at once, each with its place, and none that only follows from another."""

from pathlib import Path

import pytest

from cwndlab import load
from cwndlab.errors import ExperimentError, Place
from cwndlab.execution import runner
from malformed import GOOD


def refused(text: str, *options: str) -> ExperimentError:
    with pytest.raises(ExperimentError) as raised:
        runner.check(load(text, options), "sim")
    return raised.value


def keys(error: ExperimentError) -> list[str]:
    return [each.key for each in error.all]


def test_all_errors_of_a_file_are_said_in_the_order_of_lines() -> None:
    text = GOOD.replace("duration", "duratoin: 1s\nduration").replace(
        "sndbuf: 600KB", "sndbuf: 600k, colour: red"
    )
    text = text.replace("linux-6.8", "linux-6.9").replace("10mbit\n", "10Mbit\n").replace("pfifo", "pfif")
    text = text.replace("cubic]", "cubik, renno]") + 'expect: {godput_mbps: "> 3", flows.g.jain: "> 1"}\n'
    error = refused(text)
    assert keys(error) == [
        "duratoin",
        "hosts.a.sndbuf",
        "hosts.a.colour",
        "hosts.b.stack",
        "network.dumbbell.bottleneck.rate",
        "network.dumbbell.bottleneck.queue.kind",
        "hosts.a.cc",
        "hosts.a.cc",
        "expect.godput_mbps",
        "expect.flows.g.jain",
    ]
    lines = [each.place.line for each in error.all]
    assert lines == sorted(lines, key=lambda line: line or 0)
    assert str(error) == str(error.all[0])


def test_bad_values_of_a_sweep_are_all_said() -> None:
    error = refused(GOOD.replace("[newreno, cubic]", "[newreno, cubik, bbr, nwreno]"))
    assert [each.found for each in error.all] == ["'cubik'", "'bbr'", "'nwreno'"]


@pytest.mark.slow
def test_how_many_errors_of_a_large_sweep_are_said_depends_on_the_file_alone() -> None:
    def found(*wrong: int) -> list[str | None]:
        rates = [f"fast{number}" if number in wrong else f"{1000 + number}kbit" for number in range(600)]
        sweep = f"sweep: [{{network.dumbbell.bottleneck.rate: [{', '.join(rates)}]}}]\n"
        return [each.found for each in refused(GOOD.partition("sweep:")[0] + sweep).all]

    assert found(10, 20, 590) == ["'fast10'", "'fast20'"]
    assert found(590) == ["'fast590'"]  # behind the combinations that are looked at for further errors


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        # A flow's host that is not there, and what would be missing without it.
        ("to: b", "to: c", ["flows.f1.to"]),
        ("{name: f1", "{name: f 1", ["flows.'f 1'.name"]),
        # A queue whose kind is none: what it would be of, and whose limit, nobody knows.
        ("kind: pfifo", "kind: fastest", ["network.dumbbell.bottleneck.queue.kind"]),
        # A limit that needs the rate that is wrong.
        ("rate: 10mbit\n      delay: 20ms\n      queue: {kind: pfifo, limit: 90p}",
         "rate: ten\n      delay: 20ms\n      queue: {kind: pfifo, limit: 1bdp}",
         ["network.dumbbell.bottleneck.rate"]),
    ],
)  # fmt: skip
def test_what_only_follows_from_an_error_is_not_said(old: str, new: str, wrong: list[str]) -> None:
    assert old in GOOD
    assert keys(refused(GOOD.replace(old, new))) == wrong


def test_a_list_in_place_of_a_value_says_how_to_vary_it() -> None:
    hint = "to vary it, put it under `sweep:`"
    assert refused(GOOD.replace("cc: newreno", "cc: [newreno, cubic]")).hint == hint
    assert refused(GOOD.replace("duration: 90s", "duration: [1s, 2s]")).hint == hint
    assert refused(GOOD.replace("{kind: pfifo, limit: 90p}", "[pfifo, codel]")).hint == hint
    assert refused(GOOD.replace("repeat: 5", "repeat: [1, 2]")).hint is None  # no sweep varies that
    assert refused(GOOD.replace("duration: 90s", "duration: {a: 1s}")).hint is None


def test_marks_stand_below_what_is_wrong() -> None:
    def marked(text: str) -> str:
        line, marks = refused(text).excerpt()
        assert len(marks) <= len(line)
        return "".join(letter for letter, mark in zip(line, marks, strict=False) if mark == "^")

    assert marked(GOOD.replace("sndbuf: 600KB", "sndbuf: 600k")) == "600k"
    assert marked(GOOD.replace("sndbuf:", "sndbuff:")) == "sndbuff"
    assert marked(GOOD.replace("left: [a]", "left: {a: b}")) == "left"
    assert marked(GOOD.replace("repeat: 5", 'repeat: "five"')) == '"five"'
    assert marked(GOOD.replace("cubic]", "cubik]")) == "cubik"
    assert marked(GOOD.replace("from: a", f"from: {'a' * 200}"))[:60] == "a" * 60


def test_marks_reckon_with_wide_characters_and_show_no_control_characters() -> None:
    place = Place("x.yaml", 3, 7, 4, "a: '\u9ed1' 600k\x1b")
    line, marks = ExperimentError(place, "a", "'600k'", "a size").excerpt()
    assert line == "    3 | a: '\u9ed1' 600k\\x1b"
    assert marks == "      |         ^^^^"  # the wide character takes two columns


def test_an_option_has_no_line_to_show() -> None:
    error = refused(GOOD, "duration=90")
    assert str(error).startswith("--set duration=90: duration: found '90' without a unit")
    assert error.excerpt() == []


def test_a_file_that_is_no_yaml_shows_where() -> None:
    line, marks = refused("experiment: x\nhosts: [a\nb: }\n").excerpt()
    assert "^" in marks
    assert line.startswith("    3 | ")


def test_a_file_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError) as raised:
        load(tmp_path / "none.yaml")
    assert (len(raised.value.all), raised.value.excerpt()) == (1, [])
