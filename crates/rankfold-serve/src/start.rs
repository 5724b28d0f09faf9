//! Puts the parts of a service together, and takes them apart again.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use rankfold::data::text::Documents;
use rankfold::data::{Labelled, read_names, read_with};
use rankfold::form::Side;
use rankfold::model::{Knowledge, Precise, Prepared};
use rankfold::{Error, Model, Real, Result};
use serde_json::json;
use tokio::sync::watch;

use crate::answer::{Rows, view};
use crate::book::{Added, Base};
use crate::core::{Core, Drawings, Facts, Published};
use crate::http::{Guard, Server, Service, router, tls_config};
use crate::index::Index;
use crate::journal::{Journal, Origin, checksum};
use crate::learner::{Command, Learner, Origins, State};
use crate::log::Logger;
use crate::mind::Mind;
use crate::options::{IndexKind, Options};
use crate::publish::Publisher;
use crate::workers::Workers;

/// Requests that wait for the learner at most.
const WAITING: usize = 1024;

/// A service at work.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    stop: watch::Sender<bool>,
    server: Option<std::thread::JoinHandle<()>>,
    learner: Option<std::thread::JoinHandle<()>>,
    core: Arc<Core>,
    workers: Arc<Workers>,
    end: Box<dyn Fn() + Send>,
    log: Logger,
}

impl Running {
    /// Whether it still serves.
    pub fn is_running(&self) -> bool {
        self.server
            .as_ref()
            .is_some_and(|server| !server.is_finished())
    }

    /// Stops it: no new requests, open ones end, journal and snapshot are written.
    pub fn stop(mut self) {
        self.stop.send_replace(true);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
        let learner = self
            .core
            .learner
            .lock()
            .ok()
            .and_then(|mut learner| learner.take());
        if let Some(learner) = learner {
            let _ = learner.send(Command::Stop);
        }
        if let Some(learner) = self.learner.take() {
            let _ = learner.join();
        }
        (self.end)();
        self.workers.stop();
        self.log
            .info("stopped", json!({ "sequence": self.core.sequence() }));
    }
}

/// Starts a service.
pub fn start(options: &Options) -> Result<Running> {
    start_with(options, None)
}

/// Starts a service with something to draw.
pub fn start_with(options: &Options, drawings: Option<Box<dyn Drawings>>) -> Result<Running> {
    let model = Model::load(&options.model)?;
    match &model.form {
        Precise::F32(_) => begin::<f32>(options, model, drawings),
        Precise::F64(_) => begin::<f64>(options, model, drawings),
    }
}

/// Rows of a side, as the model sees them.
struct Read<R> {
    data: Labelled<R>,
    path: std::path::PathBuf,
}

fn read<R: Real>(model: &Model, source: &Documents, side: Side) -> Result<Read<R>> {
    let mut data = read_with::<R>(source, model.side(side).0.vocabulary())?;
    data.rows.share();
    Ok(Read {
        data,
        path: source.path.clone(),
    })
}

fn keep<R: Real>(read: Read<R>, prepared: Prepared<R>) -> &'static Base<R> {
    let Labelled {
        rows,
        labels,
        ids,
        features,
    } = read.data;
    Base::keep(ids, prepared, rows, features, Some(labels))
}

/// The hash of a file, for the origin of a journal.
fn hash_of(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).map_err(|e| Error::reading(path, &e))?;
    Ok(format!("{:016x}-{}", checksum(&bytes), bytes.len()))
}

/// An error where the rows that a model needs are not given, or those are that it has no use for.
fn check_rows(options: &Options, model: &Model) -> Result<()> {
    let place = |e: Error| e.in_file(&options.model);
    let rows = match &model.knowledge {
        Knowledge::Similarity(_) | Knowledge::Metric | Knowledge::Pairs { .. } => {
            if options.rows.is_none() {
                return Err(Error::input(
                    "--rows is needed: it has the rows to look among",
                ));
            }
            if model.objects.is_some() && options.objects.is_none() {
                let message = "the model scores rows with objects: give them with --objects FILE";
                return Err(place(Error::input(message)));
            }
            true
        }
        Knowledge::Ranking(_) => true,
        Knowledge::Completion(_) | Knowledge::Recommend(_) | Knowledge::Multitask(_) => false,
        Knowledge::Kernel(_) | Knowledge::Map(_) => {
            let message = "a kernel knows its own items only, and is not served: use `rankfold \
                neighbors`";
            return Err(place(Error::input(message)));
        }
    };
    if !rows && options.rows.is_some() {
        return Err(Error::option(
            "rows",
            "does not apply: the model has things of its own",
        ));
    }
    let objects = model.objects.is_some() && !matches!(model.knowledge, Knowledge::Ranking(_));
    if options.objects.is_some() && !(rows && objects) {
        return Err(Error::option(
            "objects",
            "does not apply: the model has no objects",
        ));
    }
    Ok(())
}

fn begin<R: Real>(
    options: &Options,
    model: Model,
    drawings: Option<Box<dyn Drawings>>,
) -> Result<Running> {
    check_rows(options, &model)?;
    let log = Logger::new(options.log);
    let guard = Guard::new(options)?;
    let tls = options.access.tls.as_ref().map(tls_config).transpose()?;
    let names = match &options.names {
        Some(path) => read_names(path)?.into_iter().collect::<HashMap<_, _>>(),
        None => HashMap::new(),
    };
    // Before anything is read: that the address is free is known at once.
    let listener = TcpListener::bind(options.listen)
        .map_err(|e| Error::failure(format!("cannot listen on {}: {e}", options.listen)))?;
    let address = listener
        .local_addr()
        .map_err(|e| Error::failure(format!("cannot listen: {e}")))?;

    let left = options
        .rows
        .as_ref()
        .map(|source| read::<R>(&model, source, Side::Left));
    let left = left.transpose()?;
    let right = options
        .objects
        .as_ref()
        .map(|source| read::<R>(&model, source, Side::Right));
    let right = right.transpose()?;
    let wants_index = match options.index {
        IndexKind::Exact => false,
        IndexKind::Hnsw => true,
        IndexKind::Auto => {
            let candidates = right.as_ref().or(left.as_ref());
            candidates.is_some_and(|read| read.data.rows.len() > Options::AUTO_ROWS)
        }
    };
    let wants_index = wants_index
        && matches!(
            model.knowledge,
            Knowledge::Similarity(_) | Knowledge::Metric | Knowledge::Pairs { .. }
        );

    let counters;
    let (origins, learning, first, sequence, added) = match &options.learning {
        None => {
            let prepare = |read: Read<R>, side: Side| -> Result<&'static Base<R>> {
                let prepared =
                    model.prepare_side(read.data.rows.clone(), &read.data.features, side);
                let prepared = prepared.map_err(|e| e.in_file(&read.path))?;
                Ok(keep(read, prepared))
            };
            let left = left.map(|read| prepare(read, Side::Left)).transpose()?;
            let right = right.map(|read| prepare(read, Side::Right)).transpose()?;
            counters = model.card.counters;
            let origins = Origins {
                model: options.model.clone(),
                left: left.unwrap_or_else(Base::none),
                right,
            };
            let added = [(); 2].map(|()| Arc::new(Added::default()));
            (origins, None, Arc::new(model), 0, added)
        }
        Some(learning) => {
            let origin = Origin {
                model: hash_of(&options.model)?,
                rows: left.as_ref().map(|read| hash_of(&read.path)).transpose()?,
                objects: right.as_ref().map(|read| hash_of(&read.path)).transpose()?,
            };
            // Rows are made ready as `update` makes them: their features become the model's.
            let mut mind = Mind::<R>::new(model).map_err(|e| e.in_file(&options.model))?;
            let mut prepare = |read: Read<R>, side: Side| -> Result<&'static Base<R>> {
                let Mind::Rows(learner) = &mut mind else {
                    return Err(Error::option("rows", "does not apply to this model"));
                };
                let rows = read.data.rows.clone();
                let rows = learner.prepare_side(side, rows, &read.data.features);
                let rows = rows.map_err(|e| e.in_file(&read.path))?;
                let prepared = Prepared {
                    rows,
                    unknown_entries: 0,
                };
                Ok(keep(read, prepared))
            };
            let left = left.map(|read| prepare(read, Side::Left)).transpose()?;
            let right = right.map(|read| prepare(read, Side::Right)).transpose()?;
            let origins = Origins {
                model: options.model.clone(),
                left: left.unwrap_or_else(Base::none),
                right,
            };
            let journal = Journal::open(
                &learning.journal,
                origin,
                learning.durability,
                learning.segment_bytes,
            )?;
            if journal.cut > 0 {
                log.info("journal", json!({ "torn_bytes_cut": journal.cut }));
            }
            let state: State<R> = origins.restore(&journal)?;
            counters = state.mind.counters();
            let first = Arc::new(state.mind.to_model()?);
            let (sequence, added) = (state.sequence, state.added.clone());
            (
                origins,
                Some((learning, journal, state)),
                first,
                sequence,
                added,
            )
        }
    };

    let rows = Rows {
        left: origins.left,
        right: origins.right,
        added,
    };
    let index = match wants_index {
        false => None,
        true => {
            let queries = &origins.left.prepared.rows;
            let candidates = &origins.right.unwrap_or(origins.left).prepared.rows;
            let index = Index::build(first.clone(), (queries, candidates), sequence)?;
            if let Some(index) = &index {
                log.info(
                    "index",
                    json!({ "rows": candidates.len(), "recall": index.recall(), "seconds": index.seconds }),
                );
            }
            index.map(Arc::new)
        }
    };
    let published = Published {
        view: view(first, &rows, index.clone())?,
        sequence,
        lag: Duration::ZERO,
    };
    let facts = Facts {
        visible_within: options.visible_within,
        journal: learning
            .as_ref()
            .map(|(_, journal, _)| (journal.folder().to_owned(), journal.origin().clone())),
        cut: learning.as_ref().map_or(0, |(_, journal, _)| journal.cut),
    };
    let entries = learning
        .as_ref()
        .map_or(0, |(_, journal, _)| journal.number());
    let core = Arc::new(Core::new(
        published,
        entries,
        counters,
        options.limits.clone(),
        log,
        names,
        drawings,
        facts,
    ));
    let threads = |e: std::io::Error| Error::failure(format!("cannot start a thread: {e}"));
    let workers = Workers::start(options.threads).map_err(threads)?;

    let mut end: Box<dyn Fn() + Send> = Box::new(|| {});
    let mut thread = None;
    if let Some((learning, journal, state)) = learning {
        let publisher = Publisher::new(core.clone(), index, wants_index, options.threads)?;
        let publisher = Arc::new(publisher);
        let named = |name: &str| std::thread::Builder::new().name(name.into());
        let run = publisher.clone();
        named("publish").spawn(move || run.run()).map_err(threads)?;
        let stop = publisher.clone();
        end = Box::new(move || stop.stop());
        let (send, receive) = sync_channel(WAITING);
        if let Ok(mut slot) = core.learner.lock() {
            *slot = Some(send);
        }
        let learner = Learner {
            core: core.clone(),
            origins,
            journal,
            state,
            publisher,
            snapshot_every: learning.snapshot_every.max(1),
            visible_within: options.visible_within,
            broken: false,
            unseen: None,
            published: Instant::now(),
            writing: None,
        };
        let started = named("learn").spawn(move || learner.run(&receive));
        thread = Some(started.map_err(threads)?);
    }

    let service = Service {
        core: core.clone(),
        workers: workers.clone(),
        guard: Arc::new(guard),
        log_requests: options.log_requests,
    };
    let (stop, stopped) = watch::channel(false);
    let (limits, io_threads) = (options.limits.clone(), options.threads.clamp(1, 8));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(io_threads)
        .thread_name("http")
        .enable_all()
        .build()
        .map_err(threads)?;
    let server = std::thread::Builder::new()
        .name("serve".into())
        .spawn(move || {
            runtime.block_on(async {
                match Server::new(listener, tls, router(service), limits) {
                    Ok(server) => server.run(stopped).await,
                    Err(error) => log.error("serve", json!({ "message": error.to_string() })),
                }
            });
            runtime.shutdown_timeout(Duration::from_secs(1));
        });
    Ok(Running {
        address,
        stop,
        server: Some(server.map_err(threads)?),
        learner: thread,
        core,
        workers,
        end,
        log,
    })
}
