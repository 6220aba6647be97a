"""Source trees: what of them is read, copied and hashed; kernels that are kept."""

from pathlib import Path

import pytest

from cwndlab.errors import InputError
from cwndlab.testbeds.kernel import build, choice, guest, store, trees
from cwndlab.testbeds.kernel.store import Kernel

MAKEFILE = "# SPDX\nVERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 9\nEXTRAVERSION =\nNAME = A\n"
KCONFIG = "config HZ\n\tint\n\tdefault 100\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {
        "Makefile": MAKEFILE,
        "arch/um/Kconfig": KCONFIG,
        "arch/um/kernel/time.c": "int um;\n",
        "arch/arm/kernel/time.c": "int arm;\n",
        "arch/arm/crypto/Kconfig": "config ARM\n",
        "drivers/net/veth.c": "int veth;\n",
        "drivers/net/ethernet/e1000.c": "int e1000;\n",
        "drivers/gpu/Kconfig": "config GPU\n",
        "net/ipv4/tcp_cubic.c": "int beta = 717;\n",
        "net/ipv4/tcp_cubic.o": "made",
        ".config": "CONFIG_OF_THE_OWNER=y\n",
    }
    for name, text in files.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text)
    return tmp_path / "tree"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_what_no_build_reads_is_left_out(tree: Path) -> None:
    assert list(trees.files(tree)) == [
        "Makefile",
        "arch/arm/crypto/Kconfig",
        "arch/um/Kconfig",
        "arch/um/kernel/time.c",
        "drivers/gpu/Kconfig",
        "drivers/net/veth.c",
        "net/ipv4/tcp_cubic.c",
    ]
    assert trees.read(tree).release == "6.12.9"


def test_a_copy_follows_its_tree_and_undoes_what_a_patch_did(tree: Path, tmp_path: Path) -> None:
    copy, own = tmp_path / "copy", trees.read(tree)
    first = trees.copy(own, copy)
    kept = (copy / "drivers/net/veth.c").stat().st_mtime_ns
    (copy / "net/ipv4/tcp_cubic.c").write_text("int beta = 819;\n")
    assert trees.copy(own, copy) == first
    assert (copy / "net/ipv4/tcp_cubic.c").read_text() == "int beta = 717;\n"
    assert (copy / "drivers/net/veth.c").stat().st_mtime_ns == kept, "it need not be compiled again"
    (tree / "net/ipv4/tcp_cubic.c").write_text("int beta = 600;\n")
    (tree / "drivers/net/veth.c").unlink()
    assert trees.copy(own, copy) != first
    assert (copy / "net/ipv4/tcp_cubic.c").read_text() == "int beta = 600;\n"
    assert not (copy / "drivers/net/veth.c").exists()


def test_no_source_tree_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no source tree of Linux"):
        trees.read(tmp_path)


def test_hz_is_set_in_the_copy_alone(tree: Path, tmp_path: Path) -> None:
    trees.copy(trees.read(tree), tmp_path / "copy")
    build._set_hz(tmp_path / "copy", 250)
    assert "default 250" in (tmp_path / "copy/arch/um/Kconfig").read_text()
    assert (tree / "arch/um/Kconfig").read_text() == KCONFIG
    (tmp_path / "copy/arch/um/Kconfig").write_text("source kernel/Kconfig.hz\n")
    with pytest.raises(InputError, match="its HZ cannot be 250"):
        build._set_hz(tmp_path / "copy", 250)


def test_a_patch_that_does_not_apply_is_told(tree: Path, tmp_path: Path) -> None:
    patch = tmp_path / "mine.diff"
    patch.write_text(
        "--- a/net/ipv4/tcp_cubic.c\n+++ b/net/ipv4/tcp_cubic.c\n"
        "@@ -1 +1 @@\n-int beta = 1;\n+int beta = 2;\n"
    )
    with pytest.raises(InputError, match="does not apply"):
        build._apply(tree, patch, patch.read_bytes())
    patch.write_text(patch.read_text().replace("-int beta = 1", "-int beta = 717"))
    build._apply(tree, patch, patch.read_bytes())
    assert (tree / "net/ipv4/tcp_cubic.c").read_text() == "int beta = 2;\n"


def test_a_tree_that_leaves_out_what_runs_need_is_told(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("allnoconfig:\n\tgrep -v SYSCTL $(KCONFIG_ALLCONFIG) > .config\n")
    with pytest.raises(InputError, match="this tree knows no CONFIG_SYSCTL=y"):
        build._make(tmp_path, lambda done, of: None, 1)


@pytest.mark.parametrize(("code", "blocks"), [("mount_block_root(", True), ("mount_nodev_root(", False)])
def test_a_tree_that_mounts_block_devices_alone_is_built_with_them(
    tmp_path: Path, code: str, *, blocks: bool
) -> None:
    (tmp_path / "init").mkdir()
    (tmp_path / "init/do_mounts.c").write_text(code)
    (tmp_path / "Makefile").write_text(
        "allnoconfig:\n\tcp $(KCONFIG_ALLCONFIG) .config\nlinux:\n\ttouch linux\n"
    )
    build._make(tmp_path, lambda done, of: None, 1)
    assert ("CONFIG_BLOCK=y" in (tmp_path / ".config").read_text().splitlines()) == blocks


def test_the_compilers_errors_have_their_places(tmp_path: Path) -> None:
    said = (
        f"{tmp_path}/net/ipv4/tcp_cubic.c:42:7: error: 'x' undeclared\nmake: *** [Makefile:1: net] Error 2\n"
    )
    told = build._errors(said, tmp_path)
    assert told.splitlines() == [
        "the kernel does not build:",
        "net/ipv4/tcp_cubic.c:42:7: error: 'x' undeclared",
    ]


def kernel(name: str) -> Kernel:
    return Kernel(name, "6.12.9", 1000, "t" * 64, "c" * 64, None, "0" * 64, "cc")


def test_kernels_are_found_by_the_beginning_of_their_names() -> None:
    for name in ("6.12.9-aaaa", "6.12.9-bbbb", "6.1.5-cccc"):
        store.put(kernel(name), {store.PROGRAM: b"\x7fELF"})
    assert [each.name for each in store.kernels()] == ["6.1.5-cccc", "6.12.9-aaaa", "6.12.9-bbbb"]
    assert store.find("6.1.").name == "6.1.5-cccc"
    with pytest.raises(InputError, match=r"2 kernels begin so: 6\.12\.9-aaaa, 6\.12\.9-bbbb"):
        store.find("6.12")
    with pytest.raises(InputError, match=r"none that was built.*there is 6\.1\.5-cccc"):
        store.find("7.0")


def test_a_kernel_that_was_changed_is_refused() -> None:
    with pytest.raises(InputError, match="was changed since it was built"):
        store.check(store.put(kernel("6.12.9-aaaa"), {store.PROGRAM: b"\x7fELF"}))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{", "?", r"\(kernel.json: it is damaged in line 1, column \d+\)"),
        ('"hz"', '"herz"', r"\(kernel.json: no 'hz'\)"),
        ('"hz": 1000', '"hz": "many"', r"\(kernel.json: 'hz' is of another kind than it should be\)"),
        ("\n}", "", r"\(kernel.json: it breaks off in line \d+, column \d+\)"),
        ('"name": "6', '"name": "7', r"\(it is called '7\.12\.9-aaaa'\)"),
    ],
)
def test_a_damaged_description_of_a_kernel_is_told_in_words(old: str, new: str, said: str) -> None:
    place = store.put(kernel("6.12.9-aaaa"), {store.PROGRAM: b"\x7fELF"}).folder
    file = place / store.ABOUT
    assert old in file.read_text(), file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(InputError, match=f"{place}: not a kernel that cwndlab kernel build made {said}"):
        store.read(place)


def test_a_program_that_is_no_kernel_is_refused() -> None:
    with pytest.raises(InputError, match="shows no configuration"):
        choice.kernel("/bin/true", None, None, lambda done, of: None, jobs=1)


def test_what_a_kernel_complained_of_is_told_first() -> None:
    console = (
        "Linux version 6.12.9\nBUG: unable to do so\nRIP: tcp_ack+0x1\nKernel panic - not syncing: Fatal\n"
    )
    assert (
        guest.failure(console) == "BUG: unable to do so; RIP: tcp_ack+0x1; Kernel panic - not syncing: Fatal"
    )
