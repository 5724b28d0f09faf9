//! Work in blocks of fixed size on several threads: the result has the same
//! bits for any number of them.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs the same work on several threads, of which this is one. Where the system gives
/// no more threads, there are fewer.
pub(crate) fn share(threads: usize, work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 1..threads {
            let made = std::thread::Builder::new().spawn_scoped(scope, &work);
            if made.is_err() {
                break;
            }
        }
        work();
    });
}

/// What `work` makes of the ranges that `0..count` is cut into, in order.
pub(crate) fn map_blocks<T: Send>(
    count: usize,
    block: usize,
    threads: usize,
    work: impl Fn(Range<usize>) -> T + Sync,
) -> Vec<T> {
    let blocks = count.div_ceil(block);
    let range = |i: usize| i * block..((i + 1) * block).min(count);
    if threads <= 1 || blocks <= 1 {
        return (0..blocks).map(|i| work(range(i))).collect();
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(blocks));
    share(threads.min(blocks), || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= blocks {
                return;
            }
            let made = work(range(i));
            done.lock().expect("no thread panicked").push((i, made));
        }
    });
    let mut done = done.into_inner().expect("no thread panicked");
    done.sort_by_key(|&(i, _)| i);
    done.into_iter().map(|(_, made)| made).collect()
}

/// The same for rows of `width` numbers that are written: `work` gets the number
/// of its first row, and as many rows as a block has.
pub(crate) fn map_rows<R: Send, T: Send>(
    rows: &mut [R],
    width: usize,
    block: usize,
    threads: usize,
    work: impl Fn(usize, &mut [R]) -> T + Sync,
) -> Vec<T> {
    let blocks = (rows.len() / width).div_ceil(block);
    let pieces = rows.chunks_mut(block * width).enumerate();
    if threads <= 1 || blocks <= 1 {
        return pieces.map(|(i, rows)| work(i * block, rows)).collect();
    }
    let pieces = Mutex::new(pieces);
    let done = Mutex::new(Vec::with_capacity(blocks));
    share(threads.min(blocks), || {
        loop {
            let piece = pieces.lock().expect("no thread panicked").next();
            let Some((i, rows)) = piece else { return };
            let made = work(i * block, rows);
            done.lock().expect("no thread panicked").push((i, made));
        }
    });
    let mut done = done.into_inner().expect("no thread panicked");
    done.sort_by_key(|&(i, _)| i);
    done.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_for_any_number_of_threads() {
        for threads in [1, 2, 5] {
            for count in [0, 1, 7, 8, 30] {
                let ranges = map_blocks(count, 4, threads, |range| range);
                let all: Vec<usize> = ranges.into_iter().flatten().collect();
                assert_eq!(all, (0..count).collect::<Vec<_>>());
                let mut rows = vec![0; count * 3];
                let firsts = map_rows(&mut rows, 3, 4, threads, |first, rows| {
                    for (i, entry) in rows.iter_mut().enumerate() {
                        *entry = first * 3 + i;
                    }
                    first
                });
                assert!(firsts.iter().enumerate().all(|(i, &first)| first == 4 * i));
                assert_eq!(rows, (0..count * 3).collect::<Vec<_>>());
            }
        }
    }
}
