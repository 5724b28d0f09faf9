//! Asking for memory before taking it. Public for the allocator of the command line only.

use crate::{Error, Result};
use std::cell::Cell;
use std::path::{Path, PathBuf};

thread_local! {
    static FALLIBLE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is asking for memory that it can do without. An allocator
/// that ends the process when memory runs out must return null meanwhile.
pub fn is_fallible() -> bool {
    FALLIBLE.get()
}

/// Runs an allocation that may fail, such as `try_reserve`.
pub(crate) fn fallibly<T>(allocate: impl FnOnce() -> T) -> T {
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            FALLIBLE.set(self.0);
        }
    }
    let _reset = Reset(FALLIBLE.replace(true));
    allocate()
}

/// Refuses work that needs more memory than this process may still take, before
/// anything is allocated. Where the system does not tell, only absurd sizes
/// are refused.
pub(crate) fn require(bytes: u128, what: &str) -> Result<()> {
    // Small requests are not worth a look at the system.
    if bytes <= SMALL {
        return Ok(());
    }
    let free = available().unwrap_or(1 << 46);
    if bytes > u128::from(free) {
        return Err(Error::failure(format!(
            "{what} needs {} of memory, {} are free",
            readable(bytes),
            readable(u128::from(free))
        )));
    }
    Ok(())
}

const SMALL: u128 = 1 << 16;

/// Bytes that this process can take: what the machine has without swapping, and what
/// the limits of the process and of its control groups leave.
fn available() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let machine = field(&read("/proc/meminfo"), "MemAvailable:");
    let process = process_room(&read("/proc/self/limits"), &read("/proc/self/status"));
    let groups = groups(&read("/proc/self/cgroup"));
    let groups = groups.iter().filter_map(|folder| group_room(folder)).min();
    [machine, process, groups].into_iter().flatten().min()
}

/// A size in KiB of a file of lines `Name: 123 kB`, in bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// What `RLIMIT_AS` and `RLIMIT_DATA` leave.
fn process_room(limits: &str, status: &str) -> Option<u64> {
    let room = |limit: &str, taken: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(limit))?;
        // The soft limit comes first; `unlimited` is no number.
        let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(limit.saturating_sub(field(status, taken)?))
    };
    let (space, data) = (
        room("Max address space", "VmSize:"),
        room("Max data size", "VmData:"),
    );
    [space, data].into_iter().flatten().min()
}

/// The folders of the control group of version 2 that this process is in, and of all
/// groups around it.
fn groups(cgroup: &str) -> Vec<PathBuf> {
    let Some(own) = cgroup.lines().find_map(|line| line.strip_prefix("0::/")) else {
        return Vec::new();
    };
    let root = Path::new("/sys/fs/cgroup");
    let own = root.join(own.trim_end());
    let inside = |folder: &&Path| folder.starts_with(root);
    own.ancestors()
        .take_while(inside)
        .map(Path::to_owned)
        .collect()
}

/// What a control group leaves. Files that it caches give way when memory is needed.
fn group_room(folder: &Path) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    // Without a limit the file says `max`, which is no number.
    let most: u64 = read("memory.max")?.trim().parse().ok()?;
    let taken: u64 = read("memory.current")?.trim().parse().ok()?;
    let cached = read("memory.stat").and_then(|stat| {
        let line = stat.lines().find_map(|l| l.strip_prefix("inactive_file "));
        line?.trim().parse::<u64>().ok()
    });
    Some(most.saturating_sub(taken.saturating_sub(cached.unwrap_or(0))))
}

fn readable(bytes: u128) -> String {
    let gib = bytes as f64 / (1u64 << 30) as f64;
    if gib >= 1.0 {
        format!("{gib:.1} GiB")
    } else {
        format!("{:.1} MiB", gib * 1024.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_sizes_are_refused_with_the_size_needed() {
        assert!(require(1 << 20, "a small factor").is_ok());
        let error = require(1 << 60, "a factor").unwrap_err();
        assert!(
            error.message.starts_with("a factor needs 1073741824.0 GiB"),
            "{error}"
        );
        assert!(!is_fallible() && fallibly(is_fallible));
    }

    #[test]
    fn limits_of_the_process_leave_what_is_not_taken() {
        let status = "Name:\trankfold\nVmSize:\t    1024 kB\nVmData:\t     512 kB\n";
        let limits = |space: &str, data: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units\n\
                 Max data size             {data}            unlimited            bytes\n\
                 Max address space         {space}           unlimited            bytes\n"
            )
        };
        let none = limits("unlimited", "unlimited");
        assert_eq!(process_room(&none, status), None);
        let space = limits("3145728", "unlimited");
        assert_eq!(process_room(&space, status), Some(2 << 20));
        let both = limits("3145728", "1048576");
        assert_eq!(process_room(&both, status), Some(1 << 19));
        assert_eq!(process_room(&limits("1", "1"), status), Some(0));
    }

    #[test]
    fn control_groups_are_read_up_to_the_root() {
        let found = groups("0::/a/b\n");
        let names: Vec<_> = found.iter().map(|f| f.display().to_string()).collect();
        let root = "/sys/fs/cgroup";
        assert_eq!(
            names,
            [format!("{root}/a/b"), format!("{root}/a"), root.into()]
        );
        assert!(groups("5:memory:/a\n").is_empty());

        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        assert_eq!(group_room(folder.path()), None);
        write("memory.max", "max\n");
        write("memory.current", "3000\n");
        assert_eq!(group_room(folder.path()), None);
        write("memory.max", "10000\n");
        assert_eq!(group_room(folder.path()), Some(7000));
        write("memory.stat", "anon 5\ninactive_file 2000\n");
        assert_eq!(group_room(folder.path()), Some(9000));
    }
}
