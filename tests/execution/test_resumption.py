"""What resuming keeps, does again, removes and refuses."""

import shutil

import pytest

import stored_results
from cwndlab.errors import InputError
from cwndlab.execution import resumption, store
from cwndlab.results import checksums, directories, software


def prepare(directory, **header):
    return resumption.prepare(
        directory,
        stored_results.header(**header),
        store.cut(stored_results.plan(), most=1),
        stored_results.EXPERIMENT,
        True,
    )


@pytest.fixture
def results(tmp_path):
    """Results of which each run is a part."""
    cut = store.cut(stored_results.plan(), most=1)
    directory = stored_results.begun(tmp_path / "r", cut)
    for part in cut:
        stored_results.write_part(directory / "runs", part)
    return directory


def test_whole_parts_stay(results):
    assert prepare(results) == {"0-0", "1-1", "2-2", "3-3"}


def lose_a_table(part):
    (part / "tcp.parquet").unlink()


def flip_a_bit(part):
    file = part / "tcp.parquet"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def cut_the_records(part):
    (part / "runs.jsonl").write_bytes(b"")


def lose_the_sums(part):
    (part / "SHA256SUMS").unlink()


@pytest.mark.parametrize("damage", [lose_a_table, flip_a_bit, cut_the_records, lose_the_sums])
def test_a_damaged_part_is_done_again(results, damage):
    damage(results / "runs/1-1")
    assert prepare(results) == {"0-0", "2-2", "3-3"}
    stored_results.write_part(results / "runs", store.cut(stored_results.plan(), most=1)[1])
    assert prepare(results) == {"0-0", "1-1", "2-2", "3-3"}


def test_runs_behind_a_symlink_are_refused_and_left_alone(results, tmp_path):
    elsewhere = tmp_path / "home"
    (results / "runs").rename(elsewhere)
    (elsewhere / ".ssh").mkdir()
    (elsewhere / ".0-0.77").mkdir()
    (results / "runs").symlink_to(elsewhere)
    with pytest.raises(InputError, match="r/runs: is a symlink; put the directory it points at in its place"):
        prepare(results)
    assert (elsewhere / ".ssh").is_dir()
    assert (elsewhere / ".0-0.77").is_dir()


def test_only_what_this_program_made_is_removed(results):
    runs = results / "runs"
    (runs / ".0-0.77").mkdir()
    (runs / ".0-0.77/tcp.parquet").write_bytes(b"half")
    for kept in (".git", ".0-0.old", "notes"):
        (runs / kept).mkdir()
        (runs / kept / "mine").write_text("mine")
    prepare(results)
    assert not (runs / ".0-0.77").exists()
    assert all((runs / kept / "mine").exists() for kept in (".git", ".0-0.old", "notes"))


def test_a_directory_that_holds_more_than_a_part_is_not_removed(results, tmp_path):
    aside = results / "runs/.0-0.77"
    aside.mkdir()
    (aside / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match=r"\.0-0\.77/thesis\.tex: was not written by cwndlab"):
        prepare(results)
    shutil.rmtree(aside)

    lose_a_table(results / "runs/1-1")
    (results / "runs/1-1/notes").mkdir()
    with pytest.raises(InputError, match="1-1/notes: was not written by cwndlab"):
        prepare(results)
    with pytest.raises(InputError, match="1-1/notes: was not written by cwndlab"):
        stored_results.write_part(results / "runs", store.cut(stored_results.plan(), most=1)[1])
    assert (results / "runs/1-1/notes").is_dir()
    (results / "runs/1-1/notes").rmdir()

    shutil.rmtree(results / "runs/2-2")
    (tmp_path / "elsewhere").mkdir()
    (results / "runs/2-2").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="2-2: is a symlink"):
        prepare(results)


def test_another_engine_or_package_is_refused(tmp_path):
    versions = {"cwndlab": "0.2.0 code aa", "engine": "0.2.0 (release) sources bb"}
    directory = tmp_path / "r"
    directory.mkdir()
    prepare(directory, versions=versions)
    with pytest.raises(InputError, match=r"begun with engine 0\.2\.0 \(release\) sources bb, and this is"):
        prepare(directory, versions=versions | {"engine": "0.2.0 (release) sources cc"})
    with pytest.raises(InputError, match=r"begun with cwndlab 0\.2\.0 code aa, and this is 0\.2\.0 code dd"):
        prepare(directory, versions=versions | {"cwndlab": "0.2.0 code dd"})
    assert prepare(directory, versions=versions) == set()


def test_the_package_is_known_by_what_is_in_its_files(tmp_path):
    assert software.version() == software.version()
    one, two = tmp_path / "one", tmp_path / "two"
    for tree in (one, two):
        (tree / "below").mkdir(parents=True)
        (tree / "a.py").write_text("a = 1\n")
        (tree / "below/b.yaml").write_text("b: 1\n")
    (two / "a.pyc").write_bytes(b"built")
    assert software._hash(one) == software._hash(two)
    (two / "below/b.yaml").write_text("b: 2\n")
    assert software._hash(one) != software._hash(two)


def test_a_first_write_that_fails_leaves_a_directory_that_can_be_used(tmp_path, monkeypatch):
    directory = tmp_path / "r"
    written = checksums.files.replace

    def fail(path, data):
        if path.name == failing:
            raise OSError(28, "No space left on device", str(path))
        written(path, data)

    monkeypatch.setattr(checksums.files, "replace", fail)
    for failing in ("SHA256SUMS", "catalogue.parquet", "experiment.yaml"):
        directory.mkdir(exist_ok=True)
        with pytest.raises(OSError, match=failing):
            prepare(directory)
        if failing != "experiment.yaml":
            assert directories.choose("made-up", directory, resume=False) == directory
    failing = ""
    assert prepare(directory) == set()
    assert (directory / "experiment.yaml").read_text() == stored_results.EXPERIMENT
