"""Quantities: exact both ways, strict about units."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cwndlab.experiment import units
from cwndlab.experiment.units import BadValue, Bdp, Bytes, Packets


@pytest.mark.parametrize(
    ("text", "bps"),
    [("1bit", 1), ("56kbit", 56_000), ("10mbit", 10**7), ("1.5gbit", 1_500_000_000), ("10 mbit", 10**7)],
)
def test_rates_are_decimal(text: str, bps: int) -> None:
    assert units.parse_rate(text) == bps


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0s", 0),
        ("0ms", 0),
        ("1ns", 1),
        ("40us", 40_000),
        ("40.5ms", 40_500_000),
        ("90s", 90 * 10**9),
        ("2min", 120 * 10**9),
        ("0.000000001s", 1),
        ("0.1s", 100_000_000),
    ],
)
def test_times_are_exact(text: str, ns: int) -> None:
    assert units.parse_time(text) == ns


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("600KB", 600_000),
        ("10MB", 10**7),
        ("64KiB", 65536),
        ("1MiB", 1 << 20),
        ("1.5KB", 1500),
        ("1GB", 10**9),
        ("1GiB", 1 << 30),
        ("7B", 7),
    ],
)
def test_sizes_are_decimal_or_binary(text: str, count: int) -> None:
    assert units.parse_size(text) == count


@pytest.mark.parametrize(
    ("text", "ppb"), [("1%", 10**7), ("0.1%", 10**6), ("100%", 10**9), ("0.0000001%", 1)]
)
def test_shares_are_parts_per_billion(text: str, ppb: int) -> None:
    assert units.parse_share(text) == ppb


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("90p", Packets(90)),
        ("125KB", Bytes(125_000)),
        ("2bdp", Bdp(Fraction(2))),
        ("0.5bdp", Bdp(Fraction(1, 2))),
    ],
)
def test_limits_say_what_they_count(text: str, limit: units.Limit) -> None:
    assert units.parse_limit(text) == limit
    assert units.parse_limit(str(limit)) == limit


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mbit",
        "10",
        "1e3mbit",
        "-1mbit",
        "+1mbit",
        "1,5mbit",
        "1.mbit",
        ".5mbit",
        "10 m bit",
        "10mbit ",
        " 10mbit",
        "1_0mbit",
        "१mbit",
        "0x1mbit",
        "1" * 50 + "bit",
        "10001gbit",
        "0.5bit",
        "10mbit\n",
    ],
)
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(BadValue):
        units.parse_rate(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("10Mbps", "did you mean 10mbit?"),
        ("10MBIT", "did you mean 10mbit?"),
        ("1Gbit/s", "did you mean 1gbit?"),
    ],
)
def test_a_foreign_unit_gets_a_hint(text: str, hint: str) -> None:
    with pytest.raises(BadValue) as bad:
        units.parse_rate(text)
    assert bad.value.hint == hint


def test_a_bare_number_is_told_the_units() -> None:
    with pytest.raises(BadValue) as bad:
        units.parse_time("20")
    assert bad.value.found == "'20' without a unit"
    assert bad.value.expected == "a time such as 40ms (units: ns, us, ms, s, min)"


@given(st.integers(1, 10**13))
def test_rates_survive_writing(bps: int) -> None:
    assert units.parse_rate(units.format_rate(bps)) == bps


@given(st.integers(0, 10**16))
def test_times_survive_writing(ns: int) -> None:
    assert units.parse_time(units.format_time(ns)) == ns


@given(st.integers(0, 1 << 50))
def test_sizes_survive_writing(count: int) -> None:
    assert units.parse_size(units.format_size(count)) == count


@given(st.integers(0, 10**9))
def test_shares_survive_writing(ppb: int) -> None:
    assert units.parse_share(units.format_share(ppb)) == ppb


@given(st.integers(1, 10**12))
def test_limits_in_bdp_survive_writing(billionths: int) -> None:
    limit = Bdp(Fraction(billionths, 10**9))
    assert units.parse_limit(str(limit)) == limit


@pytest.mark.slow
@given(st.text(max_size=60))
def test_any_text_is_a_quantity_or_refused(text: str) -> None:
    for parse in (
        units.parse_rate,
        units.parse_time,
        units.parse_size,
        units.parse_share,
        units.parse_limit,
        units.parse_bool,
        units.parse_factor,
    ):
        try:
            parse(text)
        except BadValue as bad:
            assert "\n" not in str(bad)
