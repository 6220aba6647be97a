//! The agent as a program: what it is told, what it answers, and how it ends.

#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{self, Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const MS: u64 = 1_000_000;

/// Limit for what a sound agent does soon; a busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// An agent, and the pipes to it.
struct Agent {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Agent {
    fn new(arguments: &[&str]) -> Agent {
        Agent::of(Command::new(env!("CARGO_BIN_EXE_cwndlab-agent")).args(arguments))
    }

    /// Starts the agent as a shell starts what it leaves in the background: interrupts are ignored.
    fn in_the_background() -> Agent {
        let command = "trap '' INT; exec \"$0\"";
        Agent::of(Command::new("sh").args(["-c", command, env!("CARGO_BIN_EXE_cwndlab-agent")]))
    }

    fn of(command: &mut Command) -> Agent {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("an agent");
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        Agent { process, input, output }
    }

    fn say(&mut self, line: &str) -> Value {
        writeln!(self.input.as_mut().expect("open"), "{line}").expect("it reads");
        let mut answer = String::new();
        self.output.read_line(&mut answer).expect("it answers");
        serde_json::from_str(&answer).expect("a line of JSON")
    }

    fn ask(&mut self, order: &Value) -> Value {
        let answer = self.say(&order.to_string());
        assert!(answer.get("error").is_none(), "{answer}");
        answer
    }

    /// Runs these flows from this host to itself for so long, and until what both ends of each saw is `enough`; what they
    /// saw then.
    fn run(&mut self, tasks: &[Value], duration_ns: u64, enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let whole = PATIENCE.as_nanos() as u64;
        let order = json!({
            "do": "prepare", "measure": [0, whole], "duration_ns": whole, "sends": tasks, "receives": tasks,
        });
        assert_eq!(self.ask(&order), json!({"ready": true}));
        let zero = loadlatency::sys::monotonic_ns() + 20 * MS;
        self.ask(&json!({"do": "start", "zero_ns": zero}));
        thread::sleep(Duration::from_nanos(duration_ns + 300 * MS));
        let deadline = Instant::now() + PATIENCE;
        loop {
            let flows = self.ask(&json!({"do": "end"}))["flows"].as_array().expect("flows").clone();
            if enough(&flows) {
                return flows;
            }
            assert!(Instant::now() < deadline, "{flows:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits for the agent's end; returns the exit code.
    fn end(mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.process.try_wait().expect("a child") {
                return status.code();
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("it does not end");
    }
}

/// Two ports of loopback that nobody has and that the kernel gives to nobody who asks for any port: those it picks itself
/// begin at 32,768 (`net.ipv4.ip_local_port_range`). Those of a process before this one may not be free for a minute yet.
fn ports() -> [u16; 2] {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    [(); 2].map(|()| {
        loop {
            let port = 20_000
                + (process::id() as u16).wrapping_mul(100).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed))
                    % 12_000;
            if TcpListener::bind(("127.0.0.1", port)).is_ok() && UdpSocket::bind(("127.0.0.1", port)).is_ok()
            {
                return port;
            }
        }
    })
}

/// A flow over loopback between ports that nobody has.
fn task(name: &str, app: &Value) -> Value {
    let [own, port] = ports();
    json!({
        "flow": name, "app": app, "cc": "reno", "sndbuf": null, "rcvbuf": null, "start_ns": 0, "stop_ns": 1_000 * MS,
        "source": "127.0.0.1", "target": "127.0.0.1", "source_port": own, "target_port": port, "seed": 1, "repeat": 0,
    })
}

/// A flow that nothing stops before it is over by itself.
fn lasting(name: &str, app: &Value) -> Value {
    let mut task = task(name, app);
    task["stop_ns"] = json!(PATIENCE.as_nanos() as u64);
    task
}

/// Whether these flows have been read to their ends.
fn have_ended(flows: &[Value], names: &[&str]) -> bool {
    names.iter().all(|name| seen(flows, name, "to")["ended_ns"].is_u64())
}

fn seen<'a>(flows: &'a [Value], name: &str, role: &str) -> &'a Value {
    let flow = flows.iter().find(|flow| flow["flow"] == name && flow["role"] == role).expect("it is told");
    assert_eq!(flow["error"], Value::Null, "{flow}");
    flow
}

/// Values of one kind of samples, in their order.
fn samples(flow: &Value, kind: &str) -> Vec<u64> {
    let rows = flow["samples"].as_array().expect("rows");
    let times: Vec<u64> = rows.iter().map(|row| row[0].as_u64().expect("a time")).collect();
    assert!(times.is_sorted(), "{flow}");
    rows.iter().filter(|row| row[1] == kind).map(|row| row[2].as_u64().expect("a value")).collect()
}

/// A flow of a guest over loopback.
#[cfg(all(feature = "quinn", target_os = "linux"))]
fn guest(name: &str, stack: &str, app: &Value) -> Value {
    let mut task = task(name, app);
    task["guest"] =
        json!({"stack": stack, "payload": [1472, 1472], "marks": [true, false], "interval_ns": 10 * MS});
    task
}

#[cfg(all(feature = "quinn", target_os = "linux"))]
#[test]
fn a_guest_carries_a_transfer_and_says_how() {
    let mut agent = Agent::new(&[]);
    let fixed = json!({"kind": "fixed", "size_bytes": 300_000, "write_bytes": 131_072});
    let task = guest("f", "quinn-0.11.19", &fixed);
    let flows = agent.run(&[task], 1_000 * MS, |flows| have_ended(flows, &["f"]));
    let (from, to) = (seen(&flows, "f", "from"), seen(&flows, "f", "to"));
    assert_eq!(to["read"], 300_000);
    assert!(to["ended_ns"].as_u64() > from["opened_ns"].as_u64(), "{to}");
    let rows = from["guest"]["rows"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["cwnd_bytes"].as_u64() > Some(0)), "{from}");
    assert!(rows.iter().map(|row| row["t_ns"].as_u64()).is_sorted());
    // At least as many datagrams as the largest take.
    assert!(rows.last().is_some_and(|row| row["sent_segments"].as_u64() >= Some(300_000 / 1472)), "{from}");
}

#[cfg(all(feature = "quinn", target_os = "linux"))]
#[test]
fn what_cannot_be_carried_by_a_guest_is_refused() {
    let fixed = json!({"kind": "fixed", "size_bytes": 1, "write_bytes": 1});
    let asked = json!({
        "kind": "request-response", "requests": 1, "request_bytes": 100, "response_bytes": 100, "think_ns": 0,
    });
    for (stack, app, why) in
        [("smoltcp-0.12.0", &fixed, "not built into"), ("quinn-0.11.19", &asked, "expected bulk")]
    {
        let task = guest("f", stack, app);
        let mut agent = Agent::new(&[]);
        let order =
            json!({"do": "prepare", "measure": [0, 1], "duration_ns": 1, "sends": [task], "receives": []});
        let answer = agent.say(&order.to_string());
        assert!(answer["error"].as_str().is_some_and(|said| said.contains(why)), "{answer}");
    }
}

#[test]
fn transfers_are_of_their_sizes_and_rates() {
    let tasks = [
        lasting("bulk", &json!({"kind": "bulk", "bytes": 3_000_000, "write_bytes": 10_000})),
        lasting("fixed", &json!({"kind": "fixed", "size_bytes": 1, "write_bytes": 131_072})),
        task("endless", &json!({"kind": "bulk", "bytes": null, "write_bytes": 1u64 << 50})),
        task("paced", &json!({"kind": "rate-limited", "rate_bps": 8_000_000, "write_bytes": 1000})),
        task(
            "turns",
            &json!({
                "kind": "on-off", "on_ns": 100 * MS, "off_ns": 100 * MS, "rate_bps": 8_000_000, "write_bytes": 1000,
                "distribution": "fixed",
            }),
        ),
        task(
            "bursts",
            &json!({
                "kind": "on-off", "on_ns": 50 * MS, "off_ns": 150 * MS, "rate_bps": null, "write_bytes": 1000,
                "distribution": "fixed",
            }),
        ),
    ];
    let enough = |flows: &[Value]| have_ended(flows, &["bulk", "fixed"]);
    let flows = Agent::new(&["transfers"]).run(&tasks, 1_000 * MS, enough);
    let read = |name: &str| seen(&flows, name, "to")["read"].as_u64().expect("a count");
    assert_eq!((read("bulk"), read("fixed")), (3_000_000, 1));
    let bulk = seen(&flows, "bulk", "to");
    assert!(bulk["ended_ns"].as_u64().is_some_and(|at| at > 0), "{bulk}");
    let seconds = bulk["seconds"].as_array().expect("pairs");
    assert_eq!(seconds.iter().map(|pair| pair[1].as_u64().expect("bytes")).sum::<u64>(), 3_000_000);
    assert!(seen(&flows, "bulk", "from")["opened_ns"].as_u64().is_some());
    assert!(read("endless") > 10_000_000, "{}", read("endless"));
    // Never more than the times of sending have room for; how much less, a busy machine decides, which leaves out what it is late for.
    assert!((10_000..=1_000_000).contains(&read("paced")), "{}", read("paced"));
    assert!((10_000..=600_000).contains(&read("turns")), "{}", read("turns"));
    assert!(read("turns") < read("paced"), "{} of {}", read("turns"), read("paced"));
    assert!(read("bursts") > 10_000);
}

#[test]
fn who_asks_is_answered_as_the_request_says() {
    let tasks = [
        lasting(
            "asked",
            &json!({
                "kind": "request-response", "requests": 7, "request_bytes": 4, "response_bytes": 10_000, "think_ns": MS,
            }),
        ),
        lasting(
            "large",
            &json!({
                "kind": "request-response", "requests": 2, "request_bytes": 700_000, "response_bytes": 9_000_000, "think_ns": 0,
            }),
        ),
        task(
            "endless",
            &json!({
                "kind": "request-response", "requests": null, "request_bytes": 100, "response_bytes": 10_000, "think_ns": 0,
            }),
        ),
        task(
            "film",
            &json!({
                "kind": "video", "rate_bps": 8_000_000, "chunk_ns": 100 * MS, "buffer_ns": 300 * MS, "request_bytes": 100,
            }),
        ),
    ];
    let flows = Agent::new(&[]).run(&tasks, 1_100 * MS, |flows| have_ended(flows, &["asked", "large"]));
    let asked = seen(&flows, "asked", "to");
    assert_eq!((samples(asked, "response").len(), &asked["read"]), (7, &json!(70_000)));
    assert!(asked["ended_ns"].is_u64(), "the server closes behind the last: {asked}");
    let large = seen(&flows, "large", "to");
    assert_eq!((samples(large, "response").len(), &large["read"]), (2, &json!(18_000_000)));
    let endless = seen(&flows, "endless", "to");
    let responses = samples(endless, "response").len();
    assert!(responses > 10);
    assert_eq!(endless["read"], json!(responses * 10_000), "what was asked for is answered before the end");
    assert!(
        endless["ended_ns"].as_u64().is_some_and(|at| at >= 1_000 * MS || responses > 0),
        "{}",
        endless["ended_ns"]
    );
    let film = seen(&flows, "film", "to");
    // Three chunks at once, then one every 100 ms, as far as a busy machine keeps up.
    assert!((4..=13).contains(&samples(film, "response").len()), "{film}");
}

#[test]
fn all_servers_of_an_incast_are_asked_at_once() {
    let app = json!({
        "kind": "incast", "group": "many", "size_bytes": 50_000, "request_bytes": 64, "rounds": 4, "think_ns": 5 * MS,
    });
    let names = ["many.1", "many.2", "many.3"];
    let flows =
        Agent::new(&[]).run(&names.map(|name| lasting(name, &app)), 0, |flows| have_ended(flows, &names));
    let ends = names.map(|name| seen(&flows, name, "to"));
    for end in ends {
        assert_eq!((samples(end, "response").len(), &end["read"]), (4, &json!(200_000)));
        assert!(end["ended_ns"].is_u64());
    }
    let rounds: Vec<u64> = ends.iter().flat_map(|end| samples(end, "round")).collect();
    assert_eq!(rounds.len(), 4);
    let slowest = ends.iter().flat_map(|end| samples(end, "response")).max();
    assert!(rounds.iter().max() >= slowest.as_ref());
}

#[test]
fn background_transfers_say_when_they_arrived() {
    let app = json!({
        "kind": "background", "load_bps": 20_000_000, "size_bytes": 20_000, "shape_milli": 1500, "connections": 3,
    });
    let begun = Instant::now();
    let flows = Agent::new(&[]).run(&[task("cross", &app)], 1_000 * MS, |_| true);
    let passed = begun.elapsed().as_nanos() as u64;
    let sink = seen(&flows, "cross", "to");
    let completions = samples(sink, "completion");
    // 125 a second on average, less on a busy machine.
    assert!((11..=250).contains(&completions.len()), "{}", completions.len());
    assert!(completions.iter().all(|&took| took < passed));
    assert_eq!(sink["ended_ns"], Value::Null, "that of a transfer is not the flow's");
}

#[test]
fn datagrams_come_at_their_times() {
    let tasks = [
        task("cbr", &json!({"kind": "udp-cbr", "rate_bps": 800_000, "payload_bytes": 1000, "ecn": "ect0"})),
        task("call", &json!({"kind": "voip", "frame_ns": 20 * MS, "payload_bytes": 172, "ecn": "off"})),
    ];
    let of_each = [("cbr", 100, 1000), ("call", 50, 172)];
    let came = |flows: &[Value], name: &str| samples(seen(flows, name, "to"), "one-way-delay").len();
    let mut agent = Agent::new(&[]);
    // A busy machine sends the last ones late.
    let flows = agent
        .run(&tasks, 1_000 * MS, |flows| of_each.iter().all(|&(name, count, _)| came(flows, name) >= count));
    for (name, count, bytes) in of_each {
        let (sender, sink) = (seen(&flows, name, "from"), seen(&flows, name, "to"));
        assert_eq!(sender["sent_in_window"], json!(count), "{sender}");
        let delays = samples(sink, "one-way-delay");
        assert_eq!(delays.len(), count);
        assert_eq!(sink["read"], json!(delays.len() * bytes));
    }
}

#[test]
fn what_is_no_order_is_refused_in_one_line_and_the_next_one_heard() {
    let mut agent = Agent::new(&[]);
    let prepare = |app: Value| {
        let tasks = [task("f", &app)];
        json!({"do": "prepare", "measure": [0, 1], "duration_ns": 1, "sends": [], "receives": tasks})
            .to_string()
    };
    let asks = |request: u64, response: u64| {
        prepare(json!({
            "kind": "request-response", "requests": 1, "request_bytes": request, "response_bytes": response, "think_ns": 0,
        }))
    };
    let lines = [
        "".to_owned(),
        "{".to_owned(),
        "[]".to_owned(),
        "{\"do\": \"dance\"}".to_owned(),
        "{\"do\": \"start\"}".to_owned(),
        "{\"do\": \"start\", \"zero_ns\": -1}".to_owned(),
        "{\"do\": \"ping\", \"to\": [\"nowhere; rm -rf\"], \"count\": 1, \"interval_ns\": 1}".to_owned(),
        "\u{fffd}\0".to_owned(),
        format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)),
        prepare(json!({"kind": "bulk", "bytes": 0, "write_bytes": 1})),
        prepare(json!({"kind": "bulk", "bytes": 1e300, "write_bytes": 1})),
        prepare(json!({"kind": "dance"})),
        prepare(json!({"kind": "udp-cbr", "rate_bps": 1, "payload_bytes": 15, "ecn": "off"})),
        prepare(json!({"kind": "udp-cbr", "rate_bps": 1, "payload_bytes": u32::MAX, "ecn": "off"})),
        asks(0, 1),
        asks(2, 1),
        asks(5, u64::MAX),
    ];
    for line in lines {
        let answer = agent.say(&line);
        let error = answer["error"].as_str().expect("an error");
        assert!(!error.is_empty() && !error.contains('\n'), "{error}");
    }
    assert_eq!(agent.ask(&json!({"do": "end"})), json!({"flows": [], "reports": []}));
}

#[test]
fn nobody_is_believed_who_sends_something_else() {
    let app = json!({
        "kind": "request-response", "requests": 1, "request_bytes": 100, "response_bytes": 100, "think_ns": 0,
    });
    let task = task("f", &app);
    let mut agent = Agent::new(&[]);
    let order = json!({"do": "prepare", "measure": [0, 1], "duration_ns": 1_000 * MS, "sends": [task], "receives": []});
    let listener = TcpListener::bind(("127.0.0.1", task["target_port"].as_u64().expect("a port") as u16));
    let listener = listener.expect("the port");
    agent.ask(&order);
    agent.ask(&json!({"do": "start", "zero_ns": loadlatency::sys::monotonic_ns()}));
    let (mut stream, _) = listener.accept().expect("it connects");
    // No message begins like this.
    stream.write_all(&[99; 50]).expect("written");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let flows = &agent.ask(&json!({"do": "end"}))["flows"];
        if flows[0]["error"] == "no message begins with the byte 99" {
            break;
        }
        assert!(Instant::now() < deadline, "{flows}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_line_without_end_ends_it() {
    let mut agent = Agent::new(&[]);
    let mut input = agent.input.take().expect("open");
    let writer = thread::spawn(move || {
        let piece = vec![b' '; 1 << 20];
        // Until nobody reads any more.
        while input.write_all(&piece).is_ok() {}
    });
    let mut answer = String::new();
    agent.output.read_line(&mut answer).expect("it answers");
    assert!(answer.starts_with("{\"error\":\"a line of more than"), "{answer}");
    assert_eq!(agent.end(), Some(0));
    writer.join().expect("ended");
}

#[test]
fn it_says_what_time_it_is() {
    let mut agent = Agent::new(&[]);
    let before = loadlatency::sys::monotonic_ns();
    let clocks = agent.ask(&json!({"do": "clock"}));
    let now = clocks["monotonic_ns"].as_u64().expect("a time");
    assert!((before..=loadlatency::sys::monotonic_ns()).contains(&now));
    assert!(clocks["realtime_ns"].as_u64().expect("a time") > 1_700_000_000_000_000_000);
}

#[test]
#[cfg(target_os = "linux")]
fn sockets_are_looked_at_and_written_into_a_file() {
    let mut agent = Agent::new(&[]);
    let flow = task("f", &json!({"kind": "bulk", "bytes": null, "write_bytes": 1000}));
    let socket = json!({
        "flow": "f", "netns": null, "local_port": flow["source_port"], "remote_port": flow["target_port"],
    });
    let config = json!({
        "run_id": 7, "interval_ns": 10 * MS, "flows": ["f"], "sockets": [socket], "recoveries": false,
    });
    agent.ask(&json!({"do": "sample", "name": "from", "config": config}));
    agent.run(&[flow], 1_000 * MS, |_| true);
    let file =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cwndlab-agent-{}-samples", std::process::id()));
    let done = agent.ask(&json!({"do": "samples", "name": "from", "file": file}));
    assert_eq!(done["report"]["errors"], json!([]));
    let data = std::fs::read(&file).expect("rows");
    std::fs::remove_file(&file).expect("ours");
    let end = data.iter().position(|&byte| byte == b'\n').expect("a line");
    let head: Value = serde_json::from_slice(&data[..end]).expect("JSON");
    let rows = head["rows"].as_u64().expect("a number") as usize;
    assert!(rows >= 5, "{head}");
    let sizes = head["columns"].as_array().expect("columns").iter().map(|column| {
        let width = if matches!(column["kind"].as_str(), Some("u32" | "dict")) { 4 } else { 8 };
        width * rows + if column["nulls"] == true { rows.div_ceil(8) } else { 0 }
    });
    assert_eq!(data.len() - end - 1, sizes.sum::<usize>());
    let again = agent.say(&json!({"do": "samples", "name": "from", "file": file}).to_string());
    assert_eq!(again["error"], "no sampler is called from");
}

/// A program that says who it is in a file, and goes on with a shell's commands.
fn says(place: &str, before: &str, after: &str) -> (PathBuf, Value) {
    let file =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cwndlab-agent-{}-{place}", std::process::id()));
    let script = format!("{before} echo $$ > \"$0.new\"; mv \"$0.new\" \"$0\"; {after}");
    let command = json!(["sh", "-c", script, file.to_str().expect("a path")]);
    (file, command)
}

fn pid(file: &PathBuf) -> i32 {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Ok(text) = std::fs::read_to_string(file) {
            std::fs::remove_file(file).expect("ours");
            return text.trim().parse().expect("a number");
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("it was not started");
}

fn is_gone(pid: i32) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        // SAFETY: signal 0 does nothing but ask.
        if unsafe { libc::kill(pid, 0) } != 0 {
            return true;
        }
        thread::sleep(Duration::from_millis(5));
    }
    false
}

fn with_program(agent: &mut Agent, place: &str) -> i32 {
    let (file, command) = says(place, "", "exec sleep 600");
    let mut task = task("f", &json!({"kind": "bulk", "bytes": null, "write_bytes": 1}));
    task["stop_ns"] = json!(600_000 * MS);
    task["tool"] = json!({"name": "sleep", "lead_ns": 0, "client": command, "server": []});
    let order = json!({"do": "prepare", "measure": [0, 1], "duration_ns": 600_000 * MS, "sends": [task], "receives": []});
    agent.ask(&order);
    agent.ask(&json!({"do": "start", "zero_ns": loadlatency::sys::monotonic_ns()}));
    pid(&file)
}

#[test]
fn it_ends_with_its_input_and_leaves_nothing() {
    let mut agent = Agent::new(&["mine"]);
    let child = with_program(&mut agent, "input");
    agent.input = None;
    assert_eq!(agent.end(), Some(0));
    assert!(is_gone(child));
}

#[test]
#[cfg(target_os = "linux")]
fn killed_it_leaves_nothing_either() {
    let mut agent = Agent::new(&[]);
    let child = with_program(&mut agent, "killed");
    agent.process.kill().expect("alive");
    agent.end();
    assert!(is_gone(child));
}

#[test]
fn it_ends_at_its_time_limit() {
    let begun = Instant::now();
    let agent = Agent::new(&["--limit", "0.3", "mine"]);
    assert_eq!(agent.end(), Some(3));
    assert!(begun.elapsed() >= Duration::from_millis(300));
    for wrong in [&["--limit"][..], &["--limit", "0"], &["--limit", "soon"], &["a", "b"], &["--help"]] {
        assert_eq!(Agent::new(wrong).end(), Some(2), "{wrong:?}");
    }
}

#[test]
fn what_a_program_writes_is_told_when_it_is_ended() {
    let mut agent = Agent::in_the_background();
    let mut task = task("f", &json!({"kind": "bulk", "bytes": null, "write_bytes": 1}));
    let (file, command) =
        says("interrupted", "trap 'echo interrupted; exit' INT; echo begun;", "while :; do sleep 0.01; done");
    task["tool"] = json!({"name": "script", "lead_ns": 0, "client": command, "server": []});
    let order = json!({"do": "prepare", "measure": [0, 1], "duration_ns": 1_000 * MS, "sends": [task], "receives": []});
    agent.ask(&order);
    agent.ask(&json!({"do": "start", "zero_ns": loadlatency::sys::monotonic_ns()}));
    pid(&file);
    let ended = agent.ask(&json!({"do": "end"}));
    let expected =
        json!([{"flow": "f", "role": "from", "tool": "script", "text": "begun\ninterrupted", "error": null}]);
    assert_eq!(ended["reports"], expected);
}
