"""SHA256SUMS: lists that are refused, and files that are replaced while the machine may stop."""

from pathlib import Path

import pytest

from cwndlab.errors import InputError
from cwndlab.results import checksums

DIGEST = checksums.sha256(b"")

OLD = {"a": b"old a", "b": b"old b"}
NEW = {"b": b"new b", "c": b"new c"}


class StoppedError(Exception):
    """The machine stops."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two files and their digests."""
    for name, data in OLD.items():
        (tmp_path / name).write_bytes(data)
    checksums.seal(tmp_path, OLD)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{DIGEST}  a\nno digest  b\n", "line 2 is no digest and name"),
        (f"{DIGEST} a\n", "line 1 is no digest and name"),
        (f"{DIGEST}  ../a\n", "line 1 is no digest and name"),
        (f"{DIGEST}  ä\n", "is no list of digests"),
        (f"{DIGEST}  a", "was cut"),
    ],
)
def test_another_line_is_named(directory: Path, text: str, reason: str) -> None:
    (directory / checksums.FILE).write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        checksums.Sums(directory)
    assert str(refused.value) == f"{directory / checksums.FILE}: {reason}; the results are damaged"


@pytest.mark.parametrize("writes", range(5))
def test_a_directory_can_be_read_whenever_a_replacement_stops(
    directory: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    replace, done = checksums.files.replace, 0

    def stops(file: Path, data: bytes) -> None:
        nonlocal done
        if done == writes:
            raise StoppedError
        done += 1
        replace(file, data)

    monkeypatch.setattr(checksums.files, "replace", stops)
    if writes < 4:
        with pytest.raises(StoppedError):
            checksums.replace(directory, NEW)
    else:
        checksums.replace(directory, NEW)
    sums = checksums.Sums(directory)
    assert sums.load("a") == OLD["a"]
    assert sums.load("b") == (NEW if writes > 1 else OLD)["b"]
    if writes > 2:
        assert sums.load("c") == NEW["c"]
    assert sums.names == (["a", "b", "c"] if writes else ["a", "b"])
    # Behind the last write nothing but what was written counts.
    assert len(sums.digests("b")) == (2 if 0 < writes < 4 else 1)


def test_a_file_is_checked_once_and_read_each_time(directory: Path) -> None:
    sums = checksums.Sums(directory)
    sums.check("a")
    (directory / "a").write_bytes(b"changed")
    sums.check("a")
    with pytest.raises(InputError, match=r"a: is not as it was written \(see SHA256SUMS\)"):
        sums.load("a")
    with pytest.raises(InputError, match="is not as it was written"):
        checksums.Sums(directory).check("a")
