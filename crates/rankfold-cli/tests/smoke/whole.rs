//! Data sets are read to their last row.

use rankfold::data::{Features, read_labelled};

/// Rows, columns, stored entries, labels; missing cells are stored.
pub type Size = (usize, usize, usize, usize);

pub const SETS: [(&str, Size); 8] = [
    (
        "delicious/delicious-train.svm.gz",
        (12_920, 500, 239_549, 983),
    ),
    ("bibtex/bibtex-train.svm.gz", (4_880, 1_836, 334_250, 159)),
    ("corel5k/corel5k-train.svm.gz", (4_500, 499, 36_794, 371)),
    ("isolet/isolet.csv.gz", (7_797, 617, 4_793_621, 26)),
    ("usps/usps.csv.gz", (9_298, 256, 976_429, 10)),
    ("uci/iris.csv.gz", (150, 4, 600, 3)),
    ("uci/soybean.csv.gz", (683, 35, 8_806 + 2_337, 19)),
    (
        "office_caltech10_surf/office_caltech10_surf.csv.gz",
        (2_533, 800, 287_872, 10),
    ),
];

pub fn is_read(path: &str, size: Size) {
    let set = read_labelled::<f32>(path).expect("a good file");
    let got = (
        set.rows.len(),
        set.rows.columns(),
        set.rows.nnz(),
        set.labels.names.len(),
    );
    assert_eq!(got, size);
    if let Features::Named(names) = &set.features {
        assert_eq!(names.len(), set.rows.columns());
    }
}
