//! Who is who: TLS 1.3 with certificates of one authority on both sides. The name of an
//! agent is a DNS name in its certificate.

use rankfold::{Error, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme, version,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of an agent: the authority, its own certificate and its key, in PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate of the authority that all agents have.
    pub authority: PathBuf,
    /// The own certificate, and those between it and the authority.
    pub certificate: PathBuf,
    /// The own key.
    pub key: PathBuf,
}

/// What connections are made with.
#[derive(Clone)]
pub(crate) struct Tls {
    pub server: Arc<ServerConfig>,
    pub client: Arc<ClientConfig>,
    /// The names that the own certificate bears.
    pub names: Vec<String>,
}

impl Identity {
    /// Reads the files. `any_name` connects to whoever has a certificate of the authority;
    /// else the name of the other side is checked.
    pub(crate) fn load(&self, any_name: bool) -> Result<Tls> {
        let roots = certificates(&self.authority)?;
        let chain = certificates(&self.certificate)?;
        let names = names(&chain[0]).map_err(|e| Error::input(e).in_file(&self.certificate))?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|e| pem_error(&self.key, "a private key", &e))?;
        let mut store = RootCertStore::empty();
        for root in roots {
            let added = store.add(root);
            added.map_err(|e| Error::input(e.to_string()).in_file(&self.authority))?;
        }
        let store = Arc::new(store);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let refused = |e: rustls::Error| {
            Error::input(format!("the key does not fit the certificate: {e}")).in_file(&self.key)
        };
        let broken = |e: String| Error::failure(format!("TLS cannot be set up: {e}"));
        let verifier = WebPkiClientVerifier::builder_with_provider(store.clone(), provider.clone())
            .build()
            .map_err(|e| broken(e.to_string()))?;
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|e| broken(e.to_string()))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(refused)?;
        server.alpn_protocols = vec![b"h2".to_vec()];
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|e| broken(e.to_string()))?;
        let builder = match any_name {
            false => builder.with_root_certificates(store),
            true => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyName::new(store, provider)?)),
        };
        let mut client = builder.with_client_auth_cert(chain, key).map_err(refused)?;
        client.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Tls {
            server: Arc::new(server),
            client: Arc::new(client),
            names,
        })
    }
}

fn pem_error(path: &Path, what: &str, error: &rustls::pki_types::pem::Error) -> Error {
    match error {
        rustls::pki_types::pem::Error::Io(e) => Error::reading(path, e),
        // The text of other errors may hold what the file holds.
        _ => Error::input(format!("expected {what} in PEM, found none")).in_file(path),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let what = "a certificate";
    let found = CertificateDer::pem_file_iter(path).map_err(|e| pem_error(path, what, &e))?;
    let found: std::result::Result<Vec<_>, _> = found.collect();
    let found = found.map_err(|e| pem_error(path, what, &e))?;
    match found.is_empty() {
        true => Err(Error::input(format!("expected {what} in PEM, found none")).in_file(path)),
        false => Ok(found),
    }
}

/// The names that a certificate bears.
pub(crate) fn names(certificate: &CertificateDer<'_>) -> std::result::Result<Vec<String>, String> {
    let parsed = webpki::EndEntityCert::try_from(certificate)
        .map_err(|e| format!("this is no certificate: {e}"))?;
    Ok(parsed.valid_dns_names().map(str::to_owned).collect())
}

/// Takes any name that a certificate of the authority bears: who asks an agent how it is
/// knows its address only.
#[derive(Debug)]
struct AnyName {
    inner: Arc<WebPkiServerVerifier>,
}

impl AnyName {
    fn new(store: Arc<RootCertStore>, provider: Arc<CryptoProvider>) -> Result<Self> {
        let inner = WebPkiServerVerifier::builder_with_provider(store, provider).build();
        let inner = inner.map_err(|e| Error::failure(format!("TLS cannot be set up: {e}")))?;
        Ok(AnyName { inner })
    }
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let first = names(end_entity)
            .ok()
            .and_then(|names| names.first().cloned());
        let name = first.and_then(|name| ServerName::try_from(name).ok());
        let name = name.ok_or_else(|| {
            rustls::Error::General("the certificate of the agent has no name".into())
        })?;
        self.inner
            .verify_server_cert(end_entity, intermediates, &name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 is needed".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.inner
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
