//! The command line of the tool: one program without Python, for either end.

mod arguments;

use std::fmt::Display;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use arguments::{Command, HELP};
use loadlatency::sys::INTERRUPTED;
use loadlatency::{client, report, server, sys};

/// Exit codes: a run that failed or was cut short, bad arguments, a run that its user interrupted.
const FAILED: u8 = 1;
const BAD_ARGUMENTS: u8 = 2;
const BY_USER: u8 = 130;

fn main() -> ExitCode {
    let command = match arguments::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(why) => return complain(&why, BAD_ARGUMENTS),
    };
    match command {
        Command::Help => {
            print(HELP);
            ExitCode::SUCCESS
        }
        Command::Version => {
            print(&format!("{}\n", loadlatency::about()));
            ExitCode::SUCCESS
        }
        Command::Serve(options) => {
            if let Err(why) = options.check() {
                return complain(&why, BAD_ARGUMENTS);
            }
            sys::watch_signals();
            match server::serve(&options, &INTERRUPTED, &mut |line| print(&format!("{line}\n"))) {
                Ok(()) => ExitCode::SUCCESS,
                Err(why) => complain(&why, FAILED),
            }
        }
        Command::Run { options, json, classic } => {
            if let Err(why) = options.check() {
                return complain(&why, BAD_ARGUMENTS);
            }
            sys::watch_signals();
            run(&options, json.as_deref(), classic)
        }
    }
}

fn run(options: &client::Options, json: Option<&Path>, classic: bool) -> ExitCode {
    let outcome = match client::run(options, &INTERRUPTED, &mut print) {
        Ok(outcome) => outcome,
        Err(why) => return complain(&why, FAILED),
    };
    if !classic {
        print(&format!("\n{}", report::text(&outcome.document)));
    }
    if let Some(path) = json {
        let text = match serde_json::to_string(&outcome.document) {
            Ok(text) => text + "\n",
            Err(error) => return complain(&error, FAILED),
        };
        if path == Path::new("-") {
            print(&text);
        } else if let Err(error) = std::fs::write(path, text) {
            return complain(&format_args!("{}: {error}", path.display()), FAILED);
        }
    }
    match outcome.error {
        None => ExitCode::SUCCESS,
        Some(why) => {
            complain(&why, if outcome.document.conditions.status == "interrupted" { BY_USER } else { FAILED })
        }
    }
}

/// A reader that went away is no reason to stop measuring: the JSON may still be wanted.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn complain(why: &dyn Display, code: u8) -> ExitCode {
    let _ = writeln!(
        std::io::stderr(),
        "error: {}",
        why.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
    );
    ExitCode::from(code)
}
