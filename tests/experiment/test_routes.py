"""Routes are the shortest in hops, of equal ones the first, as an exhaustive search finds them."""

from hypothesis import given
from hypothesis import strategies as st

from cwndlab.experiment.scenario.graph import Routes

Wires = list[tuple[str, str, str]]
ENDS = st.sampled_from("abcdef")
PAIRS = st.lists(st.tuples(ENDS, ENDS).filter(lambda pair: pair[0] != pair[1]), max_size=12)


def every_way(wires: Wires, start: str, end: str, seen: frozenset[str] = frozenset()) -> list[list[int]]:
    """Return all ways without loops, as positions of wires."""
    if start == end:
        return [[]]
    return [
        [place, *rest]
        for place, (_, from_, to) in enumerate(wires)
        if from_ == start and to not in seen
        for rest in every_way(wires, to, end, seen | {start})
    ]


@given(PAIRS, ENDS, ENDS)
def test_routes_are_the_first_of_the_shortest(pairs: list[tuple[str, str]], start: str, end: str) -> None:
    wires = [(f"w{place}", *pair) for place, pair in enumerate(pairs)]
    ways = every_way(wires, start, end)
    best = min(ways, key=lambda way: (len(way), way), default=None)
    expected = None if best is None else [wires[place][0] for place in best]
    way = Routes(wires).way(start, end)
    assert (None if way is None else list(way)) == expected
