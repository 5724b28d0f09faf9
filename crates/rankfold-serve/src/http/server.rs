//! Takes connections, with TLS where it is asked for, until it is to stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use rankfold::{Error, Result};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

use super::routes::Peer;
use crate::options::{Limits, Tls};

/// How long open requests have to end when the service stops.
const FAREWELL: Duration = Duration::from_secs(10);

/// The certificate and key of a service.
pub fn tls_config(tls: &Tls) -> Result<ServerConfig> {
    let bad = |path: &std::path::Path, what: &str, e: &dyn std::fmt::Display| {
        Error::input(format!("expected {what} as PEM: {e}")).in_file(path)
    };
    let chain: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(&tls.certificate).and_then(Iterator::collect);
    let chain = chain.map_err(|e| bad(&tls.certificate, "a certificate", &e))?;
    if chain.is_empty() {
        return Err(bad(&tls.certificate, "a certificate", &"found none"));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key);
    let key = key.map_err(|e| bad(&tls.key, "a private key", &e))?;
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider);
    let config = config
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::failure(e.to_string()))?;
    let config = config.with_no_client_auth().with_single_cert(chain, key);
    config.map_err(|e| bad(&tls.certificate, "a certificate that fits the key", &e))
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: Limits,
}

impl Server {
    pub fn new(
        listener: std::net::TcpListener,
        tls: Option<ServerConfig>,
        router: Router,
        limits: Limits,
    ) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Server {
            listener: TcpListener::from_std(listener)?,
            tls: tls.map(|config| TlsAcceptor::from(Arc::new(config))),
            router,
            limits,
        })
    }

    /// Serves until `stop` says so; then open requests end, and no new ones are taken.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let room = Arc::new(Semaphore::new(self.limits.connections));
        let graceful = GracefulShutdown::new();
        loop {
            let Ok(permit) = room.clone().acquire_owned().await else {
                break;
            };
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            let Ok((stream, peer)) = accepted else {
                // No descriptor is left: someone has to go first.
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            let (tls, router) = (self.tls.clone(), self.router.clone());
            let (time, watcher) = (self.limits.time, graceful.watcher());
            tokio::spawn(async move {
                let _permit = permit;
                match tls {
                    None => serve(stream, peer, router, time, watcher).await,
                    Some(tls) => {
                        if let Ok(Ok(stream)) = tokio::time::timeout(time, tls.accept(stream)).await
                        {
                            serve(stream, peer, router, time, watcher).await;
                        }
                    }
                }
            });
        }
        drop(self.listener);
        let _ = tokio::time::timeout(FAREWELL, graceful.shutdown()).await;
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    router: Router,
    time: Duration,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(Peer(peer));
        let mut router = router.clone();
        async move { tower_service::Service::call(&mut router, request).await }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    // Who sends a header a byte at a time is left.
    http.timer(TokioTimer::new()).header_read_timeout(time);
    http.max_buf_size(1 << 16);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    let _ = watcher.watch(connection).await;
}
