//! A program that carries out one end of a flow.

use std::io::{PipeReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::clock::locked;
use crate::error::{self, Error, Result};
use crate::order::{Report, Task, Tool};
use crate::sys;

/// Within this time a server has to listen.
const LISTEN: Duration = Duration::from_secs(10);

/// Time that a server is given to listen where the system does not tell.
const GRACE: Duration = Duration::from_secs(1);

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// The most that is kept of what a tool writes, bytes.
const OUTPUT: u64 = 256 << 20;

/// A tool at one end of a flow; what it does is shared with the thread that starts it in time.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    task: Arc<Task>,
    tool: Arc<Tool>,
    /// `from` or `to`.
    pub role: &'static str,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    child: Option<Child>,
    output: Option<JoinHandle<Vec<u8>>>,
    text: String,
    /// Whether the program was told to end, and is not started any more.
    over: bool,
}

impl Program {
    /// Creates a program that is not started.
    pub(crate) fn new(task: &Task, tool: &Tool, role: &'static str) -> Program {
        let (task, tool) = (Arc::new(task.clone()), Arc::new(tool.clone()));
        Program { task, tool, role, state: Arc::default() }
    }

    /// Starts it, unless it was told to end.
    ///
    /// # Errors
    /// It has no command, or the system cannot start it.
    pub(crate) fn start(&self) -> Result<()> {
        let words = if self.role == "from" { &self.tool.client } else { &self.tool.server };
        let (name, arguments) = words.split_first().ok_or(Error::NoCommand)?;
        let mut state = locked(&self.state);
        if state.over {
            return Ok(());
        }
        let (reader, writer) = error::at(name, std::io::pipe())?;
        let errors = error::at(name, writer.try_clone())?;
        let mut command = Command::new(name);
        command.args(arguments).stdin(Stdio::null()).stdout(writer).stderr(errors);
        sys::end_with_us(&mut command);
        sys::can_be_interrupted(&mut command);
        state.child = Some(error::at(name, command.spawn())?);
        state.output = Some(thread::spawn(move || keep(reader)));
        Ok(())
    }

    /// Waits until its server listens.
    ///
    /// # Errors
    /// It ends instead, or takes too long.
    pub(crate) fn wait_until_it_listens(&self) -> Result<()> {
        let (name, port) = (&self.tool.name, self.task.target_port);
        wait_until_listening(name, port, &|| {
            self.has_ended().then(|| self.text().chars().take(300).collect())
        })
    }

    /// Starts it when its flow does, interrupts it when that stops, and waits for its end: the system takes the end of the
    /// thread that started it for the end of its parent.
    ///
    /// # Errors
    /// As `start`.
    pub(crate) fn carry_out(&self, clock: &crate::clock::Clock) -> Result<()> {
        clock.sleep_until(self.task.start_ns as i64 - self.tool.lead_ns as i64);
        self.start()?;
        clock.sleep_until(self.task.stop_ns as i64);
        self.interrupt();
        while !self.has_ended() {
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Interrupts the program as a person does at the terminal: it reports what it has.
    pub(crate) fn interrupt(&self) {
        let mut state = locked(&self.state);
        state.over = true;
        if let Some(child) = &mut state.child
            && matches!(child.try_wait(), Ok(None))
        {
            // SAFETY: a signal to a child that was not waited for, so that its number is nobody else's.
            unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
        }
    }

    /// Waits for its end until then, and kills it if it does not come.
    pub(crate) fn wait(&self, deadline: Instant) {
        while !self.has_ended() && Instant::now() < deadline {
            thread::sleep(LOOK);
        }
        self.kill();
    }

    /// Ends it at once.
    pub(crate) fn kill(&self) {
        let mut state = locked(&self.state);
        state.over = true;
        if let Some(child) = &mut state.child {
            // One that has ended needs no killing.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Report of what the program wrote. None if it wrote nothing.
    pub(crate) fn report(&self) -> Option<Report> {
        let text = self.text();
        let report = Report {
            flow: self.task.flow.clone(),
            role: self.role,
            tool: self.tool.name.clone(),
            text,
            error: None,
        };
        (!report.text.is_empty()).then_some(report)
    }

    fn has_ended(&self) -> bool {
        let mut state = locked(&self.state);
        state.child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// All that it wrote, once it has ended.
    fn text(&self) -> String {
        let mut state = locked(&self.state);
        if let Some(output) = state.output.take() {
            let bytes = output.join().unwrap_or_default();
            state.text = String::from_utf8_lossy(&bytes).trim().to_owned();
        }
        state.text.clone()
    }
}

/// Reads to the end, and keeps the beginning.
fn keep(mut reader: PipeReader) -> Vec<u8> {
    let mut kept = Vec::new();
    // What cannot be read is not there; the rest is read so that the tool does not wait for us.
    let _ = reader.by_ref().take(OUTPUT).read_to_end(&mut kept);
    let _ = std::io::copy(&mut reader, &mut std::io::sink());
    kept
}

/// Waits until a port of this host is listened on; `ended` says what its server wrote, once that has ended.
///
/// # Errors
/// It has ended, or takes too long.
pub(crate) fn wait_until_listening(name: &str, port: u16, ended: &dyn Fn() -> Option<String>) -> Result<()> {
    let begun = Instant::now();
    loop {
        if let Some(wrote) = ended() {
            return Err(Error::Ended { name: name.to_owned(), wrote });
        }
        match sys::is_listening(port) {
            Some(true) => return Ok(()),
            None if begun.elapsed() > GRACE => return Ok(()),
            _ if begun.elapsed() > LISTEN => {
                return Err(Error::Silent { name: name.to_owned(), port: Some(port) });
            }
            _ => thread::sleep(LOOK),
        }
    }
}
