//! A TCP stream that gives up on a peer that reads nothing for too long, and that reads the rest of what a peer sends before it is
//! closed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use super::connections::Connection;

/// How long a client may read nothing of a reply that waits for it: at a time, and in all.
const STALL: Duration = Duration::from_secs(30);
const STALLS: Duration = Duration::from_secs(300);
/// A request that is refused before all of it has arrived is still read to its end, within these limits: closing a socket with
/// unread data makes the client lose the reply.
const LINGER: Duration = Duration::from_millis(500);
const LINGERS: Duration = Duration::from_secs(10);
const MOST_UNREAD: usize = 64 << 20;

/// A TCP stream with these time limits.
#[derive(Debug)]
pub(super) struct PeerStream {
    stream: TcpStream,
    watched: Arc<Connection>,
    /// Runs while a write waits for the peer.
    patience: Option<Pin<Box<Sleep>>>,
    waiting_since: Instant,
    waited: Duration,
    end: Option<End>,
}

/// The end of a connection: everything is sent, and the peer has not closed it yet.
#[derive(Debug)]
struct End {
    began: Instant,
    silence: Pin<Box<Sleep>>,
    unread: usize,
}

impl End {
    fn new() -> Self {
        End {
            began: Instant::now(),
            silence: Box::pin(sleep(LINGER)),
            unread: 0,
        }
    }

    /// Ready when the peer has closed its side, or its time is over.
    fn poll(&mut self, stream: &mut TcpStream, cx: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; 16 << 10];
        while self.unread < MOST_UNREAD && self.began.elapsed() < LINGERS {
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.unread += buffer.filled().len();
                    self.silence.as_mut().reset(Instant::now() + LINGER);
                }
                Poll::Ready(_) => break,
                Poll::Pending => return self.silence.as_mut().poll(cx),
            }
        }
        Poll::Ready(())
    }
}

impl PeerStream {
    pub(super) fn new(stream: TcpStream, watched: Arc<Connection>) -> Self {
        PeerStream {
            stream,
            watched,
            patience: None,
            waiting_since: Instant::now(),
            waited: Duration::ZERO,
            end: None,
        }
    }

    /// Fails a write that waits too long.
    fn limit<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            if self.patience.take().is_some() {
                self.waited += self.waiting_since.elapsed();
                self.watched.stalls(false);
            }
            return outcome;
        }
        self.watched.stalls(true);
        if self.patience.is_none() {
            self.waiting_since = Instant::now();
        }
        // A client that reads a byte now and then uses up the total.
        let left = STALL.min(STALLS.saturating_sub(self.waited));
        let patience = self
            .patience
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + left)));
        ready!(patience.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for PeerStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for PeerStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.limit(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.limit(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.watched.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.watched.ends();
        if this.end.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        this.end.get_or_insert_with(End::new).poll(&mut this.stream, cx).map(Ok)
    }
}
