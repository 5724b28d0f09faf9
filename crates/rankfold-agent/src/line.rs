//! A line to an agent for whoever writes letters of his own: other programs, and tests of what
//! an agent does with any bytes.

use crate::client::{channel, client};
use crate::pieces;
use crate::proto::Piece;
use crate::tls::Identity;
use rankfold::{Error, Result};
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

/// A connection to an agent, made when it is needed.
pub struct Line {
    runtime: Runtime,
    channel: Channel,
    deadline: Duration,
}

impl Line {
    /// To the agent of this name on this address.
    pub fn new(identity: &Identity, name: &str, address: &str, deadline: Duration) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|e| Error::failure(format!("no runtime: {e}")))?;
        let tls = Arc::new(RwLock::new(identity.load(false)?));
        let _inside = runtime.enter();
        let channel = channel(tls, address.to_owned(), name.to_owned());
        drop(_inside);
        Ok(Line {
            runtime,
            channel,
            deadline,
        })
    }

    /// Sends bytes, and gives the bytes of the answer. They should be a letter; see
    /// [`rankfold::gossip::Letter`].
    pub fn exchange(&self, letter: Vec<u8>) -> Result<Vec<u8>> {
        self.exchange_pieces(pieces::cut(letter).collect())
    }

    /// Announces a letter of this length, and sends these bytes of it.
    pub fn announce(&self, length: u64, bytes: Vec<u8>) -> Result<Vec<u8>> {
        let data = bytes.into();
        self.exchange_pieces(vec![Piece { length, data }])
    }

    fn exchange_pieces(&self, pieces: Vec<Piece>) -> Result<Vec<u8>> {
        let mut client = client(self.channel.clone());
        let asked = async {
            let reply = client.exchange(tokio_stream::iter(pieces)).await?;
            pieces::join(reply.into_inner(), 1 << 32).await
        };
        let deadline = self.deadline;
        let reply = self
            .runtime
            .block_on(async { tokio::time::timeout(deadline, asked).await });
        match reply {
            Ok(Ok(bytes)) => Ok(bytes.to_vec()),
            Ok(Err(status)) => Err(Error::failure(format!(
                "{:?}: {}",
                status.code(),
                status.message()
            ))),
            Err(_) => Err(Error::failure("no answer in time")),
        }
    }
}
