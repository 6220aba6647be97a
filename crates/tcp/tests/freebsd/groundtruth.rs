//! Recordings of real stacks for tests: where they lie and how they are read.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;

/// The folder of recordings, beside the repository.
///
/// # Panics
/// If it is not there: a test that compares with recordings cannot pass without them.
pub fn path(path: &str) -> PathBuf {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/groundtruth"));
    assert!(root.is_dir(), "no recordings at {}: put them there to run this test", root.display());
    root.join(path)
}

/// The text of a gzip file of the recordings.
///
/// # Panics
/// If it cannot be read.
pub fn read_gz(path: &str) -> String {
    let path = self::path(path);
    let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    GzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text
}
