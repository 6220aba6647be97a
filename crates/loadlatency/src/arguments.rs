//! The arguments of the command line, parsed into the options of either end.

use std::path::PathBuf;
use std::str::FromStr;

use loadlatency::{client, server};

/// What `--help` prints.
pub const HELP: &str = "\
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
  --duration S        length of each scenario [until its figures are stable]; of a step of the staircase [5]
  --at-most S         force a scenario that does not become stable to end then [600]
  --staircase         an upload and a download more at every step, in four classes of service
  --cc NAME           congestion control of uploads
  --json FILE         write everything that was measured; - for the standard output
  --classic           print nothing but the classic output
  -4, -6              only addresses of this version of IP
  --idle-timeout S    give up a server that does not answer for so long [60]

Exit codes: 0 done, 1 failed (what was measured until then is printed), 2 bad arguments, 130 interrupted.
";

/// What to do.
#[derive(Debug)]
pub enum Command {
    /// Print the help.
    Help,
    /// Print the version.
    Version,
    /// Serve.
    Serve(server::Options),
    /// Measure.
    Run {
        /// What.
        options: client::Options,
        /// Where the JSON document goes.
        json: Option<PathBuf>,
        /// Whether only the classic output is wanted.
        classic: bool,
    },
}

/// Parses the arguments after the program's name.
///
/// # Errors
/// One line: the argument, what was found, what is expected.
pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut words = Words(arguments.collect());
    match words.take().as_deref() {
        Some("serve") => serve(words),
        Some("run") => run(words),
        Some("-h" | "--help" | "help") => Ok(Command::Help),
        Some("--version") => Ok(Command::Version),
        Some(other) => Err(format!("found {other:?}; expected serve or run (see loadlatency --help)")),
        None => Err("expected serve or run (see loadlatency --help)".to_owned()),
    }
}

fn serve(mut words: Words) -> Result<Command, String> {
    let mut options = server::Options { secret: secret_of_environment(), ..server::Options::default() };
    while let Some(word) = words.take() {
        match word.as_str() {
            "--bind" => options.bind.push(words.value(&word, "an address, such as 192.0.2.1 or ::1")?),
            "--port" => options.port = words.value(&word, "a port from 0 to 65535")?,
            "--secret" => options.secret = words.text(&word)?,
            "--cc" => options.cc = Some(words.text(&word)?),
            "--once" => options.once = true,
            "--idle-timeout" => options.idle_timeout_s = words.value(&word, SECONDS)?,
            "--session-timeout" => options.session_timeout_s = words.value(&word, SECONDS)?,
            "-h" | "--help" => return Ok(Command::Help),
            _ => return Err(unknown(&word)),
        }
    }
    Ok(Command::Serve(options))
}

fn run(mut words: Words) -> Result<Command, String> {
    let mut options = client::Options { secret: secret_of_environment(), ..client::Options::default() };
    let (mut json, mut classic) = (None, false);
    while let Some(word) = words.take() {
        match word.as_str() {
            "--port" => options.port = words.value(&word, "a port from 0 to 65535")?,
            "--secret" => options.secret = words.text(&word)?,
            "--scenario" | "--scenarios" => {
                options.scenarios = Some(client::scenario_list(&words.text(&word)?)?)
            }
            "--duration" => options.duration_s = Some(words.value(&word, "seconds")?),
            "--at-most" => options.at_most_s = words.value(&word, "seconds")?,
            "--staircase" => options.staircase = true,
            "--cc" => options.cc = Some(words.text(&word)?),
            "--json" => json = Some(file(&words.text(&word)?)?),
            "--classic" => classic = true,
            "-4" => options.ip = Some(4),
            "-6" => options.ip = Some(6),
            "--idle-timeout" => options.idle_timeout_s = words.value(&word, SECONDS)?,
            "-h" | "--help" => return Ok(Command::Help),
            _ if !word.starts_with('-') && options.host.is_empty() => options.host = word,
            _ => return Err(unknown(&word)),
        }
    }
    if options.host.is_empty() {
        return Err("run: expected the name or address of a server (see loadlatency --help)".to_owned());
    }
    Ok(Command::Run { options, json, classic })
}

/// A file to be written to: what could not be is refused before minutes or hours are measured for it.
fn file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    // A bare name has an empty one.
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if path.is_dir() || directory.is_some_and(|directory| !directory.is_dir()) {
        return Err(format!("--json: found {text:?}; expected a file in a directory that is there"));
    }
    Ok(path)
}

const SECONDS: &str = "a whole number of seconds";

/// Other users of a machine see its command lines, and not the environments.
fn secret_of_environment() -> String {
    std::env::var("LOADLATENCY_SECRET").unwrap_or_default()
}

fn unknown(word: &str) -> String {
    format!("found {word:?}, which is no option here (see loadlatency --help)")
}

struct Words(std::collections::VecDeque<String>);

impl Words {
    /// The next word; of `--name=value`, the name, and the value is next.
    fn take(&mut self) -> Option<String> {
        let word = self.0.pop_front()?;
        match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => {
                self.0.push_front(value.to_owned());
                Some(name.to_owned())
            }
            _ => Some(word),
        }
    }

    fn text(&mut self, option: &str) -> Result<String, String> {
        self.0.pop_front().ok_or_else(|| format!("{option}: expected a value after it"))
    }

    fn value<T: FromStr>(&mut self, option: &str, expected: &str) -> Result<T, String> {
        let text = self.text(option)?;
        text.parse().map_err(|_| format!("{option}: found {text:?}; expected {expected}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned))
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
            let why = parsed(line).expect_err(line);
            assert_eq!(why.lines().count(), 1, "{line}: {why}");
            assert!(why.contains("expected") || why.contains("--help"), "{line}: {why}");
        }
    }
}
