//! Witness of which hook of a congestion control from outside runs, and when in the run: written where whoever
//! started this process can read it while that hook runs, and after the process has died of it. A copy of the
//! process that a hook makes ends here.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use tcp::cc::foreign::Failure;

use crate::floating;

/// Longest text.
const TEXT: usize = 100;

/// The file.
#[repr(C)]
struct Page {
    /// Calls so far.
    calls: u64,
    /// Time of the last call in the run, in ns.
    at: u64,
    /// Whether the last call has not returned.
    inside: u8,
    reserved: u8,
    /// Bytes of the texts.
    hook_length: u8,
    name_length: u8,
    hook: [u8; TEXT],
    name: [u8; TEXT],
}

/// No time: the call is no event of the run.
pub(crate) const NEVER: u64 = u64::MAX;

/// The file in memory. Null: nobody asked.
static PAGE: AtomicPtr<Page> = AtomicPtr::new(ptr::null_mut());
/// A page that holds 1, and 0 in a copy of this process.
static ORIGINAL: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// A hook runs. A copy of the process has a copy of this, where the file is the same for both.
static INSIDE: AtomicBool = AtomicBool::new(false);
/// Whether this process has been copied while a hook ran.
static COPIED: AtomicBool = AtomicBool::new(false);

/// Report of a witness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Number of the last call, from 1.
    pub calls: u64,
    /// Whether the last call has not returned.
    pub inside: bool,
    /// The call, in words.
    pub call: String,
}

/// Lets `file` say from now on what runs.
///
/// # Errors
/// The file cannot be written.
pub fn watch(file: &Path) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(file)?;
    file.set_len(size_of::<Page>() as u64)?;
    let page = map(libc::MAP_SHARED, file.as_raw_fd())?;
    PAGE.store(page.cast(), Ordering::Release);
    static FORKS: Once = Once::new();
    // SAFETY: the handlers only read what is static.
    FORKS.call_once(|| unsafe {
        libc::pthread_atfork(None, Some(copied), Some(is_a_copy));
    });
    original()
}

fn map(flags: libc::c_int, file: libc::c_int) -> io::Result<*mut u8> {
    let (size, access) = (size_of::<Page>(), libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a mapping of its own, of that size, which is never unmapped.
    let page = unsafe { libc::mmap(ptr::null_mut(), size, access, flags, file, 0) };
    if page == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(page.cast()) }
}

/// Makes a copy of the process known, where the system can, also if no function of the C library has made it.
#[cfg(target_os = "linux")]
fn original() -> io::Result<()> {
    let page = map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
    // SAFETY: the page was just mapped.
    if unsafe { libc::madvise(page.cast(), size_of::<Page>(), libc::MADV_WIPEONFORK) } == 0 {
        unsafe { page.write_volatile(1) };
        ORIGINAL.store(page, Ordering::Release);
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn original() -> io::Result<()> {
    Ok(())
}

extern "C" fn copied() {
    COPIED.store(INSIDE.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// The copy would write what its original writes, over the same pipe and into the same files.
extern "C" fn is_a_copy() {
    if INSIDE.load(Ordering::Relaxed) {
        // SAFETY: ends the copy.
        unsafe { libc::_exit(0) };
    }
}

/// Reads what the file says. None if nothing was called yet.
pub fn read(file: &Path) -> Option<Seen> {
    let bytes = std::fs::read(file).ok()?;
    if bytes.len() < size_of::<Page>() {
        return None;
    }
    // SAFETY: there are enough bytes, and any are a page.
    let page = unsafe { bytes.as_ptr().cast::<Page>().read_unaligned() };
    let text = |text: &[u8; TEXT], length: u8| {
        String::from_utf8_lossy(&text[..usize::from(length).min(TEXT)]).into_owned()
    };
    let when = if page.at == NEVER { String::new() } else { format!(", at {}", crate::seconds(page.at)) };
    let (hook, name) = (text(&page.hook, page.hook_length), text(&page.name, page.name_length));
    (page.calls > 0).then(|| Seen {
        calls: page.calls,
        inside: page.inside != 0,
        call: format!("{hook} of {name}{when}"),
    })
}

/// Calls into a congestion control from outside, at a time of the run or [`NEVER`].
///
/// # Errors
/// Those of the call, or the process was copied in it.
pub(crate) fn during<T>(
    name: &str,
    hook: &str,
    at: u64,
    call: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let call = || floating::kept(call);
    let page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        return call();
    }
    let (name, hook) = (&name.as_bytes()[..name.len().min(TEXT)], &hook.as_bytes()[..hook.len().min(TEXT)]);
    // SAFETY: this process alone writes the page, from one thread at a time: hooks take turns.
    unsafe {
        (*page).at = at;
        ptr::copy_nonoverlapping(hook.as_ptr(), ptr::addr_of_mut!((*page).hook).cast(), hook.len());
        ptr::copy_nonoverlapping(name.as_ptr(), ptr::addr_of_mut!((*page).name).cast(), name.len());
        (*page).hook_length = hook.len() as u8;
        (*page).name_length = name.len() as u8;
        (*page).calls += 1;
        ptr::addr_of_mut!((*page).inside).write_volatile(1);
    }
    INSIDE.store(true, Ordering::Relaxed);
    let value = call();
    INSIDE.store(false, Ordering::Relaxed);
    let original = ORIGINAL.load(Ordering::Relaxed);
    // SAFETY: as above; the other page is never unmapped either.
    unsafe {
        if !original.is_null() && original.read_volatile() == 0 {
            libc::_exit(0);
        }
        ptr::addr_of_mut!((*page).inside).write_volatile(0);
    }
    if COPIED.swap(false, Ordering::Relaxed) { Err(Failure::Forked) } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/witness");
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join(std::process::id().to_string());
        watch(&file).expect("a file");
        assert_eq!(read(&file), None);
        let call = "cong_avoid of new, at 0.062842 s".to_owned();
        let done = during("new", "cong_avoid", 62_842_000, || {
            let seen = Seen { calls: 1, inside: true, call: call.clone() };
            assert_eq!(read(&file), Some(seen));
            Ok(7)
        });
        assert_eq!(done.ok(), Some(7));
        assert_eq!(read(&file), Some(Seen { calls: 1, inside: false, call }));
        for turn in 0..200 {
            let mut copy = 0;
            let forked = during("new", "init", NEVER, || {
                // SAFETY: the copy ends at once.
                copy = unsafe { libc::fork() };
                assert!(copy > 0);
                Ok(())
            });
            assert!(matches!(forked, Err(Failure::Forked)), "{turn}");
            // Calls that follow are none of its business, however late the copy is.
            assert!(during("new", "init", NEVER, || Ok(())).is_ok(), "{turn}");
            let mut state = 1;
            // SAFETY: the copy is this process's own.
            assert_eq!(unsafe { libc::waitpid(copy, &raw mut state, 0) }, copy);
            assert_eq!(state, 0);
        }
        assert_eq!(read(&file).map(|seen| seen.calls), Some(401));
        #[cfg(target_arch = "x86_64")]
        {
            let rounded = || std::hint::black_box(1.0_f64) / std::hint::black_box(3.0);
            let before = rounded();
            assert!(during("new", "init", NEVER, || Ok(floating::tests::spoil())).is_ok());
            assert_eq!(rounded().to_bits(), before.to_bits());
        }
        std::fs::remove_file(&file).expect("is there");
    }
}
