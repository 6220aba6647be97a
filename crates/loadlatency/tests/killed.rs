//! Either end killed while both run as real processes: the other ends within seconds and says why.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Limit by which a hang is told; far beyond the seconds that an end takes.
const HANG: Duration = Duration::from_secs(40);

/// Time that flows are left, once their scenario is announced, to be connected and to carry what the server tells of once a second.
const FLOWS: Duration = Duration::from_secs(6);

struct Process(Child);

impl Process {
    fn start(arguments: &[&str]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadlatency"));
        let child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Process(child.expect("starts"))
    }

    fn stdout(&mut self) -> BufReader<ChildStdout> {
        BufReader::new(self.0.stdout.take().expect("once"))
    }

    fn interrupt(&self) {
        let id = i32::try_from(self.0.id()).expect("an id");
        // SAFETY: a signal to a process of this test.
        assert_eq!(unsafe { libc::kill(id, libc::SIGINT) }, 0);
    }

    /// Waits for the end of the process, which must come by itself.
    fn ended(mut self) -> Output {
        let limit = Instant::now() + HANG;
        while self.0.try_wait().expect("waited for").is_none() {
            assert!(Instant::now() < limit, "still there");
            thread::sleep(Duration::from_millis(20));
        }
        let mut output =
            Output { status: self.0.wait().expect("ended"), stdout: Vec::new(), stderr: Vec::new() };
        if let Some(mut stdout) = self.0.stdout.take() {
            stdout.read_to_end(&mut output.stdout).expect("read");
        }
        if let Some(mut stderr) = self.0.stderr.take() {
            stderr.read_to_end(&mut output.stderr).expect("read");
        }
        output
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Gone already, mostly.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads until `wanted` was said; what was said so far, and nothing beyond. A busy machine starts its programs late.
fn heard(said: &mut impl Read, wanted: &str) -> String {
    let (mut text, mut one) = (String::new(), [0]);
    while !text.ends_with(wanted) {
        assert_eq!(said.read(&mut one).expect("read"), 1, "{text} and no {wanted}");
        text.push(one[0] as char);
    }
    text
}

fn server() -> (Process, BufReader<ChildStdout>, String) {
    let mut server = Process::start(&["serve", "--bind", "127.0.0.1", "--port", "0", "--once"]);
    let mut said = server.stdout();
    let mut line = String::new();
    said.read_line(&mut line).expect("says its port");
    let port = line.trim().rsplit(' ').next().expect("a port").to_owned();
    (server, said, port)
}

fn run(port: &str, scenarios: &str) -> Process {
    Process::start(&[
        "run",
        "127.0.0.1",
        "--port",
        port,
        "--scenario",
        scenarios,
        "--duration",
        "30",
        "--classic",
    ])
}

#[test]
fn a_client_whose_server_is_killed_prints_what_it_has() {
    // In the flows of a scenario, and before: between the greeting and the flows.
    for in_flows in [true, false] {
        let (mut server, mut said, port) = server();
        let mut client = run(&port, "4");
        let mut printed = client.stdout();
        let mut out = String::new();
        if in_flows {
            out = heard(&mut printed, "Scenario 4: 1 uploads, 1 downloads...");
            thread::sleep(FLOWS);
        } else {
            heard(&mut said, "begins");
        }
        server.0.kill().expect("killed");
        let output = client.ended();
        printed.read_to_string(&mut out).expect("read");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{out}{err}");
        assert!(err.starts_with("error: ") && err.lines().count() == 1, "{err}");
        if in_flows {
            assert!(err.contains("connection to the server was lost"), "{err}");
            assert!(out.contains("OVERALL:") && !out.contains("Capacity: 0 KiB/s"), "{out}");
        }
    }
}

#[test]
fn a_server_whose_client_is_killed_says_so_and_goes_on() {
    let (server, mut said, port) = server();
    let mut client = run(&port, "17");
    heard(&mut client.stdout(), "Scenario 17: ");
    thread::sleep(FLOWS);
    client.0.kill().expect("killed");
    let output = server.ended();
    assert!(output.status.success(), "one client was asked for and came");
    let mut lines = String::new();
    said.read_to_string(&mut lines).expect("read");
    assert!(lines.contains("begins") && lines.contains("ended: "), "{lines}");
}

#[test]
fn an_interrupt_of_the_server_tells_the_client_why() {
    let (server, _said, port) = server();
    let mut client = run(&port, "1");
    heard(&mut client.stdout(), "Scenario 1: ");
    thread::sleep(FLOWS);
    server.interrupt();
    let output = client.ended();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("the server is stopping"), "{err}");
    assert!(server.ended().status.success());
}

#[test]
fn an_interrupt_of_the_client_ends_with_its_own_code() {
    let (server, _said, port) = server();
    let mut client = run(&port, "1,2");
    let mut printed = client.stdout();
    heard(&mut printed, "Scenario 1: ");
    thread::sleep(FLOWS);
    client.interrupt();
    let output = client.ended();
    let mut out = String::new();
    printed.read_to_string(&mut out).expect("read");
    assert_eq!(output.status.code(), Some(130), "{out}");
    assert!(out.contains("Download Capacity") && !out.contains("Scenario 2"), "{out}");
    assert!(server.ended().status.success());
}
