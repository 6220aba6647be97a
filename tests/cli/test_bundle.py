"""`data bundle` and `data reproduce`: the same bytes again, differences told, strangers' archives refused."""

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from cwndlab.errors import InputError
from cwndlab.formats.bundle import reader, reproduction
from cwndlab.results.resultset import ResultSet

pytestmark = pytest.mark.slow


@pytest.fixture
def bundle(cwndlab, small):
    ran = cwndlab("data", "bundle", small, "-o", "paper.tar.gz")
    assert (ran.code, ran.out) == (0, "paper.tar.gz\n")
    return cwndlab.directory / "paper.tar.gz"


def repacked(bundle, change):
    """The bundle with its files changed, and its sums made to fit."""
    with tarfile.open(bundle) as archive:
        files = {member.name.partition("/")[2]: archive.extractfile(member).read() for member in archive}
    change(files)
    files["SHA256SUMS"] = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name}\n"
        for name, data in files.items()
        if name != "SHA256SUMS"
    ).encode()
    with tarfile.open(bundle, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"paper/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def test_the_same_comes_out_byte_for_byte(cwndlab, bundle):
    ran = cwndlab("data", "reproduce", bundle, "-q")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("small: byte for byte the same: 10 runs, ")
    again = cwndlab("data", "reproduce", bundle, "-q")
    assert (again.code, again.err) == (
        2,
        "error: reproduced/paper: is there already; give another directory with -o\n",
    )


def test_its_metadata_are_a_crate(cwndlab, bundle):
    """RO-Crate 1.1: the root leads to every file, each entity stands once, and no link leads nowhere."""
    with tarfile.open(bundle) as archive:
        files = {member.name.partition("/")[2]: member.size for member in archive}
        crate = json.load(archive.extractfile("paper/ro-crate-metadata.json"))
    assert crate["@context"] == "https://w3id.org/ro/crate/1.1/context"
    graph = {entity["@id"]: entity for entity in crate["@graph"]}
    assert len(graph) == len(crate["@graph"])
    about = graph["ro-crate-metadata.json"]
    assert (about["about"], about["conformsTo"]) == ({"@id": "./"}, {"@id": "https://w3id.org/ro/crate/1.1"})

    def linked(entity):
        for value in entity.values():
            yield from (each["@id"] for each in (value if isinstance(value, list) else [value])
                        if isinstance(each, dict))  # fmt: skip

    ends = {end for entity in graph.values() for end in linked(entity)}
    assert ends <= graph.keys() | {"https://w3id.org/ro/crate/1.1"}
    reached, ahead = set(), ["./"]
    while ahead:
        parts = graph[ahead.pop()].get("hasPart", [])
        names = [part["@id"] for part in (parts if isinstance(parts, list) else [parts])]
        reached.update(names)
        ahead += names
    assert {name for name in reached if not name.endswith("/")} == files.keys() - {"ro-crate-metadata.json"}
    for name in reached & files.keys() - {"SHA256SUMS"}:
        assert graph[name]["contentSize"] == str(files[name])
    root = graph["./"]
    assert {"name", "description", "datePublished", "license"} <= root.keys() and "author" not in root
    assert datetime.fromisoformat(root["datePublished"]).tzinfo is not None
    assert graph["#run-small"]["name"] == "The 10 runs of small"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--author", "<x>"],
            "error: --author: found '<x>'; expected NAME or NAME <https://orcid.org/...>\n",
        ),
        (
            ["--license", "do what"],
            "error: --license: found 'do what'; expected a name of SPDX such as CC-BY-4.0, or an address\n",
        ),
    ],
)
def test_authors_and_licences_that_are_none_are_refused(cwndlab, small, words, said):
    ran = cwndlab("data", "bundle", small, *words)
    assert (ran.code, ran.err) == (2, said)
    assert list(cwndlab.directory.iterdir()) == []


def test_equal_results_make_equal_bundles(cwndlab, bundle, small):
    (cwndlab.directory / "again").mkdir()
    cwndlab("data", "bundle", small, "-o", "again/paper.tar.gz")
    assert (cwndlab.directory / "again" / "paper.tar.gz").read_bytes() == bundle.read_bytes()


def test_its_script_does_the_same_without_the_command(cwndlab, bundle):
    with tarfile.open(bundle) as archive:
        archive.extractall(cwndlab.directory, filter="data")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["sh", "paper/reproduce.sh"],
        cwd=cwndlab.directory,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith("small: byte for byte the same\n")


def test_a_run_that_comes_out_otherwise_is_named(cwndlab, bundle):
    """Results whose numbers were altered together with all their sums are told from ours."""

    def altered(files):
        folder = next(name for name in files if name.endswith("/runs.jsonl")).removesuffix("runs.jsonl")
        runs = files[f"{folder}runs.jsonl"]
        files[f"{folder}runs.jsonl"] = runs.replace(b'"segments_sent":', b'"segments_sent":1', 1)
        old, new = (hashlib.sha256(text).hexdigest() for text in (runs, files[f"{folder}runs.jsonl"]))
        files[f"{folder}SHA256SUMS"] = files[f"{folder}SHA256SUMS"].replace(old.encode(), new.encode())

    repacked(bundle, altered)
    ran = cwndlab("data", "reproduce", bundle, "-q")
    assert ran.code == 1
    assert ran.out.startswith("small: 1 of 10 runs differ, the first 0")
    assert ran.err.endswith("not reproduced; reproduced/paper has both sides\n")


def test_an_experiment_that_is_not_that_of_the_results_is_not_run(cwndlab, bundle):
    def longer(files):
        text = files["experiments/small/experiment.yaml"].decode()
        files["experiments/small/experiment.yaml"] = text.replace("10mbit", "100gbit").encode()

    repacked(bundle, longer)
    ran = cwndlab("data", "reproduce", bundle, "-q")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "is not the experiment that the results in" in ran.err
    assert not (cwndlab.directory / "reproduced").exists()


def test_what_was_altered_is_refused(cwndlab, bundle):
    def damage(files):
        files["results/small/summary.csv"] += b"x"

    repacked(bundle, damage)
    ran = cwndlab("data", "reproduce", bundle, "-q")
    assert ran.code == 2
    assert "summary.csv: is not as it was written" in ran.err
    bundle.write_bytes(bundle.read_bytes()[:-3000])
    ran = cwndlab("data", "reproduce", bundle, "-q", "-o", "cut")
    assert ran.code == 2
    assert "is no whole .tar.gz" in ran.err


@pytest.mark.parametrize(
    "member",
    [
        {"name": "../outside"},
        {"name": "paper/../../outside"},
        {"name": "/tmp/outside"},
        {"name": "paper/.bashrc"},
        {"name": "outside"},
        {"name": "paper/a\nb"},
        {"name": "paper/link", "type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
        {"name": "paper/link", "type": tarfile.LNKTYPE, "linkname": "paper/README.txt"},
        {"name": "paper/pipe", "type": tarfile.FIFOTYPE},
        {"name": "paper/device", "type": tarfile.CHRTYPE},
    ],
)
def test_no_archive_writes_elsewhere(cwndlab, member):
    archive = cwndlab.directory / "evil.tar.gz"
    with tarfile.open(archive, "w:gz") as made:
        info = tarfile.TarInfo()
        for key, value in member.items():
            setattr(info, key, value)
        made.addfile(info, io.BytesIO())
    ran = cwndlab("data", "reproduce", "evil.tar.gz", "-o", "in/here")
    assert ran.code == 2
    assert "is no plain file below one directory" in ran.err
    assert {path.name for path in cwndlab.directory.iterdir()} == {"evil.tar.gz"}


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        (["GNU.sparse.map=0,1,", "GNU.sparse.size=9"], "a header of a member makes no sense"),
        (["a=b"] * 2000, "a header of a member makes no sense"),
        (None, "a header says that it has -512 bytes"),
    ],
)
def test_a_header_without_sense_is_refused_in_a_line(cwndlab, headers, said):
    """Sizes below 0 would read an archive of any size into memory."""
    if headers is None:
        evil = bytearray(header("paper/long", 0, tarfile.XHDTYPE))
        evil[124:136] = b"\xff" + (2**88 - 512).to_bytes(11)
        evil[148:156] = b"%06o\0 " % (sum(evil[:148]) + sum(evil[156:]) + 8 * ord(" "))
        content = bytes(evil)
    else:
        content = b""
        for text in headers:
            digits = 1 if len(text) < 7 else 2
            body = b"%d %s\n" % (digits + 1 + len(text) + 1, text.encode())
            content += header("paper/long", len(body), tarfile.XHDTYPE) + body.ljust(512, b"\0")
    (cwndlab.directory / "evil.tar.gz").write_bytes(
        gzip.compress(content + header("paper/a", 0) + bytes(1024))
    )
    ran = cwndlab("data", "reproduce", "evil.tar.gz")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert said in ran.err
    assert {path.name for path in cwndlab.directory.iterdir()} == {"evil.tar.gz"}


def test_directories_of_an_archive_are_counted(cwndlab, monkeypatch):
    monkeypatch.setattr(reader, "MOST_FILES", 20)
    bomb(
        cwndlab.directory / "bomb.tar.gz", [(header(f"paper/{n}", 0, tarfile.DIRTYPE), 0) for n in range(21)]
    )
    with pytest.raises(InputError, match="holds more than 20 directories"):
        reader.unpack(cwndlab.directory / "bomb.tar.gz", cwndlab.directory)


ZEROS = 400 << 20


def bomb(file, members):
    """An archive whose headers say sizes that `members` do not fill, or fill with zeros that take no room."""
    with gzip.open(file, "wb") as packed:
        for header, size in members:
            packed.write(header)
            for _ in range(0, size, 1 << 20):
                packed.write(bytes(1 << 20))
        packed.write(bytes(1024))


def header(name, size, kind=tarfile.REGTYPE):
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.USTAR_FORMAT)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        (
            [(header("paper/long", ZEROS, tarfile.XHDTYPE), ZEROS)],
            "a header says that it has 419430400 bytes",
        ),
        ([(header("paper/long", ZEROS, tarfile.GNUTYPE_LONGNAME), ZEROS)], "a header says that it has"),
        ([(header("paper/README.txt", ZEROS), ZEROS)], "SHA256SUMS does not stand at its front"),
        (
            [(header("paper/SHA256SUMS", ZEROS), ZEROS)],
            "SHA256SUMS has 419430400 bytes; 33554432 are allowed",
        ),
        ([(header("paper/SHA256SUMS", 0), 0), (header("paper/more", ZEROS), ZEROS)], "more is not listed"),
        ([(header(f"paper/{n}", 0), 0) for n in range(200)], "SHA256SUMS does not stand at its front"),
    ],
)
def test_an_archive_that_becomes_large_is_refused_before_it_does(cwndlab, members, said):
    bomb(cwndlab.directory / "bomb.tar.gz", members)
    ran = cwndlab("data", "reproduce", "bomb.tar.gz")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert said in ran.err
    assert {path.name for path in cwndlab.directory.iterdir()} == {"bomb.tar.gz"}


def test_a_listed_file_does_not_fill_the_disk_either(cwndlab):
    """Zeros become a thousand times as large as they are packed; results do not."""
    zeros = hashlib.sha256(bytes(ZEROS)).hexdigest()
    listed = f"{zeros}  zeros\n".encode()
    listed += bytes(-len(listed) % 512)
    file = cwndlab.directory / "bomb.tar.gz"
    bomb(
        file,
        [
            (header("paper/SHA256SUMS", len(listed.rstrip(b"\0"))) + listed, 0),
            (header("paper/zeros", ZEROS), ZEROS),
        ],
    )
    ran = cwndlab("data", "reproduce", "bomb.tar.gz")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "more than a bundle of its size may hold" in ran.err


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"[]",
        b'{"format": 1}',
        b'{"format": 2}',
        b'{"format": 1, "results": [{"name": "../x"}]}',
        b"[" * 9999,
    ],
)
def test_a_list_of_contents_that_says_nothing_is_refused(cwndlab, bundle, said):
    repacked(bundle, lambda files: files.update({"bundle.json": said}))
    ran = cwndlab("data", "reproduce", bundle)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "bundle" in ran.err


def test_code_of_a_bundle_is_not_executed(cwndlab, bundle):
    repacked(bundle, lambda files: files.update({"results/small/modules/new/tcp_new.c": b"int x;"}))
    ran = cwndlab("data", "reproduce", bundle)
    assert ran.code == 2
    assert "was run with code of its author (new), which is not executed" in ran.err


@pytest.mark.parametrize(
    ("testbed", "said"),
    [
        ("netns", "small: made on testbed netns; only sim and kernel give the same again"),
        ("kernel", "small: was run on a kernel of Linux; give it with --kernel TREE or NAME"),
    ],
)
def test_what_no_model_made_needs_its_kernel_or_cannot_be_had_again(
    bundle, tmp_path, monkeypatch, testbed, said
):
    (tmp_path / "bundle").mkdir()
    (entry,) = reader.unpack(bundle, tmp_path / "bundle")
    header = replace(ResultSet(entry.results).header, testbed=testbed)
    monkeypatch.setattr(ResultSet, "header", header)
    with pytest.raises(InputError) as error:
        reproduction.reproduce(entry, tmp_path / "ours", 1)
    assert str(error.value) == said
    assert not (tmp_path / "ours").exists()


def test_a_file_the_experiment_names_goes_along(cwndlab):
    trace = cwndlab.directory / "link.trace"
    trace.write_text("1\n2\n4\n")
    text = (
        cwndlab.file("small.yaml")
        .read_text()
        .partition("sweep:")[0]
        .replace("bottleneck: {rate: 10mbit, ", "bottleneck: {shaper: {kind: trace, file: link.trace}, ")
    )
    cwndlab.file("small.yaml", text)
    assert cwndlab("run", "small.yaml", "-o", "out", "-q").code == 0
    ran = cwndlab("data", "bundle", "out")
    assert ran.code == 2
    assert "link.trace" in ran.err
    assert cwndlab("data", "bundle", "out", "--with", "link.trace").code == 0
    assert cwndlab("data", "reproduce", "bundle.tar.gz", "-q").out.startswith(
        "small: byte for byte the same: 1 runs"
    )
