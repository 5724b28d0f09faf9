//! Writes dense rows as an array of version 1.0: little-endian, row by row.

use std::io::{self, Write};

use crate::Real;

/// The array starts at a multiple of this, so that it can be mapped to memory.
const ALIGNMENT: usize = 64;

/// Magic, version and the length of the text.
const PREFIX: usize = 10;

/// Values converted to bytes at once.
const CHUNK: usize = 1 << 14;

/// Everything before the numbers.
fn header<R: Real>(rows: usize, columns: usize) -> Vec<u8> {
    let mut text = format!(
        "{{'descr': '<f{}', 'fortran_order': False, 'shape': ({rows}, {columns}), }}",
        size_of::<R>()
    );
    // Spaces up to the alignment, the last of them a line end.
    let whole = (PREFIX + text.len() + 1).next_multiple_of(ALIGNMENT);
    text.push_str(&" ".repeat(whole - PREFIX - text.len() - 1));
    text.push('\n');
    let length = u16::try_from(text.len()).expect("two numbers are a short text");
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out
}

/// Writes rows of `columns` values each.
pub fn write<R: Real>(out: &mut dyn Write, values: &[R], columns: usize) -> io::Result<()> {
    out.write_all(&header::<R>(values.len() / columns, columns))?;
    let mut bytes = Vec::with_capacity(CHUNK * size_of::<R>());
    for chunk in values.chunks(CHUNK) {
        bytes.clear();
        chunk.iter().for_each(|value| value.put(&mut bytes));
        out.write_all(&bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_small_array() {
        let mut got = Vec::new();
        write(&mut got, &[1.0_f32, -2.0, 0.5, 0.0], 2).unwrap();
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
        let mut want = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        want.extend_from_slice(text.as_bytes());
        want.resize(127, b' ');
        want.push(b'\n');
        for value in [1.0_f32, -2.0, 0.5, 0.0] {
            want.extend_from_slice(&value.to_le_bytes());
        }
        assert_eq!(got, want);
    }

    #[test]
    fn headers_of_all_lengths_are_aligned() {
        for rows in (0..19).map(|digits| 10_usize.pow(digits)) {
            for columns in [1, 10, 100, 65_536] {
                let header = header::<f64>(rows, columns);
                assert_eq!(header.len() % ALIGNMENT, 0);
                assert_eq!(header.last(), Some(&b'\n'));
                let length = u16::from_le_bytes([header[8], header[9]]);
                assert_eq!(usize::from(length) + PREFIX, header.len());
            }
        }
    }
}
