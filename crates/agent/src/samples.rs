//! TCP_INFO of this host's sockets, where the system tells of others', the links of a Scenario between its interfaces, both on
//! Linux, and the files that their rows are put into.
//!
//! A file holds batches one behind the other. A batch is a line of JSON, `{"table": NAME, "rows": N, "columns": [...]}`
//! with `{"name", "kind": "u32" | "u64" | "i64" | "dict", "nulls": BOOL}` for each column, of a dictionary also `values`;
//! behind it the columns' values (little-endian; of a dictionary 32-bit indices), each followed by its bitmap of valid
//! entries where `nulls` says so.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use contract::table::{Batch, Column, ColumnData};
use live::emulator::Emulator;
use live::sampler::Sampler;
use serde_json::{Value, json};

use crate::error::{self, Error, Result};

/// Samplers by name.
#[derive(Default)]
pub(crate) struct Samplers(BTreeMap<String, Sampler>);

impl std::fmt::Debug for Samplers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

impl Samplers {
    /// Starts one.
    ///
    /// # Errors
    /// Its settings cannot be, or the system has nothing to sample.
    pub(crate) fn start(&mut self, name: String, config: &Value) -> Result<()> {
        let mut sampler =
            Sampler::new(&config.to_string()).map_err(|why| Error::Sampler(io::Error::other(why)))?;
        sampler.start().map_err(Error::Sampler)?;
        self.0.insert(name, sampler);
        Ok(())
    }

    /// The run begins when CLOCK_MONOTONIC says so.
    ///
    /// # Errors
    /// One of them does not run.
    pub(crate) fn mark_start(&mut self, zero_ns: u64) -> Result<()> {
        self.0.values_mut().try_for_each(|sampler| sampler.mark_start(zero_ns)).map_err(Error::Sampler)
    }

    /// Ends one, and writes its rows into a file; returns what it says of itself.
    ///
    /// # Errors
    /// There is none of this name, it failed, or the file cannot be written.
    pub(crate) fn stop(&mut self, name: &str, file: &Path) -> Result<Value> {
        let mut sampler = self.0.remove(name).ok_or_else(|| Error::NoSampler(name.to_owned()))?;
        let (batches, report) = sampler.stop().map_err(Error::Sampler)?;
        error::at(&file.display().to_string(), write(file, &batches))?;
        Ok(serde_json::from_str(&report)?)
    }
}

/// The path emulator, once it carries links.
#[derive(Default)]
pub(crate) struct Links(Option<Emulator>);

impl std::fmt::Debug for Links {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Links").field(&self.0.is_some()).finish()
    }
}

impl Links {
    /// Lets packets through.
    ///
    /// # Errors
    /// Its settings cannot be, or what it needs is not there.
    pub(crate) fn start(&mut self, config: &Value) -> Result<()> {
        let mut emulator =
            Emulator::new(&config.to_string()).map_err(|why| Error::Emulator(io::Error::other(why)))?;
        emulator.start().map_err(Error::Emulator)?;
        self.0 = Some(emulator);
        Ok(())
    }

    /// The run begins when CLOCK_MONOTONIC says so.
    ///
    /// # Errors
    /// It does not run.
    pub(crate) fn mark_start(&mut self, zero_ns: u64) -> Result<()> {
        self.0.as_mut().map_or(Ok(()), |emulator| emulator.mark_start(zero_ns)).map_err(Error::Emulator)
    }

    /// Ends the emulator, and writes its rows into a file; returns what it says of itself.
    ///
    /// # Errors
    /// There is none, it failed, or the file cannot be written.
    pub(crate) fn stop(&mut self, file: &Path) -> Result<Value> {
        let mut emulator = self.0.take().ok_or(Error::NoEmulator)?;
        let (batches, report) = emulator.stop().map_err(Error::Emulator)?;
        error::at(&file.display().to_string(), write(file, &batches))?;
        Ok(serde_json::from_str(&report)?)
    }
}

/// Writes batches into a file.
///
/// # Errors
/// As the system says.
pub(crate) fn write(file: &Path, batches: &[(&'static str, Batch)]) -> io::Result<()> {
    let mut rows = Rows::create(file)?;
    rows.append(batches)?;
    rows.finish()
}

/// A file of batches that is being written.
#[derive(Debug)]
pub(crate) struct Rows(BufWriter<File>);

impl Rows {
    /// Makes the file, empty.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn create(file: &Path) -> io::Result<Rows> {
        Ok(Rows(BufWriter::new(File::create(file)?)))
    }

    /// Adds batches.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn append(&mut self, batches: &[(&'static str, Batch)]) -> io::Result<()> {
        batches.iter().try_for_each(|(table, batch)| append(&mut self.0, table, batch))
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn append(out: &mut impl Write, table: &str, batch: &Batch) -> io::Result<()> {
    let columns: Vec<_> = batch.columns.iter().map(described).collect();
    writeln!(out, "{}", json!({"table": table, "rows": batch.rows, "columns": columns}))?;
    for column in &batch.columns {
        match &column.data {
            ColumnData::U32(values) => values.iter().try_for_each(|v| out.write_all(&v.to_le_bytes())),
            ColumnData::U64(values) => values.iter().try_for_each(|v| out.write_all(&v.to_le_bytes())),
            ColumnData::I64(values) => values.iter().try_for_each(|v| out.write_all(&v.to_le_bytes())),
            ColumnData::Dict { indices, .. } => {
                indices.iter().try_for_each(|v| out.write_all(&v.to_le_bytes()))
            }
        }?;
        out.write_all(column.validity.as_deref().unwrap_or_default())?;
    }
    Ok(())
}

fn described(column: &Column) -> Value {
    let (kind, values) = match &column.data {
        ColumnData::U32(_) => ("u32", None),
        ColumnData::U64(_) => ("u64", None),
        ColumnData::I64(_) => ("i64", None),
        ColumnData::Dict { values, .. } => ("dict", Some(values.as_ref())),
    };
    json!({"name": column.name, "kind": kind, "nulls": column.validity.is_some(), "values": values})
}
