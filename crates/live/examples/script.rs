//! Runs scripts: `cargo run -p cwndlab-live --example script -- [--stack NAME] FILE...`; `live` is this host's kernel.

use script::Choices;

fn main() {
    let mut stack = "live".to_string();
    let mut worst = 0;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--stack" {
            stack = arguments.next().unwrap_or_default();
            continue;
        }
        let text = match std::fs::read_to_string(&argument) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("{argument}: {error}");
                worst = 2;
                continue;
            }
        };
        let outcome = if stack == "live" {
            live::run_script(&text, &argument, &Choices::default())
        } else {
            script::run_file(&text, &argument, &stack, &Choices::default())
        };
        outcome.output.iter().for_each(|line| println!("{line}"));
        match outcome.message {
            Some(message) => eprintln!("{message}"),
            None => println!("{argument}: ok"),
        }
        worst = worst.max(outcome.exit_code);
    }
    std::process::exit(i32::from(worst));
}
