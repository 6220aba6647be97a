//! The recordings' table of figures.

use std::collections::HashMap;

/// Parameters and figures of a recording by the names of the table's columns; what follows the last named column is
/// `extra`.
pub(crate) struct Row(HashMap<String, String>);

impl Row {
    /// A column as text; empty where the table has nothing.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    /// A column as a number; 0 where the table has nothing.
    ///
    /// # Panics
    /// If it is no number.
    pub(crate) fn number(&self, key: &str) -> f64 {
        let text = self.text(key);
        if text.is_empty() { 0.0 } else { text.parse().unwrap_or_else(|_| panic!("{key}: {text}")) }
    }
}

/// All recordings of whole stacks.
pub(crate) fn rows() -> Vec<Row> {
    read("freebsd/stack/summary.csv")
}

/// The second set of rows.
pub(crate) fn second_rows() -> Vec<Row> {
    read("freebsd/stack2/summary.csv")
}

/// The recordings of RACK with FreeBSD's timers.
pub(crate) fn rack_rows() -> Vec<Row> {
    read("freebsd/rack/summary.csv")
}

/// The recordings on a LAN with regular loss.
pub(crate) fn lan() -> Vec<Row> {
    read("freebsd/lan-nth-drop.csv")
}

fn read(path: &str) -> Vec<Row> {
    let path = crate::groundtruth::path(path);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
    lines
        .map(|line| {
            Row(names.iter().zip(line.split(',')).map(|(&k, v)| (k.to_owned(), v.to_owned())).collect())
        })
        .collect()
}
