"""Packages of other people read what cwndlab writes, where they are there: `make neighbours` brings them."""

import json
import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "python.md"


QLOG_READER = ROOT / ".tools" / "qlog-reader" / "debug" / "qlog-reader"


def test_the_qlog_crate_of_quiche_reads_an_export(cwndlab, small):
    """Types of the draft, of somebody else: no event and no field but those that it knows."""
    if not QLOG_READER.exists():
        pytest.skip("no reader of qlog: make neighbours builds it")
    assert cwndlab("data", "export", small, "--format", "qlog", "-o", "logs").code == 0
    files = sorted((cwndlab.directory / "logs").glob("*.qlog"))
    assert files
    for file in files:
        found = subprocess.run([QLOG_READER, file], check=False, capture_output=True, text=True)
        assert found.returncode == 0, found.stderr
        counts = Counter(event["name"] for event in json.loads(file.read_text())["traces"][0]["events"])
        [line] = found.stdout.splitlines()
        assert line.startswith('["urn:ietf:params:qlog:events:quic-13"] Some(Client) ')
        assert f'"metrics": {counts["quic:recovery_metrics_updated"]}' in line
        assert f'"state": {counts["quic:congestion_state_updated"]}' in line
    wrong = cwndlab.directory / "wrong.qlog"
    wrong.write_text(files[0].read_text().replace("congestion_window", "cwnd"))
    assert subprocess.run([QLOG_READER, wrong], check=False, capture_output=True).returncode == 1


def test_rocrate_opens_a_bundle(cwndlab, small):
    rocrate = pytest.importorskip("rocrate.rocrate")
    words = ["-o", "paper.tar.gz", "--author", "Ann Bee <https://orcid.org/0000-0002-1825-0097>"]
    assert cwndlab("data", "bundle", small, *words, "--license", "CC-BY-4.0").code == 0
    with tarfile.open(cwndlab.directory / "paper.tar.gz") as archive:
        archive.extractall(cwndlab.directory, filter="data")
    folder = cwndlab.directory / "paper"
    crate = rocrate.ROCrate(folder)
    assert crate.name == "TCP experiments: small"
    assert (crate.root_dataset["author"]["name"], crate.root_dataset["license"]["name"]) == (
        "Ann Bee",
        "CC-BY-4.0",
    )
    listed = {entity.id for entity in crate.data_entities if entity.type == "File"}
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert listed == there - {"ro-crate-metadata.json"}
    (action,) = crate.get_by_type("CreateAction")
    assert action["instrument"]["name"] == "cwndlab"
    assert (action["object"].id, action["result"].id) == (
        "experiments/small/experiment.yaml",
        "results/small/",
    )


def test_the_bill_of_materials_is_cyclonedx():
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    words = [sys.executable, ROOT / "packaging" / "sbom.py"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_5)
    assert validator.validate_str(told) is None
    assert validator.validate_str(told.replace('"library"', '"book"', 1)) is not None


def test_hadolint_finds_nothing_in_the_dockerfile():
    hadolint = Path(sys.executable).parent / "hadolint"
    if not hadolint.exists():
        pytest.skip("hadolint is not installed")
    told = subprocess.run(
        [hadolint, ROOT / "packaging" / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stdout) == (0, "")


def test_kubernetes_takes_the_recipe_for_a_cluster(tmp_path):
    command = Path(sys.executable).parent / "kubernetes-validate"
    if not command.exists():
        pytest.skip("kubernetes-validate is not installed")
    recipe = (ROOT / "examples" / "cluster" / "kubernetes.yaml").read_text(encoding="utf-8")
    wrong = tmp_path / "wrong.yaml"
    for text, code in ((recipe, 0), (recipe.replace("replicas: 2", "replica: 2"), 1)):
        wrong.write_text(text, encoding="utf-8")
        told = subprocess.run([command, "--strict", wrong], capture_output=True, text=True, check=False)
        assert (told.returncode != 0) == code, told.stderr
        assert (told.stdout + told.stderr).count("passed") == text.count("kind: ") - code


def test_the_recipe_for_xarray_holds_the_series(cwndlab, monkeypatch, capsys):
    """It is run as the page has it, on the results that the page makes, and prints what the page says."""
    pytest.importorskip("pandas")
    pytest.importorskip("xarray")
    page = PAGE.read_text(encoding="utf-8")
    monkeypatch.chdir(cwndlab.directory)
    code = dict(re.findall(r'```python title="([^"]+)"\n(.*?)```', page, re.DOTALL))
    for name in ("ask.py", "cube.py"):
        cwndlab.file(name, code[name])
        capsys.readouterr()
        left = runpy.run_path(name)
    said = page.partition(code["cube.py"])[2].split("```\n")[2]
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        line.split() for line in said.splitlines()
    ]
    cube, results = left["cube"], left["results"]
    runs = results.runs["run_id"].to_list()
    assert sorted(cube["run_id"].values.tolist()) == sorted(runs)
    for run in runs:
        rows = results.series(run, flow="f1").filter(pl.col("t_s").is_between(4.2, 4.3, closed="left"))
        cell = cube.sel(run_id=run, flow="f1").sel(t_s=4.2, method="nearest")
        assert float(cell["cwnd_bytes"]) == rows["cwnd_bytes"][-1]
        assert str(cell["cc"].item()) == results.record(run).cell["hosts.a.cc"]


def test_condas_builder_takes_the_recipe_and_its_needs_are_the_packages():
    rattler = pytest.importorskip("rattler_build")
    recipe = rattler.Stage0Recipe.from_file(ROOT / "packaging" / "conda" / "recipe.yaml")
    variants = rattler.VariantConfig.from_file(ROOT / "packaging" / "conda" / "variants.yaml")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    for platform in ("linux-64", "osx-arm64"):
        target = rattler.PlatformConfig(
            target_platform=platform, build_platform=platform, host_platform=platform
        )
        (variant,) = recipe.render(variants, rattler.RenderConfig(target))
        made = variant.recipe.to_dict()
        assert made["package"]["version"] == workspace["package"]["version"]
        needed = {
            need.replace(" ", "").replace("matplotlib-base", "matplotlib")
            for need in made["requirements"]["run"]
        }
        wanted = {
            need.partition(";")[0].strip()
            for need in project["dependencies"]
            if "linux" not in need or platform.startswith("linux")
        }
        assert needed == wanted | {f"python{project['requires-python']}"}
