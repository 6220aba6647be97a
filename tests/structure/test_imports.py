"""Who may import whom: the rooms of the package, in one direction, and no cycle."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from import_graph import Graph, cycles, read

PACKAGE = Path(__file__).parents[2] / "python" / "cwndlab"

FOUNDATION = ("errors", "_native")
"""Modules at the root that every room may import."""

ROOMS: dict[str, tuple[str, ...]] = {
    "contract": (),
    "experiment": ("contract",),
    "foreign": ("experiment",),
    "testbeds": ("contract", "experiment", "foreign"),
    "results": ("contract", "experiment", "testbeds"),
    "execution": ("contract", "experiment", "foreign", "testbeds", "results"),
    "formats": ("contract", "experiment", "testbeds", "results", "execution"),
    "analysis": ("contract", "experiment", "foreign", "testbeds", "results", "execution", "formats"),
    "report": ("contract", "experiment", "testbeds", "results", "execution", "formats", "analysis"),
    "cli": (
        "contract",
        "experiment",
        "foreign",
        "testbeds",
        "results",
        "execution",
        "formats",
        "analysis",
        "report",
    ),
    "__main__": ("cli",),
    "": ("report",),
}
"""By room, the lowest first, the rooms it imports; `""` is the package's own face, which nothing imports."""

TESTBEDS = ("sim", "netns", "ssh", "kernel")
"""Packages below `testbeds` that only `testbeds` may name."""

SYSTEMS = ("linux", "freebsd")
"""Packages below `testbeds.live` of one system each."""


def top(module: str) -> str:
    return module.partition(".")[0]


def violations(graph: Graph, rooms: Mapping[str, tuple[str, ...]] = ROOMS) -> list[str]:
    """Imports that no row of the table allows, and modules that are in no room."""
    found = [f"{module} is in no room" for module in graph if top(module) not in (*rooms, *FOUNDATION)]
    for module, imported in graph.items():
        room = top(module)
        allowed = (room, *rooms.get(room, ()), *FOUNDATION)
        if room in FOUNDATION:
            allowed = FOUNDATION
        found += [f"{module} imports {other}" for other in imported if top(other) not in allowed]
    return sorted(found)


def unused(graph: Graph, rooms: Mapping[str, tuple[str, ...]] = ROOMS) -> list[str]:
    """What the table allows and nothing does."""
    done = {(top(module), top(other)) for module, imported in graph.items() for other in imported}
    return [f"{room} imports {other}" for room in rooms for other in rooms[room] if (room, other) not in done]


def lets_a_testbed_in(graph: Graph) -> list[str]:
    """Imports of a testbed by what live ones share, and of a host's system by the course of a run."""
    testbeds = tuple(f"testbeds.{name}" for name in TESTBEDS)

    def system(module: str) -> str:
        found = module.split(".")[2:3]
        return found[0] if found and found[0] in SYSTEMS else ""

    return [
        f"{module} imports {other}"
        for module, imported in graph.items()
        for other in imported
        if module.startswith("testbeds.live")
        and (other.startswith(testbeds) or (system(other) and system(other) != system(module)))
    ]


def named_testbeds(graph: Graph) -> list[str]:
    """Imports of one testbed, or of what live ones share, from outside of `testbeds`."""
    inner = ("live", *TESTBEDS)
    return [
        f"{module} imports {other}"
        for module, imported in graph.items()
        for other in imported
        if top(module) != "testbeds" and other.split(".")[:2] in [["testbeds", name] for name in inner]
    ]


def test_no_test_imports_conftest() -> None:
    """There are several, and which one an import finds depends on the folders that pytest was given."""
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    pattern = re.compile(r"^\s*(?:from|import) conftest\b", re.MULTILINE)
    assert len(files) > 100 and [str(file) for file in files if pattern.search(file.read_text())] == []


@pytest.mark.slow
def test_imports_go_in_one_direction() -> None:
    graph = read(PACKAGE)
    assert len(graph) > 150
    assert cycles(graph) == []
    assert violations(graph) == []
    assert unused(graph) == []
    assert named_testbeds(graph) == []
    assert lets_a_testbed_in(graph) == []


def test_the_document_has_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## Rooms")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", section, re.MULTILINE)
    told = {room: tuple(re.findall(r"`(\w+)`", imported)) for room, imported in reversed(rows)}
    assert told == {room: imported for room, imported in ROOMS.items() if room not in ("", "__main__")}


def test_the_table_has_an_order() -> None:
    lower: set[str] = set()
    for room, imported in ROOMS.items():
        assert set(imported) <= lower, room
        lower.add(room)


def test_planted_faults_are_found(tmp_path: Path) -> None:
    package = tmp_path / "planted"
    for folder in ("experiment", "results", "testbeds/sim"):
        (package / folder).mkdir(parents=True)
        (package / folder / "__init__.py").write_text("")
    (package / "testbeds" / "__init__.py").write_text("")
    late = "def late():\n    from planted.results import rows\n"
    (package / "experiment" / "plan.py").write_text(late)
    rows = "import planted.experiment.plan\nfrom planted.testbeds import sim\n"
    (package / "results" / "rows.py").write_text(rows)
    (package / "stray.py").write_text("import os\n")
    graph = read(package)
    assert cycles(graph) == [["experiment.plan", "results.rows"]]
    assert violations(graph) == ["experiment.plan imports results.rows", "stray is in no room"]
    assert named_testbeds(graph) == ["results.rows imports testbeds.sim"]
    assert "results imports contract" in unused(graph)


def test_what_live_testbeds_share_knows_none_of_them() -> None:
    fine = {"testbeds.live.linux.system": frozenset({"testbeds.live.linux.kernel"})}
    assert lets_a_testbed_in(fine) == []
    wrong = {"testbeds.live.session": frozenset({"testbeds.netns.lab", "testbeds.live.linux.kernel"})}
    assert len(lets_a_testbed_in(wrong)) == 2
    other = {"testbeds.live.freebsd.system": frozenset({"testbeds.live.linux.kernel"})}
    assert len(lets_a_testbed_in(other)) == 1


def test_a_long_cycle_is_one_group() -> None:
    graph = {"a": frozenset({"b"}), "b": frozenset({"c", "d"}), "c": frozenset({"a"}), "d": frozenset[str]()}
    assert cycles(graph) == [["a", "b", "c"]]
