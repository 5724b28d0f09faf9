//! Threads that answer. Queries that wait together are searched together: they share the
//! reading of the rows, which is most of the work.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};

use tokio::sync::oneshot;

use crate::answer::{Answer, Found, NeighborsAsk, View};
use crate::core::Published;
use crate::error::Refused;

/// Queries that are searched together at most.
const TOGETHER: usize = 16;
/// Questions that wait at most.
const WAITING: usize = 4096;

/// A question of any kind, and what to do with the view.
type Job = Box<dyn FnOnce(&Published) + Send>;

enum Work {
    Neighbors(NeighborsAsk, oneshot::Sender<Answer<Vec<Found>>>),
    Other(Job),
}

struct Queue {
    waiting: VecDeque<(Arc<Published>, Work)>,
    stopped: bool,
}

/// The threads.
pub struct Workers {
    queue: Mutex<Queue>,
    came: Condvar,
}

impl Workers {
    /// Starts so many threads, which end with [`Workers::stop`].
    pub fn start(threads: usize) -> std::io::Result<Arc<Self>> {
        let workers = Arc::new(Workers {
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                stopped: false,
            }),
            came: Condvar::new(),
        });
        for _ in 0..threads.max(1) {
            let workers = workers.clone();
            let thread = std::thread::Builder::new().name("answer".into());
            thread.spawn(move || while workers.work() {})?;
        }
        Ok(workers)
    }

    pub fn stop(&self) {
        if let Ok(mut queue) = self.queue.lock() {
            queue.stopped = true;
        }
        self.came.notify_all();
    }

    fn put(&self, published: Arc<Published>, work: Work) -> Answer<()> {
        let Ok(mut queue) = self.queue.lock() else {
            return Err(Refused::unavailable("the service is stopping"));
        };
        if queue.waiting.len() >= WAITING || queue.stopped {
            return Err(Refused::unavailable(
                "too many questions wait: ask again later",
            ));
        }
        queue.waiting.push_back((published, work));
        drop(queue);
        self.came.notify_one();
        Ok(())
    }

    /// The list of a query.
    pub async fn neighbors(
        &self,
        published: Arc<Published>,
        ask: NeighborsAsk,
    ) -> Answer<Vec<Found>> {
        let (send, receive) = oneshot::channel();
        self.put(published, Work::Neighbors(ask, send))?;
        receive.await.unwrap_or_else(|_| Err(gone()))
    }

    /// The answer to any other question.
    pub async fn answer<T: Send + 'static>(
        &self,
        published: Arc<Published>,
        question: impl FnOnce(&dyn View) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let (send, receive) = oneshot::channel();
        let job: Job = Box::new(move |published| {
            let _ = send.send(question(&*published.view));
        });
        self.put(published, Work::Other(job))?;
        receive.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Does what comes next; false at the end.
    fn work(&self) -> bool {
        let Some(batch) = self.next() else {
            return false;
        };
        // A question that breaks an assertion must not take the thread with it.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| answer(batch)));
        drop(done);
        true
    }

    fn next(&self) -> Option<Vec<(Arc<Published>, Work)>> {
        let mut queue = self.queue.lock().ok()?;
        loop {
            if let Some(first) = queue.waiting.pop_front() {
                let mut batch = vec![first];
                while batch.len() < TOGETHER
                    && matches!(batch[0].1, Work::Neighbors(..))
                    && let Some((published, Work::Neighbors(..))) = queue.waiting.front()
                    && Arc::ptr_eq(published, &batch[0].0)
                {
                    batch.extend(queue.waiting.pop_front());
                }
                return Some(batch);
            }
            if queue.stopped {
                return None;
            }
            queue = self.came.wait(queue).ok()?;
        }
    }
}

fn gone() -> Refused {
    Refused::new(
        axum::http::StatusCode::INTERNAL_SERVER_ERROR,
        "the question could not be answered",
    )
}

fn answer(batch: Vec<(Arc<Published>, Work)>) {
    let published = batch[0].0.clone();
    let (mut asks, mut replies) = (Vec::new(), Vec::new());
    for (_, work) in batch {
        match work {
            Work::Neighbors(ask, reply) => {
                asks.push(ask);
                replies.push(reply);
            }
            Work::Other(job) => job(&published),
        }
    }
    if asks.is_empty() {
        return;
    }
    for (reply, found) in replies.into_iter().zip(published.view.neighbors(&asks)) {
        let _ = reply.send(found);
    }
}
