"""YAML as plain nodes: text with its place, whatever the text looks like."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cwndlab.errors import ExperimentError
from cwndlab.experiment import yaml_nodes


def test_every_scalar_is_text() -> None:
    tree = yaml_nodes.parse("a: 012\nb: no\nc: 1:30\nd: 2024-01-01\ne: ~\nf: 1e3\ng: .nan\n", "x")
    assert yaml_nodes.plain(tree) == {
        "a": "012", "b": "no", "c": "1:30", "d": "2024-01-01", "e": "~", "f": "1e3", "g": ".nan"
    }  # fmt: skip


def test_nodes_know_their_line() -> None:
    tree = yaml_nodes.parse("a:\n  - 1\n  - {b: 2,\n     c: 3}\n", "x")
    items = tree.items["a"]
    assert isinstance(items, yaml_nodes.Sequence)
    inner = items.items[1]
    assert isinstance(inner, yaml_nodes.Mapping)
    assert tree.key_places["a"].line == 1
    assert [items.items[0].place.line, inner.key_places["b"].line, inner.key_places["c"].line] == [2, 3, 4]


@pytest.mark.parametrize(
    "text", ["[" * 500_000, "{a: " * 100_000, "- " * 300_000, "a: " + "x" * 1_000_000, "? " * 400_000]
)
@pytest.mark.slow
def test_large_input_is_refused(text: str) -> None:
    with pytest.raises(ExperimentError):
        yaml_nodes.parse("b: [" + text, "x")


@given(st.text(max_size=200))
def test_any_text_is_a_tree_or_refused_in_one_line(text: str) -> None:
    try:
        yaml_nodes.parse(text, "x")
    except ExperimentError as error:
        assert "\n" not in str(error)


WORDS = st.text("abcxyz019.-_ ", min_size=1, max_size=8)
TREES = st.recursive(
    WORDS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=8
)


@given(st.dictionaries(WORDS, TREES, min_size=1, max_size=4))
@pytest.mark.slow
def test_what_is_written_is_read(data: dict[str, yaml_nodes.PlainData]) -> None:
    tree = yaml_nodes.parse(yaml.safe_dump(data), "x")
    assert yaml_nodes.plain(tree) == data
    assert yaml_nodes.plain(yaml_nodes.copy(tree)) == data
