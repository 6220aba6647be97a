//! `#ifdef NAME`, `#ifndef NAME`, `#else`, `#endif`: which lines of a script count.

use std::collections::BTreeMap;

use super::Problem;

/// The text without the lines whose condition does not hold; those are left empty, so that line numbers stay.
///
/// # Errors
/// A condition without its end, and the other way round; with the line.
pub(super) fn chosen(text: &str, symbols: &BTreeMap<String, String>) -> Result<String, (u32, Problem)> {
    let mut lines = Vec::new();
    // Whether the lines of each open condition count.
    let mut open: Vec<bool> = Vec::new();
    for (index, line) in text.split('\n').enumerate() {
        let wrong = |rule| (index as u32 + 1, Problem::Rule(rule));
        let mut words = line.split_whitespace();
        let condition = match words.next() {
            Some(word @ ("#ifdef" | "#ifndef")) => {
                let name = words.next().ok_or_else(|| wrong("#ifdef needs a name"))?;
                open.push(symbols.contains_key(name) == (word == "#ifdef"));
                true
            }
            Some("#else") => {
                let last = open.last_mut().ok_or_else(|| wrong("#else has no #ifdef"))?;
                *last = !*last;
                true
            }
            Some("#endif") => {
                open.pop().ok_or_else(|| wrong("#endif has no #ifdef"))?;
                true
            }
            _ => false,
        };
        let counts = !condition && open.iter().all(|&holds| holds);
        lines.push(if counts { line } else { "" });
    }
    if open.is_empty() {
        Ok(lines.join("\n"))
    } else {
        Err((lines.len() as u32, Problem::Rule("#ifdef has no #endif")))
    }
}
