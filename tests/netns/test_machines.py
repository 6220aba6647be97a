"""Testbed ssh without a machine: lab files, links as commands of tc, what ss and shells say."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import cwndlab
from cwndlab import ss_output
from cwndlab.errors import ExperimentError
from cwndlab.testbeds.live.linux import settings, tc
from cwndlab.testbeds.live.linux.by_shell import ByShell
from cwndlab.testbeds.ssh import lab_file, sampler, scripts
from cwndlab.testbeds.ssh.connection import COMMAND_S

LABS = Path(__file__).parents[2] / "examples" / "labs"

LAB = """\
lab: mine
path: a cable
hosts:
  a:
    ssh: me@192.0.2.1:2222
    become: sudo
    address: 10.0.0.1
    interface: eth1
routers:
  r: {ssh: 192.0.2.3, links: {bottleneck: eth2}}
"""

SS = (
    "ESTAB 0 141904 10.78.0.1:10000 10.78.1.1:5201 skmem:(r0,rb131072,t0,tb138240,f1552,w174576,o0,bl0,d0)"
    " ts sack cubic wscale:7,7 rto:236 backoff:0 rtt:31.3/1.2 ato:40 mss:1448 pmtu:1500 rcvmss:536"
    " cwnd:27 ssthresh:21 bytes_sent:1200000 bytes_retrans:2896 bytes_acked:1100000 segs_out:830 segs_in:400"
    " data_segs_out:829 send 9992587bps lastsnd:4 pacing_rate 11990000bps delivery_rate 9650000bps"
    " delivered:770 busy:1000ms rwnd_limited:12ms(1.2%) unacked:25 retrans:0/2 reordering:5 rcv_space:14480"
    " notsent:41904 minrtt:14.2 snd_wnd:800000\n"
)


def described(change: str, to: str, tmp_path: Path) -> Path:
    file = tmp_path / "lab.yaml"
    assert change in LAB
    file.write_text(LAB.replace(change, to), encoding="utf-8")
    return file


def test_a_lab_file_names_machines(tmp_path: Path) -> None:
    lab = lab_file.read(described("a cable", "a short cable", tmp_path))
    assert lab.hosts["a"].address == "10.0.0.1"
    assert list(lab.machines) == ["a", "r"]
    assert lab_file.parts(lab.hosts["a"].ssh) == ("me", "192.0.2.1", 2222)
    assert lab_file.parts("[fe80::1]:22") == (None, "fe80::1", 22)
    assert lab.machines["r"].links == {"bottleneck": "eth2"}


@pytest.mark.parametrize(
    ("change", "to", "message"),
    [
        (
            "ssh: me@192.0.2.1:2222",
            "ssh: -oProxyCommand=x",
            "5: hosts.a.ssh: found '-oProxyCommand=x'; expected",
        ),
        ("become: sudo", "become: su", "6: hosts.a.become: found 'su'; expected one of none, sudo, doas"),
        ("address: 10.0.0.1", "address: here", "7: hosts.a.address: found 'here'; expected an IPv4 address"),
        (
            "interface: eth1",
            "interface: eth1; reboot",
            "8: hosts.a.interface: found 'eth1; reboot'; expected",
        ),
        (
            "interface: eth1",
            "interfac: eth1",
            "8: hosts.a.interfac: found the unknown key 'interfac'; expected",
        ),
        ("path: a cable\n", "", "path: missing; this key is required"),
        ("  r: {", "  a: {", "10: routers.a: is a host as well"),
        (
            "interface: eth1",
            "interface: eth1\n    links: {bottleneck: e0}",
            "bottleneck: a makes this link already",
        ),
        ("interface: eth1", "interface: eth1\n    setup: ['']", "setup.1: found nothing; expected a command"),
    ],
)
def test_faults_of_a_lab_file_are_named_with_line_and_key(
    change: str, to: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ExperimentError) as raised:
        lab_file.read(described(change, to, tmp_path))
    said = str(raised.value)
    assert message in said
    assert said.startswith(str(tmp_path / "lab.yaml"))
    assert "\n" not in said


def test_the_template_is_a_lab_file(tmp_path: Path) -> None:
    file = tmp_path / "testbed.yaml"
    file.write_text(lab_file.TEMPLATE, encoding="utf-8")
    assert set(lab_file.read(file).machines) == {"a", "b", "r"}


@pytest.mark.parametrize("name", ["tri-point", "teacup"])
def test_the_examples_fit_their_labs(name: str) -> None:
    lab = lab_file.read(LABS / f"{name}.yaml")
    for run in cwndlab.load(LABS / f"{name}-experiment.yaml").plan().runs:
        links = {link["name"]: link for link in run.scenario["links"]}
        assert {host["name"] for host in run.scenario["hosts"]} == set(lab.hosts)
        for machine in lab.machines.values():
            for link, interface in machine.links.items():
                netem, htb, rate, queue = tc.commands(links[link], interface)
                # Netem's own limit, 1000 packets, would be a queue that nobody asked for.
                assert netem[5:10] == ["root", "handle", "3:", "netem", "limit"]
                assert int(netem[10]) == tc.NETEM_LIMIT
                assert htb[5:] == ["parent", "3:1", "handle", "1:", "htb", "default", "1"]
                assert rate[rate.index("rate") + 1] == f"{links[link]['rate_bps']}bit"
                assert queue[5:] == ["parent", "1:1", "handle", "2:", *tc.queue(links[link]["queue"])]


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        ("{kind: codel, limit: 100p}", "codel limit 100 target 5000us interval 100000us noecn"),
        ("{kind: bfifo, limit: 30KB}", "bfifo limit 30000"),
        (
            "{kind: pie, limit: 100p}",
            "pie limit 100 target 15000us tupdate 15000us alpha 2 beta 20 noecn nobytemode",
        ),
    ],
)
def test_queue_disciplines_are_told_to_tc(queue: str, words: str) -> None:
    text = (LABS / "teacup-experiment.yaml").read_text(encoding="utf-8")
    text = text[: text.index("sweep:")].replace("{kind: pfifo, limit: 90p}", queue)
    scenario = cwndlab.load(text).plan().runs[0].scenario
    (bottleneck,) = (link for link in scenario["links"] if link["name"] == "bottleneck")
    assert " ".join(tc.queue(bottleneck["queue"])).startswith(words)


def test_what_ss_says_becomes_columns() -> None:
    (sample,) = ss_output.samples("1700000000.250000000\n" + SS, sampler.LATEST_NS)
    time_ns, ends, details = sample
    assert time_ns == 1_700_000_000_250_000_000
    assert ends == ("10.78.0.1", "10000", "10.78.1.1", "5201")
    row = sampler.columns(ss_output.values(details), details)
    expected = {
        "cwnd_bytes": 27 * 1448,
        "ssthresh_bytes": 21 * 1448,
        "srtt_ns": 31_300_000,
        "rttvar_ns": 1_200_000,
        "min_rtt_ns": 14_200_000,
        "inflight_bytes": 25 * 1448,
        "delivered_bytes": 1_100_000,
        "sent_bytes": 1_200_000,
        "sent_segments": 829,
        "retransmits": 2,
        "pacing_bps": 11_990_000,
        "delivery_bps": 9_650_000,
        "rto_ns": 236_000_000,
        "busy_ns": 1_000_000_000,
        "rwnd_limited_ns": 12_000_000,
        "notsent_bytes": 41904,
        "send_buffer_bytes": 138240,
        "receive_buffer_bytes": 131072,
        "state": "avoidance",
    }
    assert {name: row[name] for name in expected} == expected


def test_the_busiest_processor_is_found() -> None:
    text = (
        "cpu  100 0 0 900 0 0 0 0 0 0\ncpu0 50 0 0 450 0 0 0 0 0 0\ncpu1 50 0 0 450 0 0 0 0 0 0\n"
        "cpu0 145 0 0 455 0 0 0 0 0 0\ncpu1 60 0 0 540 0 0 0 0 0 0\n"
    )
    assert sampler.busiest(text) == pytest.approx(0.95)


class StandIn:
    """A shell that gives documented answers, and keeps what it was asked."""

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers, self.asked = answers, list[str]()
        self.changed: list[tuple[list[str], list[str]]] = []

    def run(self, argv: Sequence[str], text: str = "", limit_s: float = COMMAND_S) -> str:
        return self.shell(" ".join(argv))

    def shell(self, script: str, *words: str, limit_s: float = COMMAND_S) -> str:
        self.asked.append(script)
        return next((answer for part, answer in self.answers.items() if part in script), "")

    def change(self, argv: Sequence[str], text: str, undo: Sequence[str]) -> str:
        self.changed.append((list(argv), list(undo)))
        return ""

    def write(self, path: str, text: str) -> None:
        self.changed.append(([path, text], []))


def test_offloads_are_switched_where_they_are_otherwise_and_can_be_switched_back() -> None:
    shown = (
        "Features for eth1:\nrx-checksumming: on\ntx-checksumming: on\nscatter-gather: on\n"
        "tcp-segmentation-offload: on\ngeneric-segmentation-offload: on\ngeneric-receive-offload: on\n"
        "large-receive-offload: off [fixed]\n"
    )
    shell = StandIn({"command -v": "/usr/sbin/ethtool\n", "-k eth1": shown})
    ByShell(shell).set_offloads("eth1", tso=False, gro=False)
    tool = ["/usr/sbin/ethtool", "-K", "eth1"]
    off = [*tool, "tso", "off", "gso", "off", "gro", "off"]
    on = [*tool, "tso", "on", "gso", "on", "gro", "on"]
    assert shell.changed == [(off, on)]
    shell.changed.clear()
    ByShell(shell).set_offloads("eth1", tso=True, gro=True)
    assert shell.changed == []


def test_secrets_of_machines_are_not_read_and_files_come_by_path() -> None:
    shell = StandIn({"/proc/sys/net/": "/proc/sys/net/ipv4/tcp_rmem:4096\t131072\t6291456\n"})
    found = settings.namespace(_WithoutInterfaces(shell))
    assert found["sysctls"] == {"net.ipv4.tcp_rmem": "4096 131072 6291456"}
    assert all(f"! -name '*{end}'" in shell.asked[0] for end in ("_key", "_secret", "_password"))


class _WithoutInterfaces(ByShell):
    def interfaces(self) -> dict[str, dict[str, object]]:
        return {}


def script(base: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run one of the scripts of machines here, below a directory of the test."""
    command = ["sh", "-s", "--", str(base), *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def test_a_machine_is_taken_once_and_given_back_as_it_was(tmp_path: Path) -> None:
    setting, base = tmp_path / "setting", tmp_path / "base"
    setting.write_text("4096\t'131072' $(reboot)\n")
    assert script(base, scripts.TAKE, "ours", "me, since noon", "30").returncode == 0
    assert script(base, scripts.HOLDER, "30").stdout == "me, since noon\n"
    second = script(base, scripts.TAKE, "theirs", "you", "30")
    assert (second.returncode, second.stderr) == (7, "me, since noon\n")
    assert script(base, scripts.WRITE, str(setting), "1").returncode == 0
    assert script(base, scripts.WRITE, str(setting), "2").returncode == 0
    assert setting.read_text() == "2"
    assert script(base, scripts.RELEASE, "theirs").returncode == 0
    assert setting.read_text() == "2", "it was not theirs to give back"
    assert script(base, scripts.RELEASE, "ours").stdout == ""
    assert setting.read_text() == "4096 '131072' $(reboot)"
    assert list(base.iterdir()) == []


def test_what_a_crash_left_is_taken_back_by_the_next_or_by_cleaning(tmp_path: Path) -> None:
    setting, base = tmp_path / "setting", tmp_path / "base"
    for take_back in ((scripts.TAKE, "next", "you", "0"), (scripts.CLEAN, "0")):
        setting.write_text("before")
        assert script(base, scripts.TAKE, "crashed", "me", "30").returncode == 0
        assert script(base, scripts.WRITE, str(setting), "during").returncode == 0
        assert script(base, scripts.JOB, "job1", "60", "0", "sleep", "60").returncode == 0
        assert script(base, take_back[0], *take_back[1:]).returncode == 0
        assert setting.read_text() == "before"
        script(base, scripts.RELEASE, "next")
        assert list(base.iterdir()) == []


def test_a_directory_that_is_a_link_is_not_believed(tmp_path: Path) -> None:
    theirs, base = tmp_path / "theirs", tmp_path / "base"
    (theirs / "run").mkdir(parents=True)
    (theirs / "run" / "journal").write_text(f"touch {tmp_path}/done\n")
    base.symlink_to(theirs)
    assert script(base, scripts.TAKE, "ours", "me", "30").returncode == 8
    script(base, scripts.CLEAN, "0")
    assert not (tmp_path / "done").exists()
