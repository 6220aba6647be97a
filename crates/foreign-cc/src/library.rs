//! Copies of a compiled module in this process: one for each host that uses it at a time, with statics of its own.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsString, c_char, c_void};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
use tcp::cc::foreign::Failure;

use crate::exchange::{self, Guard, end};

/// A copy of a module, ready for a host; it goes back to the others of its file when it is dropped.
#[derive(Debug)]
pub(crate) struct Library {
    file: PathBuf,
    module: &'static exchange::Module,
}

// SAFETY: `module` is never unloaded, and is called only by who holds `TURN`.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl std::fmt::Debug for exchange::Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Module")
    }
}

/// Modules of this process run one at a time: they share signal handlers and a clock of processor time.
static TURN: Mutex<Shared> = Mutex::new(Shared {
    guard: Guard {
        jump: ptr::null_mut(),
        thread: 0,
        installed: 0,
        quanta: 0,
        stacked: 0,
        address: ptr::null(),
    },
    idle: None,
});

struct Shared {
    guard: Guard,
    /// Copies that no host uses, by file.
    idle: Option<HashMap<PathBuf, Vec<&'static exchange::Module>>>,
}

// SAFETY: the pointers in it are used by the modules only, under `TURN`.
unsafe impl Send for Shared {}

fn turn() -> MutexGuard<'static, Shared> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Library {
    /// A copy of `file`, whose bytes have this hash, with its statics as compiled.
    ///
    /// # Errors
    /// The file cannot be loaded, or is another one.
    pub(crate) fn open(file: &Path, sha256: &str) -> Result<Library, Failure> {
        let mut shared = turn();
        let idle = shared.idle.get_or_insert_default().get_mut(file).and_then(Vec::pop);
        let module = match idle {
            Some(module) => module,
            None => {
                let module = load(file, sha256)?;
                let guard = &raw mut shared.guard;
                // SAFETY: `guard` lives in a static, and this is the module's turn.
                unsafe { (module.attach)(guard) };
                module
            }
        };
        Ok(Library { file: file.to_owned(), module })
    }

    /// Calls into the module, alone; the answer says how that ended.
    ///
    /// # Errors
    /// How it ended, where it did not return: a crash, too long a time, a complaint of its own.
    pub(crate) fn enter(&self, code: impl FnOnce(&exchange::Module) -> i32) -> Result<(), Failure> {
        let _turn = turn();
        let how = code(self.module);
        if how == end::DONE { Ok(()) } else { Err(self.reason(how)) }
    }

    /// Asks the module what needs no guard.
    pub(crate) fn ask<T>(&self, code: impl FnOnce(&exchange::Module) -> T) -> T {
        let _turn = turn();
        code(self.module)
    }

    fn reason(&self, how: i32) -> Failure {
        let signal = match how {
            end::TOO_LONG => return Failure::TooLong,
            end::REFUSED => return Failure::Refused,
            end::BUG => {
                // SAFETY: the module's text is a C string of its own.
                let complaint = unsafe { text((self.module.complaint)()) };
                return Failure::Stopped(complaint.unwrap_or_default());
            }
            libc::SIGSEGV => "SIGSEGV",
            libc::SIGBUS => "SIGBUS",
            libc::SIGFPE => "SIGFPE",
            libc::SIGILL => "SIGILL",
            libc::SIGABRT => "SIGABRT",
            libc::SIGTRAP => "SIGTRAP",
            other => return Failure::Crashed(format!("signal {other}")),
        };
        Failure::Crashed(signal.into())
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let mut shared = turn();
        // SAFETY: nobody is inside: this is the module's turn.
        unsafe { (self.module.reset)() };
        shared.idle.get_or_insert_default().entry(self.file.clone()).or_default().push(self.module);
    }
}

/// Loads a copy of the file for good: what is loaded already would not be loaded again.
fn load(file: &Path, sha256: &str) -> Result<&'static exchange::Module, Failure> {
    let failed = |why: String| Failure::File { file: file.display().to_string(), why };
    let bytes = fs::read(file).map_err(|error| failed(error.to_string()))?;
    let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if found != sha256 {
        return Err(failed("is not what was compiled: it has been changed since".into()));
    }
    let folder = own_folder().map_err(|error| failed(format!("no folder for a copy: {error}")))?;
    let loaded = load_copy(&bytes, &folder.join("module.so"));
    let _ = fs::remove_dir_all(&folder);
    loaded.map_err(failed)
}

/// A new folder for temporary files that nobody else can look into, or guess the name of.
fn own_folder() -> io::Result<PathBuf> {
    let mut name = std::env::temp_dir().join("cwndlab-cc-XXXXXX").into_os_string().into_vec();
    name.push(0);
    // SAFETY: the name ends with a zero, and is written within its length.
    if unsafe { libc::mkdtemp(name.as_mut_ptr().cast()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    name.pop();
    Ok(OsString::from_vec(name).into())
}

fn load_copy(bytes: &[u8], copy: &Path) -> Result<&'static exchange::Module, String> {
    let write = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(copy)?.write_all(bytes);
    write().map_err(|error| format!("{}: {error}", copy.display()))?;
    let name = CString::new(copy.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the name is a C string; what is loaded runs no code of its own but constructors, which it was chosen for.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        // SAFETY: dlerror's text is a C string, or null.
        return Err(unsafe { text(libc::dlerror()) }.unwrap_or_default());
    }
    exported(handle).ok_or_else(|| "is no module of this version of cwndlab".into())
}

fn exported(handle: *mut c_void) -> Option<&'static exchange::Module> {
    type Export = unsafe extern "C" fn() -> *const exchange::Module;
    // SAFETY: the handle is an open library's.
    let symbol = unsafe { libc::dlsym(handle, c"cwndlab_module".as_ptr()) };
    if symbol.is_null() {
        return None;
    }
    // SAFETY: by that name a module exports a function of this type, and what it returns is never unloaded.
    let module = unsafe { std::mem::transmute::<*mut c_void, Export>(symbol)().as_ref() }?;
    (module.abi == exchange::ABI).then_some(module)
}

/// A C string as text.
///
/// # Safety
/// `from` is null or a C string.
pub(crate) unsafe fn text(from: *const c_char) -> Option<String> {
    // SAFETY: as the caller says.
    (!from.is_null()).then(|| unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned())
}
