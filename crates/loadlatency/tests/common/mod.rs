//! A server of this process on a free port of the loopback, for tests.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use loadlatency::{client, server};

/// Server that ends with the test.
pub(crate) struct TestServer {
    /// Port of the server.
    pub port: u16,
    /// Lines that the server says.
    pub said: Receiver<String>,
    cancel: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TestServer {
    /// Starts a server on `ip`, with other options as given.
    pub(crate) fn start(ip: &str, options: server::Options) -> TestServer {
        let cancel = Arc::new(AtomicBool::new(false));
        let (lines, said) = mpsc::channel();
        let options =
            server::Options { bind: vec![ip.parse::<IpAddr>().expect("an address")], port: 0, ..options };
        let thread = {
            let cancel = Arc::clone(&cancel);
            thread::spawn(move || {
                // The test may be over before its server's last words.
                server::serve(&options, &cancel, &mut |line| drop(lines.send(line.to_owned())))
                    .expect("serves");
            })
        };
        let first = said.recv_timeout(Duration::from_secs(20)).expect("listens");
        let port = first.rsplit(' ').next().and_then(|port| port.parse().ok()).expect("says its port");
        TestServer { port, said, cancel, thread: Some(thread) }
    }

    /// Options of a client for it.
    pub(crate) fn client(&self, host: &str, scenarios: &[u32], duration_s: f64) -> client::Options {
        client::Options {
            host: host.to_owned(),
            port: self.port,
            scenarios: Some(scenarios.to_vec()),
            duration_s: Some(duration_s),
            ..client::Options::default()
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.cancel.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "the server failed");
        }
    }
}
