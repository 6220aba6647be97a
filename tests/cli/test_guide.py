"""`cwndlab help`, `demo`, `cite` and `completion`, and that every page is listed and says for whom it is."""

import importlib.util
import json
import re
import subprocess
import tomllib
from importlib.metadata import version as version_of
from pathlib import Path

import pytest
import yaml

from cwndlab.cli import pages
from cwndlab.experiment import suites
from cwndlab.results import software

DOCS = Path(__file__).parents[2] / "docs"
MADE = {"commands"}  # from the program, with the site


def test_every_page_is_listed_once_and_is_there():
    listed = [page.name for page in pages.pages()]
    there = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    assert len(listed) == len(set(listed))
    assert set(listed) == there | MADE


@pytest.mark.slow
def test_help_lists_the_pages_and_prints_one(cwndlab):
    listed = cwndlab("help")
    assert (listed.code, listed.err) == (0, "")
    assert [line.split()[0] for line in listed.out.splitlines() if line[0] != " "] == [
        page.name for page in pages.topics()
    ]
    ran = cwndlab("help", "netns")
    assert ran.out.startswith("# Testbed netns: this machine's own Linux\n\n*For people who run on their own")


@pytest.mark.slow
def test_help_of_a_command_and_of_nothing_there_is(cwndlab):
    assert cwndlab("help", "show") == cwndlab("show", "--help")
    ran = cwndlab("help", "netn")
    assert (ran.code, ran.err) == (2, "error: topic: 'netn' does not exist; did you mean netns?\n")


def test_every_page_that_the_program_names_can_be_printed():
    package = DOCS.parent / "python/cwndlab"
    texts = [
        path.read_text(encoding="utf-8")
        for suffix in ("py", "html", "js", "yaml")
        for path in package.rglob(f"*.{suffix}")
        if not path.is_relative_to(pages.PAGES)
    ]
    named = {name for text in texts for name in re.findall(r"cwndlab help ([a-z][a-z/-]*)", text)}
    files = {name for text in texts for name in re.findall(r"\bdocs/([a-z/-]+)\.md", text)}
    assert {"start", "statistics", "install"} <= named
    for name in named | files:
        assert pages.page(name).path.exists()


@pytest.mark.slow
def test_the_demonstration_ends_with_its_answer(cwndlab):
    ran = cwndlab("demo", "-o", "out")
    assert ran.code == 0
    assert "bbr against cubic, typically over 2 combinations: 95th percentile RTT " in " ".join(
        ran.out.split()
    )
    assert "95 % sure" in ran.out
    assert (cwndlab.directory / "out" / "report.html").exists()


@pytest.mark.slow
def test_cite_names_the_version_and_each_publication(cwndlab):
    ran = cwndlab("data", "cite")
    assert ran.out.startswith("@software{cwndlab,\n")
    assert all(f"\n{suite.name}: {suite.source}\n" in ran.out for suite in suites.suites())
    assert cwndlab("data", "cite", "no-suite").code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.slow
def test_a_shell_is_given_a_script_and_asks_through_it(cwndlab, shell):
    assert "cwndlab" in cwndlab("dev", "completion", shell).out
    typed = "cwndlab repo"
    asked = cwndlab(
        _CWNDLAB_COMPLETE=f"complete_{shell}",
        _TYPER_COMPLETE_ARGS=typed,
        COMP_WORDS=typed,
        COMP_CWORD="1",
        _TYPER_COMPLETE_FISH_ACTION="get-args",
    )
    assert asked.code == 0
    assert "report" in asked.out


@pytest.mark.parametrize(
    ("shell", "place"),
    [
        ("bash", "bash-completion/completions/cwndlab"),
        ("zsh", "zsh/site-functions/_cwndlab"),
        ("fish", "fish/vendor_completions.d/cwndlab.fish"),
    ],
)
def test_a_wheel_installs_the_scripts_that_the_command_prints(cwndlab, shell, place):
    installed = DOCS.parent / "packaging/installed/data/share" / place
    assert installed.read_text() == cwndlab("dev", "completion", shell).out


def test_bash_takes_its_script(cwndlab):
    script = cwndlab("dev", "completion", "bash").out
    checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_file_to_cite_by_has_the_version_of_the_package():
    root = DOCS.parent
    cited = yaml.safe_load((root / "CITATION.cff").read_text())
    built = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]
    assert (cited["version"], cited["license"]) == (built["version"], built["license"])
    assert version_of("cwndlab") == built["version"]
    bind = tomllib.loads((root / "crates/web/bind/Cargo.toml").read_text())["package"]
    assert bind["version"] == built["version"]
    teacup = tomllib.loads((root / "packages/teacup/pyproject.toml").read_text())
    assert teacup["project"]["version"] == built["version"]
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {cited['version']} - {cited['date-released']}\n" in changes


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("0123456789ab\n", " (commit 0123456789ab)"),
        ("v{version}-3-g0123456789ab\n", " (commit v{version}-3-g0123456789ab)"),
        ("v{version}\n", ""),
        (None, ""),
    ],
)
def test_what_a_wheel_was_built_from_is_said_unless_it_is_a_release(tmp_path, monkeypatch, written, said):
    version = version_of("cwndlab")
    if written:
        (tmp_path / "commit.txt").write_text(written.format(version=version))
    monkeypatch.setattr(software, "PACKAGE", tmp_path)
    monkeypatch.setattr(software, "commit", software.commit.__wrapped__)
    assert software.release() == version + said.format(version=version)


def test_a_checkout_is_asked_for_its_commit(tmp_path, monkeypatch):
    def git(*arguments):
        author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", tmp_path, *author, *arguments], check=True, capture_output=True)

    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.setattr(software, "PACKAGE", tmp_path / "python" / "cwndlab")
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    assert re.fullmatch("[0-9a-f]{12}", software.commit.__wrapped__())
    (tmp_path / "pyproject.toml").write_text("other")
    assert re.fullmatch("[0-9a-f]{12}-dirty", software.commit.__wrapped__())
    git("checkout", ".")
    git("tag", f"v{version_of('cwndlab')}")
    assert software.commit.__wrapped__() == ""


def test_sites_of_versions_stand_side_by_side(tmp_path):
    spec = importlib.util.spec_from_file_location("docs_publish", DOCS / "publish.py")
    publish = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(publish)
    site, root = tmp_path / "site", tmp_path / "root"
    site.mkdir()
    for version in ("0.9", "main", "0.10", "0.9"):
        (site / "index.html").write_text(version)
        publish.main(site, root, version)
    listed = [each["version"] for each in json.loads((root / "versions.json").read_text())]
    assert listed == ["0.10", "0.9", "main"]
    assert "url=0.10/index.html" in (root / "index.html").read_text()
    assert (root / "0.9" / "index.html").read_text() == "0.9"
    with pytest.raises(SystemExit):
        publish.main(site, root, "../elsewhere")
