//! The side that asks: a connection to each neighbor, made when it is needed and again
//! when it has broken.

use crate::pieces::{self, MESSAGE};
use crate::proto::StatusRequest;
use crate::proto::gossip_client::GossipClient;
use crate::shared::Shared;
use crate::tls::Tls;
use hyper_util::rt::TokioIo;
use rankfold::{Error, Result};
use rustls::pki_types::ServerName;
use serde_json::Value;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::Status;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(3);

/// A channel to an address whose certificate must bear this name.
pub(crate) fn channel(tls: Arc<RwLock<Tls>>, address: String, name: String) -> Channel {
    let connector = service_fn(move |_: Uri| {
        let (tls, address, name) = (tls.clone(), address.clone(), name.clone());
        async move {
            let config = tls.read().map(|tls| tls.client.clone());
            let config = config.map_err(|_| io::Error::other("no keys"))?;
            let stream = TcpStream::connect(&address).await?;
            stream.set_nodelay(true)?;
            let name = ServerName::try_from(name).map_err(io::Error::other)?;
            let stream = TlsConnector::from(config).connect(name, stream).await?;
            Ok::<_, io::Error>(TokioIo::new(stream))
        }
    });
    // The connector knows where to go.
    Endpoint::from_static("http://agent")
        .connect_timeout(CONNECT)
        .initial_stream_window_size(8 << 20)
        .initial_connection_window_size(16 << 20)
        .http2_keep_alive_interval(Duration::from_secs(1))
        .keep_alive_timeout(Duration::from_secs(2))
        .connect_with_connector_lazy(connector)
}

pub(crate) fn client(channel: Channel) -> GossipClient<Channel> {
    GossipClient::new(channel)
        .max_decoding_message_size(MESSAGE)
        .max_encoding_message_size(MESSAGE)
}

/// Asks neighbors.
#[derive(Clone)]
pub(crate) struct Caller {
    pub shared: Arc<Shared>,
    pub tls: Arc<RwLock<Tls>>,
    channels: Arc<Mutex<HashMap<String, (String, Channel)>>>,
}

impl Caller {
    pub fn new(shared: Arc<Shared>, tls: Arc<RwLock<Tls>>) -> Self {
        Caller {
            shared,
            tls,
            channels: Arc::default(),
        }
    }

    fn channel(&self, name: &str, address: &str) -> Channel {
        let mut channels = self.channels.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((known, channel)) = channels.get(name)
            && known == address
        {
            return channel.clone();
        }
        let made = channel(self.tls.clone(), address.to_owned(), name.to_owned());
        channels.insert(name.to_owned(), (address.to_owned(), made.clone()));
        made
    }

    /// Connections are made anew.
    pub fn forget_channels(&self) {
        let mut channels = self.channels.lock().unwrap_or_else(|e| e.into_inner());
        channels.clear();
    }

    /// One exchange with a neighbor: a letter there, and one back.
    pub async fn exchange(&self, name: &str, deadline: Duration) {
        let address = self
            .shared
            .lock()
            .neighbors
            .get(name)
            .map(|n| n.address.clone());
        let (Some(address), Some(letter)) = (address, self.shared.letter_to(name)) else {
            return;
        };
        let started = Instant::now();
        let mut client = client(self.channel(name, &address));
        let asked = async {
            let pieces = tokio_stream::iter(pieces::cut(letter));
            let reply = client.exchange(pieces).await?.into_inner();
            pieces::join(reply, self.shared.limit(name)).await
        };
        let reply = match tokio::time::timeout(deadline, asked).await {
            Ok(reply) => reply,
            Err(_) => Err(Status::deadline_exceeded("no answer in time")),
        };
        match reply {
            Ok(reply) => {
                let shared = self.shared.clone();
                let from = name.to_owned();
                let taken =
                    tokio::task::spawn_blocking(move || shared.receive(&from, &reply, false)).await;
                if let Ok(Err(refused)) = taken {
                    tracing::debug!(neighbor = %name, why = refused.why, "{}", refused.text);
                    self.shared.refuse(refused.why);
                    // Late letters cross on their way, and say nothing of the neighbor.
                    if refused.why != "stale" {
                        self.shared.failed(name);
                    }
                }
                if let Some(neighbor) = self.shared.lock().neighbors.get_mut(name) {
                    neighbor.took = (neighbor.took + started.elapsed()) / 2;
                }
            }
            // Another letter of the own was there first.
            Err(status) if status.code() == tonic::Code::Aborted => {
                let mut inner = self.shared.lock();
                if let Some(neighbor) = inner.neighbors.get_mut(name) {
                    neighbor.heard_at = Some(Instant::now());
                }
            }
            Err(status) => {
                let code = status.code();
                tracing::debug!(neighbor = %name, ?code, "{}", status.message());
                self.shared.failed(name);
            }
        }
        if let Some(neighbor) = self.shared.lock().neighbors.get_mut(name) {
            neighbor.in_flight = false;
        }
        self.shared.tell();
    }
}

/// Asks an agent how it is.
pub(crate) async fn status(tls: Tls, address: &str, deadline: Duration) -> Result<Value> {
    let tls = Arc::new(RwLock::new(tls));
    let channel = channel(tls, address.to_owned(), "agent".into());
    let mut client = client(channel);
    let refused = |why: String| Error::failure(format!("`{address}` does not answer: {why}"));
    let asked = client.status(StatusRequest {});
    let reply = match tokio::time::timeout(deadline, asked).await {
        Ok(Ok(reply)) => reply.into_inner(),
        Ok(Err(status)) => return Err(refused(reason(&status))),
        Err(_) => return Err(refused("no answer in time".into())),
    };
    serde_json::from_str(&reply.json).map_err(|_| refused("this is no status".into()))
}

/// What an error of a call comes from.
fn reason(status: &Status) -> String {
    let mut innermost: &dyn std::error::Error = status;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let gone = innermost
        .downcast_ref::<io::Error>()
        .is_some_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
    match status.code() {
        tonic::Code::Unavailable | tonic::Code::Unknown if gone => "nothing listens there".into(),
        tonic::Code::Unavailable | tonic::Code::Unknown => {
            format!("{innermost}; it turns away whoever is neither its neighbor nor itself")
        }
        _ => status.message().to_owned(),
    }
}
