//! An allocator that ends the command with words when memory runs out. Where the library
//! can do without the memory, it is told so instead.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use rankfold_cli::leave;

#[global_allocator]
static ALLOCATOR: InWords = InWords;

/// Whether errors are JSON.
static JSON: AtomicBool = AtomicBool::new(false);

/// Whether memory has run out already.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Says how to tell that memory has run out.
pub fn errors_as_json(json: bool) {
    JSON.store(json, Ordering::SeqCst);
}

struct InWords;

// SAFETY: all calls go to the allocator of the system, unchanged.
unsafe impl GlobalAlloc for InWords {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`.
        found(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        found(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `realloc`.
        found(unsafe { System.realloc(pointer, layout, size) }, size)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn found(pointer: *mut u8, bytes: usize) -> *mut u8 {
    if pointer.is_null() && !rankfold::memory::is_fallible() {
        ran_out(bytes);
    }
    pointer
}

#[cold]
fn ran_out(bytes: usize) -> ! {
    // There may be no memory for the words either.
    if ENDING.swap(true, Ordering::SeqCst) {
        std::process::exit(1);
    }
    let mut text = [0_u8; 160];
    let mut rest = &mut text[..];
    let _ = match JSON.load(Ordering::SeqCst) {
        true => writeln!(
            rest,
            "{{\"error\":{{\"file\":null,\"line\":null,\"message\":\"out of memory: {bytes} bytes more are not free\"}}}}"
        ),
        false => writeln!(
            rest,
            "error: out of memory: {bytes} bytes more are not free"
        ),
    };
    let left = rest.len();
    let _ = std::io::stderr().write_all(&text[..text.len() - left]);
    leave(1)
}
