//! The scripts that name `live`, against this host's kernel. Needs root, /dev/net/tun and a kernel of 6.x.
#![cfg(target_os = "linux")]

use std::env;
use std::fs;
use std::path::PathBuf;

use script::Choices;

/// A real clock on a machine with other things to do: an event that came at the wrong time may be tried again.
const ATTEMPTS: usize = 8;

#[test]
#[ignore = "needs root and /dev/net/tun"]
fn scripts_pass_on_this_kernel() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../script/scripts");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let (mut passed, mut failures) = (0, Vec::new());
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let named = text.lines().find_map(|line| line.strip_prefix("// Stacks: ")).unwrap_or("");
        if !named.split(' ').any(|stack| stack == "live") {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match attempt(&text, &name) {
            None => passed += 1,
            Some(message) => failures.push(message),
        }
    }
    println!("{passed} scripts passed on this kernel");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(passed >= 25, "only {passed} scripts passed");
}

/// Returns what went wrong. None if nothing did in some attempt.
fn attempt(text: &str, name: &str) -> Option<String> {
    let mut message = None;
    for _ in 0..ATTEMPTS {
        message = live::kernel::run_file(text, name, &Choices::default()).message;
        if !message.as_ref().is_some_and(|message| message.contains("timing error")) {
            break;
        }
    }
    message
}

#[test]
#[ignore = "needs root and /dev/net/tun"]
fn nothing_is_left_after_a_script() {
    let devices = || {
        let mut names: Vec<String> = fs::read_dir("/sys/class/net")
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let before = devices();
    // A call that never returns must not keep the namespace.
    let text = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n\
                +0...0.01 accept(3, ..., ...) = 4\n";
    let outcome = live::kernel::run_file(text, "stuck.pkt", &Choices::default());
    assert!(outcome.message.unwrap().contains("has not returned"));
    assert_eq!(devices(), before);
}

/// Set for the process that [`nothing_is_left_of_a_killed_script`] kills.
const VICTIM: &str = "CWNDLAB_TEST_VICTIM";

#[test]
#[ignore = "needs root and /dev/net/tun"]
fn nothing_is_left_of_a_killed_script() {
    if env::var_os(VICTIM).is_some() {
        // It waits two minutes for a packet that does not come.
        let text = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0~+120 > . 1:1(0) ack 1\n";
        live::kernel::run_file(text, "victim.pkt", &Choices::default());
        return;
    }
    let mut victim = std::process::Command::new(env::current_exe().unwrap())
        .args(["--include-ignored", "--exact", "nothing_is_left_of_a_killed_script"])
        .env(VICTIM, "1")
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let own = fs::read_link("/proc/self/ns/net").unwrap();
    let began = std::time::Instant::now();
    let made = loop {
        assert!(began.elapsed().as_secs() < 60, "the script made no namespace");
        std::thread::sleep(std::time::Duration::from_millis(10));
        let found = namespaces(&victim.id().to_string()).into_iter().find(|namespace| *namespace != own);
        if let Some(namespace) = found {
            break namespace;
        }
    };
    victim.kill().unwrap();
    victim.wait().unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
    for process in processes {
        assert!(!namespaces(&process.to_string_lossy()).contains(&made), "{process:?} is in {made:?}");
    }
}

/// The network namespaces of a process's threads.
fn namespaces(process: &str) -> Vec<PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| fs::read_link(task.path().join("ns/net")).ok()).collect()
}
