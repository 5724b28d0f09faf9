//! What is fuzzed: everything that reads bytes from outside. Each target takes any bytes
//! and must neither panic, nor abort, nor hang. `cargo fuzz` and the program on stable
//! (`crates/rankfold/tests/fuzz`) share this file.

use rankfold::batch::sharded::State;
use rankfold::data::text::{Alphabet, Documents, FitOptions, TermRules, Vocabulary};
use rankfold::data::{
    ChoiceColumns, ChoiceLines, Choices, DistanceStream, Features, LabelStream, Lines, Names,
    OnBadLine, PairsOrTriplets, RatingColumns, RatingLines, Ratings, Reading, RowIds, RowLookup,
    SquareMatrix, TaskColumns, TaskLines, TaskRows, TripletStream, ValueStream, read_constraints,
    read_dissimilarities, read_edges, read_label_names, read_labelled, read_labels, read_names,
    read_values, read_with,
};
use rankfold::form::Side;
use rankfold::gossip::Message;
use rankfold::model::{Knowledge, Precise, exchange};
use rankfold::sample::Triplet;
use rankfold::task::Checkpoint;
use rankfold::{Ids, Model, Real, Similarity, SparseVec};
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// A reader that is fuzzed.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target {
        name: "svm",
        run: |b| rows(b, "svm"),
    },
    Target {
        name: "csv",
        run: |b| rows(b, "csv"),
    },
    Target {
        name: "tsv",
        run: |b| rows(b, "tsv"),
    },
    Target {
        name: "jsonl",
        run: |b| rows(b, "jsonl"),
    },
    Target {
        name: "mtx",
        run: |b| rows(b, "mtx"),
    },
    Target {
        name: "npy",
        run: |b| rows(b, "npy"),
    },
    Target {
        name: "npz",
        run: |b| rows(b, "npz"),
    },
    Target {
        name: "parquet",
        run: |b| rows(b, "parquet"),
    },
    Target {
        name: "arrow",
        run: |b| rows(b, "arrow"),
    },
    Target {
        name: "csv.gz",
        run: |b| rows(b, "csv.gz"),
    },
    Target {
        name: "csv.zst",
        run: |b| rows(b, "csv.zst"),
    },
    Target {
        name: "fields",
        run: fields,
    },
    Target {
        name: "ratings",
        run: ratings,
    },
    Target {
        name: "choices",
        run: choices,
    },
    Target {
        name: "tasks",
        run: tasks,
    },
    Target {
        name: "relations",
        run: relations,
    },
    Target {
        name: "labels",
        run: labels,
    },
    Target {
        name: "texts",
        run: texts,
    },
    Target {
        name: "streams",
        run: streams,
    },
    Target {
        name: "factors",
        run: factors,
    },
    Target {
        name: "shards",
        run: shards,
    },
    Target {
        name: "model",
        run: model,
    },
    Target {
        name: "checkpoint",
        run: checkpoint,
    },
    Target {
        name: "gossip",
        run: gossip,
    },
];

/// The target of this name.
#[allow(dead_code, reason = "of cargo fuzz")]
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a target of this name").run)(bytes);
}

/// A folder of this process; in memory where the system has one there.
pub fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let base = match memory.is_dir() {
        true => memory.to_owned(),
        false => std::env::temp_dir(),
    };
    let folder = base.join(format!("rankfold-fuzz-{}", std::process::id()));
    let _ = std::fs::create_dir_all(&folder);
    folder
}

/// A file with these bytes, whose name says its format.
fn file(bytes: &[u8], extension: &str) -> PathBuf {
    let path = folder().join(format!("input.{extension}"));
    std::fs::write(&path, bytes).expect("a file of the fuzzer is written");
    path
}

fn lines(bytes: &[u8]) -> Lines {
    Lines::new(Box::new(Cursor::new(bytes.to_vec())), "stream")
}

fn rows(bytes: &[u8], extension: &str) {
    let path = file(bytes, extension);
    let _ = read_labelled::<f32>(&path);
    if let Ok(read) = read_labelled::<f64>(&path) {
        assert_eq!(read.rows.len(), read.labels.len(), "labels of all rows");
        let _ = SquareMatrix::from_labelled(&read).map(|m| m.dissimilarities(&mut Ids::new()));
    }
}

/// Tables whose columns are named: the first line has the label, the id and a condition,
/// between tabs.
fn fields(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (named, table) = text.split_once('\n').unwrap_or_default();
    let mut names = named.split('\t');
    let [label, id, condition] = [(); 3].map(|()| names.next().unwrap_or_default());
    for extension in ["csv", "tsv", "jsonl"] {
        for strict in [true, false] {
            let source = Documents {
                label: label.to_owned(),
                id: (!id.is_empty()).then(|| id.to_owned()),
                condition: condition.parse().ok(),
                strict,
                // Whatever stands there may also be a category, or be left out.
                categories: vec![label.to_owned()],
                drop: vec![id.to_owned()],
                no_header: condition.is_empty(),
                labelled: strict,
                ..Documents::new(file(table.as_bytes(), extension))
            };
            if let Ok(read) = read_with::<f32>(&source, None) {
                assert_eq!(read.rows.len(), read.labels.len(), "labels of all rows");
            }
        }
    }
}

/// Factors of other programs.
fn factors(bytes: &[u8]) {
    let path = file(bytes, "npz");
    for read in [
        exchange::read_implicit(&path),
        exchange::read_libmf(&path),
        exchange::read_npy_pair(&path, &path),
    ] {
        let _ = read.map(exchange::PlainFactors::into_model::<f32>);
    }
    let _ = exchange::read_word2vec(&path);
}

/// The state of a factorization by shards, which goes on if it is one.
fn shards(bytes: &[u8]) {
    if let Ok(mut state) = State::from_bytes(bytes) {
        assert_eq!(State::from_bytes(&state.to_bytes()).map(drop), Ok(()));
        let _ = state.step(&vec![0.0; state.answer_len()], 1);
    }
}

fn ratings(bytes: &[u8]) {
    for extension in ["csv", "tsv", "jsonl", "dat", "inter", "mtx", "npz"] {
        let path = file(bytes, extension);
        let columns = RatingColumns::default();
        let skip = Reading::new(None, OnBadLine::Skip).expect("a way to read");
        for (wide, reading) in [
            (false, Reading::default()),
            (false, skip.clone()),
            (true, skip),
        ] {
            let columns = RatingColumns {
                wide,
                reading,
                ..columns.clone()
            };
            if let Ok(read) = Ratings::read(&path, &columns) {
                assert!(
                    !read.users.is_empty() && !read.items.is_empty(),
                    "ratings of somebody"
                );
            }
        }
        if let Ok(mut pairs) = RatingLines::open_pairs(&path, &columns) {
            while pairs.advance().is_ok_and(|more| more) {
                pairs.pair(|user, item| assert!(!user.is_empty() && !item.is_empty()));
            }
        }
    }
}

fn choices(bytes: &[u8]) {
    for extension in ["csv", "tsv", "jsonl", "dat"] {
        let path = file(bytes, extension);
        let columns = ChoiceColumns::default();
        for liked_from in [None, Some(3.0)] {
            if let Ok(read) = Choices::read(&path, &columns, liked_from) {
                assert_eq!(read.weights.len(), read.users.len());
                assert_eq!(read.later.len(), read.weights.nnz());
                let weights = read.weights.iter().flat_map(|row| row.values.iter());
                assert!(weights.into_iter().all(|w| *w > 0.0), "weights above 0");
            }
        }
        let _ = read_names(&path);
    }
    if let Ok(mut stream) = ChoiceLines::stream(lines(bytes), &ChoiceColumns::default(), None) {
        while stream.advance().is_ok_and(|more| more) {
            stream.choice(|choice| assert!(choice.weight > 0.0, "a weight above 0"));
        }
    }
}

fn tasks(bytes: &[u8]) {
    for extension in ["csv", "jsonl"] {
        let path = file(bytes, extension);
        if let Ok(read) = TaskRows::read(&path, &TaskColumns::default()) {
            assert!(!read.is_empty(), "rows of some task");
        }
    }
}

fn relations(bytes: &[u8]) {
    let path = file(bytes, "txt");
    let lookup = RowLookup::new(&RowIds::Positions, 9);
    match PairsOrTriplets::open(&path) {
        Ok(PairsOrTriplets::Pairs(mut pairs)) => while let Some(Ok(_)) = pairs.next() {},
        Ok(PairsOrTriplets::Triplets(mut triplets)) => while let Some(Ok(_)) = triplets.next() {},
        Err(_) => {}
    }
    if let Ok(pairs) = read_values(&path, &lookup, &lookup) {
        assert!(
            pairs.iter().all(|pair| pair.value.is_finite()),
            "finite values"
        );
    }
    let mut items = Ids::new();
    if let Ok(found) = read_dissimilarities(&path, &mut items) {
        let inside = |i: u32| (i as usize) < items.len();
        assert!(
            found
                .iter()
                .all(|d| inside(d.left) && inside(d.right) && d.value >= 0.0)
        );
    }
    let mut items = Ids::new();
    let _ = read_constraints(&path, &mut |name| Ok(items.intern(name)));
    let _ = read_edges(&path);
}

fn labels(bytes: &[u8]) {
    for extension in ["txt", "npy"] {
        let path = file(bytes, extension);
        if let Ok(read) = read_labels(&path, 4) {
            assert!(
                read.len() <= 5,
                "one more than there are rows tells that they are too many"
            );
        }
        let _ = read_label_names(&path);
    }
}

fn texts(bytes: &[u8]) {
    if let Ok(vocabulary) = Vocabulary::parse(bytes) {
        let mut again = Vec::new();
        vocabulary.write(&mut again).expect("memory takes all");
        let read = Vocabulary::parse(&again).expect("what was written is read");
        assert_eq!(read.len(), vocabulary.len(), "all terms come back");
    }
    let small = Vocabulary::parse(SMALL_VOCABULARY).expect("a vocabulary of the corpus");
    let _ = Documents::new(file(bytes, "jsonl")).read::<f32>(&small);
    let _ = Documents::new(file(bytes, "csv")).read::<f32>(&small);
    // Any text has terms, by any rules.
    let text = String::from_utf8_lossy(bytes);
    for (words, letters) in [("1..3", None), ("1", "1..4".parse().ok())] {
        let options = FitOptions {
            min_df: 1,
            rules: TermRules {
                fold: true,
                words: words.parse().expect("a range"),
                letters,
                ..TermRules::default()
            },
            alphabet: Some(Alphabet::Unicode),
            ..FitOptions::default()
        };
        if let Ok(fitted) = Vocabulary::fit([(&*text, None)], options) {
            let _ = fitted.vectorize::<f32>(&text);
        }
    }
}

const SMALL_VOCABULARY: &[u8] = include_bytes!("corpus/texts/vocabulary");

fn streams(bytes: &[u8]) {
    let lookup = RowLookup::new(&RowIds::Positions, 9);
    let names = Names::new(&Features::Numbered, Some(&lookup));
    let mut triplets = TripletStream::<f32>::new(lines(bytes));
    while let Ok(Some(_)) = triplets.read_between(names, names) {}
    let mut labelled = LabelStream::<f32>::new(lines(bytes));
    while let Ok(Some(_)) = labelled.read(names) {}
    let mut values = ValueStream::<f64>::new(lines(bytes));
    while let Ok(Some((_, value))) = values.read(names, names) {
        assert!(value.is_finite(), "a finite value");
    }
    let mut distances = DistanceStream::<f64>::new(lines(bytes));
    while let Ok(Some(_)) = distances.read(names, names) {}
    if let Ok(mut ratings) = RatingLines::stream(lines(bytes), &RatingColumns::default()) {
        while ratings.advance().is_ok_and(|more| more) {
            ratings.rating(|_, _, rating| assert!(rating.is_finite(), "a finite rating"));
        }
    }
    let mut tasks = TaskLines::from_lines(lines(bytes));
    while tasks.advance().is_ok_and(|more| more) {
        assert!(tasks.line().target.is_finite(), "a finite target");
    }
}

/// A model that loads can be asked and goes on learning, and what it saves loads again.
fn model(bytes: &[u8]) {
    let path = file(bytes, "safetensors");
    let Ok(model) = Model::load(&path) else {
        return;
    };
    use_model(&model);
}

/// Work grows with the square of these; larger models are only loaded.
const MOST: usize = 300;

fn use_model(model: &Model) {
    let _ = model.singular_values();
    if model.columns() > MOST || model.columns_of(Side::Right) > MOST {
        return;
    }
    let saved = folder().join("saved.safetensors");
    if model.save(&saved).is_ok() {
        Model::load(&saved).expect("what was saved loads");
    }
    match &model.form {
        Precise::F32(_) => ask::<f32>(model),
        Precise::F64(_) => ask::<f64>(model),
    }
}

fn ask<R: Real>(model: &Model) {
    let saved = folder().join("saved.safetensors");
    let check = |result: rankfold::Result<()>| {
        if result.is_ok() {
            Model::load(&saved).expect("what was saved loads");
        }
    };
    let row = |i: usize| {
        let wide = model.columns().clamp(1, 9) as u32;
        let cell = |j: u32| (j, R::from_f64(f64::from((i as u32 + j) % 5) - 1.5));
        SparseVec::from_entries((0..wide).map(cell).collect())
    };
    let mut data = rankfold::Rows::<R>::new();
    (0..4).for_each(|i| data.push(row(i).as_row()));
    data.widen(model.columns());
    let prepared = model.prepare(data, &model.features.clone());
    match &model.knowledge {
        Knowledge::Completion(_) => {
            if let Ok(predictor) = model.rating_predictor() {
                predictor.rating(Some(0), None);
                if model.columns() > 0 && model.columns_of(Side::Right) > 0 {
                    predictor.rating(Some(0), Some(0));
                }
            }
            if let Ok(mut learner) = model.clone().into_rating_learner::<R>() {
                let _ = learner.learn("new", "newer", 3.0);
                let _ = learner.learn("new", "newer", -1e9);
                check(learner.save(&saved));
            }
        }
        Knowledge::Recommend(known) => {
            if let Ok(recommender) = model.recommender() {
                for (number, history) in (0..).zip(known.histories.iter().take(3)) {
                    let user = recommender.known_user(number);
                    if recommender.items() > 0 {
                        recommender.score(&user, 0);
                        recommender.reasons(history, 0);
                    }
                }
            }
            if let Ok(mut learner) = model.clone().into_choice_learner() {
                let _ = learner.learn("new", "newer", 3.0);
                let _ = learner.learn("new", "newest", 1e9);
                check(learner.save(&saved));
            }
        }
        Knowledge::Multitask(_) => {
            let row = SparseVec::from_entries(vec![(0, 1.0)]);
            if let Ok(mut predictor) = model.task_predictor() {
                predictor.target(None, row.as_row());
            }
            if let Ok(mut learner) = model.clone().into_task_learner() {
                let _ = learner.learn("new", row.as_row(), 2.0);
                check(learner.save(&saved));
            }
        }
        Knowledge::Kernel(_) | Knowledge::Map(_) => {
            let _ = model.item_coordinates::<R>();
        }
        Knowledge::Ranking(_) => {
            if let Ok(prepared) = &prepared
                && let Ok(scores) = model.label_scores(prepared)
            {
                scores.one(0, None);
            }
            learn(model, &row, &saved, &check);
        }
        Knowledge::Similarity(_) | Knowledge::Metric | Knowledge::Pairs { .. } => {
            if let Ok(prepared) = &prepared
                && model.objects.is_none()
                && let Ok(projection) = model.project(prepared, None)
            {
                projection.score(0, 1);
            }
            learn(model, &row, &saved, &check);
        }
    }
}

fn learn<R: Real>(
    model: &Model,
    row: &dyn Fn(usize) -> SparseVec<R>,
    saved: &Path,
    check: &dyn Fn(rankfold::Result<()>),
) {
    let Ok(mut learner) = model.clone().into_learner::<R>() else {
        return;
    };
    let rows = [row(0), row(1), row(2)];
    let triplet = Triplet {
        query: rows[0].as_row(),
        positive: rows[1].as_row(),
        negative: rows[2].as_row(),
    };
    if matches!(model.knowledge, Knowledge::Similarity(_)) && model.objects.is_none() {
        let _ = learner.learn(&triplet);
    }
    check(learner.save(saved));
}

fn checkpoint(bytes: &[u8]) {
    let path = file(bytes, "safetensors");
    let Ok(checkpoint) = Checkpoint::load(&path) else {
        return;
    };
    let _ = checkpoint.seconds();
    if let Ok(model) = checkpoint.model() {
        use_model(&model);
    }
    let Ok(options) = checkpoint.options::<Similarity>() else {
        return;
    };
    let data = read_labelled::<f32>(kept("kept.svm")).expect("a kept file");
    let options = options.threads(1);
    if let Ok(mut session) = options.resume(&data, &checkpoint) {
        for _ in 0..3 {
            let _ = session.advance(20);
        }
        let saved = folder().join("saved.safetensors");
        if session.save_checkpoint(&saved, 0.0).is_ok() {
            Checkpoint::load(&saved).expect("what was saved loads");
        }
    }
}

/// A file that is kept for tests.
pub fn kept(name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The package of `cargo fuzz` and the library lie at different depths.
    let tries = ["tests/models", "../crates/rankfold/tests/models"];
    let found = tries.iter().map(|folder| here.join(folder).join(name));
    let mut found = found.filter(|path| path.exists());
    found.next().expect("a kept file")
}

fn gossip(bytes: &[u8]) {
    for size in [(3, 1), (4, 2), (1 << 40, 1 << 40)] {
        if let Ok(message) = Message::decode(bytes, size) {
            assert_eq!(message.encode(), bytes, "a message has one form");
        }
    }
    // With the right checksum around any numbers.
    let words = bytes
        .as_chunks()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word));
    let words: Vec<u64> = words.collect();
    let [sender, round, ref numbers @ ..] = words[..] else {
        return;
    };
    if let Some(numbers) = numbers.first_chunk::<8>() {
        let message = Message {
            sender: sender as usize,
            round,
            subspace: faer::Mat::from_fn(4, 2, |i, j| f64::from_bits(numbers[4 * j + i])),
        };
        if let Ok(back) = Message::decode(&message.encode(), (4, 2)) {
            assert_eq!(back.encode(), message.encode(), "a message has one form");
        }
    }
}
