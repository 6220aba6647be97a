//! Record batches as plain columns, laid out as Apache Arrow wants them, and the builders that fill them.
//!
//! Nothing here knows Arrow's interfaces: `crates/python` hands these very vectors to Python without a copy.

use std::collections::HashMap;
use std::sync::Arc;

/// The most rows in one batch.
pub const MAX_ROWS: usize = 1 << 16;

/// Some rows of one table, column by column. Every column has `rows` entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Number of rows.
    pub rows: usize,
    /// The columns in the table's order.
    pub columns: Vec<Column>,
}

/// Column of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The column's name.
    pub name: &'static str,
    /// The values; an entry that is null holds zero.
    pub data: ColumnData,
    /// Validity of entries: one bit each, least significant bit first, 1 for valid, unused bits 0. None: all are
    /// valid.
    pub validity: Option<Vec<u8>>,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnData {
    /// Unsigned, 32 bits.
    U32(Vec<u32>),
    /// Unsigned, 64 bits.
    U64(Vec<u64>),
    /// Signed, 64 bits.
    I64(Vec<i64>),
    /// Names: each entry is an index into `values`.
    Dict {
        /// Indices, one for each row.
        indices: Vec<i32>,
        /// The names, shared by all batches of a run.
        values: Arc<Vec<String>>,
    },
}

impl ColumnData {
    /// Number of entries in the column.
    pub fn len(&self) -> usize {
        match self {
            ColumnData::U32(values) => values.len(),
            ColumnData::U64(values) => values.len(),
            ColumnData::I64(values) => values.len(),
            ColumnData::Dict { indices, .. } => indices.len(),
        }
    }

    /// Whether the column has no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Values of a fixed width, possibly null, on their way to a column.
#[derive(Clone, Debug, Default)]
pub struct Values<T> {
    values: Vec<T>,
    validity: Validity,
}

impl<T: Copy + Default> Values<T> {
    /// A builder without rows.
    pub fn new() -> Values<T> {
        Values::default()
    }

    /// Appends a value.
    #[inline]
    pub fn push(&mut self, value: T) {
        self.validity.push_valid(self.values.len());
        self.values.push(value);
    }

    /// Appends a value, or null.
    #[inline]
    pub fn push_option(&mut self, value: Option<T>) {
        match value {
            Some(value) => self.push(value),
            None => {
                self.validity.push_null(self.values.len());
                self.values.push(T::default());
            }
        }
    }

    /// Number of rows that were appended since the last column was finished.
    #[inline]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether no row was appended since the last column was finished.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    fn take(&mut self) -> (Vec<T>, Option<Vec<u8>>) {
        // The next column is most likely as long as this one: it grows only once.
        let next = Vec::with_capacity(self.values.len());
        (std::mem::replace(&mut self.values, next), self.validity.take())
    }
}

impl Values<u32> {
    /// The rows so far as a column; the builder is empty again.
    pub fn finish(&mut self, name: &'static str) -> Column {
        let (values, validity) = self.take();
        Column { name, data: ColumnData::U32(values), validity }
    }
}

impl Values<u64> {
    /// The rows so far as a column; the builder is empty again.
    pub fn finish(&mut self, name: &'static str) -> Column {
        let (values, validity) = self.take();
        Column { name, data: ColumnData::U64(values), validity }
    }
}

impl Values<i64> {
    /// The rows so far as a column; the builder is empty again.
    pub fn finish(&mut self, name: &'static str) -> Column {
        let (values, validity) = self.take();
        Column { name, data: ColumnData::I64(values), validity }
    }
}

/// Names on their way to a column. Whoever fills it holds the indices of its names, so no row hashes a string.
#[derive(Clone, Debug)]
pub struct Dict {
    indices: Values<i32>,
    values: Arc<Vec<String>>,
}

impl Dict {
    /// A builder without rows over the given names.
    ///
    /// # Panics
    ///
    /// When there are more than `i32::MAX` names.
    pub fn new(values: Arc<Vec<String>>) -> Dict {
        assert!(i32::try_from(values.len()).is_ok(), "{} names do not fit 32-bit indices", values.len());
        Dict { indices: Values::new(), values }
    }

    /// Appends the name at `index`.
    #[inline]
    pub fn push(&mut self, index: u32) {
        debug_assert!((index as usize) < self.values.len());
        self.indices.push(index as i32);
    }

    /// Appends the name at `index`, or null.
    #[inline]
    pub fn push_option(&mut self, index: Option<u32>) {
        debug_assert!(index.is_none_or(|index| (index as usize) < self.values.len()));
        self.indices.push_option(index.map(|index| index as i32));
    }

    /// The rows so far as a column; the builder is empty again.
    pub fn finish(&mut self, name: &'static str) -> Column {
        let (indices, validity) = self.indices.take();
        Column { name, data: ColumnData::Dict { indices, values: Arc::clone(&self.values) }, validity }
    }
}

/// Numbers names in the order they are first seen, while a run is set up.
#[derive(Clone, Debug, Default)]
pub struct Names {
    values: Vec<String>,
    index: HashMap<String, u32>,
}

impl Names {
    /// The index of `name`, new if it was not seen before.
    pub fn intern(&mut self, name: &str) -> u32 {
        if let Some(&index) = self.index.get(name) {
            return index;
        }
        let index = self.values.len() as u32;
        self.values.push(name.to_owned());
        self.index.insert(name.to_owned(), index);
        index
    }

    /// The names in order of their indices, for [`Dict::new`].
    pub fn finish(self) -> Arc<Vec<String>> {
        Arc::new(self.values)
    }
}

/// A validity bitmap that takes no memory until the first null.
#[derive(Clone, Debug, Default)]
struct Validity {
    bits: Option<Vec<u8>>,
}

impl Validity {
    #[inline]
    fn push_valid(&mut self, row: usize) {
        if let Some(bits) = &mut self.bits {
            if row.is_multiple_of(8) {
                bits.push(0);
            }
            bits[row / 8] |= 1 << (row % 8);
        }
    }

    #[inline]
    fn push_null(&mut self, row: usize) {
        let bits = self.bits.get_or_insert_with(|| all_valid(row));
        if row.is_multiple_of(8) {
            bits.push(0);
        }
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        self.bits.take()
    }
}

/// A bitmap of `rows` valid entries.
fn all_valid(rows: usize) -> Vec<u8> {
    let mut bits = vec![0xff; rows.div_ceil(8)];
    if !rows.is_multiple_of(8) {
        bits[rows / 8] = (1 << (rows % 8)) - 1;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_without_nulls_has_no_bitmap() {
        let mut values = Values::<u64>::new();
        values.push(3);
        values.push_option(Some(4));
        let column = values.finish("t_ns");
        assert_eq!(column, Column { name: "t_ns", data: ColumnData::U64(vec![3, 4]), validity: None });
        assert!(values.is_empty());
    }

    #[test]
    fn the_bitmap_says_which_rows_are_null() {
        // Every position of the first null, so that it falls before, on and after a byte's end.
        for rows in 1..40usize {
            for first_null in 0..rows {
                let mut values = Values::<i64>::new();
                let wanted: Vec<Option<i64>> =
                    (0..rows).map(|row| (row < first_null || row % 3 == 0).then_some(row as i64)).collect();
                wanted.iter().for_each(|&value| values.push_option(value));
                let column = values.finish("value");
                let any_null = wanted.contains(&None);
                assert_eq!(column.validity.is_some(), any_null);
                if let Some(bits) = &column.validity {
                    assert_eq!(bits.len(), rows.div_ceil(8));
                    let read: Vec<bool> =
                        (0..bits.len() * 8).map(|row| bits[row / 8] >> (row % 8) & 1 == 1).collect();
                    let valid: Vec<bool> = wanted.iter().map(Option::is_some).collect();
                    assert_eq!(read[..rows], valid);
                    assert!(read[rows..].iter().all(|&bit| !bit), "unused bits are zero");
                }
            }
        }
    }

    #[test]
    fn a_finished_builder_starts_afresh() {
        let mut values = Values::<u32>::new();
        values.push_option(None);
        assert_eq!(values.finish("a").validity, Some(vec![0]));
        values.push(1);
        assert_eq!(values.finish("a").validity, None);
    }

    #[test]
    fn names_keep_the_order_in_which_they_came() {
        let mut names = Names::default();
        assert_eq!([names.intern("f2"), names.intern("f1"), names.intern("f2")], [0, 1, 0]);
        let mut dict = Dict::new(names.finish());
        dict.push(1);
        dict.push_option(None);
        let column = dict.finish("flow");
        let ColumnData::Dict { indices, values } = column.data else { panic!("a dictionary column") };
        assert_eq!(indices, [1, 0]);
        assert_eq!(*values, ["f2", "f1"]);
        assert_eq!(column.validity, Some(vec![0b01]));
    }
}
