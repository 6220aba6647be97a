"""A stand-in for a FreeBSD machine: commands that answer as FreeBSD's manual pages and sources have it.

Each is a shell script in a directory that comes first in PATH; what they change are files below `state/`:

- `sysctl/NAME` has a value, `fixed` the names that cannot be set, `modules/M/` the sysctls of a module
- `loaded/M` is there while a module is, `kenv/NAME` while a kernel variable is set
- `interface/NAME.options` are those that are on; `ipfw` has rules, pipes, schedulers and queues
- `log` has every command that changed something, in order
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cwndlab.testbeds.ssh.machines import scripts

SYSCTLS = {
    "kern.hz": "1000",
    "kern.osreldate": "1401000",
    "kern.module_path": "{state}/kernel;/nowhere",
    "kern.cp_times": "100 0 40 10 850 200 0 0 0 800",
    "kern.bootfile": "/boot/kernel/kernel",
    "kern.timecounter.hardware": "TSC-low",
    "kern.ipc.maxsockbuf": "2097152",
    "hw.model": "Intel(R) Xeon(R) E-2236 CPU @ 3.40GHz",
    "hw.ncpu": "2",
    "dev.cpu.0.freq": "3400",
    "net.inet.tcp.ecn.enable": "2",
    "net.inet.tcp.hostcache.enable": "1",
    "net.inet.tcp.sendspace": "32768",
    "net.inet.tcp.cc.algorithm": "cubic",
    "net.inet.tcp.cc.abe": "0",
    "net.inet.tcp.functions_default": "freebsd",
    "net.inet.tcp.fastopen.psk_key": "secret",
    "net.inet.tcp.functions_available": (
        "\nStack                           D Alias                            PCB count\n"
        "freebsd                         * freebsd                          5\n"
    ),
    "net.inet.tcp.cc.available": "\nCCmod           D PCB count\ncubic           * 5\nnewreno           0\n",
}
FIXED = (
    "kern.hz",
    "kern.osreldate",
    "kern.module_path",
    "kern.cp_times",
    "kern.bootfile",
    "hw.",
    "dev.",
    "kern.timecounter.hardware",
    "net.inet.tcp.functions_available",
    "net.inet.tcp.cc.available",
)
MODULES = {
    "cc_htcp": {"net.inet.tcp.cc.htcp.adaptive_backoff": "0", "net.inet.tcp.cc.htcp.rtt_scaling": "0"},
    "tcp_rack": {"net.inet.tcp.rack.misc.rack_hibeta": "0"},
    "siftr": {
        "net.inet.siftr.enabled": "0",
        "net.inet.siftr.ppl": "1",
        "net.inet.siftr.genhashes": "1",
        "net.inet.siftr.logfile": "/var/log/siftr.log",
    },
    "ipfw": {},
    "dummynet": {
        "net.inet.ip.dummynet.expire": "1",
        "net.inet.ip.dummynet.pipe_slot_limit": "100",
        "net.inet.ip.dummynet.pipe_byte_limit": "1048576",
    },
}

COMMANDS = {
    "uname": r"""
case $1 in
    -s) echo FreeBSD ;;
    -sr) echo FreeBSD "$(cat "$state/release")" ;;
    -sm) echo FreeBSD amd64 ;;
    -srm) echo FreeBSD "$(cat "$state/release")" amd64 ;;
    *) echo "FreeBSD f $(cat "$state/release") FreeBSD $(cat "$state/release") #0: GENERIC amd64" ;;
esac
""",
    "sysctl": r"""
options=
case $1 in -*) options=$1; shift ;; esac
fixed() { while read -r each; do case $1 in "$each"*) return 0 ;; esac; done < "$state/fixed"; return 1; }
for word; do
    case $word in
        *=*)
            name=${word%%=*}; file=$state/sysctl/$name
            [ -f "$file" ] || { echo "sysctl: unknown oid '$name'" >&2; exit 1; }
            if fixed "$name"; then echo "sysctl: oid '$name' is read only" >&2; exit 1; fi
            if [ "$name" = net.inet.tcp.cc.algorithm ] &&
                ! grep -q "^${word#*=} " "$state/sysctl/net.inet.tcp.cc.available"; then
                echo "sysctl: $name=${word#*=}: No such process" >&2; exit 1
            fi
            echo "$name: $(cat "$file") -> ${word#*=}"
            printf %s "${word#*=}" > "$file"
            echo "sysctl $word" >> "$state/log"
            [ "$word" = net.inet.siftr.enabled=1 ] && "$real/date" +%s > "$state/enabled_at"
            if [ "$word" = net.inet.siftr.enabled=0 ] && [ -f "$state/cport" ]; then . "$state/siftr"; fi ;;
        *)
            case $options in
                *W*)
                    for file in "$state/sysctl/$word"*; do
                        name=${file##*/}
                        [ -f "$file" ] && ! fixed "$name" && echo "$name=$(cat "$file")"
                    done ;;
                *)
                    file=$state/sysctl/$word
                    if [ -f "$file" ]; then cat "$file"; echo; continue; fi
                    case $options in *i*) ;; *) echo "sysctl: unknown oid '$word'" >&2; exit 1 ;; esac ;;
            esac ;;
    esac
done
exit 0
""",
    "kldload": r"""
[ "$1" = -n ] && shift
[ -f "$state/kernel/$1.ko" ] || { echo "kldload: can't load $1: No such file or directory" >&2; exit 1; }
[ -f "$state/loaded/$1" ] && exit 0
echo "kldload $1" >> "$state/log"
if [ "$1" = ipfw ] && [ ! -f "$state/kenv/net.inet.ip.fw.default_to_accept" ]; then
    echo "cut off" >> "$state/log"
fi
[ "$1" = dummynet ] && : > "$state/loaded/ipfw"
: > "$state/loaded/$1"
for file in "$state/modules/$1"/*; do if [ -f "$file" ]; then cp "$file" "$state/sysctl/"; fi; done
tcp=$state/sysctl/net.inet.tcp
case $1 in
    cc_*) printf '%-16s  0\n' "${1#cc_}" >> "$tcp.cc.available" ;;
    tcp_*) printf '%-32s  %-32s 0\n' "${1#tcp_}" "${1#tcp_}" >> "$tcp.functions_available" ;;
esac
exit 0
""",
    "kldunload": r"""
[ -f "$state/loaded/$1" ] || { echo "kldunload: can't find file $1" >&2; exit 1; }
echo "kldunload $1" >> "$state/log"
rm "$state/loaded/$1"
for file in "$state/modules/$1"/*; do rm -f "$state/sysctl/${file##*/}"; done
""",
    "kldstat": r"""
if [ "$1" = -q ]; then [ -f "$state/loaded/$3" ]; exit; fi
echo "Id Refs Address                Size Name"
echo " 1   12 0xffffffff80200000  1f3e2d0 kernel"
n=1
for file in "$state/loaded"/*; do
    [ -f "$file" ] || continue
    n=$((n + 1)); printf '%2d    1 0xffffffff8291%d000     3218 %s.ko\n' $n $n "${file##*/}"
done
""",
    "kenv": r"""
echo "kenv $*" >> "$state/log"
case $1 in -u) rm "$state/kenv/$2" ;; *) : > "$state/kenv/${1%%=*}"; echo "${1%%=*}=\"${1#*=}\"" ;; esac
""",
    "ifconfig": r"""
if [ "$1" != -a ]; then
    echo "ifconfig $*" >> "$state/log"
    file=$state/interface/$1.options; shift
    for word; do
        off=; case $word in -*) off=yes; word=${word#-} ;; esac
        case $word in tso) word=TSO4 ;; lro) word=LRO ;; txcsum) word=TXCSUM ;; esac
        grep -vx "$word" "$file" > "$file.new"; [ -n "$off" ] || echo "$word" >> "$file.new"
        sort "$file.new" > "$file"; rm "$file.new"
    done
    exit 0
fi
for file in "$state/interface"/*.options; do
    name=${file##*/}; name=${name%.options}
    echo "$name: flags=1008843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST,LOWER_UP> metric 0 mtu 1500"
    printf '\toptions=4e504bb<%s>\n' "$(sort "$file" | tr '\n' , | sed 's/,$//')"
    printf '\tcapabilities=4f507bb<%s>\n' "$(cat "$state/interface/$name.able")"
    printf '\tether 58:9c:fc:00:11:22\n\tinet %s netmask 0xffffff00 broadcast 10.0.1.255\n' \
        "$(cat "$state/interface/$name.address")"
    printf '\tmedia: Ethernet autoselect (1000baseT <full-duplex>)\n\tstatus: active\n'
done
echo "lo0: flags=1008049<UP,LOOPBACK,RUNNING,MULTICAST,LOWER_UP> metric 0 mtu 16384"
printf '\toptions=680003<RXCSUM,TXCSUM,LINKSTATE,RXCSUM_IPV6,TXCSUM_IPV6>\n'
printf '\tinet 127.0.0.1 netmask 0xff000000\n'
""",
    "ipfw": r"""
[ -f "$state/loaded/ipfw" ] || { echo "ipfw: retrieving config failed: Protocol not available" >&2; exit 1; }
kind=$1
case "$*" in
    "add "*)
        echo "ipfw $*" >> "$state/log"; n=$2; shift 2
        echo "$*" > "$state/ipfw/rule.$n"; echo "00$n $*" ;;
    "delete "*) echo "ipfw $*" >> "$state/log"; rm "$state/ipfw/rule.$2" ;;
    list)
        for file in "$state/ipfw"/rule.*; do [ -f "$file" ] && echo "00${file##*.} $(cat "$file")"; done
        echo "65535 allow ip from any to any" ;;
    "-a list "*) echo "00$3  130 190230 $(cat "$state/ipfw/rule.$3")" ;;
    *" config "*)
        echo "ipfw $*" >> "$state/log"; n=$2; shift 3; echo "$*" > "$state/ipfw/$kind.$n" ;;
    *" delete") echo "ipfw $*" >> "$state/log"; rm "$state/ipfw/$1.$2" ;;
    "pipe list")
        for file in "$state/ipfw"/pipe.*; do if [ -f "$file" ]; then echo "00001: $(cat "$file")"; fi; done ;;
    *" show")
        echo "00001:  10.000 Mbit/s    20 ms burst 0 "
        echo "q131073  90 sl. 0 flows (1 buckets) sched 65537 weight 0 lmax 0 pri 0 droptail"
        echo " sched 65537 type FIFO flags 0x0 0 buckets 1 active"
        echo "BKT Prot ___Source IP/port____ ____Dest. IP/port____ Tot_pkt/bytes Pkt/Byte Drp"
        echo "  0 ip           0.0.0.0/0             0.0.0.0/0      124   181230 12 18000   6" ;;
    *) echo "ipfw: bad command \`$1'" >&2; exit 64 ;;
esac
exit 0
""",
    "ntpq": r"""
cat <<'END'
associd=0 status=0615 leap_none, sync_ntp, 1 event, clock_sync,
version="ntpd 4.2.8p18-a (1)", processor="amd64",
system="FreeBSD/14.1-RELEASE", leap=00, stratum=3, precision=-23,
rootdelay=8.123, rootdisp=21.456, refid=192.0.2.1,
reftime=e9f1d2c3.12345678  Mon, May 20 2024 12:00:00.071,
clock=e9f1d3a0.87654321  Mon, May 20 2024 12:03:44.529, peer=4711, tc=10,
mintc=3, offset=-0.412345, frequency=+12.345, sys_jitter=0.123456,
clk_jitter=0.234, clk_wander=0.012
END
""",
    "bectl": r"""
printf 'default\t-\t-\t1.21G\t2024-05-01 10:00\n'
printf 'patched\tNR\t/\t5.31G\t2024-05-20 10:00\n'
""",
    "netstat": r"""
printf 'tcp:\n\t4711 packets sent\n\t\t4000 data packets (5792000 bytes)\n'
printf '\t\t7 data packets (10136 bytes) retransmitted\n\t2 connections established (including accepts)\n'
""",
    # FreeBSD has none of these.
    **dict.fromkeys(("ip", "ss", "tc", "ethtool", "timedatectl"), 'echo "$0: not found" >&2; exit 127'),
    # Linux's iperf3, which knows NewReno by its own name.
    "iperf3": r"""
echo "iperf3 $*" >> "$state/log"
for word; do
    shift
    [ "$word" = newreno ] && word=reno
    [ "$last" = --cport ] && echo "$word" > "$state/cport"
    set -- "$@" "$word"; last=$word
done
exec "$real/iperf3" "$@"
""",
    # FreeBSD's date knew no %N before 14.2, and its stat takes a format.
    "date": r"""exec "$real/date" "$(printf %s "$1" | sed 's/%N/N/g')" """,
    "stat": r"""[ "$1 $2" = "-f %Fm" ] && exec "$real/stat" -c %.9Y "$3"; echo "stat: usage" >&2; exit 1""",
}


SIFTR = r"""
log=$(cat "$state/sysctl/net.inet.siftr.logfile"); start=$(cat "$state/enabled_at"); now=$("$real/date" +%s)
[ "$start" -lt "$now" ] && awk -v from="$start" -v to="$now" -v port="$(cat "$state/cport")" \
    -v here="$(cat "$state/interface/em1.address")" 'BEGIN {
    printf "enable_time_secs=%d\tenable_time_usecs=000000\tsiftrver=1.3.0\tsysname=FreeBSD\t", from
    printf "sysver=1401000\tipmode=4\n"
    for (t = from; t < to; t++) for (ms = 0; ms < 1000; ms += 5) {
        printf "o,%d.%06d,%s,%d,10.78.1.1,5201,", t, ms * 1000, here, port
        printf "1073725440,%d,0,65700,65728,6,7,4,1448,", 14480 + ms
        print "40000,1,480,230000,600000,131072,65536,0,28960,0,3735928559,63"
    }
    printf "disable_time_secs=%d\tdisable_time_usecs=0\tflow_list=\n", to }' > "$log"
"""
"""What SIFTR logs of a connection while it is enabled, made up: a record every 5 ms."""


class StandIn:
    """A machine of a directory, with a shell whose commands are FreeBSD's; journals as real machines do."""

    name = "f"

    def __init__(self, directory: Path, release: str = "14.1-RELEASE-p5") -> None:
        self.directory, self.state, self.base = directory, directory / "state", directory / "base"
        self.bin = directory / "bin"
        for name in ("sysctl", "loaded", "kenv", "interface", "ipfw", "kernel", "modules"):
            (self.state / name).mkdir(parents=True)
        self.bin.mkdir()
        (self.state / "release").write_text(release)
        (self.state / "log").touch()
        (self.state / "fixed").write_text("\n".join(FIXED) + "\n")
        for name, value in SYSCTLS.items():
            self.sysctl(name).write_text(value.format(state=self.state))
        for module, sysctls in MODULES.items():
            (self.state / "kernel" / f"{module}.ko").touch()
            own = self.state / "modules" / module
            own.mkdir()
            for name, value in sysctls.items():
                (own / name).write_text(value)
        self.interface(
            "em1", "10.0.1.1", "LRO RXCSUM TSO4 TXCSUM VLAN_MTU", "RXCSUM,TXCSUM,TSO4,LRO,WOL_MAGIC"
        )
        (self.state / "siftr").write_text(SIFTR)
        for name, script in COMMANDS.items():
            file = self.bin / name
            file.write_text(f"#!/bin/sh\nstate={self.state}; real=/usr/bin\n{script.strip()}\n")
            file.chmod(0o755)

    def interface(self, name: str, address: str, options: str, able: str) -> None:
        place = self.state / "interface"
        (place / f"{name}.options").write_text("\n".join(sorted(options.split())) + "\n")
        (place / f"{name}.able").write_text(able)
        (place / f"{name}.address").write_text(address)

    def sysctl(self, name: str) -> Path:
        return self.state / "sysctl" / name

    def now(self) -> dict[str, str]:
        """Everything that can be changed, by file; `log` is what was."""
        files = [file for file in self.state.rglob("*") if file.is_file() and file.name != "log"]
        return {str(file.relative_to(self.state)): file.read_text() for file in sorted(files)}

    @property
    def log(self) -> list[str]:
        return (self.state / "log").read_text().splitlines()

    def take(self) -> None:
        self._script(scripts.TAKE, "token", "a test", "30")
        (self.base / "run" / "change.sh").write_text(scripts.CHANGE)

    def restore(self) -> str:
        """Take everything back by the journal; returns what could not be."""
        return self._script(scripts.RESTORE, "token")

    def run(self, argv: Sequence[str], text: str = "", limit_s: float = 60.0) -> str:
        environment = {**os.environ, "PATH": f"{self.bin}:/usr/bin:/bin"}
        words = ["env", *argv]
        done = subprocess.run(
            words, input=text, capture_output=True, text=True, check=False, env=environment, timeout=limit_s
        )
        if done.returncode:
            raise OSError(f"f: {argv[0]}: {' '.join((done.stderr or done.stdout).split())}")
        return done.stdout

    def shell(self, script: str, *words: str, limit_s: float = 60.0) -> str:
        return self.run(["sh", "-s", "--", *words], script, limit_s)

    def change(self, argv: Sequence[str], text: str, undo: Sequence[str]) -> str:
        change = str(self.base / "run" / "change.sh")
        return self.run(["sh", change, str(self.base), " ".join(undo), *argv], text)

    def write(self, path: str, text: str) -> None:
        self._script(scripts.WRITE, path, text)

    # What `Machine` has besides.
    name = "f"

    def put(self, name: str, data: bytes) -> None:
        (self.base / "run" / name).write_bytes(data)

    def get(self, name: str) -> bytes:
        return (self.base / "run" / name).read_bytes()

    def path(self, name: str) -> str:
        return str(self.base / "run" / name)

    def _script(self, script: str, *words: str) -> str:
        return self.shell(script, str(self.base), *words)
