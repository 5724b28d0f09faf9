//! Changes of inputs at random: bits and bytes, pieces cut out, doubled or taken from
//! other inputs, numbers that are extreme, and headers of model files that stay whole.

/// A small generator of random numbers (splitmix64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`, or 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Numbers at which readers go wrong.
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "2",
    "3",
    "1e-320",
    "1e30",
    "1e31",
    "-1e38",
    "3.5e38",
    "1e150",
    "1e308",
    "1e309",
    "-1e999",
    "127",
    "128",
    "255",
    "256",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "nan",
    "inf",
    "null",
    "1.0000000000000000001",
];

/// Words that mean something to readers.
const WORDS: &[&str] = &[
    ",",
    "\t",
    " ",
    "::",
    "\n",
    "\r\n",
    "\"",
    "\"\"",
    "'",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ":",
    "#",
    "%",
    "qid:",
    "label",
    "user",
    "item",
    "rating",
    "task",
    "target",
    "value",
    "left",
    "right",
    "id",
    "true",
    "false",
    "null",
    "\u{feff}",
    "\u{0}",
    "é",
    "\u{d7ff}",
    "\\u0000",
    "\\ud800",
    "%%MatrixMarket matrix coordinate real general\n",
    "symmetric",
    "pattern",
    "array",
    "fortran_order",
    "descr",
    "<f8",
    ">f4",
    "|O",
    "shape",
    "data_offsets",
    "F64",
    "U8",
    "rank",
];

/// An input of the corpus, changed a few times.
pub fn mutate(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = random.pick(corpus).clone();
    for _ in 0..1 + random.below(4) {
        match header(&bytes) {
            // Without this nearly all changes of model files are found at their header.
            Some(end) if random.below(3) > 0 => {
                let mut text = bytes[8..end].to_vec();
                change(&mut text, corpus, random);
                let rest = bytes.split_off(end);
                bytes = (text.len() as u64).to_le_bytes().to_vec();
                bytes.extend(text);
                bytes.extend(rest);
            }
            Some(end) if random.below(2) > 0 => {
                let mut rest = bytes.split_off(end);
                extreme_value(&mut rest, random);
                bytes.extend(rest);
            }
            _ => change(&mut bytes, corpus, random),
        }
    }
    // Long inputs only take longer.
    bytes.truncate(1 << 17);
    bytes
}

/// The end of the header of a safetensors file.
fn header(bytes: &[u8]) -> Option<usize> {
    let length = u64::from_le_bytes(*bytes.first_chunk()?) as usize;
    let end = length.checked_add(8)?;
    (bytes.get(8) == Some(&b'{') && end <= bytes.len()).then_some(end)
}

/// Another number in the tensors.
fn extreme_value(bytes: &mut [u8], random: &mut Random) {
    let values = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        1e-300,
        1e300,
        -1e300,
        f64::MAX,
        f64::MIN_POSITIVE,
        f64::NAN,
        f64::INFINITY,
    ];
    let at = random.below(bytes.len() / 8) * 8;
    let value = match random.below(3) {
        0 => random.pick(&values).to_le_bytes(),
        1 => random.next().to_le_bytes(),
        _ => (random.next() >> random.below(64)).to_le_bytes(),
    };
    if let Some(place) = bytes.get_mut(at..at + 8) {
        place.copy_from_slice(&value);
    }
}

fn change(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let length = bytes.len();
    let at = random.below(length + 1);
    let piece = |random: &mut Random| {
        let start = random.below(length);
        start..(start + 1 + random.below(32)).min(length)
    };
    match random.below(10) {
        0 if length > 0 => bytes[at.min(length - 1)] ^= 1 << random.below(8),
        1 if length > 0 => bytes[at.min(length - 1)] = random.next() as u8,
        2 if length > 0 => drop(bytes.drain(piece(random))),
        3 if length > 0 => {
            let part = bytes[piece(random)].to_vec();
            let times = 1 + random.below(40);
            bytes.splice(at..at, part.repeat(times));
        }
        4 => bytes.truncate(at),
        5 => {
            let other = random.pick(corpus);
            let start = random.below(other.len());
            let end = (start + random.below(200)).min(other.len());
            bytes.splice(at..at, other[start..end].iter().copied());
        }
        6 => drop(bytes.splice(at..at, random.pick(WORDS).bytes())),
        _ => another_number(bytes, random),
    }
}

/// Replaces a number of a text.
fn another_number(bytes: &mut Vec<u8>, random: &mut Random) {
    let part = |byte: &u8| byte.is_ascii_digit() || b"+-.e".contains(byte);
    let from = random.below(bytes.len());
    let Some(start) = bytes[from..].iter().position(u8::is_ascii_digit) else {
        bytes.splice(from..from, random.pick(NUMBERS).bytes());
        return;
    };
    let mut start = from + start;
    while start > 0 && part(&bytes[start - 1]) {
        start -= 1;
    }
    let length = bytes[start..].iter().take_while(|b| part(b)).count();
    let number = random.pick(NUMBERS).bytes();
    bytes.splice(start..start + length, number);
}
