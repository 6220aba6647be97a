"""Labels of swept values: mappings by the members that differ, none alike, everything else as written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cwndlab.experiment import sweep, yaml_nodes
from cwndlab.results.labels import Labels, of_values

SYSCTLS = "{kern.ipc.maxsockbuf: 33554432, net.inet.tcp.sendbuf_max: 33554432, net.inet.tcp.abc_l_var: %d}"


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([SYSCTLS % 2, SYSCTLS % 8], ["abc_l_var 2", "abc_l_var 8"]),
        (
            [SYSCTLS % 2, SYSCTLS % 44, "{net.ipv4.tcp_wmem: 4096 16384 33554432}"],
            ["abc_l_var 2", "abc_l_var 44", "tcp_wmem 4096 16384 33554432"],
        ),
        (["{a.x: 1, a.y: 1}", "{a.x: 2, a.y: 2}"], ["x 1, y 1", "x 2, y 2"]),
        (["{kind: pfifo, limit: 9p}", "{kind: pie, limit: 9p}", "codel"], ["pfifo", "pie", "codel"]),
        (
            ["{kind: pfifo, limit: 1000p}", "{kind: fq_codel}", "{kind: pfifo, limit: 85p}"],
            ["pfifo, limit 1000p", "fq_codel", "pfifo, limit 85p"],
        ),
        (["{}", "{net.inet.tcp.abc_l_var: 8}"], ["abc_l_var unset", "abc_l_var 8"]),
        (["{a: {rate: 1mbit}}", "{a: {rate: 2mbit}}"], ["rate 1mbit", "rate 2mbit"]),
        (
            ["{random: 1%}", "{random: 2%}", "{gilbert: {p: 2%, r: 9%}}"],
            ["random 1%", "random 2%", "gilbert p 2%"],
        ),
        (["[10ms, 20ms]", "[10ms, 40ms]"], ["[2] 20ms", "[2] 40ms"]),
        (["{size: exp(10, 2), x: 1}", "{size: exp(10, 3), x: 1}"], ["size exp(10, 2)", "size exp(10, 3)"]),
        (["analogue {a: 1}", "analogue {a: 2}"], ["analogue a 1", "analogue a 2"]),
    ],
)
def test_a_mapping_is_its_members_that_differ(values: list[str], labels: list[str]) -> None:
    assert of_values(values) == dict(zip(values, labels, strict=True))


def test_a_loss_is_told_with_that_word() -> None:
    key, queue = "network.dumbbell.bottleneck.loss", "network.dumbbell.bottleneck.queue"
    row = {key: "{random: 1%}", queue: "{kind: pfifo, limit: 9p}"}
    named = Labels({key: [row[key], "{random: 0.1%}"], queue: [row[queue], "{kind: pie}"]})
    assert named.words(row, [key, queue]) == "loss random 1%, pfifo"


@pytest.mark.parametrize("values", [["cubic", "bbr"], ["10ms"], ["{a: 1}"], ["{", "[x"], []])
def test_other_values_are_as_they_were_written(values: list[str]) -> None:
    assert of_values(values) == {}


WORDS = st.text("abc1.-_ :,{}[]()", min_size=1, max_size=6)
TREES = st.recursive(
    WORDS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=8
)


def node(tree: object) -> yaml_nodes.Node:
    place = yaml_nodes.Place("x")
    if isinstance(tree, dict):
        return yaml_nodes.Mapping(place, {key: node(value) for key, value in tree.items()})
    if isinstance(tree, list):
        return yaml_nodes.Sequence(place, [node(value) for value in tree])
    return yaml_nodes.Scalar(place, str(tree))


@pytest.mark.slow
@given(st.lists(TREES, max_size=6))
def test_no_two_labels_are_alike(trees: list[object]) -> None:
    texts = list(dict.fromkeys(sweep.compact(node(tree)) for tree in trees))
    labels = of_values(texts)
    assert not labels or (list(labels) == texts and len(set(labels.values())) == len(texts))


LABELS = Labels({"hosts.a.sysctl": [SYSCTLS % 2, SYSCTLS % 8], "tuning": ["vanilla", "2"]})


def test_a_label_stands_for_its_value_and_back() -> None:
    assert LABELS.value("hosts.a.sysctl", SYSCTLS % 8) == "abc_l_var 8"
    assert LABELS.written("hosts.a.sysctl", "abc_l_var 8") == SYSCTLS % 8
    assert LABELS.value("hosts.a.cc", "cubic") == LABELS.written("hosts.a.cc", "cubic") == "cubic"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"hosts.a.sysctl": SYSCTLS % 8}, "abc_l_var 8"),
        ({"hosts.a.cc": "cubic", "network.dumbbell.bottleneck.delay": "10ms"}, "cubic, delay 10ms"),
        ({"hosts.a.cc": "cubic", "hosts.b.cc": "reno"}, "a.cc cubic, b.cc reno"),
        ({"tuning": "vanilla"}, "vanilla"),
        ({"tuning": "2"}, "tuning 2"),
        ({"duration": "10s", "app": "bulk"}, "duration 10s, app bulk"),
        ({"results": "before", "hosts.a.cc": None}, "before, no cc"),
        ({"hosts.a.stack": "windows-7"}, "windows-7 (inferred)"),
    ],
)
def test_words_name_a_key_unless_its_value_does(row: dict[str, str], words: str) -> None:
    assert LABELS.words(row, list(row)) == words
