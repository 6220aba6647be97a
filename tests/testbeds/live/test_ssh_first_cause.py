"""Machines of testbed ssh that lack something: what is said of it before the first run, and of a run.

Commands around runs are told of the run they are for.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from machines import Machines, run, wait_until

import cwndlab as api
from cwndlab.testbeds.live.linux import tc, trial
from experiments import dumbbell

pytestmark = pytest.mark.live

EXPERIMENT = dumbbell(
    "lacking",
    duration="1s",
    a="stack: linux, cc: cubic",
    b="stack: linux",
    bottleneck="rate: 10mbit, delay: 0ms, overhead: 14, queue: {kind: pfifo, limit: 30p}",
)

TC = """\
#!/bin/sh
# tc(8) of a kernel without some queue disciplines, at any device or at one alone.
case " $* " in
    *" add "*{pattern}*) echo "Error: Specified qdisc kind is unknown." >&2; exit 2 ;;
esac
exec /usr/sbin/tc "$@"
"""


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    file = tmp_path / "lacking.yaml"
    file.write_text(EXPERIMENT, encoding="utf-8")
    return file


NFT = """\
#!/bin/sh
echo "Error: Could not process rule: No such file or directory" >&2; exit 1
"""


def lacking(machines: Machines, name: str, directory: Path, *patterns: str) -> None:
    """Have a machine's tc refuse to add what these patterns of sh(1) stand for."""
    programs = directory / f"programs-of-{name}"
    programs.mkdir()
    cases = "*|*' add '*".join(patterns)
    (programs / "tc").write_text(TC.format(pattern=cases))
    (programs / "tc").chmod(0o755)
    machines.kill_sshd(name)
    machines.start_sshd(name, programs)
    machines.wait_for_sshd()


def test_what_each_machine_lacks_is_said_at_once_and_before_the_first_run(
    machines: Machines, settings: dict[str, str], experiment: Path, tmp_path: Path
) -> None:
    lacking(machines, "r", tmp_path, "' codel'", "' pie '")
    lacking(machines, "a", tmp_path, "' netem '")
    (tmp_path / "programs-of-a" / "nft").write_text(NFT)
    (tmp_path / "programs-of-a" / "nft").chmod(0o755)
    with experiment.open("a") as more:
        queues = "[{kind: pfifo, limit: 30p}, {kind: codel}, {kind: pie}]"
        more.write(f"sweep:\n  - network.dumbbell.bottleneck.queue: {queues}\n")
    out = tmp_path / "out"
    own = ["--set", "hosts.a.egress={delay: 1ms}"]
    for host in ("a", "b"):
        own += ["--set", f"hosts.{host}.ingress={{after_gro: {{loss: {{random: 1%}}}}}}"]
    ran = run(machines, "run", experiment, "--lab", machines.lab(), "-o", out, *own)
    assert ran.returncode == 2
    for missing in ("a: refuses queue discipline netem (egress)", "r: refuses queue discipline codel (link "):
        assert missing in ran.stderr
    assert "r: refuses queue discipline pie (link bottleneck, link bottleneck.reverse): Error: " in ran.stderr
    assert "a: refuses rules of nft (ingress.after_gro): Error: Could not process rule: " in ran.stderr
    assert "b: refuses" not in ran.stderr
    assert "pfifo (link" not in ran.stderr
    assert "htb (link" not in ran.stderr
    assert not out.exists()
    for name in ("a", "r"):
        assert "cwltry" not in machines.run(name, "ip", "-o", "link")
        machines.kill_sshd(name)
        machines.start_sshd(name)
    machines.wait_for_sshd()


def test_a_machine_without_the_queue_discipline_of_its_interface_is_refused(
    machines: Machines, settings: dict[str, str], experiment: Path, tmp_path: Path
) -> None:
    lacking(machines, "a", tmp_path, "' fq '")
    out, own = tmp_path / "out", ["--set", "hosts.a.nic={qdisc: fq}"]
    ran = run(machines, "run", experiment, "--lab", machines.lab(), "-o", out, *own)
    assert ran.returncode == 2
    assert "a: refuses queue discipline fq (nic.qdisc): Error: " in ran.stderr
    assert not out.exists()


def test_a_kernel_is_asked_itself(
    machines: Machines, settings: dict[str, str], experiment: Path, tmp_path: Path
) -> None:
    """Of all that links may need, what this kernel lacks is refused, and nothing else."""
    delay = "network.dumbbell.bottleneck.delay=5ms"
    ran = run(machines, "run", experiment, "--lab", machines.lab(), "--set", delay, "--dry-run")
    tried = ["unshare", "-n", "tc", "qdisc", "add", "dev", "lo", "root", "netem"]
    if subprocess.run(tried, capture_output=True, check=False).returncode == 0:
        assert ran.returncode == 0, ran.stderr
    else:
        assert ran.returncode == 2
        assert "r: refuses queue discipline netem (link bottleneck, link bottleneck.reverse): " in ran.stderr


def test_a_trial_that_is_killed_leaves_nothing(machines: Machines, tmp_path: Path) -> None:
    """Where a machine makes no namespace for it, the next trial takes its device away."""
    programs = tmp_path / "slow"
    programs.mkdir()
    (programs / "tc").write_text("#!/bin/sh\nexec sleep 60\n")
    (programs / "tc").chmod(0o755)
    trials = {"htb": [[*tc.ALONE, "htb", "default", "1"]]}
    enter = ["ip", "netns", "exec", machines.namespace("r"), "sh", "-s"]

    def devices() -> bool:
        return trial.DEVICE in machines.run("r", "ip", "-o", "link")

    slow = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    begun = subprocess.Popen(enter, stdin=subprocess.PIPE, text=True, env=slow, start_new_session=True)
    with begun as killed:
        assert killed.stdin is not None
        killed.stdin.write(trial.script(trials))
        killed.stdin.close()
        wait_until(devices, "no device")
        os.killpg(killed.pid, signal.SIGKILL)
    assert devices()
    done = subprocess.run(enter, input=trial.script(trials), capture_output=True, text=True, check=True)
    assert trial.refused(trials, done.stdout) == {}
    assert not devices()


def test_the_first_cause_is_told_not_what_taking_back_says(
    machines: Machines, settings: dict[str, str], experiment: Path, tmp_path: Path
) -> None:
    lacking(machines, "r", tmp_path, "' to-b '*htb")
    ran = run(machines, "run", experiment, "--lab", machines.lab(), "-o", tmp_path / "out", "--no-report")
    assert ran.returncode == 1
    assert "run 0 failed: r: tc: Error: Specified qdisc kind is unknown." in ran.stderr
    assert "not restored" not in ran.stderr
    machines.kill_sshd("r")
    machines.start_sshd("r")
    machines.wait_for_sshd()


def test_what_really_stays_is_told_after_the_first_cause(
    machines: Machines, settings: dict[str, str], experiment: Path, tmp_path: Path
) -> None:
    lab = machines.lab(more={"a": "before_run: [echo no such luck >&2; exit 3]\nafter_run: [ls /nowhere]"})
    ran = run(machines, "run", experiment, "--lab", lab, "-o", tmp_path / "out", "--no-report")
    assert ran.returncode == 1
    before = "a: before_run: `echo no such luck >&2; exit 3`: no such luck"
    after = "a: after_run: `ls /nowhere`: ls: cannot access '/nowhere': No such file or directory"
    assert f"run 0 failed: {before}; afterwards {after}" in ran.stderr


def test_two_names_of_one_machine_are_noticed(machines: Machines, tmp_path: Path) -> None:
    text = machines.lab().read_text()
    lab, file = tmp_path / "twice.yaml", tmp_path / "three.yaml"
    lab.write_text(text.replace("root@192.168.77.3", "root@192.168.77.1"))
    file.write_text(
        EXPERIMENT.replace("left: [a]", "left: [a, c]").replace("  b: {", "  c: {stack: linux}\n  b: {")
    )
    ran = run(machines, "run", file, "--lab", lab, "--dry-run")
    assert ran.returncode == 2
    assert "a and c are the same machine" in ran.stderr


def test_commands_around_and_during_a_run_are_told_of_it(
    machines: Machines, settings: dict[str, str], experiment: Path, tmp_path: Path
) -> None:
    told, pwned = tmp_path / "told", Path(f"/tmp/{machines.tag}")
    hostile = f"$(touch {pwned}); touch {pwned}"
    with experiment.open("a") as more:
        levels = {"plain": {"duration": "1s"}, hostile: {"duration": "1200ms"}}
        more.write(f"pause: 0s\nsweep:\n  - {{name: tuning, values: {json.dumps(levels)}}}\n")
    command = f"echo {{run}} {{cell.tuning}} $CWNDLAB_CELL_TUNING >> {told}"
    logger = "loggers: {told: {command: [sh, -c, 'echo {run} $CWNDLAB_CELL; sleep 9'], hosts: [b]}}"
    around = f"before_run: [{json.dumps(command)}]\nafter_run: [{json.dumps(command)}]"
    lab = machines.lab(more={"a": around}, end=["agent: {}", logger])
    out = tmp_path / "out"
    ran = run(machines, "run", experiment, "--lab", lab, "-o", out, "--no-report")
    assert ran.returncode == 0, ran.stderr
    each = ["0 plain plain\n" * 2, f"1 {hostile} {hostile}\n" * 2]
    assert told.read_text() in ("".join(each), "".join(each[::-1]))
    assert not pwned.exists()
    for number, name in enumerate(("plain", hostile)):
        kept = (out / "runs" / f"{number}-{number}" / f"{number}-told-b.txt").read_text()
        assert kept == f"{number} {json.dumps({'tuning': name})}\n"
    assert api.open(out).complete
