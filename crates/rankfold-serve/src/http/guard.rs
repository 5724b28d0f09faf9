//! Who may ask and teach.
//!
//! Without tokens everybody who can connect may do both, which is why only this machine can
//! connect by default. Pages of other sites can make the browser of a user connect, too: a
//! request whose `Host` is not a name of this service, or that was sent from the page of another
//! site, is refused.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::time::Instant;

use axum::http::{HeaderMap, Method, StatusCode, header};
use rankfold::{Error, Result};

use crate::error::Refused;
use crate::journal::checksum;
use crate::options::Options;

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Nothing: it tells nothing of the model.
    Open,
    Read,
    Teach,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Rights {
    read: bool,
    teach: bool,
}

/// Addresses whose requests are counted at a time.
const COUNTED: usize = 10_000;

pub struct Guard {
    /// `None` where everybody may.
    tokens: Option<Vec<(String, Rights)>>,
    /// Names that the service is called by; `None` where any is good.
    hosts: Option<Vec<String>>,
    rate: f64,
    buckets: Mutex<HashMap<IpAddr, (f64, Instant)>>,
}

fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// A host without its port.
fn without_port(host: &str) -> &str {
    match host.rfind(']') {
        Some(end) => &host[..=end],
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// Reads a file of tokens: a line each, `TOKEN read`, `TOKEN teach` or `TOKEN read,teach`.
fn read_tokens(path: &std::path::Path) -> Result<Vec<(String, Rights)>> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::reading(path, &e))?;
    let mut tokens = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = |message: String| Error::input(message).in_file(path).at_line(number);
        let (token, named) = line.split_once(char::is_whitespace).ok_or_else(|| {
            bad("expected a token and its rights, such as `TOKEN read,teach`".into())
        })?;
        if token.len() < 16 {
            return Err(bad("a token must have at least 16 characters".into()));
        }
        let mut rights = Rights::default();
        for right in named.split(',').map(str::trim) {
            match right {
                "read" => rights.read = true,
                "teach" => rights.teach = true,
                other => return Err(bad(format!("expected `read` or `teach`, found `{other}`"))),
            }
        }
        tokens.push((token.to_owned(), rights));
    }
    match tokens.is_empty() {
        true => Err(Error::input("no tokens").in_file(path)),
        false => Ok(tokens),
    }
}

impl Guard {
    /// Checks what was asked for: another address than this machine's needs TLS and tokens.
    pub fn new(options: &Options) -> Result<Self> {
        let access = &options.access;
        let outside = !options.listen.ip().is_loopback();
        if outside && !access.insecure {
            if access.tls.is_none() {
                return Err(Error::option(
                    "listen",
                    format!(
                        "{} can be reached from outside: give --tls-certificate and --tls-key, or \
                         --insecure behind a proxy that does it",
                        options.listen
                    ),
                ));
            }
            if access.tokens.is_none() {
                return Err(Error::option(
                    "listen",
                    format!(
                        "{} can be reached from outside: say who may ask with --tokens FILE, or \
                         --insecure",
                        options.listen
                    ),
                ));
            }
        }
        let hosts = match outside && access.hosts.is_empty() {
            // Whoever holds a certificate of this name is meant by it.
            true => None,
            false => Some(access.hosts.clone()),
        };
        let tokens = access.tokens.as_deref();
        Ok(Guard {
            tokens: tokens.map(read_tokens).transpose()?,
            hosts,
            rate: options.limits.rate,
            buckets: Mutex::new(HashMap::new()),
        })
    }

    /// Whether tokens are asked for.
    pub fn has_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// Lets a request pass, or says why not.
    pub fn pass(
        &self,
        peer: SocketAddr,
        method: &Method,
        headers: &HeaderMap,
        right: Right,
    ) -> std::result::Result<(), Refused> {
        self.check_rate(peer.ip())?;
        self.check_host(headers)?;
        if !matches!(*method, Method::GET | Method::HEAD) {
            check_origin(headers)?;
        }
        self.check_token(headers, right)
    }

    fn check_rate(&self, address: IpAddr) -> std::result::Result<(), Refused> {
        if !(self.rate > 0.0) {
            return Ok(());
        }
        let Ok(mut buckets) = self.buckets.lock() else {
            return Ok(());
        };
        let now = Instant::now();
        if buckets.len() >= COUNTED && !buckets.contains_key(&address) {
            // Those that are full again have nothing to tell.
            let rate = self.rate;
            buckets.retain(|_, (left, at)| *left + (now - *at).as_secs_f64() * rate < rate);
            if buckets.len() >= COUNTED {
                return Err(too_fast());
            }
        }
        // A second of requests may come at once.
        let most = self.rate.max(1.0);
        let (left, at) = buckets.entry(address).or_insert((most, now));
        *left = (*left + (now - *at).as_secs_f64() * self.rate).min(most);
        *at = now;
        if *left < 1.0 {
            return Err(too_fast());
        }
        *left -= 1.0;
        Ok(())
    }

    fn check_host(&self, headers: &HeaderMap) -> std::result::Result<(), Refused> {
        let Some(hosts) = &self.hosts else {
            return Ok(());
        };
        let host = headers.get(header::HOST).and_then(|h| h.to_str().ok());
        let host = host.map_or("", without_port);
        let known = hosts.iter().any(|known| known.eq_ignore_ascii_case(host));
        match known || is_this_machine(host) {
            true => Ok(()),
            false => Err(Refused::new(
                StatusCode::MISDIRECTED_REQUEST,
                "the service is not called by this name: start it with --host NAME",
            )),
        }
    }

    fn check_token(&self, headers: &HeaderMap, right: Right) -> std::result::Result<(), Refused> {
        let (Some(tokens), true) = (&self.tokens, right != Right::Open) else {
            return Ok(());
        };
        let given = headers
            .get(header::AUTHORIZATION)
            .and_then(|h| h.to_str().ok());
        let given = given.and_then(|given| given.strip_prefix("Bearer "));
        let Some(given) = given else {
            return Err(Refused::new(
                StatusCode::UNAUTHORIZED,
                "expected a token: `Authorization: Bearer TOKEN`",
            ));
        };
        let mut found = Rights::default();
        let mut known = false;
        for (token, rights) in tokens {
            if same(token, given.trim()) {
                known = true;
                found = *rights;
            }
        }
        match right {
            _ if !known => Err(Refused::new(
                StatusCode::UNAUTHORIZED,
                "the token is not known",
            )),
            Right::Read if !found.read => Err(Refused::new(
                StatusCode::FORBIDDEN,
                "the token has no right to read",
            )),
            Right::Teach if !found.teach => Err(Refused::new(
                StatusCode::FORBIDDEN,
                "the token has no right to teach",
            )),
            _ => Ok(()),
        }
    }
}

fn too_fast() -> Refused {
    Refused::new(
        StatusCode::TOO_MANY_REQUESTS,
        "too many requests from this address: ask more slowly",
    )
}

/// Whether two texts are the same, in a time that does not tell where they differ.
fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let differ = a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b));
    a.len() == b.len() && differ == 0 && checksum(a) == checksum(b)
}

/// A page may teach only the service that it came from.
fn check_origin(headers: &HeaderMap) -> std::result::Result<(), Refused> {
    let refused = || {
        Err(Refused::new(
            StatusCode::FORBIDDEN,
            "the request was sent by a page of another site",
        ))
    };
    let site = headers.get("sec-fetch-site").and_then(|h| h.to_str().ok());
    if site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return refused();
    }
    let Some(origin) = headers.get(header::ORIGIN) else {
        return Ok(());
    };
    let host = headers.get(header::HOST).and_then(|h| h.to_str().ok());
    let origin = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.split_once("://"));
    match (origin, host) {
        (Some((_, origin)), Some(host)) if origin.eq_ignore_ascii_case(host) => Ok(()),
        _ => refused(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut out = HeaderMap::new();
        for (name, value) in pairs {
            out.insert(*name, HeaderValue::from_str(value).unwrap());
        }
        out
    }

    fn guard(tokens: Option<Vec<(String, Rights)>>) -> Guard {
        Guard {
            tokens,
            hosts: Some(vec!["shop.example".into()]),
            rate: 0.0,
            buckets: Mutex::new(HashMap::new()),
        }
    }

    fn peer() -> SocketAddr {
        ([127, 0, 0, 1], 9).into()
    }

    #[test]
    fn other_names_and_other_sites_are_refused() {
        let guard = guard(None);
        let status = |method: Method, pairs: &[(&'static str, &str)]| {
            let passed = guard.pass(peer(), &method, &headers(pairs), Right::Teach);
            passed.err().map(|refused| refused.status.as_u16())
        };
        for host in [
            "127.0.0.1:80",
            "localhost:8080",
            "[::1]:80",
            "SHOP.example",
            "127.3.2.1",
        ] {
            assert_eq!(status(Method::POST, &[("host", host)]), None, "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example:80", "", "10.0.0.1"] {
            assert_eq!(status(Method::GET, &[("host", host)]), Some(421), "{host}");
        }
        let here = ("host", "localhost:8080");
        let origin = |origin: &'static str| status(Method::POST, &[here, ("origin", origin)]);
        assert_eq!(origin("http://localhost:8080"), None);
        for other in [
            "http://evil.example",
            "null",
            "http://localhost:9",
            "localhost:8080",
        ] {
            assert_eq!(origin(other), Some(403), "{other}");
        }
        let site = |site| status(Method::PUT, &[here, ("sec-fetch-site", site)]);
        assert_eq!((site("cross-site"), site("same-origin")), (Some(403), None));
    }

    #[test]
    fn tokens_have_their_own_rights() {
        let (read, teach) = ("r".repeat(16), "t".repeat(16));
        let rights = |read, teach| Rights { read, teach };
        let guard = guard(Some(vec![
            (read.clone(), rights(true, false)),
            (teach.clone(), rights(false, true)),
        ]));
        let status = |token: &str, right| {
            let given = headers(&[("host", "localhost"), ("authorization", token)]);
            let passed = guard.pass(peer(), &Method::GET, &given, right);
            passed.err().map(|refused| refused.status.as_u16())
        };
        let (read, teach) = (format!("Bearer {read}"), format!("Bearer {teach}"));
        assert_eq!(
            (status(&read, Right::Read), status(&read, Right::Teach)),
            (None, Some(403))
        );
        assert_eq!(
            (status(&teach, Right::Teach), status(&teach, Right::Read)),
            (None, Some(403))
        );
        assert_eq!(
            (status("", Right::Open), status("", Right::Read)),
            (None, Some(401))
        );
        assert_eq!(status("Bearer rrrr", Right::Read), Some(401));
    }

    #[test]
    fn who_asks_too_fast_has_to_wait() {
        // One at once, and then one in a thousand seconds.
        let guard = Guard {
            rate: 0.001,
            ..guard(None)
        };
        let given = headers(&[("host", "localhost")]);
        let pass = || guard.pass(peer(), &Method::GET, &given, Right::Open);
        assert!(pass().is_ok());
        assert_eq!(pass().unwrap_err().status, StatusCode::TOO_MANY_REQUESTS);
    }
}
