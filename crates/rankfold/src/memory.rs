//! Asking for memory before taking it.

use crate::{Error, Result};

/// Refuses work that needs more memory than the machine has free, before
/// anything is allocated. Where the system does not tell, only absurd sizes
/// are refused.
pub(crate) fn require(bytes: u128, what: &str) -> Result<()> {
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

/// Bytes that can be taken without swapping, on Linux.
fn available() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
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
    }
}
