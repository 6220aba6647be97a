//! The catalogue of stacks: data for each system and year, and how a family turns data into senders and receivers.
//!
//! A profile is constants and choices; a mechanism is code in `sender/`, `receiver/`, `cc/`. To add a stack, add a file
//! to its family's folder and a line to that family's `all`.

pub mod freebsd;
mod knob;
pub mod linux;
mod windows_7;

use crate::stack::{Profile, ProfileError, Sysctl};

/// Every stack of the catalogue, each with its system's defaults. Of a family, the one that its plain name means stands last.
pub fn all() -> Vec<Box<dyn Profile>> {
    let mut stacks: Vec<Box<dyn Profile>> = Vec::new();
    stacks.extend(freebsd::all().into_iter().map(|stack| Box::new(stack) as Box<dyn Profile>));
    stacks.extend(linux::all().into_iter().map(|stack| Box::new(stack) as Box<dyn Profile>));
    stacks.push(Box::new(windows_7::profile()));
    stacks
}

/// The stack called `name`, or the last of the family called `name`.
pub fn find(name: &str) -> Option<Box<dyn Profile>> {
    let mut stacks = all();
    let exact = stacks.iter().position(|p| p.spec().name == name);
    let last = || stacks.iter().rposition(|p| p.spec().family.as_str() == name);
    let index = exact.or_else(last)?;
    Some(stacks.swap_remove(index))
}

/// Sets `name` after checking it against what the stack knows.
///
/// ```
/// use tcp::profile;
///
/// let mut stack = profile::find("freebsd-13").expect("a stack of the catalogue");
/// profile::set_checked(&mut *stack, "net.inet.tcp.abc_l_var", 2)?;
/// let error = profile::set_checked(&mut *stack, "net.inet.tcp.abc_l_vra", 2).expect_err("a typing error");
/// assert!(error.to_string().contains("did you mean net.inet.tcp.abc_l_var"));
/// # Ok::<(), tcp::stack::ProfileError>(())
/// ```
///
/// # Errors
/// A sysctl the stack does not carry out (with the nearest names), or a value out of range.
pub fn set_checked(profile: &mut dyn Profile, name: &str, value: i64) -> Result<(), ProfileError> {
    let known = profile.sysctls();
    let Some(&Sysctl { name, min, max, .. }) = known.iter().find(|sysctl| sysctl.name == name) else {
        let nearest = nearest(name, known.iter().map(|sysctl| sysctl.name));
        return Err(ProfileError::UnknownSysctl {
            name: name.to_owned(),
            stack: profile.spec().name,
            nearest,
        });
    };
    if value < min || value > max {
        return Err(ProfileError::SysctlRange { name, found: value, min, max });
    }
    profile.set(name, value);
    Ok(())
}

/// Up to three names close to `name`.
fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut ranked: Vec<(usize, &str)> = known.map(|k| (strsim::levenshtein(name, k), k)).collect();
    ranked.sort();
    ranked.iter().take(3).filter(|(d, k)| *d <= 3 + k.len() / 4).map(|&(_, k)| k).collect()
}
