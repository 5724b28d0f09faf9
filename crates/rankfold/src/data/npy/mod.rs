//! NumPy's array format, `.npy`: a short text that describes the array, then
//! its items.

mod array;
mod dense;
mod header;
mod write;

pub(super) use array::{Array, Place};
pub use dense::read_npy;
pub(super) use dense::{finite, open_file, rows};
pub(super) use write::write;

/// Arrays as bytes, for tests of their readers.
#[cfg(test)]
pub(super) mod fixture {
    /// An array of version 1.0.
    pub fn array(descr: &str, fortran: bool, shape: &str, items: &[u8]) -> Vec<u8> {
        let order = if fortran { "True" } else { "False" };
        let text = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
        of_version(1, &text, items)
    }

    /// Any header text, in the frame of any version.
    pub fn of_version(version: u8, text: &str, items: &[u8]) -> Vec<u8> {
        let mut out = vec![0x93, b'N', b'U', b'M', b'P', b'Y', version, 0];
        match version {
            1 => out.extend((text.len() as u16 + 1).to_le_bytes()),
            _ => out.extend((text.len() as u32 + 1).to_le_bytes()),
        }
        out.extend(text.as_bytes());
        out.push(b'\n');
        out.extend(items);
        out
    }

    /// Texts as NumPy stores them: four bytes a character, padded with zeros.
    pub fn texts(texts: &[&str], width: usize) -> Vec<u8> {
        let padded = |text: &&str| {
            let mut units: Vec<u32> = text.chars().map(u32::from).collect();
            units.resize(width, 0);
            units
        };
        let units = texts.iter().flat_map(padded);
        units.flat_map(u32::to_le_bytes).collect()
    }
}
