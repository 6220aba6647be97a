"""Every malformed experiment is refused with exactly the one line of the table."""

from pathlib import Path

import pytest

import malformed
from cwndlab import load
from cwndlab.errors import ExperimentError
from cwndlab.experiment.catalogue import catalogue

CASES = [
    *((name, malformed.GOOD.replace(old, new, 1).encode(), []) for name, old, new in malformed.EDITS),
    *((name, raw, []) for name, raw in malformed.FILES),
    *((name, malformed.GOOD.encode(), options) for name, options in malformed.OPTIONS),
]


def expected_lines() -> dict[str, str]:
    """Read the table: a line for what is wrong, below it, indented, the message."""
    lines = Path(__file__).with_name("malformed.txt").read_text().splitlines()
    names = catalogue()
    table = {}
    for name, line in zip(lines[::2], lines[1::2], strict=True):
        filled = line.strip().replace("{stacks}", ", ".join(names.stack_names()))
        table[name] = filled.replace("{cc of freebsd-9.2}", ", ".join(names.stacks["freebsd-9.2"].cc))
    return table


EXPECTED = expected_lines()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("name", "raw", "options"), CASES, ids=[case[0] for case in CASES])
@pytest.mark.slow
def test_is_refused_with_one_line(name: str, raw: bytes, options: list[str]) -> None:
    assert raw != malformed.GOOD.encode() or options
    Path("x.yaml").write_bytes(raw)
    with pytest.raises(ExperimentError) as refused:
        load("x.yaml", options).plan()
    assert [str(error) for error in refused.value.all] == [EXPECTED[name]]
    assert refused.value.exit_code == 2


def test_the_table_is_whole() -> None:
    names = [case[0] for case in CASES]
    assert len(names) == len(set(names)) >= 40
    assert sorted(names) == sorted(EXPECTED)


def test_the_good_file_is_good() -> None:
    Path("x.yaml").write_text(malformed.GOOD)
    assert len(load("x.yaml").plan().runs) == 20


def test_a_missing_file_is_one_line() -> None:
    with pytest.raises(ExperimentError) as refused:
        load("missing.yaml")
    assert str(refused.value) == "missing.yaml: cannot be read: No such file or directory"


def test_a_directory_is_one_line() -> None:
    with pytest.raises(ExperimentError) as refused:
        load(Path())
    assert str(refused.value) == ".: cannot be read: Is a directory"
