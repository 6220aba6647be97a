"""Who may import whom: the layers of the package, in one direction, and no cycle."""

from pathlib import Path

from import_graph import Graph, cycles, read

PACKAGE = Path(__file__).parents[2] / "python" / "cwndlab"

LAYERS = (
    (
        "_native",
        "contract",
        "errors",
        "files",
        "code",
        "tables",
        "progress",
        "logged",
        "siftr2_output",
        "siftr_output",
        "ss_output",
        "suites",
        "guide",
    ),
    ("experiment",),
    ("foreign", "worker"),
    ("plan",),
    ("scenario",),
    ("testbeds",),
    ("parts",),
    ("results",),
    ("formats",),
    ("analysis",),
    ("claims",),
    ("web",),
    ("plots",),
    ("faults", "runner", "estimate", "overview", "notebook"),
    ("interface",),
    (
        "ab",
        "advice",
        "bundle",
        "doctor",
        "fidelity",
        "loadlatency",
        "review",
        "scripts",
        "validation",
    ),
    ("cli",),
    ("", "__main__"),
)
"""Modules and packages, the lowest first: each imports of its own layer and of those above it in this list.

The package itself (`""`) is last: nothing imports it, as what it gives is made of all the others."""

TESTBEDS = ("sim", "netns", "ssh")
"""Packages below `testbeds` that only `testbeds` may name."""

SYSTEMS = ("linux", "freebsd")
"""Packages below `testbeds.live` of one system each."""


def top(module: str) -> str:
    return module.partition(".")[0]


def violations(graph: Graph, layers: tuple[tuple[str, ...], ...] = LAYERS) -> list[str]:
    """Imports against the order of the layers, and modules that are in none."""
    level = {name: place for place, names in enumerate(layers) for name in names}
    found = [f"{module} is in no layer" for module in graph if top(module) not in level]
    for module, imported in graph.items():
        for other in imported:
            if level.get(top(module), 0) < level.get(top(other), 0):
                found.append(f"{module} imports {other}")
    return sorted(found)


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


def test_imports_go_in_one_direction() -> None:
    graph = read(PACKAGE)
    assert len(graph) > 150
    assert cycles(graph) == []
    assert violations(graph) == []
    assert named_testbeds(graph) == []
    assert lets_a_testbed_in(graph) == []


def test_planted_faults_are_found(tmp_path: Path) -> None:
    package = tmp_path / "planted"
    (package / "testbeds" / "sim").mkdir(parents=True)
    (package / "plan.py").write_text("def late():\n    from planted.results import rows\n")
    (package / "results.py").write_text("import planted.plan\nfrom planted.testbeds import sim\n")
    (package / "stray.py").write_text("import os\n")
    for folder in ("testbeds", "testbeds/sim"):
        (package / folder / "__init__.py").write_text("")
    graph = read(package)
    assert cycles(graph) == [["plan", "results"]]
    assert violations(graph) == ["plan imports results", "stray is in no layer"]
    assert named_testbeds(graph) == ["results imports testbeds.sim"]


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
