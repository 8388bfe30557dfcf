//! A small HTTP server for health and metrics: GET only, one answer a path.

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// How long a client may take to send the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// Connections at a time; more wait in the kernel's queue.
const CONNECTIONS: usize = 32;

/// Where to listen: `:PORT`, `ADDRESS:PORT`, or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenAddress(pub Option<SocketAddr>);

/// Not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no address to listen at: use :PORT, ADDRESS:PORT or [ADDRESS]:PORT")]
pub struct ListenAddressError {
    /// The text.
    pub text: String,
}

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<Self, ListenAddressError> {
        let error = || ListenAddressError {
            text: text.to_owned(),
        };
        if text.is_empty() {
            return Ok(Self(None));
        }
        let address = match text.strip_prefix(':') {
            Some(port) => {
                let port = port.parse().map_err(|_| error())?;
                // Both families, as far as the machine has them.
                SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)
            }
            None => text.parse().map_err(|_| error())?,
        };
        Ok(Self(Some(address)))
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Its type.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

impl Answer {
    /// A short text.
    #[must_use]
    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: body.into(),
        }
    }
}

/// Answers the path of a request.
pub type Handler =
    dyn Fn(String) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync + 'static;

/// Listens at `address`; where a machine has no IPv6, `[::]` means IPv4 too.
///
/// # Errors
/// If the address is taken.
pub async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], address.port())))
                .await
                .map_err(|_| error)
        }
        bound => bound,
    }
}

/// Serves until dropped.
pub async fn serve(listener: TcpListener, handler: Arc<Handler>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // No descriptors left, for instance: others may be closed soon.
                tracing::warn!(%error, "a connection is not taken");
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            }
        };
        let handler = Arc::clone(&handler);
        tokio::spawn(async move {
            let _slot = slot;
            let service = service_fn(move |request| {
                let handler = Arc::clone(&handler);
                async move { Ok::<_, Infallible>(respond(request, handler.as_ref()).await) }
            });
            let ended = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service)
                .await;
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
}

async fn respond(request: Request<Incoming>, handler: &Handler) -> Response<Full<Bytes>> {
    let answer = if request.method() == Method::GET {
        handler(request.uri().path().to_owned()).await
    } else {
        Answer::text(405, "only GET\n")
    };
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    #[test]
    fn addresses_of_the_peer_s_form() {
        let read = |text: &str| text.parse::<ListenAddress>().map(|a| a.0);
        assert_eq!(read(""), Ok(None));
        assert_eq!(read(":9500"), Ok(Some("[::]:9500".parse().unwrap())));
        assert_eq!(
            read("127.0.0.1:1"),
            Ok(Some("127.0.0.1:1".parse().unwrap()))
        );
        for bad in ["9500", ":", ":x", "host:1:2", ":70000"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    async fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn paths_are_answered_and_other_methods_refused() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let handler: Arc<Handler> = Arc::new(
            |path: String| -> Pin<Box<dyn Future<Output = Answer> + Send>> {
                Box::pin(async move {
                    match path.as_str() {
                        "/a" => Answer::text(200, "yes"),
                        _ => Answer::text(404, "no"),
                    }
                })
            },
        );
        let server = tokio::spawn(serve(listener, handler));
        let good = ask(address, "GET /a?x=1 HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(
            good.starts_with("HTTP/1.1 200") && good.ends_with("yes"),
            "{good}"
        );
        let bad = ask(address, "GET /b HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(bad.starts_with("HTTP/1.1 404"), "{bad}");
        let post = ask(
            address,
            "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        )
        .await;
        assert!(post.starts_with("HTTP/1.1 405"), "{post}");
        server.abort();
    }
}
