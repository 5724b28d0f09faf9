use super::*;
use serde_json::value::RawValue;

fn origin() -> Origin {
    Origin {
        model: "m".into(),
        rows: None,
        objects: None,
    }
}

fn open(folder: &Path) -> Result<Journal> {
    Journal::open(folder, origin(), Durability::Os, 300)
}

fn example(number: u64) -> Entry {
    Entry::Example(RawValue::from_string(format!("{{\"n\":{number}}}")).unwrap())
}

/// The examples that count.
fn counted(folder: &Path, end: u64) -> Vec<String> {
    let mut replay = examples(folder, &origin(), end).unwrap();
    let mut out = Vec::new();
    while let Some(entry) = replay.next().unwrap() {
        if let Entry::Example(raw) = entry {
            out.push(raw.get().to_owned());
        }
    }
    assert_eq!(out.len() as u64, replay.examples);
    out
}

#[test]
fn what_was_appended_comes_back_from_all_files_without_what_was_undone() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path()).unwrap();
    assert!(
        open(folder.path())
            .unwrap_err()
            .message
            .contains("another `rankfold serve`")
    );
    for number in 0..20 {
        journal
            .append(vec![example(2 * number), example(2 * number + 1)])
            .unwrap();
        if number % 5 == 4 {
            journal.append(vec![Entry::Undo(Undo {})]).unwrap();
        }
    }
    let end = journal.number();
    drop(journal);
    assert!(Segment::all(folder.path()).unwrap().len() > 3);
    let journal = open(folder.path()).unwrap();
    assert_eq!((journal.number(), journal.cut), (end, 0));
    let want = (0..40).filter(|n| ![9, 19, 29, 39].contains(n));
    let want: Vec<String> = want.map(|n| format!("{{\"n\":{n}}}")).collect();
    assert_eq!(counted(folder.path(), end), want);
    assert_eq!(counted(folder.path(), 4), want[..4]);
    // From the middle, unless what is there was undone later.
    assert!(
        Replay::new(folder.path(), &origin(), 10, end)
            .unwrap()
            .is_none()
    );
    assert!(
        Replay::new(folder.path(), &origin(), 11, end)
            .unwrap()
            .is_some()
    );
}

#[test]
fn a_journal_cut_at_any_byte_of_its_last_records_goes_on_from_the_whole_ones() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(folder.path(), origin(), Durability::Fsync, 1 << 20).unwrap();
    let mut lengths = vec![(journal.length, 0)];
    for number in 0..4 {
        journal.append(vec![example(number)]).unwrap();
        lengths.push((journal.length, journal.number()));
    }
    let path = journal.segment.path.clone();
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    for cut in lengths[2].0..=whole.len() as u64 {
        std::fs::write(&path, &whole[..cut as usize]).unwrap();
        let mut journal = open(folder.path()).unwrap();
        let (length, number) = *lengths.iter().rfind(|(length, _)| *length <= cut).unwrap();
        assert_eq!(
            (journal.number(), journal.cut),
            (number, cut - length),
            "cut at {cut}"
        );
        journal.append(vec![example(99)]).unwrap();
        let end = journal.number();
        drop(journal);
        assert_eq!(counted(folder.path(), end).last().unwrap(), "{\"n\":99}");
    }
}

#[test]
fn damage_in_the_middle_and_other_origins_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(folder.path(), origin(), Durability::Os, 1 << 20).unwrap();
    (0..3).for_each(|n| journal.append(vec![example(n)]).unwrap());
    let path = journal.segment.path.clone();
    drop(journal);
    let mut bytes = std::fs::read(&path).unwrap();
    // The number of the second of three examples.
    let at = bytes.windows(5).position(|w| w == b"\"n\":1").unwrap() + 4;
    bytes[at] = b'7';
    std::fs::write(&path, &bytes).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert!(error.message.contains("damaged"), "{error}");
    bytes[at] = b'1';
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(open(folder.path()).unwrap().number(), 3);
    let other = |model: &str, rows: Option<&str>| {
        let origin = Origin {
            model: model.into(),
            rows: rows.map(str::to_owned),
            objects: None,
        };
        Journal::open(folder.path(), origin, Durability::Os, 300)
            .unwrap_err()
            .message
    };
    assert!(other("n", None).contains("another model"));
    assert!(other("m", Some("r")).contains("other rows"));
}

#[test]
fn a_file_whose_header_was_being_written_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path()).unwrap();
    (0..8).for_each(|n| journal.append(vec![example(n)]).unwrap());
    drop(journal);
    let next = Segment::new(folder.path(), 8);
    for half in ["", "0123", "0123456789abcdef {\"rankf"] {
        std::fs::write(&next.path, half).unwrap();
        let journal = open(folder.path()).unwrap();
        assert_eq!((journal.number(), journal.cut), (8, half.len() as u64));
    }
}
