//! The Arrow C data interface as a consumer sees it, without Python: types, values, lifetimes.

#[path = "../src/arrow.rs"]
mod arrow;

use std::ffi::CStr;
use std::slice;
use std::sync::Arc;

use arrow::{ArrowArray, ArrowSchema, export};
use contract::table::{Batch, ColumnData, Dict, Names, Values};

/// Five rows of every kind of column, with and without nulls.
fn batch() -> Arc<Batch> {
    let mut names = Names::default();
    ["f1", "", "flow-zwölf"].iter().for_each(|name| {
        names.intern(name);
    });
    let mut flow = Dict::new(names.finish());
    let (mut run, mut t, mut value) = (Values::<u32>::new(), Values::<u64>::new(), Values::<i64>::new());
    for row in 0..5u32 {
        run.push(7);
        t.push(u64::MAX - u64::from(row));
        value.push_option((row != 1 && row != 4).then_some(-i64::from(row)));
        flow.push_option((row > 0).then_some(row % 3));
    }
    let columns = vec![run.finish("run_id"), t.finish("t_ns"), value.finish("value"), flow.finish("flow")];
    Arc::new(Batch { rows: 5, columns })
}

/// A column as the pointers show it.
#[derive(Debug, PartialEq)]
struct Seen {
    format: String,
    name: String,
    nulls: i64,
    values: Vec<Option<String>>,
}

/// # Safety
///
/// Both are valid and belong together.
unsafe fn see(schema: &ArrowSchema, array: &ArrowArray) -> Seen {
    // SAFETY: the caller's promise: buffers have the length and type that the interface prescribes.
    unsafe {
        let format = CStr::from_ptr(schema.format).to_str().unwrap().to_owned();
        let rows = array.length as usize;
        let buffers = slice::from_raw_parts(array.buffers, array.n_buffers as usize);
        let valid =
            |row: usize| buffers[0].is_null() || *buffers[0].cast::<u8>().add(row / 8) >> (row % 8) & 1 == 1;
        let text = |row: usize| match format.as_str() {
            "I" => (*buffers[1].cast::<u32>().add(row)).to_string(),
            "L" => (*buffers[1].cast::<u64>().add(row)).to_string(),
            "l" => (*buffers[1].cast::<i64>().add(row)).to_string(),
            "i" => {
                let index = *buffers[1].cast::<i32>().add(row) as usize;
                see(&*schema.dictionary, &*array.dictionary).values[index].clone().unwrap()
            }
            "u" => {
                let offsets = buffers[1].cast::<i32>();
                let (start, end) = (*offsets.add(row) as usize, *offsets.add(row + 1) as usize);
                let bytes = slice::from_raw_parts(buffers[2].cast::<u8>().add(start), end - start);
                str::from_utf8(bytes).unwrap().to_owned()
            }
            other => panic!("format {other}"),
        };
        Seen {
            name: CStr::from_ptr(schema.name).to_str().unwrap().to_owned(),
            nulls: array.null_count,
            values: (0..rows).map(|row| valid(row).then(|| text(row))).collect(),
            format,
        }
    }
}

/// # Safety
///
/// Both are valid struct arrays that belong together.
unsafe fn see_children(schema: &ArrowSchema, array: &ArrowArray) -> Vec<Seen> {
    // SAFETY: the caller's promise.
    unsafe {
        assert_eq!(CStr::from_ptr(schema.format), c"+s");
        assert_eq!((schema.n_children, array.n_buffers), (array.n_children, 1));
        let schemas = slice::from_raw_parts(schema.children, schema.n_children as usize);
        let arrays = slice::from_raw_parts(array.children, array.n_children as usize);
        schemas.iter().zip(arrays).map(|(schema, array)| see(&**schema, &**array)).collect()
    }
}

fn seen(format: &str, name: &str, nulls: i64, values: [Option<&str>; 5]) -> Seen {
    let values = values.iter().map(|value| value.map(str::to_owned)).collect();
    Seen { format: format.to_owned(), name: name.to_owned(), nulls, values }
}

#[test]
fn a_consumer_sees_the_names_types_and_values() {
    let batch = batch();
    let (schema, array) = export(&batch);
    // SAFETY: just exported.
    let columns = unsafe { see_children(&schema, &array) };
    let max = |less: u64| (u64::MAX - less).to_string();
    let times = [max(0), max(1), max(2), max(3), max(4)];
    assert_eq!(
        columns,
        [
            seen("I", "run_id", 0, [Some("7"); 5]),
            seen("L", "t_ns", 0, times.each_ref().map(|time| Some(time.as_str()))),
            seen("l", "value", 2, [Some("0"), None, Some("-2"), Some("-3"), None]),
            seen("i", "flow", 1, [None, Some(""), Some("flow-zwölf"), Some("f1"), Some("")]),
        ]
    );
}

#[test]
fn the_columns_are_the_batch_s_own_memory() {
    let batch = batch();
    let (_schema, array) = export(&batch);
    let ColumnData::U64(times) = &batch.columns[1].data else { panic!("a u64 column") };
    // SAFETY: just exported; a primitive column has two buffers.
    let shown = unsafe { *(*(*array.children.add(1))).buffers.add(1) };
    assert_eq!(shown, times.as_ptr().cast());
}

#[test]
fn releasing_gives_back_every_share_of_the_batch() {
    let batch = batch();
    for _ in 0..3 {
        let (schema, mut array) = export(&batch);
        assert_eq!(Arc::strong_count(&batch), 5, "one for each column");
        // SAFETY: just exported, released once.
        unsafe { array.release.unwrap()(&mut array) };
        assert!(array.release.is_none());
        assert_eq!(Arc::strong_count(&batch), 1);
        drop((schema, array));
    }
}

#[test]
fn a_column_that_a_consumer_took_over_outlives_the_rest() {
    let batch = batch();
    let (schema, array) = export(&batch);
    // SAFETY: moving as the specification says: the bytes are copied, and the original is marked as released.
    let (flow_schema, flow) = unsafe {
        let (from_schema, from) = (*schema.children.add(3), *array.children.add(3));
        let taken = (from_schema.read(), from.read());
        (*from_schema).release = None;
        (*from).release = None;
        taken
    };
    drop((schema, array));
    assert_eq!(Arc::strong_count(&batch), 2);
    let weak = Arc::downgrade(&batch);
    drop(batch);
    // SAFETY: taken over, so still valid.
    let column = unsafe { see(&flow_schema, &flow) };
    assert_eq!(column.values[3].as_deref(), Some("f1"));
    drop((flow_schema, flow));
    assert!(weak.upgrade().is_none());
}

#[test]
fn a_batch_without_rows_can_be_exported() {
    let columns =
        vec![Values::<u64>::new().finish("t_ns"), Dict::new(Names::default().finish()).finish("flow")];
    let (schema, array) = export(&Arc::new(Batch { rows: 0, columns }));
    // SAFETY: just exported.
    let columns = unsafe { see_children(&schema, &array) };
    assert_eq!(columns.iter().map(|column| column.values.len()).collect::<Vec<_>>(), [0, 0]);
}
