"""What is kept of a host's settings, and which changes are worth a warning, on hosts that are not this."""

import gzip
import json
import sys
from collections.abc import Mapping
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cwndlab.testbeds.live.lab import LiveHost
from cwndlab.testbeds.live.linux import settings, this_machine
from cwndlab.testbeds.live.linux.kernel import Kernel
from cwndlab.testbeds.live.linux.system import Linux
from cwndlab.testbeds.live.linux.this_machine import ThisMachine
from cwndlab.testbeds.live.observation import host_state
from cwndlab.testbeds.live.observation.snapshot import Snapshot
from cwndlab.testbeds.netns.lab import EMULATOR

LINUX = Linux(Kernel("6.18", (), (), {}))

IPV4, NETFILTER = "/proc/sys/net/ipv4", "/proc/sys/net/netfilter"

FILES = {
    f"{IPV4}/tcp_rmem": "4096\t131072\t6291456\n",
    f"{IPV4}/conf/eth0/rp_filter": "0\n",
    f"{NETFILTER}/nf_conntrack_count": "7\n",
    "/proc/sys/net/core/netdev_budget": "300\n",
    "/sys/module/tcp_cubic/parameters/beta": "717\n",
    "/sys/devices/system/cpu/online": "0-3\n",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
    "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave\n",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2400000\n",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "/proc/cpuinfo": "processor\t: 0\nmodel name\t: A processor\ncpu MHz\t\t: 800.0\n",
}


class Host:
    """A host of files; what anybody may write is what nobody counts."""

    def __init__(self, files: Mapping[str, str] = FILES, **changed: Any) -> None:
        self.texts = dict(files)
        self.synchronised = True
        self.drift_ns = 12
        self.mtu = 1500

    def files(self, *patterns: str) -> dict[str, str]:
        return {
            path: text
            for path, text in self.texts.items()
            if any(
                path.startswith(pattern)
                if pattern.endswith("/")
                else path.count("/") == pattern.count("/") and fnmatch(path, pattern)
                for pattern in patterns
            )
        }

    def writable(self, path: str) -> bool:
        return not path.endswith("_count")

    def uname(self) -> str:
        return "Linux host 6.18"

    def clock(self) -> dict[str, Any]:
        return {"synchronised": self.synchronised, "offset_ns": self.drift_ns}

    def interfaces(self) -> dict[str, dict[str, Any]]:
        return {"eth0": {"mtu": self.mtu, "offloads": ["rx-gro"], "qdiscs": [{"kind": "fq"}]}}


def test_settings_of_a_namespace_and_of_the_machine_around_it() -> None:
    host = Host()
    namespace = settings.namespace(host)
    assert namespace["sysctls"]["net.ipv4.tcp_rmem"] == "4096 131072 6291456"
    assert namespace["interfaces"]["eth0"]["offloads"] == ["rx-gro"]
    machine = settings.machine(host, {"net.ipv4.tcp_rmem": ""})
    assert machine == {
        "uname": "Linux host 6.18",
        "cpu": {
            "model": "A processor",
            "online": "0-3",
            "governor": "performance, powersave",
            "frequency_mhz": 2400.0,
        },
        "clock": {"synchronised": True, "offset_ns": 12, "source": "tsc"},
        "modules": {"tcp_cubic.beta": "717"},
        "sysctls": {"net.core.netdev_budget": "300", "net.netfilter.nf_conntrack_count": "7"},
    }


def test_only_settings_that_changed_are_warned_about() -> None:
    host = Host()
    settable = partial(settings.is_setting, host)
    before, machine = settings.namespace(host), settings.machine(host, {})
    host.texts[f"{NETFILTER}/nf_conntrack_count"] = "9\n"  # the kernel counts it
    host.texts["/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"] = "800000\n"
    host.drift_ns = 99
    assert host_state.changes("a", before, settings.namespace(host), settable) == []
    assert host_state.changes("machine", machine, settings.machine(host, {}), settable) == []
    host.texts[f"{IPV4}/tcp_rmem"] = "4096 131072 33554432\n"
    host.mtu, host.synchronised = 9000, False
    found = host_state.changes("a", before, settings.namespace(host), settable)
    assert host_state.warnings(found, "x") == [
        "net.ipv4.tcp_rmem of a changed during the run: "
        "'4096 131072 6291456' before, '4096 131072 33554432' after",
        "interfaces eth0 mtu of a changed during the run: 1500 before, 9000 after",
    ]
    found = host_state.changes("machine", machine, settings.machine(host, {}), settable)
    assert "clock synchronised of this machine changed during the run: True before, False after" in [
        str(each) for each in found
    ]
    many = [host_state.Change("a", f"net.x{number}", "0", None) for number in range(9)]
    said = host_state.warnings(many, "0-hosts.json.gz")
    assert said[0] == "net.x0 of a changed during the run: '0' before, not there after"
    assert said[-1] == "4 more settings changed during the run: 0-hosts.json.gz has them"
    assert len(said) == 6


def test_what_is_the_same_everywhere_is_kept_once() -> None:
    kept = host_state.compact(
        {
            "a": {"sysctls": {"net.one": "1", "net.two": "2"}, "interfaces": {}},
            "b": {"sysctls": {"net.one": "1", "net.two": "3"}, "interfaces": {}},
        }
    )
    assert kept["common"] == {"net.one": "1"}
    assert [kept["namespaces"][node]["sysctls"] for node in "ab"] == [{"net.two": "2"}, {"net.two": "3"}]


def test_secrets_are_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = (
        "ipv4/tcp_fastopen_key",
        "ipv6/conf/eth0/stable_secret",
        "core/netdev_rss_key",
        "ipv4/ip_forward",
    )
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("value\n", encoding="ascii")
    opened: list[str] = []
    text = this_machine._text
    monkeypatch.setattr(this_machine, "_text", lambda path: opened.append(path) or text(path))
    found = ThisMachine().files(f"{tmp_path}/", f"{tmp_path}/*/*")
    assert list(found) == [f"{tmp_path}/ipv4/ip_forward"]
    assert opened
    assert not [path for path in opened if path.endswith(("key", "secret"))]
    assert not ThisMachine().files("/proc/sys/net/").keys() & {"/proc/sys/net/ipv4/tcp_fastopen_key"}


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux")
def test_this_machine_says_what_it_is() -> None:
    reach = ThisMachine()
    assert isinstance(reach.clock()["synchronised"], bool)
    loopback = reach.interfaces()["lo"]
    assert loopback["mtu"] >= 1500
    assert "tx-scatter-gather" in loopback["offloads"]
    assert [each["kind"] for each in loopback["qdiscs"]] == ["noqueue"]
    before = settings.namespace(reach)
    assert before["sysctls"]["net.ipv4.tcp_rmem"].count(" ") == 2
    assert settings.machine(reach, {})["cpu"]["online"]


def test_the_file_of_a_run_holds_settings_before_and_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    for own_changes in (False, True):
        host = Host()
        live = LiveHost(host, LINUX)
        places = dict.fromkeys(("a", "b", EMULATOR), live)
        found = Snapshot(places, {"machine": live}, own_changes=own_changes)
        assert found.changes() == []
        assert found.facts["clock"]["source"] == "tsc"
        monkeypatch.setattr(host, "interfaces", lambda: {"eth0": {"qdiscs": [{"kind": "netem"}]}})
        changed = found.changes()
        assert [each.where for each in changed if each.what == "interfaces eth0 qdiscs"] == (
            [] if own_changes else ["a", "b", EMULATOR]
        )
        kept = json.loads(gzip.decompress(found.document(changed)))
        assert set(kept) == {"machine", "common", "namespaces", "changed"}
        assert kept["common"]["net.ipv4.conf.eth0.rp_filter"] == "0"
        assert len(kept["changed"]) == len(changed)
