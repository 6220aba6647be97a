"""All that a compiler reads is part of a congestion control: hashed, kept, sent; what is made is checked."""

import shutil
from pathlib import Path

import pytest

import cwndlab as api
import needs
from cwndlab.errors import InputError
from cwndlab.foreign import dependencies, parcels, sources, store
from experiments import dumbbell

SOURCE = """\
#include <linux/module.h>
#include <net/tcp.h>
%s
/* Reno up to a cap. \xe9 */
static void capped_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
	tcp_snd_cwnd_set(tcp_sk(sk), min(tcp_snd_cwnd(tcp_sk(sk)), (u32)CAP));
}
static struct tcp_congestion_ops capped = {
	.ssthresh = tcp_reno_ssthresh, .cong_avoid = capped_cong_avoid, .undo_cwnd = tcp_reno_undo_cwnd,
	.name = "capped",
};
static int __init capped_register(void) { return tcp_register_congestion_control(&capped); }
module_init(capped_register);
"""

EXPERIMENT = dumbbell(
    "own",
    duration="1s",
    a="stack: linux-6.18, cc: new",
    b="stack: linux-6.18",
    bottleneck="rate: 20mbit, delay: 10ms, queue: {kind: pfifo, limit: 50p}",
    flow="name: f, from: a, to: b",
)

WAYS = {
    "a header below": ("sub/par.h", '#include "sub/par.h"', ""),
    "a header in a folder": ("../inc/net/par.h", "#include <net/par.h>", ",include={}/inc"),
    "a source": ("impl.c", '#include "impl.c"', ""),
    "a header above": ("../par.h", '#include "../par.h"', ""),
    "a header of a header": ("deep/par.h", '#include "over.h"', ""),
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    """A cache that a test may damage."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def take(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needs.need(None if shutil.which(compiler) else f"there is no {compiler}")
    monkeypatch.setenv("CC", compiler)


def write(folder: Path, way: str, cap: int) -> str:
    """A module whose cap is in another file; what `--cc` is given."""
    place, line, option = WAYS[way]
    source = folder / "src" / "tcp_capped.c"
    other = source.parent / place
    other.parent.mkdir(parents=True, exist_ok=True)
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(SOURCE % line, encoding="latin-1")
    other.write_text(f"#define CAP {cap}\n")
    (source.parent / "over.h").write_text('#include "deep/par.h"\n')
    return f"new={source}{option.format(folder)},abi=linux-6.12"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.slow
def test_what_is_included_is_hashed_kept_and_compiled(tmp_path, way):
    narrow = api.load(EXPERIMENT, cc=[write(tmp_path, way, 4)]).run(out=tmp_path / "narrow")
    wide = api.load(EXPERIMENT, cc=[write(tmp_path, way, 16)]).run(out=tmp_path / "wide")
    assert wide.summary["goodput_mbps"][0] > 2 * narrow.summary["goodput_mbps"][0]
    versions = [next(iter(results.records())).versions["cc new"] for results in (narrow, wide)]
    assert versions[0] != versions[1]
    kept = {path.name: path for path in (wide.path / "modules" / "new").rglob("*.[ch]")}
    assert kept[Path(WAYS[way][0]).name].read_text() == "#define CAP 16\n"
    assert b"\xe9" in kept["tcp_capped.c"].read_bytes()


@pytest.mark.slow
def test_results_of_two_programs_are_not_completed(tmp_path):
    more = "sweep: [{network.dumbbell.bottleneck.queue.limit: [20p, 50p]}]"
    api.load(EXPERIMENT + more, cc=[write(tmp_path, "a header below", 4)]).run(out=tmp_path / "out")
    changed = api.load(EXPERIMENT + more, cc=[write(tmp_path, "a header below", 16)])
    with pytest.raises(InputError, match="cc new"):
        changed.run(out=tmp_path / "out", resume=True)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.slow
def test_what_is_sent_is_enough_elsewhere(tmp_path, way):
    modules = sources.build_all([write(tmp_path / "here", way, 4)])
    sent = parcels.pack(modules)
    shutil.rmtree(tmp_path / "here")
    shutil.rmtree(store.folder())
    (made,) = parcels.open_in(sent, tmp_path / "there")
    assert made.sha256 == modules[0].sha256
    assert hash(sent)  # a worker remembers what it has made


@pytest.mark.slow
def test_a_module_is_the_same_wherever_it_lies(tmp_path):
    way = "a header in a folder"
    one, other = (sources.build(write(tmp_path / name, way, 4)) for name in ("one", "other"))
    assert one[0].sha256 == other[0].sha256


@pytest.mark.parametrize("damage", ["another module's", "cut", "empty"])
@pytest.mark.slow
def test_a_compiled_file_that_is_not_what_was_made_is_made_again(tmp_path, damage):
    other = sources.build(write(tmp_path / "other", "a source", 4))[0].file
    option = write(tmp_path / "own", "a source", 16)
    compiled = sources.build(option)[0].file
    whole = compiled.read_bytes()
    compiled.write_bytes({"another module's": other.read_bytes(), "cut": whole[:5000], "empty": b""}[damage])
    results = api.load(EXPERIMENT, cc=[option]).run(out=tmp_path / "out")
    assert results.complete
    assert results.summary["goodput_mbps"][0] > 5


@pytest.mark.slow
def test_a_file_that_is_changed_later_is_not_loaded(tmp_path):
    other = sources.build(write(tmp_path / "other", "a source", 4))[0].file
    loaded = api.load(EXPERIMENT, cc=[write(tmp_path / "own", "a source", 16)])
    module = next(path for path in store.folder().iterdir() if path != other)
    module.write_bytes(other.read_bytes())
    record = next(iter(loaded.run(out=tmp_path / "out").records()))
    assert record.status == "failed"
    assert "is not what was compiled" in (record.error or "")


@pytest.mark.slow
def test_a_cache_that_others_can_write_is_not_used(tmp_path):
    store.folder().chmod(0o777)
    with pytest.raises(InputError, match="others can write it"):
        sources.build(write(tmp_path, "a source", 4))


@pytest.mark.slow
def test_variables_add_no_folders(tmp_path, monkeypatch):
    option = write(tmp_path, "a header in a folder", 4)
    monkeypatch.setenv("CPATH", str(tmp_path / "inc"))
    with pytest.raises(InputError, match=r"net/par\.h: No such file"):
        sources.build(option.replace(f",include={tmp_path}/inc", ""))


@pytest.mark.slow
@pytest.mark.parametrize(
    "reads",
    [
        '".incbin \\"{}\\""',
        '".inc" "bin \\"{}\\""',
        '".include \\"{}\\""',
        '"\\x2eincbin \\"{}\\""',
        '".INCBIN \\"{}\\""',
        '".macro take how\\n .inc\\\\how \\"{}\\"\\n.endm\\ntake bin"',
        '".irp how, lude\\n .inc\\\\how \\"{}\\"\\n.endr"',
        '"#NO_APP\\n.incbin \\"{}\\"\\n#APP"',
    ],
)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_what_the_compiler_does_not_tell_of_is_refused(tmp_path, monkeypatch, reads, compiler):
    take(compiler, monkeypatch)
    option = write(tmp_path, "a source", 4)
    (tmp_path / "x").write_text("\t.long 1\n")
    text = f'".pushsection .rodata\\n" {reads.format(tmp_path / "x")} "\\n.popsection"'
    (tmp_path / "src" / "impl.c").write_text(f"#define CAP 4\n__asm__({text});\n")
    said = f"reads {tmp_path}/x, of which" if compiler == "gcc" else r"has \.\w+, by which it may read"
    with pytest.raises(InputError, match=rf"tcp_capped\.c: its assembly {said}"):
        sources.build(option)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_source_may_speak_of_directives(tmp_path, monkeypatch, compiler):
    take(compiler, monkeypatch)
    option = write(tmp_path, "a source", 4)
    (tmp_path / "src" / "impl.c").write_text('#define CAP 4 // .incbin\nconst char *said = ".include";\n')
    sources.build(option)


@pytest.mark.slow
def test_a_class_of_python_is_one_file(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "half.py").write_text("PART = 0.5\n")
    (tmp_path / "new.py").write_text(
        "import json, numpy, half\n"
        "class New:\n  def on_ack(self, flow): pass\n  def on_loss(self, flow): pass\n"
    )
    with pytest.raises(InputError, match=r"imports .*half\.py, which is not installed"):
        sources.build(f"new={tmp_path}/new.py:New")
    (tmp_path / "new.py").write_text((tmp_path / "new.py").read_text().replace(", half", ""))
    sources.build(f"new={tmp_path}/new.py:New")


def test_rules_of_make_are_read():
    rules = "a.o: a.c /x/y\\ z.h \\\n  b$$c.h d\\#e.h\n\nb.o: b.c\n"
    assert list(map(str, dependencies.dependencies(rules))) == ["a.c", "/x/y z.h", "b$c.h", "d#e.h", "b.c"]
