//! Calls and options of Linux's sockets on the model: what is sent when, what is reported, and what is refused.

use script::{Choices, Outcome, run_file};

const OPEN: &str = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000,sackOK,nop,nop,nop,wscale 10>
+0 > S. 0:0(0) ack 1 <...>
+.1 < . 1:1(0) ack 1 win 1000
+0 accept(3, ..., ...) = 4
";

fn run(text: &str, stack: &str) -> Outcome {
    run_file(text, "t.pkt", stack, &Choices::default())
}

/// A script behind the opening of a connection.
#[track_caller]
fn passes(text: &str) {
    let text = format!("--strict_segments\n{OPEN}{text}");
    assert_eq!(run(&text, "linux-6.18").message, None, "{text}");
}

#[track_caller]
fn alone(text: &str) {
    assert_eq!(run(text, "linux-6.18").message, None, "{text}");
}

#[track_caller]
fn fails(text: &str, message: &str) {
    let outcome = run(&format!("{OPEN}{text}"), "linux-6.18");
    let found = outcome.message.unwrap_or_default();
    assert!(outcome.exit_code == 1 && found.contains(message), "{text}: {found}");
}

#[track_caller]
fn refused(text: &str, message: &str) {
    let outcome = run(text, "linux-6.18");
    assert_eq!((outcome.exit_code, outcome.message.as_deref()), (2, Some(message)), "{text}");
}

/// Nothing is added to the buffer of a record, and only the last buffer waits for an ACK.
#[test]
fn records_leave_in_segments_of_their_own() {
    passes(
        "+0 write(4, ..., 400) = 400
+0 > P. 1:401(400) ack 1
+0 send(4, ..., 400, MSG_EOR) = 400
+.01 write(4, ..., 400) = 400
+0 > P. 401:801(400) ack 1
+.05 < . 1:1(0) ack 801 win 1000
+0 > P. 801:1201(400) ack 1
",
    );
    passes(
        "+0 write(4, ..., 400) = 400
+0 > P. 1:401(400) ack 1
+0 send(4, ..., 400, 0) = 400
+.01 write(4, ..., 400) = 400
+.05 < . 1:1(0) ack 401 win 1000
+0 > P. 401:1201(800) ack 1
",
    );
}

/// Many records: each is a packet of the window.
#[test]
fn records_are_packets() {
    let records = "+0 send(4, ..., 100, MSG_EOR) = 100\n".repeat(20);
    let sent: String =
        (0..10).map(|n| format!("+0 > P. {}:{}(100) ack 1\n", 1 + 100 * n, 101 + 100 * n)).collect();
    passes(&format!("{records}{sent}+0 %{{ assert tcpi_unacked == 10, tcpi_unacked }}%\n"));
}

/// The timeout is 300 ms after a handshake of 100 ms (RFC 6298 with Linux's minimum of 200 ms for the variance), and so is the
/// timer that sends what nothing else does.
#[test]
fn what_more_follows_waits_for_it_or_for_a_timer() {
    passes(
        "+0 send(4, ..., 100, MSG_MORE) = 100
+.3 > P. 1:101(100) ack 1
+.1 < . 1:1(0) ack 101 win 1000
+0 send(4, ..., 100, MSG_MORE) = 100
+.05 send(4, ..., 100, 0) = 100
+0 > P. 101:301(200) ack 1
+.1 < . 1:1(0) ack 301 win 1000
+0 send(4, ..., 2100, MSG_MORE) = 2100
+0 > P. 301:2301(2000) ack 1
+.1 < . 1:1(0) ack 2301 win 1000
+0 > P. 2301:2401(100) ack 1
",
    );
}

#[test]
fn a_cork_is_drawn_or_pushed() {
    passes(
        "+0 setsockopt(4, SOL_TCP, TCP_CORK, [1], 4) = 0
+0 getsockopt(4, SOL_TCP, TCP_CORK, [1], [4]) = 0
+0 write(4, ..., 100) = 100
+.05 write(4, ..., 100) = 100
+.05 setsockopt(4, SOL_TCP, TCP_CORK, [0], 4) = 0
+0 > P. 1:201(200) ack 1
+.1 < . 1:1(0) ack 201 win 1000
+0 setsockopt(4, SOL_TCP, TCP_CORK, [1], 4) = 0
+0 write(4, ..., 100) = 100
+.05 setsockopt(4, SOL_TCP, TCP_NODELAY, [1], 4) = 0
+0 > P. 201:301(100) ack 1
+0 write(4, ..., 100) = 100
+.05 setsockopt(4, SOL_TCP, TCP_CORK, [0], 4) = 0
+0 > P. 301:401(100) ack 1
",
    );
    let freebsd = format!("{OPEN}+0 setsockopt(4, SOL_TCP, TCP_CORK, [1], 4) = -1 EINVAL\n");
    assert_eq!(run(&freebsd, "freebsd-15-current").message, None);
}

/// Ten segments leave; a buffer holds half of the largest window, and is filled again as a burst leaves it. With 4000 bytes
/// nothing is begun behind that; a writer is woken below half of it.
#[test]
fn a_writer_waits_for_what_is_not_sent() {
    let lowat = "+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 write(4, ..., 200000) = 75000
+0 > . 1:10001(10000) ack 1
+0 poll([{fd=4, events=POLLOUT, revents=0}], 1, 0) = 0
+.1 < . 1:1(0) ack 10001 win 1000
+0 > . 10001:30001(20000) ack 1
+.1 < . 1:1(0) ack 30001 win 1000
+0 > . 30001:70001(40000) ack 1
+0 poll([{fd=4, events=POLLOUT, revents=0}], 1, 0) = 0
+.1 < . 1:1(0) ack 70001 win 1000
+0 > P. 70001:75001(5000) ack 1
+0 poll([{fd=4, events=POLLOUT, revents=POLLOUT}], 1, 0) = 1
";
    for set in ["+0 setsockopt(4, SOL_TCP, TCP_NOTSENT_LOWAT, [4000], 4) = 0\n", ""] {
        let sysctl = if set.is_empty() { "`sysctl -q net.ipv4.tcp_notsent_lowat=4000`\n" } else { "" };
        alone(&format!("{sysctl}{OPEN}{set}{lowat}"));
    }
    passes("+0 getsockopt(4, SOL_TCP, TCP_NOTSENT_LOWAT, [0], [4]) = 0\n");
}

/// A tail loss probe leaves after 300 ms, the first retransmission 300 ms later, from which the limit counts, the second after
/// 600 ms, and 400 ms after that it is over.
#[test]
fn a_user_timeout_ends_a_connection_in_time() {
    passes(
        "+0 setsockopt(4, SOL_TCP, TCP_USER_TIMEOUT, [1000], 4) = 0
+0 getsockopt(4, SOL_TCP, TCP_USER_TIMEOUT, [1000], [4]) = 0
+0 write(4, ..., 100) = 100
+0 > P. 1:101(100) ack 1
+.3 > P. 1:101(100) ack 1
+.3 > P. 1:101(100) ack 1
+.6 > P. 1:101(100) ack 1
+.35 getsockopt(4, SOL_SOCKET, SO_ERROR, [0], [4]) = 0
+.15 getsockopt(4, SOL_SOCKET, SO_ERROR, [ETIMEDOUT], [4]) = 0
",
    );
}

/// A closed window is probed after 300 and 600 ms; a second after the first probe the connection is given up.
#[test]
fn a_user_timeout_ends_probing() {
    passes(
        "+0 setsockopt(4, SOL_TCP, TCP_USER_TIMEOUT, [1000], 4) = 0
+0 < . 1:2(1) ack 1 win 1000
* > . 1:1(0) ack 2
+0 < . 2:2(0) ack 1 win 0
+0 write(4, ..., 100) = 100
+.3 > . 0:0(0) ack 2
+.6 > . 0:0(0) ack 2
+.3 getsockopt(4, SOL_SOCKET, SO_ERROR, [0], [4]) = 0
+.2 getsockopt(4, SOL_SOCKET, SO_ERROR, [ETIMEDOUT], [4]) = 0
",
    );
}

/// Linux repeats a SYN four times at a distance of a second before gaps double, but gives up by the time that doubling gaps take.
/// Each timer waits for its slot of the wheel, 64 ms at most.
#[test]
fn an_attempt_ends_by_time() {
    let syns = "+0 > S 0:0(0) <...>\n+1 > S 0:0(0) <...>\n+1 > S 0:0(0) <...>\n";
    let attempt = |before: &str, call: &str| {
        format!(
            "--tolerance_usecs=130000\n{before}0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n{call}\n{syns}+2 close(3) = 0\n"
        )
    };
    let connect = "+0...3 connect(3, ..., ...) = -1 ETIMEDOUT";
    alone(&attempt("", &format!("+0 setsockopt(3, SOL_TCP, TCP_SYNCNT, [1], 4) = 0\n{connect}")));
    alone(&attempt("`sysctl -q net.ipv4.tcp_syn_retries=1`\n", connect));
    let timeout = "+0 setsockopt(3, SOL_TCP, TCP_USER_TIMEOUT, [2600], 4) = 0\n";
    alone(&attempt("", &format!("{timeout}+0...2.6 connect(3, ..., ...) = -1 ETIMEDOUT")));
}

#[test]
fn buffers_lent_are_given_back_in_order() {
    let report = |first: u32, last: u32| {
        format!(
            "+0 recvmsg(4, {{msg_name(...)=..., msg_iov(1)=[{{...,0}}], msg_flags=MSG_ERRQUEUE, msg_control=[
 {{cmsg_level=SOL_IP, cmsg_type=IP_RECVERR, cmsg_data={{ee_errno=0, ee_origin=SO_EE_ORIGIN_ZEROCOPY, ee_type=0,
 ee_code=SO_EE_CODE_ZEROCOPY_COPIED, ee_info={first}, ee_data={last}}}}}]}}, MSG_ERRQUEUE) = 0\n"
        )
    };
    let none =
        "+0 recvmsg(4, {msg_name(...)=..., msg_iov(1)=[{...,0}], msg_flags=0}, MSG_ERRQUEUE) = -1 EAGAIN\n";
    let lent = "+0 send(4, ..., 1000, MSG_ZEROCOPY) = 1000\n";
    passes(&format!(
        "+0 setsockopt(4, SOL_SOCKET, SO_ZEROCOPY, [1], 4) = 0
{lent}+0 > P. 1:1001(1000) ack 1
{lent}+0 > P. 1001:2001(1000) ack 1
{lent}+0 > P. 2001:3001(1000) ack 1
{none}+.1 < . 1:1(0) ack 2500 win 1000
+0 poll([{{fd=4, events=POLLIN, revents=POLLERR}}], 1, 0) = 1
{}{none}+.1 < . 1:1(0) ack 3001 win 1000
{}+0 getsockopt(4, SOL_SOCKET, SO_ERROR, [0], [4]) = 0\n",
        report(0, 1),
        report(2, 2)
    ));
    // Without the socket's word it is a call like any other.
    passes(&format!("{lent}+0 > P. 1:1001(1000) ack 1\n+.1 < . 1:1(0) ack 1001 win 1000\n{none}"));
    fails(
        &format!(
            "+0 setsockopt(4, SOL_SOCKET, SO_ZEROCOPY, [1], 4) = 0\n{lent}+0 > P. 1:1001(1000) ack 1
+.1 < . 1:1(0) ack 1001 win 1000\n{}",
            report(1, 1)
        ),
        "t.pkt:12: runtime error in recvmsg call: Expected msg_control [IP_RECVERR {ee_errno=0, ee_origin=5, ee_type=0, \
         ee_code=1, ee_info=1, ee_data=1}] but got [IP_RECVERR {ee_errno=0, ee_origin=5, ee_type=0, ee_code=1, ee_info=0, ee_data=0}]",
    );
}

#[test]
fn bytes_are_stamped_as_they_leave_and_are_acknowledged() {
    let stamp = |event: &str, nanos: u64, key: u64| {
        format!(
            "+0 recvmsg(4, {{msg_name(...)=..., msg_iov(1)=[{{...,0}}], msg_flags=MSG_ERRQUEUE|MSG_TRUNC, msg_control=[
 {{cmsg_level=SOL_SOCKET, cmsg_type=SCM_TIMESTAMPING, cmsg_data={{scm_sec=0,scm_nsec={nanos}}}}},
 {{cmsg_level=SOL_IP, cmsg_type=IP_RECVERR, cmsg_data={{ee_errno=ENOMSG, ee_origin=SO_EE_ORIGIN_TIMESTAMPING,
 ee_type=0, ee_code=0, ee_info={event}, ee_data={key}}}}}]}}, MSG_ERRQUEUE) = 0\n"
        )
    };
    passes(&format!(
        "+0 write(4, ..., 1000) = 1000
+0 > P. 1:1001(1000) ack 1
+.1 < . 1:1(0) ack 1001 win 1000
+0 setsockopt(4, SOL_SOCKET, SO_TIMESTAMPING, [SOF_TIMESTAMPING_TX_SOFTWARE|SOF_TIMESTAMPING_TX_ACK|
 SOF_TIMESTAMPING_SOFTWARE|SOF_TIMESTAMPING_OPT_ID], 4) = 0
+.05 write(4, ..., 500) = 500
+0 > P. 1001:1501(500) ack 1
+.1 < . 1:1(0) ack 1501 win 1000
{}{}",
        stamp("SCM_TSTAMP_SND", 250_000_000, 499),
        stamp("SCM_TSTAMP_ACK", 350_000_000, 499)
    ));
}

#[test]
fn a_message_tells_what_is_left_to_read() {
    let read = |len: u32, left: u32| {
        format!(
            "+0 recvmsg(4, {{msg_name(...)=..., msg_iov(2)=[{{..., 100}}, {{..., {}}}], msg_flags=0,
 msg_control=[{{cmsg_level=SOL_TCP, cmsg_type=TCP_CM_INQ, cmsg_data={left}}}]}}, 0) = {len}\n",
            len - 100
        )
    };
    passes(&format!(
        "+0 setsockopt(4, SOL_TCP, TCP_INQ, [1], 4) = 0
+0 < P. 1:1001(1000) ack 1 win 1000
+0 > . 1:1(0) ack 1001
{}+0 < F. 1001:1001(0) ack 1 win 1000
* > . 1:1(0) ack 1002
{}",
        read(400, 600),
        read(600, 1)
    ));
}

#[test]
fn epoll_tells_of_levels_edges_or_once() {
    let data =
        |at: u32| format!("+0 < P. {at}:{}(100) ack 1 win 1000\n+0 > . 1:1(0) ack {}\n", at + 100, at + 100);
    let (none, some) =
        ("+0 epoll_wait(5, {events=0, ptr=0}, 1, 0) = 0\n", "EPOLLIN|EPOLLOUT, fd=4}, 1, 0) = 1\n");
    let wait = format!("+0 epoll_wait(5, {{events={some}");
    let watch = |mode: &str| {
        format!(
            "+0 epoll_create(1) = 5\n+0 epoll_ctl(5, EPOLL_CTL_ADD, 4, {{events=EPOLLIN|EPOLLOUT{mode}, fd=4}}) = 0\n"
        )
    };
    let first = data(1);
    let second = data(101);
    passes(&format!("{first}{}{wait}{wait}", watch("")));
    passes(&format!("{first}{}{wait}{none}{second}{wait}{none}", watch("|EPOLLET")));
    passes(&format!(
        "{first}{}{wait}{none}{second}{none}+0 epoll_ctl(5, EPOLL_CTL_MOD, 4, {{events=EPOLLIN|EPOLLOUT|EPOLLONESHOT, fd=4}}) = 0
{wait}{none}+0 epoll_ctl(5, EPOLL_CTL_DEL, 4, NULL) = 0
+0 epoll_ctl(5, EPOLL_CTL_DEL, 4, NULL) = -1 ENOENT\n+0 close(5) = 0\n+0 epoll_wait(5, {{events=0, ptr=0}}, 1, 0) = -1 EINVAL\n",
        watch("|EPOLLONESHOT")
    ));
    // A call that waits is woken by what comes.
    passes(
        "+0 epoll_create1(0) = 5\n+0 epoll_ctl(5, EPOLL_CTL_ADD, 4, {events=EPOLLIN, fd=7}) = 0
+0...0.2 epoll_wait(5, {events=EPOLLIN, fd=7}, 1, -1) = 1\n+.2 < P. 1:101(100) ack 1 win 1000\n+0 > . 1:1(0) ack 101
+0...0.05 epoll_wait(5, {events=EPOLLIN|EPOLLHUP, fd=7}, 0, 50) = 0\n"
    );
    fails(
        &format!("{}+0 epoll_wait(5, {{events=EPOLLIN, fd=4}}, 1, 0) = 1\n", watch("")),
        "runtime error in epoll_wait call: Expected events EPOLLIN of 4 but got EPOLLOUT of 4",
    );
}

#[test]
fn calls_with_no_buffer_or_no_family_are_errors() {
    passes(
        "+0 write(4, NULL, 100) = -1 EFAULT
+0 < P. 1:101(100) ack 1 win 1000
+0 > . 1:1(0) ack 101
+0 recv(4, NULL, 100, 0) = -1 EFAULT
+0 read(4, ..., 100) = 100
",
    );
    alone(
        "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 sendto(3, ..., 0, MSG_FASTOPEN, AF_UNSPEC, ...) = -1 EOPNOTSUPP\n",
    );
}

/// A SYN with data that was too big leaves again at once, without it.
#[test]
fn a_syn_with_data_that_is_too_big_is_sent_again_at_once() {
    alone(
        "`sysctl -q net.ipv4.tcp_fastopen=5 net.ipv4.tcp_timestamps=0`
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 sendto(3, ..., 2000, MSG_FASTOPEN, ..., ...) = 1420
+0 > S 0:1420(1420) <...>
+.01 < icmp unreachable frag_needed mtu 840
+0 > S 0:0(0) <mss 800,nop,nop,sackOK,nop,wscale 10>
+.01 < S. 0:0(0) ack 1 win 65535 <mss 1460>
+0 > . 1:801(800) ack 1
+0 > P. 801:1421(620) ack 1
",
    );
}

#[test]
fn messages_of_routers_about_other_packets_are_counted() {
    passes(
        "+0 < icmp unreachable [5000:6000(1000)]
+0 `nstat | grep TcpExtOutOfWindowIcmps > /dev/null`
+0 getsockopt(4, SOL_SOCKET, SO_ERROR, [0], [4]) = 0
",
    );
    fails("+0 `nstat | grep TcpExtOutOfWindowIcmps`\n", "the system has not counted TcpExtOutOfWindowIcmps");
    fails("+0 `nstat | grep TcpExtTCPTimeouts`\n", "this system does not count TcpExtTCPTimeouts");
}

/// At 200 % of a window of 12 packets in 100 ms a burst of two packets takes 8.3 ms, half of which the time makes up for in which
/// nothing was sent.
#[test]
fn a_fair_queue_keeps_packets_until_they_are_due() {
    let text = format!(
        "`tc qdisc replace dev tun0 root fq`\n{OPEN}+0 write(4, ..., 40000) = 40000
+0 > . 1:10001(10000) ack 1
+.1 < . 1:1(0) ack 2001 win 1000
+0 < . 1:1(0) ack 4001 win 1000
+0 > . 10001:12001(2000) ack 1
+.004~+.005 > . 12001:14001(2000) ack 1
"
    );
    let tight = Choices { tolerance: Some(0), ..Choices::default() };
    assert_eq!(run_file(&text, "t.pkt", "linux-6.18", &tight).message, None);
}

#[test]
fn an_interface_may_take_single_segments_only() {
    let write = "+0 write(4, ..., 3000) = 3000\n";
    let whole = "+0 > P. 1:2001(2000) ack 1\n+0 > P. 2001:3001(1000) ack 1\n";
    passes(&format!("{write}{whole}"));
    let cut = "+0 > . 1:1001(1000) ack 1\n+0 > P. 1001:2001(1000) ack 1\n+0 > P. 2001:3001(1000) ack 1\n";
    alone(&format!("--strict_segments\n`ethtool -K tun0 tso off gso off`\n{OPEN}{write}{cut}"));
}

#[test]
fn what_is_written_wrongly_is_refused_with_its_line() {
    let wrong = |call: &str| format!("0 {call} = 0");
    refused(
        &wrong("epoll_ctl(5, EPOLL_CTL_ANY, 4, NULL)"),
        "t.pkt:1: epoll_ctl: found EPOLL_CTL_ANY; expected EPOLL_CTL_ADD, EPOLL_CTL_MOD or EPOLL_CTL_DEL",
    );
    refused(&wrong("epoll_wait(5, 1, 1, 0)"), "t.pkt:1: epoll_wait: expected {events=…, fd=…}");
    refused(
        &wrong("epoll_wait(5, {events=EPOLLX, fd=4}, 1, 0)"),
        "t.pkt:1: epoll_wait: found EPOLLX; expected 0 or some of EPOLLIN|EPOLLOUT|EPOLLERR|EPOLLHUP|EPOLLRDHUP|\
         EPOLLEXCLUSIVE|EPOLLONESHOT|EPOLLET",
    );
    refused(
        &wrong("sendmsg(4, 1, 0)"),
        "t.pkt:1: sendmsg: argument 2: expected {msg_name(...)=..., msg_iov(1)=[{..., N}], msg_flags=0}",
    );
    refused(
        &wrong("recvmsg(4, {msg_flags=0}, 0)"),
        "t.pkt:1: recvmsg: argument 2: msg_iov is no list of {..., LENGTH}",
    );
    refused(
        &wrong("recvmsg(4, {msg_iov(1)=[{..., 1}], msg_control=[{cmsg_type=SCM_RIGHTS, cmsg_data=1}]}, 0)"),
        "t.pkt:1: msg_control: found `SCM_RIGHTS`; expected TCP_CM_INQ, SCM_TIMESTAMPING or IP_RECVERR with its data",
    );
    refused(&wrong("send(4, ..., 1, MSG_OOB)"), "t.pkt:1: send: MSG_OOB is not supported");
    refused(
        "`tc qdisc add dev tun0 root pfifo limit 0`\n0 close(3) = 0",
        "t.pkt:1: `tc qdisc add dev tun0 root pfifo limit 0`: only settings are read from a command (sysctl NAME=VALUE); commands are not run",
    );
}
