"""The options that name a kernel and a patch, where they are not meant so."""

from pathlib import Path

import pytest

from cwndlab import testbeds
from cwndlab.cli import kernel, kernel_patch
from cwndlab.errors import InputError


def test_a_patch_needs_a_tree_and_an_experiment() -> None:
    with pytest.raises(InputError, match="--kernel TREE, or --guest NAME=TREE, goes with --patch FILE"):
        kernel_patch.before_and_after("tree", None, [Path("x.yaml")])
    with pytest.raises(InputError, match="--kernel TREE, or --guest NAME=TREE, goes with --patch FILE"):
        kernel_patch.before_and_after("tree", Path("mine.diff"), [Path("x.yaml")], ["mine=tree"])
    with pytest.raises(InputError, match="and with experiment files"):
        kernel_patch.before_and_after("tree", Path("mine.diff"), [])
    with pytest.raises(InputError, match="--patch goes with --kernel TREE"):
        kernel.place(None, Path("mine.diff"), None, None)


def test_a_kernel_is_a_testbed_of_its_own() -> None:
    assert kernel.place(None, None, "sim", None) == ("sim", None)
    with pytest.raises(InputError, match="goes with --testbed kernel alone"):
        kernel.place("6.12", None, "netns", None)
    assert not testbeds.facts(testbeds.GUEST).draws_by_chance
