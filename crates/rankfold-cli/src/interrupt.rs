//! Ctrl-C asks for a stop; a second one does not ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user has asked for a stop.
#[derive(Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches from now on.
    pub fn watch() -> Self {
        let asked = Arc::new(AtomicBool::new(false));
        let flag = asked.clone();
        // Without a handler Ctrl-C ends the process, as it would by default.
        let _ = ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
        });
        Interrupt(asked)
    }

    /// Whether it was asked for.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
