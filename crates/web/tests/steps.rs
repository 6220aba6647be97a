//! A run carried out in steps leaves the rows, to the byte, that it leaves in one go, wherever it is cut.

use web::{Run, TABLES};

const SCENARIO: &str = include_str!("../../contract/examples/two-hosts.json");

fn carried_out(step_ns: f64) -> (Run, usize) {
    let mut run = Run::of(SCENARIO).expect("the engine takes it");
    let (mut cwnd, mut step) = (0, 1.0);
    loop {
        let over = run.run_until(step * step_ns);
        run.take();
        cwnd += run.column("tcp", "cwnd_bytes").len();
        if over {
            return (run, cwnd);
        }
        step += 1.0;
    }
}

#[test]
fn where_a_run_is_cut_changes_no_byte() {
    let (whole, rows) = carried_out(1e18);
    assert!(rows > 0);
    for step_ns in [1e6, 7.3e6, 1e8] {
        let (run, stepped) = carried_out(step_ns);
        assert_eq!(stepped, rows);
        assert_eq!(run.hashes(), whole.hashes());
    }
}

#[test]
fn what_is_refused_is_one_line() {
    let error =
        Run::of(&SCENARIO.replacen("\"version\"", "\"versions\"", 1)).err().expect("refused").to_string();
    assert!(error.contains("versions") && !error.contains('\n'), "{error}");
}

#[test]
fn hashes_name_the_tables_that_have_rows() {
    let (run, _) = carried_out(1e18);
    let hashes: serde_json::Value = serde_json::from_str(&run.hashes()).expect("JSON");
    let tables = hashes["tables"].as_object().expect("an object");
    assert!(tables.contains_key("tcp") && tables.keys().all(|name| TABLES.contains(&name.as_str())));
    assert_eq!(hashes["result"].as_str().map(str::len), Some(64));
}
