"""Machines for testbed ssh: network namespaces with an sshd in each, three hosts and a router.

    controller --- management (a switch) --- every machine, 192.168.77.0/24, where sshd listens
    a ---+
         r --- b        the test network, 10.78.n.1 and fd00:78:n::1
    c ---+

All have this machine's files; /var/tmp is each one's own, as on machines that are apart.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import cwndlab
from patience import PATIENCE

HOSTS = ("a", "b", "c")
MACHINES = (*HOSTS, "r")
MANAGEMENT = "192.168.77"
BEHIND = "192.168.78.1"
"""An address whose host key is known as well."""
V6 = Path("/proc/sys/net/ipv6")
SSHD = "/usr/sbin/sshd"

CONFIG = """\
Port 22
HostKey {directory}/host_key
AuthorizedKeysFile /var/tmp/authorized
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
ClientAliveInterval 2
ClientAliveCountMax 2
SetEnv PATH={programs}:/usr/sbin:/usr/bin:/sbin:/bin
"""

AGENT = f"""\
#!/bin/sh
export PYTHONPATH={Path(cwndlab.__file__).parents[1]}
exec {sys.executable} -m cwndlab.testbeds.live.traffic.agent "$@"
"""
"""Stands for the program that `make agent` builds: the same code, as the engine's Python module has it."""

REBOOT = """\
#!/bin/sh
# Stands for reboot(8): who plays the machine's power supply sees the file.
echo "$@" > /var/tmp/reboot
"""


class Machines:
    """The namespaces of a test, which go when it does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tag = f"wssh{secrets.token_hex(3)}"
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._keeper: subprocess.Popen[bytes] | None = None
        self.commands: list[subprocess.Popen[str]] = []
        """What a test has started."""

    def __enter__(self) -> Machines:
        # Ends everything if the test is killed: its input is at its end then.
        script = (
            f"cat >/dev/null; for n in $(ip netns list | cut -d' ' -f1 | grep '^{self.tag}-'); do"
            " ip netns pids $n | xargs -r kill -9; ip netns del $n; done"
        )
        self._keeper = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, start_new_session=True)
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for daemon in self._daemons.values():
            with suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()
        if self._keeper is not None and self._keeper.stdin is not None:
            self._keeper.stdin.close()
            self._keeper.wait()

    def namespace(self, machine: str) -> str:
        return f"{self.tag}-{machine}"

    def run(self, machine: str, *words: str) -> str:
        """What a command prints that is run on a machine, behind sshd's back."""
        command = ["ip", "netns", "exec", self.namespace(machine), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def sh(self, machine: str, script: str) -> str:
        return self.run(machine, "sh", "-c", script)

    def controller(self, *words: str) -> list[str]:
        """A command as it is run on the machine that is ours."""
        return ["ip", "netns", "exec", self.namespace("m"), *words]

    def kept(self, machine: str) -> list[str]:
        """What is there of ours on a machine."""
        place = self.directory / "var" / machine / "cwndlab"
        return sorted(path.name for path in place.iterdir()) if place.is_dir() else []

    def start_sshd(
        self, machine: str, programs: Path | None = None, etc: Mapping[str, tuple[str, int]] | None = None
    ) -> None:
        """Start sshd on a machine, in a mount namespace where /var/tmp is its own; `programs` come first
        there. `etc` has files, with their modes, that stand in place of those of /etc there."""
        config = self.directory / f"config-{machine}"
        own_programs = self.directory / "bin" if programs is None else programs
        config.write_text(CONFIG.format(directory=self.directory, programs=own_programs))
        own = self.directory / "var" / machine
        own.mkdir(parents=True, exist_ok=True)
        (own / "boot_id").write_text(f"{secrets.token_hex(8)}\n")
        shutil.copy(self.directory / "key.pub", own / "authorized")
        its_etc = self.directory / f"etc-{machine}"
        if etc is not None:
            subprocess.run(["cp", "-a", "/etc", str(its_etc)], check=True)
            for name, (text, mode) in etc.items():
                (its_etc / name).write_text(text)
                (its_etc / name).chmod(mode)
        script = (
            f"mount --bind {own} /var/tmp && mount --bind {own}/boot_id /proc/sys/kernel/random/boot_id"
            f"{'' if etc is None else f' && mount --bind {its_etc} /etc'}"
            f" && exec {SSHD} -D -e -f {config}"
        )
        command = ["ip", "netns", "exec", self.namespace(machine), "unshare", "--mount", "sh", "-c", script]
        with (self.directory / f"{machine}.log").open("ab") as log:
            self._daemons[machine] = subprocess.Popen(command, stderr=log, start_new_session=True)

    def wait_for_sshd(self) -> None:
        """Wait until every machine lets us in."""
        deadline = time.monotonic() + PATIENCE
        for machine in MACHINES:
            while "LISTEN" not in self.run(machine, "ss", "-ltnH", "sport = :22"):
                assert time.monotonic() < deadline, (self.directory / f"{machine}.log").read_text()
                time.sleep(0.02)

    def kill_sshd(self, machine: str) -> None:
        """Kill sshd with its sessions, but not what they started."""
        for pid in self._pids(machine):
            with suppress(ProcessLookupError, FileNotFoundError):
                if Path(f"/proc/{pid}/comm").read_text().startswith("sshd"):
                    os.kill(int(pid), signal.SIGKILL)

    @contextmanager
    def power(self, machine: str) -> Iterator[list[str]]:
        """Have a machine restart whenever it is told to; gives how it was told."""
        told: list[str] = []
        over = threading.Event()
        asked = self.directory / "var" / machine / "reboot"

        def wait() -> None:
            while not over.wait(0.05):
                if asked.exists():
                    told.append(asked.read_text().strip())
                    asked.unlink()
                    self.kill_sshd(machine)
                    self.start_sshd(machine)

        thread = threading.Thread(target=wait)
        thread.start()
        try:
            yield told
        finally:
            over.set()
            thread.join()

    def kill_guard(self, machine: str) -> None:
        """Kill what is to take settings back when we are gone."""
        place = self.directory / "var" / machine / "cwndlab" / "run" / "guard"
        os.kill(int(place.read_text().split()[0]), signal.SIGKILL)

    def programs(self, machine: str) -> list[str]:
        """The names of all that runs on a machine, but sshd."""
        found = []
        for pid in self._pids(machine):
            with suppress(FileNotFoundError, ProcessLookupError):
                found.append(Path(f"/proc/{pid}/comm").read_text().strip())
        return [name for name in found if not name.startswith("sshd")]

    def lab(
        self, *, links: bool = True, more: dict[str, str] | None = None, end: Sequence[str] = ("agent: {}",)
    ) -> Path:
        """A lab file of all machines; the router makes the bottleneck. They have no agent unless told."""
        lines = [
            "lab: namespaces",
            f"known_hosts: {self.directory}/known_hosts",
            "path: veth interfaces",
            "hosts:",
        ]
        for host in HOSTS:
            lines += [f"  {host}:", *self.described(host)]
            lines += [f"    {line}" for line in (more or {}).get(host, "").splitlines()]
        lines += ["routers:", "  r:", *self._way_in("r")]
        if links:
            lines += ["    links: {bottleneck: to-b, bottleneck.reverse: to-a}"]
        file = self.directory / "lab.yaml"
        file.write_text("\n".join([*lines, *end]) + "\n", encoding="utf-8")
        return file

    def described(self, host: str) -> list[str]:
        """What a lab file says of a host."""
        found = [] if host == "b" else ["    interface: test"]  # of b it is found by the address
        number = HOSTS.index(host)
        own = [f"    address: 10.78.{number}.1", f"    address6: fd00:78:{number}::1"]
        return [*self._way_in(host), *own, *found]

    def _way_in(self, machine: str) -> list[str]:
        address = f"{MANAGEMENT}.{MACHINES.index(machine) + 1}"
        return [f"    ssh: root@{address}", f"    key: {self.directory}/key"]

    def _pids(self, machine: str) -> list[str]:
        command = ["ip", "netns", "pids", self.namespace(machine)]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()

    def _make(self) -> None:
        self._keys()
        for machine in ("m", *MACHINES):
            _ip("netns", "add", self.namespace(machine))
            self.run(machine, "ip", "link", "set", "lo", "up")
            if V6.exists():
                # Addresses that come a second after their interface would look like something left by a run.
                self.sh(machine, f"echo 0 > {V6}/conf/default/accept_dad")
        self.run("m", "ip", "link", "add", "switch", "type", "bridge")
        self.run("m", "ip", "address", "add", f"{MANAGEMENT}.100/24", "dev", "switch")
        self.run("m", "ip", "link", "set", "switch", "up")
        for number, machine in enumerate(MACHINES):
            self._cable(("m", f"to-{machine}"), (machine, "control"))
            self.run("m", "ip", "link", "set", f"to-{machine}", "master", "switch")
            self.run(machine, "ip", "address", "add", f"{MANAGEMENT}.{number + 1}/24", "dev", "control")
        for number, host in enumerate(HOSTS):
            self._cable((host, "test"), ("r", f"to-{host}"))
            self.run(host, "ip", "address", "add", f"10.78.{number}.1/24", "dev", "test")
            self.run("r", "ip", "address", "add", f"10.78.{number}.254/24", "dev", f"to-{host}")
            self.run(host, "ip", "route", "add", "10.78.0.0/16", "via", f"10.78.{number}.254")
            if V6.exists():
                near, far = f"fd00:78:{number}::1", f"fd00:78:{number}::254"
                self.run(host, "ip", "address", "add", f"{near}/64", "dev", "test", "nodad")
                self.run("r", "ip", "address", "add", f"{far}/64", "dev", f"to-{host}", "nodad")
                self.run(host, "ip", "route", "add", "fd00:78::/32", "via", far)
        self.sh("r", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        if V6.exists():
            self.sh("r", f"echo 1 > {V6}/conf/all/forwarding")
        Path("/run/sshd").mkdir(exist_ok=True)
        for machine in MACHINES:
            self.start_sshd(machine)
        self.wait_for_sshd()

    def _cable(self, one: tuple[str, str], other: tuple[str, str]) -> None:
        (near, name), (far, peer) = one, other
        _ip(
            *("-n", self.namespace(near), "link", "add", name, "type", "veth"),
            *("peer", "name", peer, "netns", self.namespace(far)),
        )
        self.run(near, "ip", "link", "set", name, "up")
        self.run(far, "ip", "link", "set", peer, "up")

    def _keys(self) -> None:
        for name in ("key", "host_key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.directory / name)]
            subprocess.run(command, check=True)
        host_key = " ".join((self.directory / "host_key.pub").read_text().split()[:2])
        addresses = [*(f"{MANAGEMENT}.{number + 1}" for number in range(len(MACHINES))), BEHIND]
        known = [f"{address} {host_key}\n" for address in addresses]
        (self.directory / "known_hosts").write_text("".join(known))
        reboot = self.directory / "bin" / "reboot"
        reboot.parent.mkdir()
        reboot.write_text(REBOOT)
        reboot.chmod(0o755)


def wait_until(true: Callable[[], bool], otherwise: str, limit_s: float = PATIENCE / 6) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.1)


def start(
    machines: Machines, *words: str | Path, env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """The command line on our own machine, which is not among the lab's; `env` is set there besides."""
    command = machines.controller(sys.executable, "-m", "cwndlab", *map(str, words))
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **(env or {})},
    )
    machines.commands.append(process)
    return process


def run(
    machines: Machines, *words: str | Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What the command line leaves there."""
    process = start(machines, *words, env=env)
    out, err = process.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def started(machines: Machines, process: subprocess.Popen[str]) -> None:
    """Wait until traffic flows."""

    def flows() -> bool:
        assert process.poll() is None, process.communicate()
        return machines.run("a", "ss", "-tnH", "state", "established", "dport = :5201") != ""

    # A client that was killed may have left its port in TIME-WAIT, for a minute.
    wait_until(flows, "no traffic", PATIENCE / 2)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
