//! Record batches through the Arrow C data interface: the engine's own vectors, lent without a copy.
//!
//! The layout of both structs and the rules of releasing are those of the specification ("The Arrow C data interface").
//! Every exported column holds a share of its batch, so it stays valid for as long as a consumer keeps it, also alone,
//! and a batch can be exported any number of times.

use std::any::Any;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::sync::Arc;

use contract::table::{Batch, Column, ColumnData};

/// `struct ArrowSchema`: the type of an array. Dropping it releases it, unless a consumer has taken it over.
#[repr(C)]
pub(crate) struct ArrowSchema {
    pub format: *const c_char,
    pub name: *const c_char,
    pub metadata: *const c_char,
    pub flags: i64,
    pub n_children: i64,
    pub children: *mut *mut ArrowSchema,
    pub dictionary: *mut ArrowSchema,
    pub release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

/// `struct ArrowArray`: the data of an array. Dropping it releases it, unless a consumer has taken it over.
#[repr(C)]
pub(crate) struct ArrowArray {
    pub length: i64,
    pub null_count: i64,
    pub offset: i64,
    pub n_buffers: i64,
    pub n_children: i64,
    pub buffers: *mut *const c_void,
    pub children: *mut *mut ArrowArray,
    pub dictionary: *mut ArrowArray,
    pub release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

// SAFETY: both own what they point to, which is never changed after it was made, through any thread; what they share
// with others is an Arc of a batch without interior mutability.
unsafe impl Send for ArrowSchema {}
// SAFETY: as above.
unsafe impl Send for ArrowArray {}

/// A batch as a struct array, one child for each column. All columns are marked as nullable, so that a table's type does
/// not depend on whether a batch has nulls.
pub(crate) fn export(batch: &Arc<Batch>) -> (ArrowSchema, ArrowArray) {
    let schemas = batch.columns.iter().map(column_schema).collect();
    let arrays = (0..batch.columns.len()).map(|index| column_array(batch, index)).collect();
    let buffers = Buffers { pointers: vec![ptr::null()], _owner: Box::new(()) };
    (schema(c"+s", "", schemas, None), array(batch.rows, 0, buffers, arrays, None))
}

fn column_schema(column: &Column) -> ArrowSchema {
    let (format, dictionary) = match &column.data {
        ColumnData::U32(_) => (c"I", None),
        ColumnData::U64(_) => (c"L", None),
        ColumnData::I64(_) => (c"l", None),
        ColumnData::Dict { .. } => (c"i", Some(schema(c"u", "", Vec::new(), None))),
    };
    schema(format, column.name, Vec::new(), dictionary)
}

fn column_array(batch: &Arc<Batch>, index: usize) -> ArrowArray {
    let Column { name, data, validity } = &batch.columns[index];
    assert_eq!(data.len(), batch.rows, "every column has an entry for each row, also {name}");
    let (values, dictionary): (*const c_void, _) = match data {
        ColumnData::U32(values) => (values.as_ptr().cast(), None),
        ColumnData::U64(values) => (values.as_ptr().cast(), None),
        ColumnData::I64(values) => (values.as_ptr().cast(), None),
        ColumnData::Dict { indices, values } => (indices.as_ptr().cast(), Some(names(values))),
    };
    let (bitmap, nulls) = match validity {
        None => (ptr::null(), 0),
        Some(bits) => {
            assert_eq!(bits.len(), batch.rows.div_ceil(8), "the bitmap of {name} covers every row");
            let valid: usize = bits.iter().map(|byte| byte.count_ones() as usize).sum();
            (bits.as_ptr().cast(), batch.rows - valid)
        }
    };
    let buffers = Buffers { pointers: vec![bitmap, values], _owner: Box::new(Arc::clone(batch)) };
    array(batch.rows, nulls, buffers, Vec::new(), dictionary)
}

/// The names of a dictionary as a utf8 array: the one thing that is put together anew, once for a batch.
fn names(values: &[String]) -> ArrowArray {
    let mut offsets = Vec::with_capacity(values.len() + 1);
    let mut bytes = Vec::new();
    offsets.push(0);
    for value in values {
        bytes.extend_from_slice(value.as_bytes());
        offsets.push(i32::try_from(bytes.len()).expect("the names together are below 2 GiB"));
    }
    let pointers = vec![ptr::null(), offsets.as_ptr().cast(), bytes.as_ptr().cast()];
    array(values.len(), 0, Buffers { pointers, _owner: Box::new((offsets, bytes)) }, Vec::new(), None)
}

/// The pointers of an array, and the owner of the memory they lead to.
struct Buffers {
    pointers: Vec<*const c_void>,
    _owner: Box<dyn Any>,
}

/// Memory that an [`ArrowArray`] owns, behind its `private_data`.
struct OwnedArray {
    buffers: Buffers,
    children: Vec<*mut ArrowArray>,
    dictionary: *mut ArrowArray,
}

/// Memory that an [`ArrowSchema`] owns, behind its `private_data`.
struct OwnedSchema {
    name: CString,
    children: Vec<*mut ArrowSchema>,
    dictionary: *mut ArrowSchema,
}

fn array(
    length: usize,
    null_count: usize,
    buffers: Buffers,
    children: Vec<ArrowArray>,
    dictionary: Option<ArrowArray>,
) -> ArrowArray {
    let mut owned =
        Box::new(OwnedArray { buffers, children: leak_all(children), dictionary: leak_option(dictionary) });
    ArrowArray {
        length: length as i64,
        null_count: null_count as i64,
        offset: 0,
        n_buffers: owned.buffers.pointers.len() as i64,
        n_children: owned.children.len() as i64,
        buffers: owned.buffers.pointers.as_mut_ptr(),
        children: owned.children.as_mut_ptr(),
        dictionary: owned.dictionary,
        release: Some(release_array),
        private_data: Box::into_raw(owned).cast(),
    }
}

fn schema(
    format: &'static CStr,
    name: &str,
    children: Vec<ArrowSchema>,
    dictionary: Option<ArrowSchema>,
) -> ArrowSchema {
    /// ARROW_FLAG_NULLABLE.
    const NULLABLE: i64 = 2;
    let mut owned = Box::new(OwnedSchema {
        name: CString::new(name).expect("no column name holds a zero byte"),
        children: leak_all(children),
        dictionary: leak_option(dictionary),
    });
    ArrowSchema {
        format: format.as_ptr(),
        name: owned.name.as_ptr(),
        metadata: ptr::null(),
        flags: NULLABLE,
        n_children: owned.children.len() as i64,
        children: owned.children.as_mut_ptr(),
        dictionary: owned.dictionary,
        release: Some(release_schema),
        private_data: Box::into_raw(owned).cast(),
    }
}

fn leak_all<T>(values: Vec<T>) -> Vec<*mut T> {
    values.into_iter().map(|value| Box::into_raw(Box::new(value))).collect()
}

fn leak_option<T>(value: Option<T>) -> *mut T {
    value.map_or(ptr::null_mut(), |value| Box::into_raw(Box::new(value)))
}

/// # Safety
///
/// `array` is one that [`array`] made, not released yet; a consumer may have moved it elsewhere byte by byte.
unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: the caller's promise; `private_data` is the box that was leaked for this array, and is freed once, since
    // `release` is cleared. The children are freed as well; dropping one releases it unless a consumer took it over.
    unsafe {
        let owned = Box::from_raw((*array).private_data.cast::<OwnedArray>());
        (*array).release = None;
        for &child in
            owned.children.iter().chain(Some(&owned.dictionary).filter(|pointer| !pointer.is_null()))
        {
            drop(Box::from_raw(child));
        }
    }
}

/// # Safety
///
/// `schema` is one that [`schema`] made, not released yet; a consumer may have moved it elsewhere byte by byte.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: as in `release_array`.
    unsafe {
        let owned = Box::from_raw((*schema).private_data.cast::<OwnedSchema>());
        (*schema).release = None;
        for &child in
            owned.children.iter().chain(Some(&owned.dictionary).filter(|pointer| !pointer.is_null()))
        {
            drop(Box::from_raw(child));
        }
    }
}

impl Drop for ArrowArray {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: not released yet, or `release` would be None.
            unsafe { release(self) }
        }
    }
}

impl Drop for ArrowSchema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: not released yet, or `release` would be None.
            unsafe { release(self) }
        }
    }
}
