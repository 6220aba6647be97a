"""What tests on this machine's kernel share; with CWNDLAB_REQUIRE_LIVE=1 they fail where they cannot run."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dumbbell import DUMBBELL, Command
from machines import MACHINES, SSHD, Machines, wait_until

from cwndlab.testbeds.netns import machine, namespaces
from needs import need
from patience import PATIENCE


@pytest.fixture(scope="session", autouse=True)
def able() -> None:
    """Network namespaces can be made here."""
    need(machine.trouble())


@pytest.fixture(autouse=True)
def nothing_left(able: None) -> None:
    """No test begins with what another left behind."""
    for run in namespaces.left_behind():
        namespaces.clean(run)


@pytest.fixture(scope="session")
def cwndlab() -> Command:
    """Runs the command line in a process of its own."""

    def run(*arguments: str | Path, prefix: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
        command = [*prefix, sys.executable, "-m", "cwndlab", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)

    return run


@pytest.fixture
def dumbbell(tmp_path: Path) -> Path:
    """An experiment of seconds at a low rate."""
    file = tmp_path / "live.yaml"
    file.write_text(DUMBBELL, encoding="utf-8")
    return file


SETTINGS = (
    "cat /proc/sys/net/ipv4/tcp_reordering /proc/sys/net/ipv4/tcp_congestion_control;"
    " cat /proc/sys/net/ipv4/tcp_no_metrics_save /proc/sys/net/ipv4/conf/all/rp_filter; tc qdisc show;"
    " nft list ruleset; ip rule; ip -o link | cut -d: -f 2; ip -4 route show table all;"
    " ip -6 rule; ip -6 route show table all;"
    " for i in test to-a to-b; do ethtool -k $i 2>/dev/null | grep -E '(segmentation|receive)-offload'; done;"
    " true"
)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Three hosts and a router."""
    if not Path(SSHD).exists():
        pytest.fail("sshd is not installed (Debian: apt install openssh-server)")
    with Machines(tmp_path_factory.mktemp("machines")) as made:
        yield made


@pytest.fixture
def settings(machines: Machines) -> Iterator[dict[str, str]]:
    """What the machines are set to before a test, and after it as well."""
    before = {own: machines.sh(own, SETTINGS) for own in MACHINES}
    yield before
    for process in machines.commands:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    machines.commands.clear()
    for own in MACHINES:
        wait_until(lambda name=own: not machines.kept(name), f"{own} keeps what we left")
        assert machines.sh(own, SETTINGS) == before[own]
        # A guard that has taken everything back still has to end.
        wait_until(lambda name=own: not machines.programs(name), f"{own} runs what we left")
