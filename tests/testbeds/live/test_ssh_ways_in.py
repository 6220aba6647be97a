"""Testbed ssh's ways into machines: jump hosts, sudo and doas, ssh-agent, and which host keys are refused."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from machines import BEHIND, Machines, run, start, started, wait_until

import cwndlab as api
from experiments import dumbbell

pytestmark = pytest.mark.live

EXPERIMENT = dumbbell(
    "ways-in",
    duration="1s",
    a="stack: linux, cc: reno, sysctl: {net.ipv4.tcp_reordering: 5}",
    b="stack: linux",
    bottleneck="rate: 10mbit, delay: 0ms, overhead: 14, queue: {kind: pfifo, limit: 30p}",
    more="seed: 1\nrecord: {pcap: [a]}\n",
)

A, R = "192.168.77.1", "192.168.77.4"
USER = "tester"
"""Who is let in, and is not root: an account that only `a` has, as /etc is its own there."""
ACCOUNT = {
    "passwd": f"{USER}:x:4242:4242::/tmp:/bin/sh\n",
    "shadow": f"{USER}:*:20000:0:99999:7:::\n",
    "group": f"{USER}:x:4242:\n",
}
MAY = {
    "sudo": ("sudoers", f"Defaults use_pty\n{USER} ALL=(root) NOPASSWD: ALL\n", 0o440),
    "doas": ("doas.conf", f"permit nopass {USER} as root\n", 0o400),
}
"""By program: the file of /etc that lets the user do everything without a password, and its mode."""


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    file = tmp_path / "ways-in.yaml"
    file.write_text(EXPERIMENT, encoding="utf-8")
    return file


@pytest.fixture
def behind(machines: Machines) -> Iterator[None]:
    """`a` has an address that our own machine does not reach."""
    machines.run("a", "ip", "address", "add", f"{BEHIND}/32", "dev", "lo")
    machines.run("r", "ip", "route", "add", f"{BEHIND}/32", "dev", "control")
    yield
    machines.run("r", "ip", "route", "del", f"{BEHIND}/32", "dev", "control")
    machines.run("a", "ip", "address", "del", f"{BEHIND}/32", "dev", "lo")


@pytest.fixture
def account(machines: Machines) -> Iterator[None]:
    """`a` has a user who is not root, and gets root's rights by sudo and by doas."""
    files = {name: (Path("/etc", name).read_text() + line, 0o644) for name, line in ACCOUNT.items()}
    machines.kill_sshd("a")
    machines.start_sshd("a", etc=files | {file: (text, mode) for file, text, mode in MAY.values()})
    machines.wait_for_sshd()
    yield
    machines.kill_sshd("a")
    machines.start_sshd("a")
    machines.wait_for_sshd()


def lab_with(machines: Machines, way_in: str) -> Path:
    """A lab file whose `a` is reached in another way: what stands in place of its `ssh`."""
    file = machines.lab()
    text = file.read_text()
    usual = f"ssh: root@{A}\n"
    assert text.count(usual) == 1
    file.write_text(text.replace(usual, f"{way_in}\n"))
    return file


def known(machines: Machines, tmp_path: Path, keys: Mapping[str, Path]) -> Path:
    """Host keys as `keys` has them for some addresses, and right ones for the others."""
    lines = []
    for line in (machines.directory / "known_hosts").read_text().splitlines():
        address = line.split()[0]
        lines.append(f"{address} {keys[address].read_text()}" if address in keys else f"{line}\n")
    file = tmp_path / "known_hosts"
    file.write_text("".join(lines))
    return file


@pytest.mark.usefixtures("settings", "behind")
def test_a_machine_behind_a_jump_host(machines: Machines, experiment: Path, tmp_path: Path) -> None:
    direct = machines.controller("ip", "route", "get", BEHIND)
    assert subprocess.run(direct, capture_output=True, check=False).returncode != 0, "there is no other way"
    lab, out = lab_with(machines, f"ssh: root@{BEHIND}\n    jump: root@{R}"), tmp_path / "out"
    ran = run(machines, "run", experiment, "--lab", lab, "-o", out, "--no-report")
    assert ran.returncode == 0, ran.stderr
    results = api.open(out)
    assert results.summary["status"].to_list() == ["complete"]
    assert not [warning for warning in results.record(0).warnings if "controlled over" in warning]


@pytest.mark.usefixtures("settings", "account")
@pytest.mark.parametrize("become", MAY)
def test_a_user_who_becomes_root(machines: Machines, experiment: Path, tmp_path: Path, become: str) -> None:
    lab, out = lab_with(machines, f"ssh: {USER}@{A}\n    become: {become}"), tmp_path / "out"
    ran = run(machines, "run", experiment, "--lab", lab, "-o", out, "--no-report")
    assert ran.returncode == 0, ran.stderr
    record = api.open(out).record(0)
    assert record.facts["sysctls"]["a"]["net.ipv4.tcp_reordering"] == "5"
    assert record.captures == ["0-a.pcap"]


@pytest.mark.usefixtures("settings", "account")
@pytest.mark.parametrize("become", MAY)
def test_what_a_user_who_became_root_left_is_taken_back_when_we_are_killed(
    machines: Machines, experiment: Path, tmp_path: Path, become: str
) -> None:
    lab, out = lab_with(machines, f"ssh: {USER}@{A}\n    become: {become}"), tmp_path / "out"
    process = start(machines, "run", experiment, "--lab", lab, "-o", out, "--set", "duration=60s")
    started(machines, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.usefixtures("settings", "account")
def test_rights_that_are_missing_are_said_in_one_line(
    machines: Machines, experiment: Path, tmp_path: Path
) -> None:
    def refused(way_in: str) -> str:
        lab = lab_with(machines, way_in)
        ran = run(machines, "run", experiment, "--lab", lab, "-o", tmp_path / "out", "--no-report")
        assert ran.returncode == 2, ran.stderr
        (line,) = (line for line in ran.stderr.splitlines() if line.startswith("error"))
        return line

    assert "a: " in refused(f"ssh: {USER}@{A}")
    assert "become: sudo or doas" in refused(f"ssh: {USER}@{A}")
    etc = {file: "# nobody\n" for file, _, _ in MAY.values()}
    for file, text in etc.items():
        (machines.directory / "etc-a" / file).write_text(text)
    assert "sudo: a password is required" in refused(f"ssh: {USER}@{A}\n    become: sudo")
    assert "doas: Operation not permitted" in refused(f"ssh: {USER}@{A}\n    become: doas")


@pytest.mark.usefixtures("settings")
def test_a_key_that_ssh_agent_has(machines: Machines, experiment: Path, tmp_path: Path) -> None:
    lab = machines.lab()
    without = [line for line in lab.read_text().splitlines() if "    key: " not in line]
    lab.write_text("\n".join([*without, ""]))
    home, socket = tmp_path / "home", tmp_path / "agent"
    home.mkdir()
    env = {"HOME": str(home), "SSH_AUTH_SOCK": str(socket)}
    words = ("run", experiment, "--lab", lab, "-o", tmp_path / "out", "--no-report")
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL) as agent:
        try:
            wait_until(socket.exists, "no ssh-agent")
            refused = run(machines, *words, env=env)
            assert refused.returncode == 2, refused.stderr
            assert "lets none of our keys in (key: in the lab file, or ssh-agent)" in refused.stderr
            add = ["ssh-add", "-q", str(machines.directory / "key")]
            subprocess.run(add, env={**os.environ, **env}, check=True)
            ran = run(machines, *words, env=env)
        finally:
            agent.terminate()
    assert ran.returncode == 0, ran.stderr


@pytest.mark.usefixtures("settings", "behind")
@pytest.mark.parametrize(
    ("way_in", "wrong"),
    [
        (f"ssh: root@{A}", A),
        (f"ssh: root@{BEHIND}\n    jump: root@{R}", R),
        (f"ssh: root@{BEHIND}\n    jump: root@{R}", BEHIND),
    ],
    ids=["the machine's", "the jump host's", "of a machine behind one"],
)
def test_another_host_key_is_refused_in_one_line(
    machines: Machines, experiment: Path, tmp_path: Path, way_in: str, wrong: str
) -> None:
    lab = lab_with(machines, way_in)
    other = known(machines, tmp_path, {wrong: machines.directory / "key.pub"})
    lab.write_text(lab.read_text().replace(f"{machines.directory}/known_hosts", str(other)))
    ran = run(machines, "run", experiment, "--lab", lab, "-o", tmp_path / "out", "--no-report")
    assert ran.returncode == 2
    (line,) = ran.stderr.splitlines()
    assert f"a: root@{wrong}: " in line
    assert "Host key is not trusted" in line
    assert str(other) in line
    assert not (tmp_path / "out").exists()
