//! The service over HTTP.

mod guard;
mod handlers;
mod openapi;
mod routes;
mod server;

pub use guard::Guard;
pub use openapi::document;
pub use routes::{Service, router};
pub use server::{Server, tls_config};
