//! SHA-256 of a run's rows, as `RowsHash` and `result_hash` of python/cwndlab/testbeds/tables.py take it, and of a Scenario.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use contract::table::{Batch, Column, ColumnData};
use sha2::{Digest, Sha256};

use crate::TABLES;

/// Rows whose columns follow each other (`ROWS_PER_GROUP`).
const SLICE: usize = 1 << 20;

/// The hashes of a run's rows, in hexadecimal.
pub struct Hashes {
    /// Hash of each table that has rows.
    pub tables: BTreeMap<&'static str, String>,
    /// Hash of all tables.
    pub result: String,
}

/// Whether a value of a column is none.
pub(crate) fn is_valid(column: &Column, row: usize) -> bool {
    column.validity.as_ref().is_none_or(|bits| bits[row / 8] >> (row % 8) & 1 == 1)
}

/// The hashes of all rows of a run.
pub fn hashes(batches: &[(&'static str, Batch)]) -> Hashes {
    let mut tables = BTreeMap::new();
    let mut all = Sha256::new();
    for table in TABLES {
        let of_table: Vec<&Batch> =
            batches.iter().filter(|(name, _)| *name == table).map(|(_, batch)| batch).collect();
        if !of_table.is_empty() {
            let digest = hex(&of_rows(&of_table));
            all.update(format!("{table} {digest}\n"));
            tables.insert(table, digest);
        }
    }
    Hashes { tables, result: hex(&all.finalize()) }
}

/// The first 16 digits of the hash of a Scenario's canonical JSON (`scenario_hash` of python/cwndlab/experiment/plan.py).
pub(crate) fn of_scenario(text: &str) -> Result<String, serde_json::Error> {
    let canonical = serde_json::from_str::<serde_json::Value>(text)?.to_string();
    Ok(hex(&Sha256::digest(canonical))[..16].to_owned())
}

fn of_rows(batches: &[&Batch]) -> Vec<u8> {
    let mut sha = Sha256::new();
    let total: usize = batches.iter().map(|batch| batch.rows).sum();
    for begin in (0..total).step_by(SLICE) {
        let pieces = pieces(batches, begin, (begin + SLICE).min(total));
        for index in 0..batches[0].columns.len() {
            let columns: Vec<_> =
                pieces.iter().map(|(batch, rows)| (&batch.columns[index], rows.clone())).collect();
            add(&mut sha, &columns);
        }
    }
    sha.finalize().to_vec()
}

type Rows = std::ops::Range<usize>;

/// The parts of batches that the rows `begin..end` of all of them are.
fn pieces<'a>(batches: &[&'a Batch], begin: usize, end: usize) -> Vec<(&'a Batch, Rows)> {
    let mut found = Vec::new();
    let mut first = 0;
    for batch in batches {
        let rows = begin.max(first) - first..end.clamp(first, first + batch.rows) - first;
        if rows.start < rows.end {
            found.push((*batch, rows));
        }
        first += batch.rows;
    }
    found
}

/// Adds one column of a slice: its name, how many rows and nulls, which are null, and the values with null as 0 or
/// nothing.
fn add(sha: &mut Sha256, pieces: &[(&Column, Rows)]) {
    let rows: usize = pieces.iter().map(|(_, rows)| rows.len()).sum();
    let valid: Vec<u8> = pieces
        .iter()
        .flat_map(|(column, rows)| rows.clone().map(|row| u8::from(is_valid(column, row))))
        .collect();
    let nulls = valid.iter().filter(|&&valid| valid == 0).count();
    sha.update(format!("{} {rows} {nulls}\n", pieces[0].0.name));
    if nulls > 0 {
        sha.update(&valid);
    }
    let mut bytes = Vec::with_capacity(8 * rows);
    let mut characters = Vec::new();
    for (column, rows) in pieces {
        match &column.data {
            ColumnData::U32(values) => {
                bytes.extend(values[rows.clone()].iter().flat_map(|v| v.to_le_bytes()))
            }
            ColumnData::U64(values) => {
                bytes.extend(values[rows.clone()].iter().flat_map(|v| v.to_le_bytes()))
            }
            ColumnData::I64(values) => {
                bytes.extend(values[rows.clone()].iter().flat_map(|v| v.to_le_bytes()))
            }
            ColumnData::Dict { indices, values } => {
                for row in rows.clone() {
                    let name =
                        if is_valid(column, row) { values[indices[row] as usize].as_str() } else { "" };
                    bytes.extend((name.len() as u32).to_le_bytes());
                    characters.extend(name.as_bytes());
                }
            }
        }
    }
    sha.update(&bytes);
    sha.update(&characters);
}

fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
