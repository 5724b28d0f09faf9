//! The side that answers: connections of those who may speak, and what they ask.
//!
//! A connection is let in when its certificate is one of the authority and bears a name
//! that is on the list. All others are closed after the handshake, and hear nothing.

use crate::pieces::{self, MESSAGE};
use crate::proto::gossip_server::{Gossip, GossipServer};
use crate::proto::{Piece, StatusReply, StatusRequest};
use crate::shared::Shared;
use crate::tls::{Tls, names};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::transport::server::Connected;
use tonic::{Request, Response, Status, Streaming};

/// Handshakes at a time, and how long one may take.
const HANDSHAKES: usize = 512;
const HANDSHAKE: Duration = Duration::from_secs(3);

/// Connections of those who may speak.
const CONNECTIONS: usize = 128;

/// Who speaks on a connection.
#[derive(Clone)]
struct Peer(String);

/// A connection that was let in.
struct Connection {
    stream: TlsStream<TcpStream>,
    peer: Peer,
    _room: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// What a server is made with.
pub(crate) struct Door {
    pub shared: Arc<Shared>,
    /// Read anew when the configuration is.
    pub tls: Arc<RwLock<Tls>>,
    /// Names that may ask for the status and nothing else.
    pub observers: Vec<String>,
    pub deadline: Duration,
}

impl Door {
    /// Answers until the runtime ends.
    pub async fn serve(self, listener: TcpListener) {
        let (sender, incoming) = mpsc::channel(16);
        let door = Arc::new(self);
        tokio::spawn(accept(door.clone(), listener, sender));
        let service = GossipServer::new(Desk { door: door.clone() })
            .max_decoding_message_size(MESSAGE)
            .max_encoding_message_size(MESSAGE);
        let served = Server::builder()
            .max_frame_size(Some(1 << 20))
            .initial_stream_window_size(8 << 20)
            .initial_connection_window_size(16 << 20)
            .max_concurrent_streams(16)
            .concurrency_limit_per_connection(8)
            .http2_keepalive_interval(Some(Duration::from_secs(10)))
            .http2_keepalive_timeout(Some(Duration::from_secs(5)))
            .http2_max_header_list_size(16 << 10)
            .timeout(door.deadline)
            .add_service(service)
            .serve_with_incoming(ReceiverStream::new(incoming))
            .await;
        if let Err(error) = served {
            tracing::error!(%error, "the server ended");
        }
    }

    /// The name on the list that a certificate bears.
    fn listed(&self, borne: &[String]) -> Option<String> {
        let own = &self.shared.fixed.name;
        let inner = self.shared.lock();
        let neighbors = inner.neighbors.keys();
        let mut all = neighbors.chain(&self.observers).chain([own]);
        all.find(|name| borne.iter().any(|b| b.eq_ignore_ascii_case(name)))
            .cloned()
    }
}

async fn accept(
    door: Arc<Door>,
    listener: TcpListener,
    sender: mpsc::Sender<io::Result<Connection>>,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // Too many files are open, or the other side has gone.
            Err(_) => {
                door.shared.refuse("accept");
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let Ok(turn) = handshakes.clone().try_acquire_owned() else {
            door.shared.refuse("connections");
            continue;
        };
        let (door, connections, sender) = (door.clone(), connections.clone(), sender.clone());
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            let config = match door.tls.read() {
                Ok(tls) => tls.server.clone(),
                Err(_) => return,
            };
            let shaken = TlsAcceptor::from(config).accept(stream);
            let stream = match tokio::time::timeout(HANDSHAKE, shaken).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a handshake failed");
                    door.shared.refuse("handshake");
                    return;
                }
                Err(_) => {
                    door.shared.refuse("slow_handshake");
                    return;
                }
            };
            drop(turn);
            let shown = stream.get_ref().1.peer_certificates();
            let borne = shown
                .and_then(|all| all.first())
                .and_then(|first| names(first).ok())
                .unwrap_or_default();
            let Some(name) = door.listed(&borne) else {
                tracing::warn!(names = ?borne, "a stranger with a certificate was turned away");
                door.shared.refuse("stranger");
                return;
            };
            let Ok(room) = connections.try_acquire_owned() else {
                door.shared.refuse("connections");
                return;
            };
            let connection = Connection {
                stream,
                peer: Peer(name),
                _room: room,
            };
            let _ = sender.send(Ok(connection)).await;
        });
    }
}

/// Answers what is asked.
struct Desk {
    door: Arc<Door>,
}

fn peer<T>(request: &Request<T>) -> Result<String, Status> {
    let peer = request.extensions().get::<Peer>();
    let peer = peer.ok_or_else(|| Status::permission_denied("nobody"))?;
    Ok(peer.0.clone())
}

#[tonic::async_trait]
impl Gossip for Desk {
    type ExchangeStream = Pin<Box<dyn Stream<Item = Result<Piece, Status>> + Send>>;

    async fn exchange(
        &self,
        request: Request<Streaming<Piece>>,
    ) -> Result<Response<Self::ExchangeStream>, Status> {
        let name = peer(&request)?;
        let shared = self.door.shared.clone();
        if let Err(refused) = shared.admit(&name) {
            shared.refuse(refused.why);
            return Err(match refused.why {
                "rate" => Status::resource_exhausted(refused.text),
                _ => Status::permission_denied(refused.text),
            });
        }
        let limit = shared.limit(&name);
        let joined = pieces::join(request.into_inner(), limit);
        let letter = match tokio::time::timeout(self.door.deadline, joined).await {
            Ok(Ok(letter)) => letter,
            Ok(Err(status)) => {
                shared.refuse(match status.code() {
                    tonic::Code::OutOfRange => "too_long",
                    _ => "garbage",
                });
                return Err(status);
            }
            Err(_) => {
                shared.refuse("slow");
                return Err(Status::deadline_exceeded("the letter came too slowly"));
            }
        };
        let reader = shared.clone();
        let from = name.clone();
        let answered =
            tokio::task::spawn_blocking(move || reader.receive(&from, &letter, true)).await;
        match answered {
            Ok(Ok(Some(reply))) => {
                let pieces = pieces::cut(reply).map(Ok);
                Ok(Response::new(Box::pin(tokio_stream::iter(pieces))))
            }
            Ok(Ok(None)) => Err(Status::unavailable("no answer")),
            Ok(Err(refused)) => {
                tracing::debug!(neighbor = %name, why = refused.why, "{}", refused.text);
                shared.refuse(refused.why);
                Err(match refused.why {
                    "stale" => Status::aborted(refused.text),
                    "items" | "rank" => Status::failed_precondition(refused.text),
                    _ => Status::invalid_argument(refused.text),
                })
            }
            Err(_) => Err(Status::internal("the letter could not be read")),
        }
    }

    async fn status(
        &self,
        request: Request<StatusRequest>,
    ) -> Result<Response<StatusReply>, Status> {
        peer(&request)?;
        let json = self.door.shared.status().to_string();
        Ok(Response::new(StatusReply { json }))
    }
}
