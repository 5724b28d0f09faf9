//! A service that answers from a model over HTTP, and learns from what it is told.
