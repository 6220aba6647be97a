"""The page on the experiment file: its example runs, and every key is named and rightly marked."""

import re
from pathlib import Path

import pytest

from cwndlab import load
from cwndlab.experiment import schema
from cwndlab.testbeds.schema import Spec
from cwndlab.testbeds.sim.support import SUPPORT as SIM

PAGE = (Path(__file__).parents[2] / "docs" / "experiment-file.md").read_text()


def test_the_example_runs() -> None:
    (example,) = re.findall(r"```yaml\n(experiment:.*?)```", PAGE, re.DOTALL)
    assert len(load(example).plan().runs) == 2 * 3 * 2 * 5


@pytest.mark.parametrize(
    ("heading", "section"),
    [("Top level", Spec), ("Hosts", schema.Host), ("Networks", schema.Link), ("Flows", schema.Flow)],
)
def test_every_key_is_named_and_marked(heading: str, section: type[schema.Section]) -> None:
    text = PAGE[PAGE.index(f"## {heading}\n") :]
    table = re.search(r"\| --- .*?\n((?:\|.*\n)+)", text)
    assert table is not None
    marked: dict[str, bool] = {}
    for row in table[1].splitlines():
        cell = row.split("|")[1]
        marked |= dict.fromkeys(re.findall(r"`(\w+)`", cell), "●" in cell)
    carried = SIM.keys.get(section.section, frozenset(section.known_keys()))
    assert marked == {key: key in carried or key == "sweep" for key in section.known_keys()}
