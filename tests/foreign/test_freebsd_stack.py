"""FreeBSD's own network stack as a packet guest, over a tree of F-Stack, against recordings of the same code.

The tree lies where `CWNDLAB_F_STACK` says; without it nothing runs. It is compiled once, in a minute or two.
"""

import csv
import difflib
import fcntl
import gzip
import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

import cwndlab as api
from cwndlab.analysis import review
from cwndlab.errors import InputError
from cwndlab.foreign import f_stack
from experiments import dumbbell

ROOT = Path(__file__).parents[2]
GLUE = f_stack.GLUE
HEADER = GLUE.parent
PAIR = Path(__file__).parent / "pair.c"
RECORDINGS = ROOT / "groundtruth" / "freebsd"
OBJECTS = ROOT / "target" / "guests" / "freebsd"
TREE = os.environ.get("CWNDLAB_F_STACK")

pytestmark = pytest.mark.slow

# FreeBSD 13.0's runs over a queue that drops at its tail, in 4 MiB sockets. RACK at 10 Mbit/s is left out:
# when its recorder ran soft interrupts is not known.
PATHS = ("10m_40ms_b90", "10m_100ms_b90", "2m_40ms_b50")
PIPE = ("10m_40ms_b90_pipe6675", "2m_40ms_b50_pipe6675", "10m_40ms_ecn30_pipe6675")
EQUAL = [
    *(f"stack/f13_{cc}_{path}" for cc in ("newreno", "cubic", "cdg") for path in PATHS),
    *(f"stack/f13_{cc}_{path}" for cc in ("newreno", "cubic") for path in PIPE),
    "stack/f13_cdg_10m_40ms_ecn30_pipe6675",
    *(f"stack/f13rack_{cc}_2m_40ms_b50" for cc in ("newreno", "cubic", "cdg")),
    *(f"stack2/f13_{cc}_2m_40ms_b50" for cc in ("htcp", "chd", "hd", "vegas")),
    "stack2/f13_cubic_100m_40ms_b175",
    "stack2/f13_newreno_100m_40ms_b350",
]

CC = ("newreno", "cubic", "htcp", "cdg", "chd", "hd", "vegas", "dctcp")


@contextmanager
def alone():
    """Hold the folder of what was built, which stays for the next time, alone among pytest's workers."""
    OBJECTS.mkdir(parents=True, exist_ok=True)
    with (OBJECTS / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def call(*command) -> subprocess.CompletedProcess:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)


def build(library: Path, *options: str) -> Path:
    done = call("make", "-s", "-C", GLUE, f"TREE={TREE}", f"OUT={library}", f"BUILD={OBJECTS}", *options)
    assert (done.returncode, done.stderr) == (0, "")
    return library


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    # A tree is nothing that `make test` can install; `make soak-freebsd` names one.
    if not TREE:
        pytest.skip("no tree of F-Stack: CWNDLAB_F_STACK names none")
    return tmp_path_factory.mktemp("freebsd")


@pytest.fixture(scope="module")
def stack(folder):
    with alone():
        return build(folder / "freebsd.so")


@pytest.fixture(scope="module")
def recorded(folder):
    """The stack with the recordings' timers."""
    with alone():
        return build(folder / "recorded.so", "RECORDED=1")


@pytest.fixture(scope="module")
def pair(folder):
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", f"-I{HEADER}"]
    subprocess.run(["cc", *flags, PAIR, "-o", folder / "pair", "-ldl"], check=True)
    return folder / "pair"


def run(*command) -> str:
    done = call(*command)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def recording(name: str) -> tuple[list, list[tuple[float, int]], dict]:
    """Return the arguments of a recorded run, its drops, and its row of the table."""
    folder, _, run_name = name.partition("/")
    with (RECORDINGS / folder / "summary.csv").open() as file:
        row = next(row for row in csv.DictReader(file) if row["name"] == run_name)
    words = [row[key] for key in ("cc", "rate_mbps", "rtt_ms", "buf", "dur")]
    for word in row["extra"].split():
        key, _, value = word.partition("=")
        key = key.removeprefix("ssysctl.").removeprefix("sysctl.")
        words.append(f"{'ecn' if key == 'ecnthr' else key}={value}")
    if row["stack"] == "rack":
        words.append("net.inet.tcp.functions_default=rack")
    with gzip.open(RECORDINGS / folder / f"{run_name}.drops.csv.gz", "rt") as file:
        return words, drops(file.read()), row


def drops(text: str) -> list[tuple[float, int]]:
    """Times and sequence numbers, the latter from the first one on: initial numbers are drawn."""
    lines = [line.split(",") for line in text.splitlines() if line[0].isdigit()]
    return [(float(t), (int(seq) - int(lines[0][1])) % 2**32) for t, seq in lines]


@pytest.mark.parametrize("name", EQUAL)
def test_every_drop_and_every_figure_is_the_recorded_one(pair, recorded, name):
    words, expected, row = recording(name)
    out = run(pair, recorded, *words)
    ours = drops(out)
    assert [seq for _, seq in ours] == [seq for _, seq in expected]
    # The recordings have microseconds.
    assert all(abs(a - b) < 2e-6 for (a, _), (b, _) in zip(ours, expected, strict=True))
    last = out.splitlines()[-1]
    delivered = int(last.split()[1])
    assert f"{delivered * 8 / 90 / 1e6:.4f}" == f"{float(row['goodput_mbps']):.4f}"
    again = int(row["rexmitpack"])
    assert f" {again} of {int(row['sndpack']) + again} packets sent again, " in last
    assert last.endswith(f" {row['rto']} timeouts")


@pytest.mark.parametrize("cc", ["newreno", "cubic"])
def test_what_the_sender_tells_is_what_was_recorded(pair, recorded, cc):
    # The recording has every change of its first 10 s; bit 0 of in_rec is fast recovery.
    with gzip.open(RECORDINGS / "stack" / f"f13_{cc}_10m_40ms_b90.events.csv.gz", "rt") as file:
        in_recovery = [int(row["in_rec"]) & 1 for row in csv.DictReader(file)]
    entries = sum(now > before for before, now in pairwise(in_recovery))
    told = run(pair, recorded, cc, 10, 40, 90, 10).splitlines()[-1]
    assert told.endswith(f"{entries} recoveries, 0 reductions, 1 timeouts")


def test_timers_are_a_tick_earlier_than_the_recorded_ones(pair, stack):
    words, expected, _ = recording("stack/f13_cubic_10m_40ms_b90")
    ours = drops(run(pair, stack, *words))
    assert [seq for _, seq in ours[:140]] == [seq for _, seq in expected[:140]]
    behind = {round(a - b, 5) for (a, _), (b, _) in zip(ours[:140], expected[:140], strict=True)}
    # Before the recording's one timeout, and after it.
    assert behind == {0.0, -0.001}


@pytest.mark.parametrize(
    ("function", "cc"), [*(("freebsd", cc) for cc in CC), ("rack", "cubic"), ("bbr", "newreno")]
)
def test_a_transfer_ends(pair, stack, function, cc):
    words = [10, 40, 30, 120, "bytes=5000000"]
    out = run(pair, stack, cc, *words, f"net.inet.tcp.functions_default={function}")
    assert out.startswith("# 5000000 bytes in ")
    # The same stack, asked for by the connection.
    name = {"freebsd": cc, "rack": f"rack/{cc}", "bbr": "bbr"}[function]
    assert run(pair, stack, name, *words) == out


def test_a_run_is_the_same_bytes_again(pair, stack):
    words = ["cdg", 10, 40, 20, 30, "net.inet.tcp.functions_default=rack"]
    assert run(pair, stack, *words) == run(pair, stack, *words) != ""


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("net.inet.tcp.nonsense=1", "net.inet.tcp.nonsense: this stack has none of that name"),
        ("net.inet.tcp.sack.enable=yes", "net.inet.tcp.sack.enable: yes is not a whole number"),
        ("net.inet.tcp.functions_default=none", "net.inet.tcp.functions_default: none is refused"),
    ],
)
def test_sysctls_that_are_refused(pair, stack, word, why):
    done = call(pair, stack, "cubic", 10, 40, 90, 1, word)
    assert done.returncode == 1
    assert done.stderr.startswith(f"pair: sysctl {why}")


def test_a_changed_file_of_the_tree_is_compiled_alone(folder):
    def compiled():
        return {path.name: path.stat().st_mtime_ns for path in (OBJECTS / "lib").glob("*.o")}

    with alone():
        build(folder / "again.so")
        before = compiled()
        os.utime(OBJECTS / "lib" / "cc_cubic.o", ns=(0, 0))
        build(folder / "again.so")
        after = compiled()
    assert [name for name, time in after.items() if time != before[name]] == ["cc_cubic.o"]


def test_the_library_says_nothing_of_where_it_was_compiled(stack):
    assert str(ROOT).encode() not in stack.read_bytes()


def test_ticks_are_as_many_as_asked(pair, stack):
    words = ["cubic", 10, 40, 90, 5]
    assert run(pair, stack, *words, "kern.hz=100") != run(pair, stack, *words)
    assert run(pair, stack, *words, "kern.hz=1000") == run(pair, stack, *words)


EXPERIMENT = dumbbell(
    "own",
    duration="10s",
    a="stack: guest:mine, cc: cubic",
    b="stack: guest:mine",
    bottleneck="rate: 10mbit, delay: 20ms, queue: {kind: pfifo, limit: 8p}",
    flow="name: f, from: a, to: b, app: {kind: fixed, size: 5MB}",
)


def rows(results, number):
    return results.rows(number).drop_columns(["run_id"]).to_pylist()


def test_it_speaks_with_itself_and_with_models_and_jobs_change_no_byte(tmp_path, stack):
    names = ("guest:mine", "freebsd-15-current", "linux-6.18")
    sweep = f"sweep: [{{hosts.a.stack: {list(names)}}}, {{hosts.b.stack: {list(names)}}}]\n".replace("'", '"')
    one, two = (
        api.load(EXPERIMENT + sweep, guest=[f"mine={stack}"]).run(out=tmp_path / str(jobs), jobs=jobs)
        for jobs in (1, 2)
    )
    assert [rows(one, run) for run in range(9)] == [rows(two, run) for run in range(9)]
    for row in one.summary.to_dicts():
        assert row["status"] == "complete"
        assert 4 < row["completion_s"] < 8
        assert row["retransmit_rate"] > 0
    version = next(iter(one.records())).versions["guest mine"]
    assert version.startswith("freebsd-13.0 sha256 ")


def test_its_window_is_that_of_the_model(tmp_path, stack):
    more = "sweep: [{hosts.a.stack: ['guest:mine', freebsd-13]}]\n"
    results = api.load(EXPERIMENT + more, ["hosts.b.stack=freebsd-13"], guest=[f"mine={stack}"]).run(
        out=tmp_path / "out"
    )
    own, model = results.summary.to_dicts()
    assert own["retransmit_rate"] == model["retransmit_rate"] > 0
    assert own["completion_s"] == pytest.approx(model["completion_s"], rel=0.01)


def test_a_tree_is_a_guest(tmp_path, stack):
    shutil.copytree(OBJECTS, f_stack.objects(Path(TREE)), symlinks=True)
    results = api.load(EXPERIMENT, ["hosts.a.cc=rack/cubic"], guest=[f"mine={TREE}"]).run(
        out=tmp_path / "out"
    )
    assert results.summary["status"][0] == "complete"


def change_of(tmp_path, name, before, after, prefix="freebsd"):
    """Write a patch that replaces a text in a file of the tree."""
    old = (Path(TREE) / "freebsd" / name).read_text(errors="surrogateescape")
    assert before in old
    new = old.replace(before, after)
    lines = difflib.unified_diff(
        old.splitlines(keepends=True),
        new.splitlines(keepends=True),
        f"a/{prefix}/{name}",
        f"b/{prefix}/{name}",
    )
    patch = tmp_path / "mine.diff"
    patch.write_text("".join(lines), errors="surrogateescape")
    return patch


HEADER_FILE = "netinet/cc/cc_cubic.h"
HALF = ("#define\tCUBIC_BETA\t\t179", "#define\tCUBIC_BETA\t\t128")


def test_a_patch_of_a_tree_compiles_what_reads_it_and_is_told_in_results(tmp_path, stack, monkeypatch):
    shutil.copytree(OBJECTS, f_stack.objects(Path(TREE)), symlinks=True, dirs_exist_ok=True)
    # The path is that of FreeBSD's own tree.
    patch = change_of(tmp_path, HEADER_FILE, *HALF, prefix="sys")
    compiled = {}
    make = f_stack._made

    def told(what, tree, place):
        start = time.time_ns()
        library = make(what, tree, place)
        compiled[what] = {
            path.name for path in (place / "lib").glob("*.o") if path.stat().st_mtime_ns >= start
        }
        return library

    monkeypatch.setattr(f_stack, "_made", told)
    old = api.load(EXPERIMENT, guest=[f"mine={TREE}"]).run(out=tmp_path / "old")
    new = api.load(EXPERIMENT, guest=[f"mine={TREE}"], patch=patch).run(out=tmp_path / "new")
    assert compiled == {"--guest mine": set(), f"--patch {patch}": {"cc_cubic.o"}}
    assert old.summary["completion_s"][0] < new.summary["completion_s"][0]
    before, after = (next(iter(results.records())).versions["guest mine"] for results in (old, new))
    tree = before.partition(" (tree ")[2].removesuffix(")")
    assert after.partition(" (tree ")[2].startswith(f"{tree}, patch ")
    assert (tmp_path / "new" / "modules" / "guest-mine" / "patch.diff").read_bytes() == patch.read_bytes()
    # The tree is as it was, and the same again is not compiled again.
    assert f_stack.compiled("x", Path(TREE)).linked == f_stack.compiled("x", Path(TREE)).linked
    assert HALF[0] in (Path(TREE) / "freebsd" / HEADER_FILE).read_text()
    compiled.clear()
    f_stack.compiled("x", Path(TREE), patch)
    assert compiled == {"x": set()}


def test_a_patch_that_does_not_compile_is_one_line(tmp_path, stack):
    shutil.copytree(OBJECTS, f_stack.objects(Path(TREE)), symlinks=True, dirs_exist_ok=True)
    patch = change_of(
        tmp_path, "netinet/cc/cc_cubic.c", "if (CCV(ccv, snd_cwnd)", "if (no_name(ccv, snd_cwnd)"
    )
    line = rf"^--patch {patch}: freebsd/netinet/cc/cc_cubic\.c:\d+:\d+: error: .*$"
    with pytest.raises(InputError, match=line) as error:
        api.load(EXPERIMENT, guest=[f"mine={TREE}"], patch=patch)
    assert "\n" not in str(error.value)


def test_a_review_of_a_tree_without_and_with_a_patch(tmp_path, stack):
    shutil.copytree(OBJECTS, f_stack.objects(Path(TREE)), symlinks=True, dirs_exist_ok=True)
    patch = change_of(tmp_path, HEADER_FILE, *HALF)
    sides = review.guests([f"mine={TREE}"], patch)
    found = review.carry_out(sides, tmp_path / "own", suite=EXPERIMENT, repeats=2)
    assert not found.failures
    assert any(each.difference for each in found.found)
    words = " ".join(review.text(found).split())
    assert "old: guest:mine (freebsd-13.0, tree " in words
    assert "new: guest:mine, with mine.diff (freebsd-13.0, tree " in words
    assert "What this cannot see" not in words
    # On the five paths, buffers hold nothing back.
    paths = review.carry_out(sides, tmp_path / "paths", repeats=1, scale=0.02)
    assert not paths.failures
    assert {each.contrast.where["path"] for each in paths.found} >= {"DSL line", "Long and fat"}


def test_a_folder_that_is_no_tree_is_no_guest(tmp_path):
    with pytest.raises(
        InputError, match=r"^--guest mine: .*: not a tree of F-Stack, which has freebsd/netinet"
    ):
        api.load(EXPERIMENT, guest=[f"mine={tmp_path}"])


def pretend(tree):
    for name in f_stack.MARKS:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()


PATCH = """\
--- a/{name}
+++ b/{name}
@@ -1 +1 @@
-old
+new
"""


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("sys/netinet/tcp_input.c", "does not apply to freebsd/netinet/tcp_input.c: "),
        ("netinet/tcp_input.c", "does not apply to freebsd/netinet/tcp_input.c: "),
        ("sys/netinet/tcp_none.c", "b/sys/netinet/tcp_none.c: {tree} has no such file"),
        ("../freebsd/netinet/tcp_input.c", "changes b/../freebsd/netinet/tcp_input.c, and nothing of {tree}"),
        ("share/man/man4/tcp.4", "changes b/share/man/man4/tcp.4, and nothing of {tree}"),
    ],
)
def test_a_patch_that_is_not_of_a_tree_is_one_line(tmp_path, name, why):
    tree = tmp_path / "tree"
    pretend(tree)
    patch = tmp_path / "mine.diff"
    patch.write_text(PATCH.format(name=name))
    with pytest.raises(InputError) as error:
        api.load(EXPERIMENT, guest=[f"mine={tree}"], patch=patch)
    assert str(error.value).startswith(f"--patch {patch}: {why.format(tree=tree)}")
    assert "\n" not in str(error.value)


def test_what_is_no_part_of_a_kernel_is_left_out(tmp_path):
    pretend(tmp_path)
    patch = tmp_path / "mine.diff"
    patch.write_text(PATCH.format(name="sys/netinet/tcp_input.c") + PATCH.format(name="share/man/man4/tcp.4"))
    assert f_stack.left_out(tmp_path, patch) == ("b/share/man/man4/tcp.4",)


@pytest.mark.parametrize("named", [(), ("one", "two")])
def test_a_patch_is_for_one_tree(tmp_path, named):
    for name in named:
        pretend(tmp_path / name)
    with pytest.raises(
        InputError, match=r"^--patch: found .*; expected --kernel TREE, or one --guest NAME=TREE$"
    ):
        api.load(EXPERIMENT, guest=[f"{name}={tmp_path / name}" for name in named], patch=tmp_path / "x.diff")


def test_a_tree_with_a_space_in_its_name_is_refused(tmp_path):
    pretend(tmp_path / "f stack")
    with pytest.raises(InputError, match=r"^--guest mine: .*/f stack: make takes no folder with a space"):
        api.load(EXPERIMENT, guest=[f"mine={tmp_path / 'f stack'}"])


def test_a_file_that_does_not_compile_is_one_line(tmp_path):
    pretend(tmp_path)
    (tmp_path / "lib" / "Makefile").write_text("none:\n\tfalse\n")
    with pytest.raises(InputError, match=r"^--guest mine: g?make.*: \*\*\* No rule to make target ") as error:
        api.load(EXPERIMENT, guest=[f"mine={tmp_path}"])
    assert "\n" not in str(error.value)


def test_a_tree_that_was_compiled_in_its_place_meanwhile_is_copied_anew(tmp_path):
    """F-Stack's own Makefile makes folders where a copy has links."""
    pretend(tmp_path)
    (tmp_path / "lib" / "Makefile").write_text("none:\n\tfalse\n")
    for _ in range(2):
        with pytest.raises(InputError, match=r"No rule to make target "):
            api.load(EXPERIMENT, guest=[f"mine={tmp_path}"])
        link = f_stack.objects(tmp_path) / "lib" / "machine"
        assert not link.exists() or (link.is_dir() and not link.is_symlink())
        if not link.exists():
            link.symlink_to(".")
        (tmp_path / "lib" / "machine").mkdir(exist_ok=True)
        (tmp_path / "lib" / "machine" / "cpu.h").touch()


@pytest.mark.parametrize("tree", ["", "/nowhere"])
def test_a_folder_that_is_no_tree(tree):
    done = call("make", "-s", "-C", GLUE, f"TREE={tree}")
    assert done.returncode == 2
    assert f"TREE={tree}: not a tree of F-Stack" in done.stderr
