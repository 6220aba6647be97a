"""Logs of other tools as those write them, one flow of data from 10.0.0.1:40000 to 10.0.1.1:5001, with known
metrics.

Row n is at 1400000000 s + n * 0.1 s, with a cwnd of (10 + n) * 1448 bytes.
"""

import struct

FLOW = "10.0.0.1:40000-10.0.1.1:5001"
START = 1_400_000_000
MSS = 1448
ROWS = 20


def cwnd(n: int) -> int:
    return (10 + n) * MSS


def ssthresh(n: int) -> int:
    """Infinite up to row 9, then 15 segments."""
    return 1_073_725_440 if n < 10 else 15 * MSS


def time(n: int) -> str:
    return f"{START + n // 10}.{n % 10}00000"


def siftr9(extra: str = "", hz: int = 1000) -> str:
    """FreeBSD 9.x: 26 fields and `extra`, srtt in 1/(hz 32) s."""
    head = (
        f"enable_time_secs={START}\tenable_time_usecs=000000\tsiftrver=1.2.4\thz={hz}\ttcp_rtt_scale=32\t"
        "sysname=FreeBSD\tsysver=902001\tipmode=4\n"
    )
    lines = [
        f"{'io'[n % 2]},0x00000000,{time(n)},10.0.0.1,40000,10.0.1.1,5001,{ssthresh(n)},{cwnd(n)},1073725440,65700,65700,"
        f"6,6,4,{MSS},{40 * hz * 32 // 1000},1,{0x100000 if n in (10, 11, 15) else 480},230,600000,131072,65536,0,{n * MSS},0{extra}\n"
        for n in range(ROWS)
    ]
    tail = (
        f"disable_time_secs={START + 2}\tdisable_time_usecs=000000\tnum_inbound_tcp_pkts=10\tnum_outbound_tcp_pkts=10\t"
        "total_tcp_pkts=20\tflow_list=10.0.0.1;40000-10.0.1.1;5001,\n"
    )
    return head + "".join(lines) + tail


def siftr13() -> str:
    return siftr9(",0,0").replace("902001", "1300139")


def siftr_manual() -> str:
    """As siftr(4) shows a log: 25 fields, the hash among them, none for the reassembly queue."""
    lines = siftr9().split("\n")
    return "\n".join(",".join(line.split(",")[:25]) if line[:2] in ("i,", "o,") else line for line in lines)


def siftr_ertt() -> str:
    """TEACUP's patched SIFTR: the last field is a round trip of 42 ticks."""
    return siftr9(",42")


def siftr15() -> str:
    head = f"enable_time_secs={START}\tenable_time_usecs=000000\tsiftrver=1.3.0\tsysname=FreeBSD\tsysver=1500029\tipmode=4\n"
    lines = [
        f"o,{time(n)},10.0.0.1,40000,10.0.1.1,5001,{ssthresh(n)},{cwnd(n)},0,65700,65700,6,6,4,{MSS},40000,1,"
        f"{0x100000 if n in (10, 11, 15) else 480},230000,600000,131072,65536,0,{n * MSS},0,3735928559,63\n"
        for n in range(ROWS)
    ]
    return head + "".join(lines) + f"disable_time_secs={START + 2}\tdisable_time_usecs=0\tflow_list=\n"


def siftr2_text() -> str:
    """Up to 2.4: data out in even rows, acknowledgements in in odd ones, the row of n = 16 sends again."""
    head = f"enable_time_secs={START}\tenable_time_usecs=000000\tsiftrver=2.4\tsysname=FreeBSD\tsysver=1500029\tipmode=4\n"
    base = 2**32 - 5 * MSS
    lines = []
    for n in range(ROWS):
        sent = (base + (n // 2 if n != 16 else 3) * MSS) % 2**32
        lines.append(
            f"{'oi'[n % 2]},{time(n)},0a1b2c3d,{cwnd(n)},{ssthresh(n)},65700,65700,{0x100000 if n in (10, 11, 15) else 480},0,"
            f"4,40000,230000,600000,131072,65536,0,{n * MSS},0,{sent},{sent},{MSS if n % 2 == 0 else 0}\n"
        )
    tail = (
        f"disable_time_secs={START + 2}\tdisable_time_usecs=000000\tglobal_flow_cnt=1\tring_drops=0\tmax_str_size=150\t"
        f"gen_flowid_cnt=1\tflow_list=0a1b2c3d,10.0.0.1,40000,10.0.1.1,5001,0,0,{MSS},1,8,8,20,20;\n"
    )
    return head + "".join(lines) + tail


FOOTER_25 = (
    f"disable_time_secs={START + 2}\tdisable_time_usecs=000000\tglobal_flow_cnt=1\tring_drops=3\tmax_str_size=72\t"
    f"gen_flowid_cnt=1\tflow_list=0a1b2c3d,1,10.0.0.1,40000,10.0.1.1,5001,freebsd,cubic,{MSS},1,8,8,20,20;\n"
)


def _fields_25(n: int) -> list[int]:
    flags = 0x100000 if n in (10, 11, 15) else 480
    return [
        n * 100,
        cwnd(n),
        ssthresh(n),
        40000,
        MSS,
        65700,
        65700,
        flags,
        0,
        230000,
        600000,
        131072,
        65536,
        0,
        n * MSS,
        0,
    ]


def siftr25_text() -> str:
    head = f"enable_time_secs={START}\tenable_time_usecs=000000\tsiftrver=2.5\trec_fmt=txt\tsysver=1500029\n"
    lines = ["a1b2c3d,o," + ",".join(f"{value:x}" for value in _fields_25(n)) + "\n" for n in range(ROWS)]
    return head + "".join(lines) + FOOTER_25


def siftr25_binary() -> bytes:
    head = (
        f"enable_time_secs={START}\tenable_time_usecs=000000\tsiftrver=2.5\trec_fmt=binary\tsysver=1500029\n"
    )
    records = [struct.pack("<18I", 0x0A1B2C3D, 1, *_fields_25(n)) for n in range(ROWS)]
    return head.encode() + b"".join(records) + FOOTER_25.encode()


def web10g() -> str:
    names = (
        "Timestamp,cid,LocalIP,LocalPort,RemIP,RemPort,SegsOut,DataSegsOut,SegsRetrans,PipeSize,SmoothedRTT,SampleRTT,"
        "CurCwnd,CurSsthresh,Timeouts,SndLimTimeRwin,SndLimTimeCwnd,SndLimTimeSnd,FastRetran,HCThruOctetsAcked"
    )
    lines = [
        f"{time(n)},7,10.0.0.1,40000,10.0.1.1,5001,{n},{n},{n // 10},{n * MSS},40,42,{cwnd(n)},"
        f"{4294966000 if n < 10 else 15 * MSS},1,{100 * n},{300 * n},{600 * n},2,{n * 10 * MSS}"
        for n in range(ROWS)
    ]
    return "\n".join([names, *lines, ""])


def estats() -> str:
    """As win-estats-logger: the same, in the spelling of Windows."""
    return (
        web10g().replace("SmoothedRTT", "SmoothedRtt").replace("SampleRTT", "SampleRtt").replace("\n", "\r\n")
    )


def web10g_bare() -> str:
    """web10g-logger without its line of names: 122 columns."""
    lines = []
    for n in range(ROWS):
        columns = ["0"] * 122
        values = {
            1: time(n),
            2: "7",
            3: "10.0.0.1",
            4: "40000",
            5: "10.0.1.1",
            6: "5001",
            8: n,
            11: n // 10,
            21: n * MSS,
        }
        values |= {23: 40, 26: cwnd(n), 27: 15 * MSS, 38: 100 * n, 39: 300 * n, 40: 600 * n}
        for place, value in values.items():
            columns[place - 1] = str(value)
        lines.append(",".join(columns))
    return "\n".join(lines) + "\n"


def ttprobe_text() -> str:
    lines = [
        f"{'io'[n % 2]},{time(n)},10.0.0.1,40000,10.0.1.1,5001,0,{MSS},40000,{cwnd(n)},2147483647,65700,65700,1,"
        f"{(2**32 - 100 + 10 * n * MSS) % 2**32},{(2**32 - 100 + 10 * n * MSS + n * MSS) % 2**32},0"
        for n in range(ROWS)
    ]
    return "\n".join(lines) + "\n"


def ttprobe_binary() -> bytes:
    records = []
    for n in range(ROWS):
        una = (2**32 - 100 + 10 * n * MSS) % 2**32
        records.append(
            struct.pack("<QQ", START + n // 10, n % 10 * 100_000)
            + bytes([10, 0, 0, 1]).ljust(16, b"\0")
            + bytes([10, 0, 1, 1]).ljust(16, b"\0")
            + struct.pack(">HH", 40000, 5001)
            + struct.pack("<HH", 0, 0)
            + struct.pack("<8I", (una + n * MSS) % 2**32, una, 45, 45, 10 + n, 2**31 - 1, 40000, MSS)
            + bytes([1, b"io"[n % 2], 2])
            + bytes(5)
        )
    return b"".join(records)


def tcp_probe_old() -> str:
    lines = [
        f"{n / 10 + 5:.9f} 10.0.0.1:40000 10.0.1.1:5001 32 {(2**32 - 100 + 11 * n * MSS) % 2**32:#x} "
        f"{(2**32 - 100 + 10 * n * MSS) % 2**32:#x} {10 + n} {2147483647 if n < 10 else 15} 65700 40000 29312"
        for n in range(ROWS)
    ]
    return "\n".join(lines) + "\n"


def tcp_probe_trace() -> str:
    lines = [
        f"          <idle>-0       [001] ..s1. {n / 10 + 5000:.6f}: tcp_probe: family=AF_INET src=10.0.0.1:40000 "
        f"dest=10.0.1.1:5001 mark=0x0 data_len=0 snd_nxt={(2**32 - 100 + 11 * n * MSS) % 2**32:#x} "
        f"snd_una={(2**32 - 100 + 10 * n * MSS) % 2**32:#x} snd_cwnd={10 + n} ssthresh={2147483647 if n < 10 else 15} "
        "snd_wnd=65700 srtt=40000 rcv_wnd=29312 sock_cookie=1 skbaddr=00000000c5bd5a54 skaddr=0000000012345678"
        for n in range(ROWS)
    ]
    return (
        "# tracer: nop\n#\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n"
        + "\n".join(lines)
        + "\n"
    )


def ss(stamps: bool = True) -> str:
    lines = []
    for n in range(ROWS):
        if stamps:
            lines.append(f"{START + n // 10}.{n % 10}00000000")
        lines += [
            "State Recv-Q Send-Q   Local Address:Port    Peer Address:Port Process",
            "ESTAB 0      869480        10.0.0.1:40000       10.0.1.1:5001",
            f"\t cubic wscale:7,7 rto:244 rtt:40/0.5 ato:40 mss:{MSS} pmtu:1500 rcvmss:536 advmss:{MSS} cwnd:{10 + n}"
            + (" ssthresh:15" if n >= 10 else "")
            + f" bytes_sent:{12 * n * MSS} bytes_retrans:{n // 10 * MSS} bytes_acked:{10 * n * MSS} segs_out:{12 * n}"
            f" segs_in:{5 * n} data_segs_out:{12 * n} send 3.5Mbps lastsnd:4 lastrcv:1000 lastack:4 pacing_rate 4.2Mbps"
            f" delivery_rate 3.1Mbps delivered:{10 * n} busy:{100 * n}ms rwnd_limited:{20 * n}ms(20.0%) unacked:{n}"
            + (f" retrans:0/{n // 10}" if n >= 10 else "")
            + " rcv_space:14480 rcv_ssthresh:64088 minrtt:40",
            "",
        ]
    return "\n".join(lines)


def psiz(size: int = 1500) -> str:
    """TEACUP's analysis: IP packets at the receiver."""
    return "".join(f"{time(n)} {size}\n" for n in range(ROWS))


def rtts() -> str:
    """TEACUP's analysis: round trips by synthetic packet pairs, from 40 ms on."""
    return "".join(f"{time(n)} {0.040 + n / 1000:.6f}\n" for n in range(ROWS))


def extracted_cwnd() -> str:
    """TEACUP's analysis: the window that a log had."""
    return "".join(f"{time(n)},{cwnd(n)}\n" for n in range(ROWS))


def tcp_rtt() -> str:
    """TEACUP's analysis: smoothed RTT and ERTT's sample, ms."""
    return "".join(f"{time(n)},{40 + n},{39 + n}\n" for n in range(ROWS))
