//! Every script of `scripts/` against every modelled stack it names, with 4 ms of tolerance and no more.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use script::{Choices, run_file};

/// Tolerance of every event, nanoseconds: the virtual clock needs no share of the wait.
const TOLERANCE: u64 = 4_000_000;

#[test]
fn every_script_passes_on_the_stacks_it_names() {
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    let mut failures = Vec::new();
    for (name, text) in scripts() {
        for stack in stacks(&name, &text).into_iter().filter(|stack| *stack != "live") {
            let choices = Choices { tolerance: Some(TOLERANCE), ..Choices::default() };
            let outcome = run_file(&text, &name, stack, &choices);
            failures.extend(outcome.output.iter().filter(|line| line.contains("not set")).cloned());
            *runs.entry(stack.to_string()).or_default() += 1;
            failures.extend(outcome.message.map(|message| format!("{stack}: {message}")));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    println!("runs by stack: {runs:?}");
    for stack in ["freebsd-9.2", "freebsd-13", "linux-3.9", "linux-6.8", "linux-6.12", "linux-6.18"] {
        assert!(runs[stack] >= 25, "only {} scripts name {stack}", runs[stack]);
    }
    assert!(runs["windows-7"] >= 6, "only {} scripts name windows-7", runs["windows-7"]);
}

#[test]
fn every_script_says_what_it_shows_and_where_that_is_written() {
    let all = scripts();
    assert!(all.len() >= 60, "only {} scripts", all.len());
    for (name, text) in all {
        let comments: Vec<&str> = text.lines().take_while(|line| line.starts_with("//")).collect();
        let source = comments.iter().find(|line| line.starts_with("// Source: "));
        let source = source.unwrap_or_else(|| panic!("{name} has no source"));
        let cited =
            ["RFC ", "linux-tcp ", "freebsd-tcp", "windows-tcp"].iter().any(|word| source.contains(word));
        assert!(cited && !comments[0].starts_with("// Source"), "{name}: {source}");
    }
}

/// Name and text of each script, in order of names.
fn scripts() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut found: Vec<(String, String)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pkt"))
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    found.sort();
    found
}

/// The stacks a script names in its header.
fn stacks<'a>(name: &str, text: &'a str) -> Vec<&'a str> {
    let line = text.lines().find_map(|line| line.strip_prefix("// Stacks: "));
    line.unwrap_or_else(|| panic!("{name} names no stacks")).split(' ').collect()
}
