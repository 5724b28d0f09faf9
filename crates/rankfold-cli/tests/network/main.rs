//! Agents as processes that talk over the network of this machine.

mod commands;
mod hostile;
mod life;
mod rehearsal;
mod support;
