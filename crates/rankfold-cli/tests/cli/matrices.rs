//! Rows from other programs: Matrix Market and NumPy files, and labels that
//! come apart from them.

use crate::support::{Place, Said};
use crate::train::place_with_data;

/// An array of version 1.0.
fn npy(descr: &str, fortran: &str, shape: &str, items: impl Iterator<Item = u8>) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.bytes());
    out.extend(items);
    out
}

/// The bytes of an archive whose entries are stored as they are.
fn zip(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in entries {
        let name = format!("{name}.npy");
        let offset = out.len() as u32;
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        common.extend(crc(bytes).to_le_bytes());
        common.extend((bytes.len() as u32).to_le_bytes());
        common.extend((bytes.len() as u32).to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        out.extend(b"PK\x03\x04");
        out.extend(&common);
        out.extend(name.bytes());
        out.extend(bytes);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.bytes());
    }
    let (count, start) = (entries.len() as u16, out.len() as u32);
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(count.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0, 0]);
    out
}

fn crc(bytes: &[u8]) -> u32 {
    let byte = |crc: u32, &byte: &u8| {
        (0..8).fold(crc ^ u32::from(byte), |c, _| {
            (c >> 1) ^ (0xedb8_8320 & (c & 1).wrapping_neg())
        })
    };
    !bytes.iter().fold(!0, byte)
}

/// Labels and dense rows of an svmlight file.
fn parse(text: &str, columns: usize) -> (Vec<i64>, Vec<Vec<f32>>) {
    let (mut labels, mut rows) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let mut fields = line.split(' ');
        labels.push(fields.next().unwrap().parse().unwrap());
        let mut row = vec![0.0; columns];
        for field in fields {
            let (index, value) = field.split_once(':').unwrap();
            row[index.parse::<usize>().unwrap() - 1] = value.parse().unwrap();
        }
        rows.push(row);
    }
    (labels, rows)
}

/// Writes the rows of `NAME.svm` in all the other formats.
fn rewrite(place: &Place, name: &str) {
    let (labels, rows) = parse(&place.read(&format!("{name}.svm")), 60);
    let (n, shape) = (rows.len(), format!("({}, 60)", rows.len()));
    let path = |extension: &str| format!("{name}.{extension}");

    let mut mtx = "%%MatrixMarket matrix coordinate real general\n% rows\n".to_owned();
    let mut csr = (vec![0i32], Vec::new(), Vec::new());
    for (i, row) in rows.iter().enumerate() {
        for (j, v) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
            csr.1.push(j as i32);
            csr.2.push(*v);
            // From the last row to the first.
            let (i, j) = (i + 1, j + 1);
            mtx.insert_str(53, &format!("{i} {j} {v}\n"));
        }
        csr.0.push(csr.1.len() as i32);
    }
    mtx.insert_str(53, &format!("{n} 60 {}\n", csr.1.len()));
    rankfold::data::write_atomically(place.path(&path("mtx.gz")), |w| w.write_all(mtx.as_bytes()))
        .unwrap();

    let values = || rows.iter().flatten();
    let floats = values().flat_map(|v| v.to_le_bytes());
    place.write(&path("npy"), npy("<f4", "False", &shape, floats));
    let columns = (0..60).flat_map(|j| rows.iter().map(move |row| row[j]));
    let doubles = columns.flat_map(|v| f64::from(v).to_be_bytes());
    place.write(&path("turned.npy"), npy(">f8", "True", &shape, doubles));

    let y = npy(
        "<i8",
        "False",
        &format!("({n},)"),
        labels.iter().flat_map(|l| l.to_le_bytes()),
    );
    let small = values().map(|v| *v as u8);
    let x = npy("|u1", "False", &shape, small);
    place.write(&path("npz"), zip(&[("X", x), ("y", y.clone())]));
    let ints = |values: &[i32]| {
        let items = values.iter().flat_map(|v| v.to_le_bytes());
        npy("<i4", "False", &format!("({},)", values.len()), items)
    };
    let floats = csr.2.iter().flat_map(|v| v.to_le_bytes());
    let data = npy("<f4", "False", &format!("({},)", csr.2.len()), floats);
    let arrays = [
        ("indices", ints(&csr.1)),
        ("indptr", ints(&csr.0)),
        ("format", npy("|S3", "False", "()", "csr".bytes())),
        ("shape", ints(&[n as i32, 60])),
        ("data", data),
    ];
    place.write(&path("sparse.npz"), zip(&arrays));
    place.write(&path("labels.npy"), y);
    let lines: String = labels.iter().map(|l| format!("{l}\n")).collect();
    place.write(&path("labels.txt"), lines);
}

fn train(place: &Place, data: &str, more: &[&str]) -> Said {
    let run = [
        "train",
        "similarity",
        data,
        "-o",
        "m",
        "--rank",
        "6",
        "--steps",
        "3000",
        "--step-size",
        "1",
        "--normalize",
        "l2",
        "--quiet",
    ];
    place.run(&[&run[..], more].concat())
}

#[test]
fn rows_of_every_format_give_the_same_model_and_figures() {
    let place = place_with_data();
    rewrite(&place, "train");
    rewrite(&place, "test");
    let valid = ["--valid", "test.svm"];
    assert_eq!(train(&place, "train.svm", &valid).code, 0);
    let bytes = || std::fs::read(place.path("m")).expect("a model");
    let (want, found) = (
        bytes(),
        place.run(&["eval", "m", "test.svm", "--json"]).json(),
    );
    for (name, labels) in [
        ("mtx.gz", "labels.txt"),
        ("npy", "labels.npy"),
        ("turned.npy", "labels.txt"),
        ("sparse.npz", "labels.npy"),
        ("npz", ""),
    ] {
        let of = |part: &str, extension: &str| format!("{part}.{extension}");
        let (data, test) = (of("train", name), of("test", name));
        let (label, test_label) = (of("train", labels), of("test", labels));
        let mut more = vec!["--valid", &test];
        let mut eval = vec!["eval", "m", &test, "--json"];
        if !labels.is_empty() {
            more.extend(["--labels", &label, "--valid-labels", &test_label]);
            eval.extend(["--labels", &test_label]);
        }
        place.write("m", "");
        let said = train(&place, &data, &more);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{name}");
        assert!(bytes() == want, "{name}");
        assert_eq!(place.run(&eval).json(), found, "{name}");
        let neighbors = |data: &str| place.run(&["neighbors", "m", data, "-k", "2"]).stdout;
        assert_eq!(neighbors(&test), neighbors("test.svm"));
    }
}

#[test]
fn labels_replace_those_of_the_rows_and_must_be_as_many() {
    let place = place_with_data();
    rewrite(&place, "train");
    place.write("one.txt", "a\n".repeat(300));
    place.write("short.txt", "a\n".repeat(299));
    train(&place, "train.svm", &["--labels", "one.txt"])
        .refused("train.svm: triplets need rows of at least two classes, found 1");
    train(&place, "train.npy", &["--labels", "short.txt"])
        .refused("short.txt: expected 300 labels, one a row, found 299");
    train(&place, "train.npy", &[])
        .refused("train.npy: row `0` has 0 labels, expected exactly one");
    place.write("hole.txt", "a\n\n".repeat(150));
    train(&place, "train.npy", &["--labels", "hole.txt"])
        .refused("train.npy: row `1` has 0 labels, expected exactly one");
    train(&place, "train.npy", &["--labels", "none.txt"])
        .refused("none.txt: cannot read: No such file or directory (os error 2)");
    assert_eq!(train(&place, "train.svm", &[]).code, 0);
    place
        .run(&["eval", "m", "train.npy", "--labels", "short.txt"])
        .refused("short.txt: expected 300 labels, one a row, found 299");
    place.write(
        "nan.npy",
        npy(
            "<f4",
            "False",
            "(1, 2)",
            [0, 0, 0, 0, 0, 0, 192, 127].into_iter(),
        ),
    );
    place.run(&["neighbors", "m", "nan.npy"]).refused(
        "nan.npy: the number at row 0, column 1 (both from 0) is NaN: expected a finite number",
    );
    place.run(&["neighbors", "m", "train.npz.gz"]).refused(
        "train.npz.gz: a .npz file is compressed already: expected it without .gz or .zst",
    );
}
