//! The arguments of the command line, parsed into the options of either end.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use lexopt::Arg::{Long, Short, Value};
use lexopt::{Parser, ValueExt as _};
use loadlatency::{OptionError, client, server};
use thiserror::Error;

/// Text of `--help`.
pub(crate) const HELP: &str = "\
Capacity, responsiveness and smoothness of a link under load.

loadlatency serve [--bind ADDRESS]... [--port PORT] [--secret SECRET] [--cc NAME] [--once]
                  [--idle-timeout S] [--session-timeout S]
loadlatency run HOST [--port PORT] [--secret SECRET] [--scenario N,N-M,...] [--duration S] [--at-most S]
                  [--staircase] [--cc NAME] [--json FILE] [--classic] [-4|-6] [--idle-timeout S]

serve
  --bind ADDRESS      listen there [127.0.0.1 and ::1, which only this machine reaches]; may be
                      given again; 0.0.0.0 and :: are all addresses
  --port PORT         [55011]; 0 for any that is free
  --secret SECRET     serve only clients that prove to know it [LOADLATENCY_SECRET of the environment]
  --cc NAME           congestion control of downloads
  --once              end after one client
  --idle-timeout S    give up a client that is silent for so long [60]
  --session-timeout S give up a client after so long [14400]

run
  --scenario LIST     of the nineteen, by number [all; with --staircase none]
  --duration S        length of each scenario [until its metrics are stable]; of a step of the staircase [5]
  --at-most S         force a scenario that does not become stable to end then [600]
  --staircase         an upload and a download more at every step, in four classes of service
  --cc NAME           congestion control of uploads
  --json FILE         write everything that was measured; - for the standard output
  --classic           print nothing but the classic output
  -4, -6              only addresses of this version of IP
  --idle-timeout S    give up a server that does not answer for so long [60]

Exit codes: 0 done, 1 failed (what was measured until then is printed), 2 bad arguments, 130 interrupted.
";

/// Command that the arguments ask for.
#[derive(Debug)]
pub(crate) enum Command {
    /// Print the help.
    Help,
    /// Print the version.
    Version,
    /// Serve.
    Serve(server::Options),
    /// Measure.
    Run {
        /// Scenarios to run, and the server.
        options: client::Options,
        /// File for the JSON document.
        json: Option<PathBuf>,
        /// Whether only the classic output is wanted.
        classic: bool,
    },
}

/// Reason why a command line is refused: the argument, what was found, what is expected, in one line.
#[derive(Debug, Error)]
pub(crate) enum ArgumentError {
    #[error("expected serve or run (see loadlatency --help)")]
    NoCommand,
    #[error("found {0:?}; expected serve or run (see loadlatency --help)")]
    Command(OsString),
    #[error("run: expected the name or address of a server (see loadlatency --help)")]
    NoServer,
    #[error("{0} (see loadlatency --help)")]
    Option(#[from] lexopt::Error),
    #[error("{option}: found {found:?}; expected {expected}")]
    Value { option: &'static str, found: OsString, expected: &'static str },
    #[error("--json: found {0:?}; expected a file in a directory that is there")]
    File(PathBuf),
    #[error(transparent)]
    Scenarios(#[from] OptionError),
}

/// Parses the arguments after the program's name.
///
/// # Errors
/// As [`ArgumentError`] says.
pub(crate) fn parse<I>(arguments: I) -> Result<Command, ArgumentError>
where
    I: IntoIterator<Item: Into<OsString>>,
{
    let mut words = Parser::from_args(arguments);
    match words.next()? {
        Some(Value(word)) if word == "serve" => serve(words),
        Some(Value(word)) if word == "run" => run(words),
        Some(Value(word)) if word != "help" => Err(ArgumentError::Command(word)),
        Some(Value(_) | Short('h') | Long("help")) => Ok(Command::Help),
        Some(Long("version")) => Ok(Command::Version),
        Some(other) => Err(other.unexpected().into()),
        None => Err(ArgumentError::NoCommand),
    }
}

fn serve(mut words: Parser) -> Result<Command, ArgumentError> {
    let mut options = server::Options { secret: secret_of_environment(), ..server::Options::default() };
    while let Some(word) = words.next()? {
        match word {
            Long("bind") => {
                options.bind.push(value(&mut words, "--bind", "an address, such as 192.0.2.1 or ::1")?);
            }
            Long("port") => options.port = value(&mut words, "--port", PORTS)?,
            Long("secret") => options.secret = words.value()?.string()?,
            Long("cc") => options.cc = Some(words.value()?.string()?),
            Long("once") => options.once = true,
            Long("idle-timeout") => options.idle_timeout_s = value(&mut words, "--idle-timeout", SECONDS)?,
            Long("session-timeout") => {
                options.session_timeout_s = value(&mut words, "--session-timeout", SECONDS)?;
            }
            Short('h') | Long("help") => return Ok(Command::Help),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Command::Serve(options))
}

fn run(mut words: Parser) -> Result<Command, ArgumentError> {
    let mut options = client::Options { secret: secret_of_environment(), ..client::Options::default() };
    let (mut json, mut classic) = (None, false);
    while let Some(word) = words.next()? {
        match word {
            Long("port") => options.port = value(&mut words, "--port", PORTS)?,
            Long("secret") => options.secret = words.value()?.string()?,
            Long("scenario" | "scenarios") => {
                options.scenarios = Some(client::scenario_list(&words.value()?.string()?)?);
            }
            Long("duration") => options.duration_s = Some(value(&mut words, "--duration", "seconds")?),
            Long("at-most") => options.at_most_s = value(&mut words, "--at-most", "seconds")?,
            Long("staircase") => options.staircase = true,
            Long("cc") => options.cc = Some(words.value()?.string()?),
            Long("json") => json = Some(file(words.value()?.into())?),
            Long("classic") => classic = true,
            Short('4') => options.ip = Some(4),
            Short('6') => options.ip = Some(6),
            Long("idle-timeout") => options.idle_timeout_s = value(&mut words, "--idle-timeout", SECONDS)?,
            Short('h') | Long("help") => return Ok(Command::Help),
            Value(host) if options.host.is_empty() => options.host = host.string()?,
            other => return Err(other.unexpected().into()),
        }
    }
    if options.host.is_empty() {
        return Err(ArgumentError::NoServer);
    }
    Ok(Command::Run { options, json, classic })
}

/// A file to be written to: what could not be is refused before minutes or hours are measured for it.
fn file(path: PathBuf) -> Result<PathBuf, ArgumentError> {
    // A bare name has an empty one.
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if path.is_dir() || directory.is_some_and(|directory| !directory.is_dir()) {
        return Err(ArgumentError::File(path));
    }
    Ok(path)
}

const PORTS: &str = "a port from 0 to 65535";
const SECONDS: &str = "a whole number of seconds";

/// Other users of a machine see its command lines, and not the environments.
fn secret_of_environment() -> String {
    std::env::var("LOADLATENCY_SECRET").unwrap_or_default()
}

fn value<T: FromStr>(
    words: &mut Parser,
    option: &'static str,
    expected: &'static str,
) -> Result<T, ArgumentError> {
    let found = words.value()?;
    let parsed = found.to_str().and_then(|text| text.parse().ok());
    parsed.ok_or(ArgumentError::Value { option, found, expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, ArgumentError> {
        parse(line.split_whitespace())
    }

    #[test]
    fn options_of_either_end() {
        let Ok(Command::Serve(options)) =
            parsed("serve --bind ::1 --bind 127.0.0.1 --port=0 --once --secret x")
        else {
            panic!("serve")
        };
        assert_eq!(
            (options.bind.len(), options.port, options.once, options.secret.as_str()),
            (2, 0, true, "x")
        );
        let line = "run example.net --scenario 1,3-5 --duration 2.5 --json - --cc cubic -6 --classic";
        let Ok(Command::Run { options, json, classic }) = parsed(line) else { panic!("run") };
        assert_eq!((options.host.as_str(), options.scenarios), ("example.net", Some(vec![1, 3, 4, 5])));
        assert_eq!((options.duration_s, options.ip, classic), (Some(2.5), Some(6), true));
        assert_eq!(json, Some(PathBuf::from("-")));
    }

    #[test]
    fn bad_arguments_are_one_line_that_says_what_is_expected() {
        for line in [
            "",
            "walk",
            "serve --port 70000",
            "serve --bind nowhere",
            "serve example.net",
            "run",
            "run a b",
            "run a --duration",
            "run a --duration soon",
            "run a --scenario 1,x",
            "run a --scenario 5-3",
            "run a --scenario ,",
            "run a --fast",
            "run a --json /",
            "run a --json no-such/run.json",
        ] {
            let why = parsed(line).expect_err(line).to_string();
            assert_eq!(why.lines().count(), 1, "{line}: {why}");
            assert!(why.contains("expected") || why.contains("--help"), "{line}: {why}");
        }
    }
}
