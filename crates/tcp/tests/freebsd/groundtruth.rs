//! Recordings of real stacks for tests: where they lie and how they are read.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;

/// A file among the repository's recordings.
pub(crate) fn path(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../groundtruth")).join(path)
}

/// The text of a gzip file of the recordings.
///
/// # Panics
/// If it cannot be read.
pub(crate) fn read_gz(path: &str) -> String {
    let path = self::path(path);
    let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    GzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text
}
