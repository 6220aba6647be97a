//! Which hook of a congestion control from outside runs, and when in the run: written where whoever started this process can
//! read it after the process has died of that hook.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Bytes of the file: the time, the hook's length and the name's, and both texts.
const SIZE: usize = 256;
/// Longest text.
const TEXT: usize = 100;

/// The file in memory; null: nobody asked.
static PAGE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// From now on `file` says what runs.
///
/// # Errors
/// It cannot be written.
pub fn watch(file: &Path) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(file)?;
    file.set_len(SIZE as u64)?;
    // SAFETY: a mapping of its own, of a file of that size, which is never unmapped.
    let page = unsafe {
        libc::mmap(
            ptr::null_mut(),
            SIZE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    PAGE.store(page.cast(), Ordering::Release);
    Ok(())
}

/// What the file says, in words; None: no hook ran.
pub fn read(file: &Path) -> Option<String> {
    let bytes = std::fs::read(file).ok()?;
    let at = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    let text = |from: usize, length: u8| {
        Some(String::from_utf8_lossy(bytes.get(from..from + usize::from(length))?).into_owned())
    };
    let (hook, name) = (text(16, *bytes.get(8)?)?, text(16 + TEXT, *bytes.get(9)?)?);
    (!hook.is_empty()).then(|| format!("in {hook} of {name}, at {}", crate::seconds(at)))
}

/// A hook is called, at a time of the run.
pub(crate) fn entering(name: &str, hook: &str, at: u64) {
    let page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        return;
    }
    let (name, hook) = (&name.as_bytes()[..name.len().min(TEXT)], &hook.as_bytes()[..hook.len().min(TEXT)]);
    // SAFETY: the page has SIZE bytes, which this process alone writes, from one thread at a time: hooks take turns.
    unsafe {
        page.cast::<u64>().write_volatile(at.to_le());
        ptr::copy_nonoverlapping(hook.as_ptr(), page.add(16), hook.len());
        ptr::copy_nonoverlapping(name.as_ptr(), page.add(16 + TEXT), name.len());
        page.add(9).write_volatile(name.len() as u8);
        page.add(8).write_volatile(hook.len() as u8);
    }
}

/// It has returned.
pub(crate) fn left() {
    let page = PAGE.load(Ordering::Acquire);
    if !page.is_null() {
        // SAFETY: as above.
        unsafe { page.add(8).write_volatile(0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_can_be_read() {
        let file = std::env::temp_dir().join(format!("cwndlab-witness-{}", std::process::id()));
        watch(&file).expect("a file");
        assert_eq!(read(&file), None);
        entering("new", "cong_avoid", 62_842_000);
        assert_eq!(read(&file).as_deref(), Some("in cong_avoid of new, at 0.062842 s"));
        left();
        assert_eq!(read(&file), None);
        std::fs::remove_file(&file).expect("is there");
    }
}
