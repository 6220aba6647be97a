//! The language itself: what is read, what is refused, and what a difference looks like.

use proptest::prelude::*;
use script::script::{Action, Order, When};
use script::{Choices, Outcome, packet, parse, run_file};
use wire::codec::Ends;

const LISTEN: &str = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
";
const OPEN: &str = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000,sackOK,nop,nop,nop,wscale 10>
+0 > S. 0:0(0) ack 1 <...>
+.1 < . 1:1(0) ack 1 win 65535
+0 accept(3, ..., ...) = 4
";

fn run(text: &str) -> Outcome {
    run_file(text, "t.pkt", "linux-6.18", &Choices::default())
}

fn shown(order: &Order) -> String {
    match order {
        Order::Set(setting) => format!("{}={}", setting.name, setting.value),
        other => format!("{other:?}"),
    }
}

#[track_caller]
fn passes(text: &str) {
    let outcome = run(text);
    assert_eq!(outcome.message, None, "{text}");
}

#[track_caller]
fn fails(text: &str, message: &str) {
    let outcome = run(text);
    assert_eq!(outcome.exit_code, 1, "{text}: {outcome:?}");
    assert!(outcome.message.as_ref().unwrap().starts_with(message), "{}", outcome.message.unwrap());
}

#[track_caller]
fn refused(text: &str, message: &str) {
    let outcome = run(text);
    assert_eq!(outcome.exit_code, 2, "{text}: {outcome:?}");
    assert_eq!(outcome.message.unwrap(), message, "{text}");
}

#[test]
fn all_three_flags_of_accurate_ecn_are_compared() {
    let syn_ack = |flags: &str| {
        format!("{LISTEN}+0 < SEWA 0:0(0) win 1000 <mss 1000>\n+0 > {flags} 0:0(0) ack 1 <...>\n")
    };
    fails(&syn_ack("SEA."), "t.pkt:5: error handling packet: live packet field tcp_ae: expected: 1 (0x1)");
    passes(&syn_ack("SE."));
}

#[test]
fn times_are_absolute_relative_ranges_or_any() {
    let text = "1 close(3) = 0\n+.25 close(3) = 0\n0.5~1.5 > . 1:1(0) ack 1\n+0 ~ +.05 > . 1:1(0) ack 1\n* > . 1:1(0) ack 1\n";
    let script = parse(text, "t.pkt", &[]).unwrap();
    let times: Vec<When> = script.events.iter().map(|event| event.when).collect();
    let ms = 1_000_000;
    assert_eq!(
        times,
        [
            When::At(1000 * ms),
            When::After(250 * ms),
            When::Between(500 * ms, 1500 * ms),
            When::AfterBetween(0, 50 * ms),
            When::Any
        ]
    );
}

#[test]
fn comments_options_and_symbols() {
    let text = "// one\n/* two\nlines */ --tolerance_usecs=9000\n--define=SIZE=10\n--mtu=1400 // three\n0 write(4, ..., SIZE) = SIZE";
    let script = parse(text, "t.pkt", &[]).unwrap();
    assert_eq!((script.options.tolerance, script.options.mtu), (9_000_000, 1400));
    assert_eq!(script.events[0].line, 6);
    let Action::Call(call) = &script.events[0].action else { panic!("no call") };
    assert_eq!(call.result, Some(10));
    let outer = parse(text, "t.pkt", &[("SIZE".into(), "20".into())]).unwrap();
    let Action::Call(call) = &outer.events[0].action else { panic!("no call") };
    assert_eq!(call.result, Some(20), "what the caller defines comes first");
}

#[test]
fn settings_are_read_from_commands() {
    let text = "--define=CMD=`sysctl -q net.ipv4.tcp_sack=0`\n`sysctl -q net.ipv4.tcp_ecn=1 net.ipv4.tcp_rmem=\"1 2  3\"\n# why\nsysctl -w net.ipv4.tcp_dsack=0; ../common/set_sysctls.py /proc/sys/net/ipv4/tcp_timestamps=0`\n0 CMD";
    let script = parse(text, "t.pkt", &[]).unwrap();
    let found: Vec<String> = script.init.iter().map(shown).collect();
    let expected = [
        "net.ipv4.tcp_ecn=1",
        "net.ipv4.tcp_rmem=1 2 3",
        "net.ipv4.tcp_dsack=0",
        "net.ipv4.tcp_timestamps=0",
    ];
    assert_eq!(found, expected);
    let Action::Orders(orders) = &script.events[0].action else { panic!("no orders") };
    assert_eq!(shown(&orders[0]), "net.ipv4.tcp_sack=0");
}

#[test]
fn defaults_are_settings_that_a_system_may_lack() {
    let script = parse("`../common/defaults.sh\nsysctl -q net.ipv4.tcp_ecn=1`\n0 close(3) = 0\n+0 `/tmp/sysctl_restore_${PPID}.sh`", "t.pkt", &[]).unwrap();
    let (last, usual) = script.init.split_last().unwrap();
    let optional = |order: &Order| matches!(order, Order::Set(setting) if setting.optional);
    assert!(usual.len() > 10 && usual.iter().all(optional) && !optional(last));
    let text = format!("`./defaults.sh`\n{OPEN}");
    for stack in ["freebsd-9.2", "linux-3.9", "linux-6.18"] {
        assert_eq!(run_file(&text, "t.pkt", stack, &Choices::default()).message, None);
    }
}

#[test]
fn accurate_ecn_is_read_written_and_shown() {
    let ends = Ends { src: packet::REMOTE, dst: packet::LOCAL, sport: 1, dport: packet::PORT };
    for (text, shown, flags) in [
        (
            "SEWA 0:0(0) win 9 <ECN e1b 1 ceb 0 e0b 1,nop>",
            "SEWA 0:0(0) win 9 <ECN e1b 1 ceb 0 e0b 1,nop>",
            0x1c2,
        ),
        (
            ".5 1:1(0) ack 1 win 9 <ECN e0b 16777215 ceb 2>",
            "EA. 1:1(0) ack 1 win 9 <ECN e0b 16777215 ceb 2>",
            0x150,
        ),
        ("P.6 1:3(2) ack 1 win 9 <ECN,nop,nop>", "PWA. 1:3(2) ack 1 win 9 <ECN,nop,nop>", 0x198),
    ] {
        let script = parse(&format!("0 < {text}"), "t.pkt", &[]).unwrap();
        let Action::Inject(read) = &script.events[0].action else { panic!("{text}") };
        assert_eq!((read.to_string().as_str(), read.flags.0), (shown, flags));
        let bytes = packet::encode(read, &ends);
        let back = packet::decode(&bytes, bytes.len() as u32).unwrap().packet;
        assert_eq!((back.flags, &back.options), (read.flags, &read.options));
    }
    refused("0 > . 1:1(0) ack 1 <ECN e1b 16777216>", "t.pkt:1: AccECN counter out of range");
    refused("0 > .8 1:1(0) ack 1", "t.pkt:1: bad TCP flags `.8`");
}

#[test]
fn what_is_not_supported_is_refused_with_its_line() {
    refused("", "t.pkt:1: the script has no events");
    refused("0 < S 0:0(0)\n", "t.pkt:1: a packet that is sent to the system needs win N");
    refused("0 > S 1:3(1) <...>", "t.pkt:1: inconsistent TCP sequence numbers and payload size");
    refused("\n\n0 > S 0:0(0) ack x", "t.pkt:3: found `x`; expected a number");
    refused("0 > SX 0:0(0)", "t.pkt:1: bad TCP flags `SX`");
    refused("0 > S 0:0(0) <mss 70000>", "t.pkt:1: mss value out of range");
    refused(
        "0 > S 0:0(0) <fast>",
        "t.pkt:1: TCP option fast: expected mss, nop, wscale, sackOK, sack, TS, ECN, FO, FOEXP or eol",
    );
    refused("* < . 1:1(0) ack 1 win 1", "t.pkt:1: event time <star> can only be used with outbound packets");
    refused("1~2 close(3) = 0", "t.pkt:1: event time range can only be used with outbound packets");
    refused("2~1 > . 1:1(0) ack 1", "t.pkt:1: time range is backwards");
    refused("0 > icmp unreachable", "t.pkt:1: icmp: only TCP packets are supported, and ICMP to the system");
    refused("0 > udp (100)", "t.pkt:1: udp: only TCP packets are supported, and ICMP to the system");
    refused("0 mmap(1) = 5", "t.pkt:1: mmap: this call is not supported");
    refused("0 close(3) = -1 EWHAT", "t.pkt:1: EWHAT: no such error");
    refused(
        "0 < . 1:65536(65535) ack 1 win 1",
        "t.pkt:1: a packet that is sent to the system has more than 65535 bytes",
    );
    refused(
        "0 read(4, ..., 2000000000) = 0",
        "t.pkt:1: read: found 2000000000 bytes; expected at most 1073741824",
    );
    refused("0 close(4294967299) = 0", "t.pkt:1: close: argument 1: 4294967299 is too large");
    refused(
        "0 poll([{fd=3, events=POLLIN}], 1, 9999999999) = 0",
        "t.pkt:1: poll: argument 3: 9999999999 is too large",
    );
    refused(
        "0 setsockopt(3, SOL_TCP, TCP_ULP, [1], 4) = 0",
        "t.pkt:1: setsockopt: SOL_TCP, TCP_ULP is not supported",
    );
    refused("--speed=10\n0 close(3) = 0", "t.pkt:1: --speed is not supported");
    refused("--tolerence_usecs=1\n0 close(3) = 0", "t.pkt:1: --tolerence_usecs: no such option");
    refused(
        "--ip_version=ipv5\n0 close(3) = 0",
        "t.pkt:1: --ip_version: found `ipv5`; expected ipv4, ipv4-mapped-ipv6 or ipv6",
    );
    refused(
        "`ip link`\n0 close(3) = 0",
        "t.pkt:1: `ip link`: only settings are read from a command (sysctl NAME=VALUE); commands are not run",
    );
}

#[test]
fn packets_that_differ() {
    let data = format!("{OPEN}+0 write(4, ..., 1000) = 1000\n");
    fails(
        &format!("{data}+0 > P. 1:1001(1000) ack 2\n"),
        "t.pkt:9: error handling packet: live packet field tcp_ack_seq: expected: 2 (0x2) vs actual: 1 (0x1)\n\
         script packet:  0.100000 P. 1:1001(1000) ack 2\nactual packet:  0.100000 P. 1:1001(1000) ack 1 win ",
    );
    fails(
        &format!("{data}+.02 > P. 1:1001(1000) ack 1\n"),
        "t.pkt:9: error handling packet: timing error: expected outbound packet at 0.120000 sec but happened at \
         0.100000 sec; tolerance 0.004000 sec\n",
    );
    fails(
        &format!("{data}+0 > P. 1:1001(1000) ack 1 <nop,nop,TS val 1 ecr 2>\n"),
        "t.pkt:9: error handling packet: bad outbound TCP options: expected: nop,nop,TS val 1 ecr 2 vs actual: none\n",
    );
    fails(
        &format!("{OPEN}+0 > P. 1:1001(1000) ack 1\n"),
        "t.pkt:8: error handling packet: Timed out waiting for packet\nscript packet:  0.100000 P. 1:1001(1000) ack 1",
    );
    fails(
        &data,
        "t.pkt:8: error handling packet: the system sent a packet that the script does not expect\nactual packet:",
    );
}

#[test]
fn calls_that_differ() {
    fails(
        &format!("{OPEN}+0 read(4, ..., 10) = 10\n"),
        "t.pkt:8: runtime error in read call: it blocks, and the script gives no time at which it returns",
    );
    fails(
        &format!("{LISTEN}+0 close(4) = 0\n"),
        "t.pkt:4: runtime error in close call: Expected result 0 but got -1 with errno 9 (Bad file descriptor)",
    );
    fails(
        &format!(
            "{OPEN}+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n+0 read(4, ..., 10) = -1 EPIPE (Broken pipe)\n"
        ),
        "t.pkt:9: runtime error in read call: Expected result -1 with errno 32 (Broken pipe) but got -1 with errno 11",
    );
    fails(
        &format!("{OPEN}+0 getsockopt(4, SOL_TCP, TCP_NODELAY, [1], [4]) = 0\n"),
        "t.pkt:8: runtime error in getsockopt call: Bad getsockopt value: expected: 1 actual: 0",
    );
    fails(
        &format!("{OPEN}+0 poll([{{fd=4, events=POLLIN|POLLOUT, revents=POLLIN}}], 1, 0) = 1\n"),
        "t.pkt:8: runtime error in poll call: Expected revents of 4: POLLIN but got POLLOUT",
    );
    fails(
        &format!("{LISTEN}+0...0.05 accept(3, ..., ...) = 4\n"),
        "t.pkt:4: runtime error in accept call: timing error: it has not returned at 0.05",
    );
    fails(
        &format!("{LISTEN}+0 `sysctl -q net.ipv4.tcp_sack=2`\n"),
        "t.pkt:4: error in setting: sysctl net.ipv4.tcp_sack: found 2; expected 0 to 1",
    );
    fails(
        &format!("{OPEN}+0 %{{ assert tcpi_snd_cwnd == 11, 'grown' }}%\n"),
        "t.pkt:8: error in code: assertion failed: tcpi_snd_cwnd == 11: grown (tcpi_snd_cwnd = 10)",
    );
}

#[test]
fn an_unknown_sysctl_is_noted_and_the_script_goes_on() {
    let outcome = run(&format!("{LISTEN}+0 `sysctl -q net.ipv4.tcp_sakc=1`\n+0 close(3) = 0\n"));
    assert_eq!(outcome.message, None);
    let note =
        "t.pkt:4: not set: sysctl net.ipv4.tcp_sakc: not known to linux-6.18 (did you mean net.ipv4.tcp_sack";
    assert!(outcome.output[0].starts_with(note), "{:?}", outcome.output);
}

#[test]
fn a_command_may_go_on_behind_a_backslash() {
    let text = "`sysctl -q \\\n net.ipv4.tcp_sack=0 \\\n net.ipv4.tcp_ecn=1 > /dev/null 2>&1`\n0 close(3) = 0\n`/tmp/sysctl_restore_${PPID}.sh`";
    let script = parse(text, "t.pkt", &[]).unwrap();
    let found: Vec<String> = script.init.iter().map(shown).collect();
    assert_eq!(found, ["net.ipv4.tcp_sack=0", "net.ipv4.tcp_ecn=1"]);
    assert_eq!(script.events[0].line, 4);
    let module =
        parse("`echo 3 > /sys/module/tcp_cubic/parameters/hystart_detect`\n0 close(3) = 0", "t.pkt", &[])
            .unwrap();
    assert_eq!(shown(&module.init[0]), "tcp_cubic.hystart_detect=3");
}

#[test]
fn lines_may_depend_on_a_symbol() {
    let text = "#ifdef A\n0 close(4) = 0\n#else\n0 close(5) = 0\n#endif\n#ifndef A\n0 close(6) = 0\n#endif\n+0 close(7) = 0";
    let lines = |defines: &[(String, String)]| -> Vec<u32> {
        parse(text, "t.pkt", defines).unwrap().events.iter().map(|event| event.line).collect()
    };
    assert_eq!(lines(&[]), [4, 7, 9]);
    assert_eq!(lines(&[("A".into(), "1".into())]), [2, 9]);
    refused("0 close(3) = 0\n#endif", "t.pkt:2: #endif has no #ifdef");
    refused("#ifdef A\n0 close(3) = 0", "t.pkt:2: #ifdef has no #endif");
}

#[test]
fn errors_are_values_too() {
    let text = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
+0 > S 0:0(0) <...>
+.1 < R. 0:0(0) ack 1 win 0
+0 getsockopt(3, SOL_SOCKET, SO_ERROR, [ECONNREFUSED], [4]) = 0
+0 getsockopt(3, SOL_SOCKET, SO_ERROR, [0], [4]) = 0
";
    passes(text);
    fails(
        &text.replace("ECONNREFUSED", "ECONNRESET"),
        "t.pkt:6: runtime error in getsockopt call: Bad getsockopt value: expected: 104 actual: 111",
    );
}

#[test]
fn what_is_peeked_at_stays() {
    passes(&format!(
        "{OPEN}+0 < P. 1:101(100) ack 1 win 65535
+0 > . 1:1(0) ack 101
+0 recv(4, ..., 60, MSG_PEEK) = 60
+0 recv(4, ..., 200, MSG_PEEK) = 100
+0 recv(4, ..., 200, 0) = 100
+0 recv(4, ..., 200, MSG_PEEK|MSG_DONTWAIT) = -1 EAGAIN (Resource temporarily unavailable)
"
    ));
}

#[test]
fn descriptors_are_labels() {
    let text = OPEN.replace("= 4", "= 70").replace("= 3", "= 9").replace("(3,", "(9,");
    passes(&format!(
        "{text}+0 write(70, ..., 10) = 10\n+0 > P. 1:11(10) ack 1\n+0 close(70) = 0\n+0 close(9) = 0\n"
    ));
    fails(&format!("{text}+0 close(70) = 0\n+0 close(70) = 0\n"), "t.pkt:9: runtime error in close call:");
}

#[test]
fn a_sequence_number_may_be_anything() {
    let open =
        OPEN.replace("< S 0:0(0)", "< S 1000:1000(0)").replace("> S. 0:0(0) ack 1", "> S. ...(0) ack 1001");
    // Behind the SYN both streams begin with 1.
    passes(&format!("{open}+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 1\n"));
    fails(
        &open.replace("ack 1001 <", "ack 1002 <"),
        "t.pkt:5: error handling packet: live packet field tcp_ack_seq",
    );
}

#[test]
fn packets_behind_the_last_event_may_go_unseen() {
    let text = format!("{OPEN}+0 write(4, ..., 1000) = 1000\n");
    let choices = Choices { end_unseen: true, ..Choices::default() };
    assert_eq!(run_file(&text, "t.pkt", "linux-6.18", &choices).message, None);
    assert!(run(&text).message.is_some());
}

#[test]
fn states_are_counted_and_connections_dropped() {
    let text = format!(
        "{OPEN}+0 `sockstat -4 -P tcp -s | grep packetdril | grep -c ESTABLISHED | grep 1`
+0 `sockstat -4 -P tcp -p 8080 -s | grep -c TIME_WAIT | grep 0`
+0 `tcpdrop -s ESTABLISHED`
+0 `sockstat -4 -P tcp -s | grep -c ESTABLISHED | grep 0`
+0 < P. 1:101(100) ack 1 win 65535
+0 > R 1:1(0)
"
    );
    passes(&text);
    fails(
        &text.replacen("grep 1`", "grep 2`", 1),
        "t.pkt:8: expected 2 in state ESTABLISHED, found 1: ESTABLISHED",
    );
}

#[test]
fn models_tell_more_of_tcp_info() {
    passes(&format!(
        "{OPEN}+0 setsockopt(4, SOL_SOCKET, SO_SNDBUF, [20000], 4) = 0
+0 getsockopt(4, SOL_SOCKET, SO_SNDBUF, [40000], [4]) = 0
+0 write(4, ..., 10000) = 10000
+0 > P. 1:10001(10000) ack 1
+.1 < . 1:1(0) ack 1 win 65535 <nop,nop,sack 5001:10001>
+0 > . 1:5001(5000) ack 1
+0 %{{
assert tcpi_sacked == 5 and tcpi_lost == 5 and tcpi_retrans == 5, tcpi_lost
assert tcpi_delivered == 6 and tcpi_reordering == 3 and tcpi_backoff == 0
assert tcpi_advmss == 1460 and tcpi_rwnd_limited == 0 and tcpi_sndbuf_limited == 0
}}%
"
    ));
    passes(&format!("{LISTEN}+0 %{{ assert tcpi_state == TCPI_LISTEN }}%\n"));
}

#[test]
fn segments_count_as_bytes_unless_boundaries_are_asked_for() {
    let data = format!("{OPEN}+0 write(4, ..., 4000) = 4000\n");
    passes(&format!("{data}+0 > P. 1:4001(4000) ack 1\n"));
    passes(&format!("{data}+0 > . 1:501(500) ack 1\n+0 > P. 501:4001(3500) ack 1\n"));
    // Linux hands over two packets at a time here, the second with PSH (linux-tcp A15; since 5.5).
    fails(
        &format!("--strict_segments\n{data}+0 > P. 1:4001(4000) ack 1\n"),
        "t.pkt:10: error handling packet: live packet field tcp payload bytes: expected: 4000 (0xfa0) vs actual: 2000",
    );
}

#[test]
fn a_peer_that_announces_no_segment_gets_the_default() {
    let open = OPEN.replace("mss 1000", "mss 0");
    passes(&format!("{open}+0 %{{ assert tcpi_snd_mss == 536 }}%\n"));
    // One that announces less than 48 is not taken at its word; the options come off that.
    let small = OPEN.replace("mss 1000", "mss 1");
    passes(&format!("{small}+0 %{{ assert tcpi_snd_mss == 48 }}%\n"));
    let open = OPEN.replace("mss 1000,sackOK,nop,nop", "mss 1,sackOK,TS val 1 ecr 0");
    passes(&format!("{open}+0 %{{ assert tcpi_snd_mss == 36 }}%\n"));
}

#[test]
fn a_script_ends_before_the_clock_does() {
    fails(
        &format!("{LISTEN}{}", "+1000000 listen(3, 1) = 0\n".repeat(200)),
        "t.pkt:104: the script is longer than 100000000 s",
    );
}

#[test]
fn differences_may_be_allowed() {
    let outcome =
        run(&format!("--non_fatal=packet,syscall\n{OPEN}+0 write(4, ..., 9) = 10\n+0 > P. 1:10(9) ack 7\n"));
    assert_eq!(outcome.exit_code, 0, "{outcome:?}");
    assert_eq!(outcome.output.len(), 2);
    assert!(outcome.output[1].starts_with("t.pkt:10: error handling packet: live packet field tcp_ack_seq"));
}

#[test]
fn closing_calls_at_the_end_are_tidying_up() {
    passes(&format!("{OPEN}+0 close(4) = 0\n+0 close(3) = 0\n"));
}

#[test]
fn calls_take_their_usual_options() {
    passes(&format!(
        "{OPEN}+0 fcntl(4, F_GETFL) = 0x2 (flags O_RDWR)
+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 setsockopt(4, SOL_TCP, TCP_NODELAY, [1], 4) = 0
+0 getsockopt(4, SOL_TCP, TCP_NODELAY, [1], [4]) = 0
+0 getsockopt(4, SOL_TCP, TCP_CONGESTION, \"cubic\", [5]) = 0
+0 getsockopt(4, SOL_TCP, TCP_MAXSEG, [1000], [4]) = 0
+0 getsockopt(4, SOL_SOCKET, SO_LINGER, {{onoff=0, linger=0}}, [8]) = 0
+0 read(4, ..., 100) = -1 EAGAIN (Resource temporarily unavailable)
+0 recv(4, ..., 100, MSG_DONTWAIT) = -1 EAGAIN (Resource temporarily unavailable)
+0 < P. 1:101(100) ack 1 win 65535
+0 > . 1:1(0) ack 101
+0 ioctl(4, SIOCINQ, [100]) = 0
+0 poll([{{fd=4, events=POLLIN, revents=POLLIN}}], 1, 0) = 1
+0 recv(4, ..., 200, 0) = 100
+0 send(4, ..., 100, 0) = 100
+0 > P. 1:101(100) ack 101
+0 sendto(4, ..., 100, 0, ..., ...) = 100
+0 > P. 101:201(100) ack 101
+0 ioctl(4, SIOCOUTQ, [200]) = 0
"
    ));
}

#[test]
fn a_blocked_write_returns_when_the_buffer_has_room() {
    let outcome = run_file(
        "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 setsockopt(3, SOL_SOCKET, SO_SNDBUF, [10000], 4) = 0
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000>
+0 > S. 0:0(0) ack 1 <...>
+.1 < . 1:1(0) ack 1 win 65535
+0 accept(3, ..., ...) = 4
+0...0.1 write(4, ..., 12000) = 12000
+0 > . 1:4001(4000) ack 1
+.1 < . 1:1(0) ack 4001 win 65535
+0 > . 4001:10001(6000) ack 1
+.1 < . 1:1(0) ack 10001 win 65535
+0 > . 10001:12001(2000) ack 1
",
        "t.pkt",
        "freebsd-9.2",
        &Choices::default(),
    );
    assert_eq!(outcome.message, None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hostile_text_never_panics(text in "\\PC{0,200}") {
        run(&text);
    }

    /// Pieces of the language in any order get further than random characters.
    #[test]
    fn hostile_words_never_panic(words in prop::collection::vec(prop::sample::select(WORDS), 0..40)) {
        run(&format!("{OPEN}{}", words.concat()));
    }
}

const WORDS: &[&str] = &[
    "\n",
    "+0 ",
    "+.5 ",
    "0 ",
    "* ",
    "+0~+1 ",
    "< ",
    "> ",
    "S ",
    ". ",
    "P. ",
    "R ",
    "FP. ",
    "- ",
    "1:1001(1000) ",
    "0:0(0) ",
    "4294967295:4294967295(0) ",
    "ack 1 ",
    "ack 4294967295 ",
    "win 0 ",
    "win 65535 ",
    "<mss 1,sackOK> ",
    "<mss 0> ",
    "<mss 1,nop,nop,TS val 1 ecr 0> ",
    "<wscale 255> ",
    "<nop,nop,sack 1:2 5:9> ",
    "<nop,nop,TS val 4294967295 ecr 1> ",
    "<...> ",
    "[ce] ",
    "[ect0] ",
    "write(4, ..., 100000) = 100000",
    "read(4, ..., 18446744073709551615) = 0",
    "close(4) = 0",
    "close(3) = 0",
    "shutdown(4, SHUT_RDWR) = 0",
    "accept(3, ..., ...) = 5",
    "connect(3, ..., ...) = 0",
    "...0.2 ",
    "%{ assert tcpi_rtt }%",
    "`sysctl -q net.ipv4.tcp_sack=0`",
    "setsockopt(4, SOL_TCP, TCP_MAXSEG, [0], 4) = 0",
    "socket(..., SOCK_STREAM, IPPROTO_TCP) = 5",
    "poll([{fd=4, events=POLLIN, revents=POLLIN}], 1, -1) = 1",
];
