"""Expressions: what they come to, and where a text is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cwndlab.experiment import expression
from cwndlab.experiment.expression import Name, Series
from cwndlab.experiment.units import BadValue

KNOWN = {"goodput_mbps": 8.0, "jain": 0.5, "missing": None}


def value(text):
    def known(leaf):
        return 3.0 if isinstance(leaf, Series) else KNOWN[leaf.name]

    return expression.parse(text).value(known)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("8 - 4 - 2", 2.0),
        ("8 / 4 / 2", 1.0),
        ("-2 * -3", 6.0),
        ("1.5e3 / 1e-3", 1.5e6),
        ("goodput_mbps / jain", 16.0),
        ("mean(tcp.cwnd_bytes) * 2", 6.0),
        ("goodput_mbps / (jain - jain)", None),
        ("goodput_mbps + missing", None),
    ],
)
def test_an_expression_comes_to_its_value(text, expected):
    assert value(text) == expected


def test_what_is_in_an_expression():
    leaves = list(expression.parse("p95(queue.backlog_bytes) / jain + 1").leaves())
    assert leaves == [Series("p95", "queue", "backlog_bytes"), Name("jain")]
    leaves = list(expression.parse("until(events.rto, events.undo) - count(events.rto)").leaves())
    assert leaves == [Series("until", "events", "rto", "undo"), Series("count", "events", "rto")]


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        ("", "the end at character 1", "a number, a metric"),
        ("1 +", "the end at character 4", "a number, a metric"),
        ("1 2", "'2' at character 3", "+, -, *, / or the end"),
        ("(1", "the end at character 3", ")"),
        ("jain ** 2", "'*' at character 7", "a number, a metric"),
        ("__import__('os')", "'__import__' before (", "mean"),
        ("jain; 1", "';' at character 5", "+, -, *, / or the end"),
        ("mean(cwnd)", "')' at character 10", "a dot and a column"),
        ("mean(tcp.cwnd + 1)", "'+' at character 15", ")"),
        ("median(tcp.cwnd_bytes)", "'median' before (", "p50"),
        ("count(tcp.cwnd_bytes)", "count of tcp", "count of events"),
        ("until(events.rto)", "')' at character 17", "a comma and another kind"),
        ("until(events.rto, tcp.cwnd_bytes)", "tcp.cwnd_bytes after the comma", "events and a kind"),
        ("count(events.rto, events.undo)", "',' at character 17", ")"),
        ("1" + " " * 400, "401 characters", "at most 300"),
        ("(" * 25 + "1" + ")" * 25, "'(' at character 21", "at most 20"),
    ],
)
def test_a_text_that_is_no_expression_is_said_to_be_wrong_at_a_place(text, found, expected):
    with pytest.raises(BadValue) as caught:
        expression.parse(text)
    assert found in caught.value.found
    assert expected in caught.value.expected


@given(st.text(alphabet="0123456789.,e+-*/()aj_ \n\u0661", max_size=60))
def test_any_text_is_an_expression_or_refused(text):
    try:
        made = expression.parse(text)
    except BadValue:
        return
    made.value(lambda leaf: 1.0)
    assert expression.parse(expression.write(made)) == made
