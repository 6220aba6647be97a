"""`cwndlab compare --cc`: two sides on the same paths, a verdict, a page and a text."""

import shutil
from pathlib import Path

import pytest

from cwndlab.analysis import review
from cwndlab.analysis.review import patches
from cwndlab.cli.application import main
from cwndlab.errors import InputError
from cwndlab.foreign.compilation import Request
from cwndlab.report import review_page
from experiments import dumbbell

MODULES = Path(__file__).parents[1] / "foreign" / "modules"
EVERY = f"{MODULES}/tcp_every.c,abi=linux-6.12"

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

BETA = """\
From somebody, with words in front.

diff --git a/net/ipv4/tcp_every.c b/net/ipv4/tcp_every.c
--- a/net/ipv4/tcp_every.c
+++ b/net/ipv4/tcp_every.c
@@ -6,3 +6,3 @@
-static int beta __read_mostly = 512;
+static int beta __read_mostly = 819;
 module_param(beta, int, 0644);
 MODULE_PARM_DESC(beta, "what a loss leaves of the window, in 1/1024");
"""


@pytest.fixture(autouse=True)
def _own_cache(compiled_once, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(compiled_once))


def judged(sides, tmp_path, suite=None):
    return review.carry_out(sides, tmp_path / "out", suite=suite, repeats=6, scale=0.02, jobs=1)


SHORT = dumbbell(
    "short",
    duration="6s",
    a="stack: freebsd-13, cc: newreno, sysctl: {net.inet.tcp.cc.abe: 0}",
    b="stack: freebsd-13",
    bottleneck="rate: 20mbit, delay: 10ms, queue: {kind: pfifo, limit: 50p}",
    flow="name: f, from: a, to: b, cc: cubic",
    more="""\
sweep:
  - {hosts.a.cc: [newreno, cubic]}
  - {network.dumbbell.bottleneck.queue.limit: [30p, 60p]}
repeat: 6
""",
)


@pytest.mark.slow
def test_a_built_in_one_is_no_different_from_itself(tmp_path):
    sides = review.sides("builtin:cubic", "builtin:cubic", stack="linux-6.18")
    found = judged(sides, tmp_path)
    assert (found.runs, found.failures) == (66, [])
    assert review.text(found).startswith("No difference: every run of new counted the same as")
    html = review_page.html(found, "cwndlab compare --cc")
    assert html.count("<svg") == 6
    assert "cwndlab compare --build" in html


@pytest.mark.slow
def test_an_experiment_of_ones_own(tmp_path):
    (tmp_path / "short.yaml").write_text(SHORT)
    sides = review.sides("builtin:cubic", "builtin:reno", stack="linux-6.18")
    found = judged(sides, tmp_path, suite=str(tmp_path / "short.yaml"))
    assert found.runs == 24
    text = " ".join(review.text(found).split())
    assert text.startswith("New differs from old in ")
    assert "short, 30p" in text and "short, 60p" in text
    assert "p: exact permutation test" in text
    changes = review.text(found).partition("how sure that is:\n")[2].partition("\n\n")[0].splitlines()
    assert "segments retransmitted (short, limit 60p): new is" in "\n".join(changes)
    assert max(map(len, changes)) <= 78


@pytest.mark.slow
@pytest.mark.parametrize(("buffer", "idle"), [("10KB", True), ("1MB", False)])
def test_a_path_that_the_receiver_limits_judges_nothing(tmp_path, buffer, idle):
    (tmp_path / "short.yaml").write_text(
        SHORT.replace("b: {stack: freebsd-13", f"b: {{stack: freebsd-13, rcvbuf: {buffer}")
    )
    sides = review.sides("builtin:newreno", "builtin:cubic", stack="freebsd-13")
    found = judged(sides, tmp_path, suite=str(tmp_path / "short.yaml"))
    text = " ".join(review.text(found).split())
    assert bool(found.found) is not idle
    assert [line.partition(":")[0] for line in found.idle] == [
        f"short, {queue} judges nothing" for queue in ("30p", "60p") if idle
    ]
    assert ("the flows are limited by the receiver's window for 100 %" in text) is idle
    assert ("judges nothing" in review_page.html(found, "cwndlab compare --cc")) is idle


@needs_cc
@pytest.mark.slow
def test_a_patch_makes_the_new_side(tmp_path):
    patch = tmp_path / "beta.diff"
    patch.write_text(BETA + BETA.partition("diff --git")[2].replace("tcp_every.c", "../../tcp_input.c"))
    (tmp_path / "short.yaml").write_text(SHORT)
    sides = review.sides(EVERY, None, patch=patch)
    assert sides.patched == ("b/net/ipv4/../../tcp_input.c",)
    assert "+static int beta __read_mostly = 819;" in sides.change
    assert sides.stack.name.startswith("linux-")
    found = judged(sides, tmp_path, suite=str(tmp_path / "short.yaml"))
    text = review.text(found)
    assert "The patch changes more, which is not judged here" in text
    assert "+ new" in text
    html = review_page.html(found, "cwndlab compare --cc")
    assert "▲ higher" in html or "▼ lower" in html


@needs_cc
@pytest.mark.slow
def test_a_failure_is_the_verdict(tmp_path):
    (tmp_path / "short.yaml").write_text(SHORT)
    fails = tmp_path / "tcp_fails.c"
    fails.write_text((MODULES / "tcp_fails.c").read_text().replace("int how;", "int how = 3;"))
    sides = review.sides(f"{fails},abi=linux-6.12", "builtin:reno")
    found = judged(sides, tmp_path, suite=str(tmp_path / "short.yaml"))
    assert review.text(found).startswith("12 of 24 runs failed, the first short-old: old: cong_avoid left a")
    assert "Runs that failed" in review_page.html(found, "cwndlab compare --cc")


@needs_cc
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("no patch", "is no unified diff"),
        (BETA.replace("tcp_every.c", "tcp_other.c"), "and nothing of tcp_every.c"),
        (BETA.replace("= 512", "= 511"), "does not apply to tcp_every.c"),
    ],
)
def test_patches_that_are_refused(tmp_path, text, line):
    patch = tmp_path / "bad.diff"
    patch.write_text(text)
    with pytest.raises(InputError, match=line):
        review.sides(EVERY, None, patch=patch)


@needs_cc
def test_a_patch_changes_a_copy_and_no_path_of_its_own(tmp_path):
    (tmp_path / "tcp_every.c").write_text((MODULES / "tcp_every.c").read_text())
    patch = tmp_path / "beta.diff"
    patch.write_text(BETA.replace("b/net/ipv4/tcp_every.c", f"{tmp_path}/tcp_every.c"))
    with patches.patched(Request.of(f"x={tmp_path}/tcp_every.c"), patch) as (copy, _):
        assert "= 819;" in copy.files[0].read_text()
    assert "= 512;" in (tmp_path / "tcp_every.c").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"beta.diff", "tcp_every.c"}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["builtin:cubic"], "give OLD and NEW, or OLD and --patch FILE"),
        (["builtin:cubic", "builtin:reno"], "say on which system with --stack"),
        (
            ["builtin:cubic", "builtin:vegas2", "--stack", "linux"],
            "review: builtin:vegas2: congestion control",
        ),
        (["builtin:cubic", "builtin:cubic", "--stack", "plan9"], "--stack"),
        (["builtin:cubic", "--patch", "x.diff"], "--patch changes a file"),
    ],
)
def test_what_is_refused(arguments, line, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["compare", "--cc", *arguments])
    assert ended.value.code == 2
    assert line in capsys.readouterr().err
