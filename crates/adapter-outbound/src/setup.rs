//! What prevents a publisher from being set up, and whom it trusts.

use std::{io, path::Path};

use application_core::SettingProblem;
use rustls_pki_types::{CertificateDer, pem::PemObject};

/// What prevents a publisher from being set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboundSetupError {
    /// Settings that cannot be used.
    #[error("the outbound settings cannot be used: {}", list(.0))]
    Settings(Vec<SettingProblem>),
    /// The file with the certificate authorities cannot be read.
    #[error("the certificate authorities in {path} cannot be read")]
    CaFile {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file holds no certificate.
    #[error("{path} holds no certificate in PEM form")]
    NoCertificate {
        /// The file.
        path: String,
    },
    /// The system has no certificate authorities, so that no server could prove who it is.
    #[error("this system has no certificate authorities to trust ({reason}); install them, or name a file of your own")]
    NoSystemCertificates {
        /// What the look for them met.
        reason: String,
    },
    /// TLS cannot be set up.
    #[error("TLS cannot be set up")]
    Tls(#[source] rustls::Error),
}

fn list(problems: &[SettingProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The certificates of a PEM file; at least one.
pub(crate) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, OutboundSetupError> {
    let name = || path.display().to_string();
    let pem = std::fs::read(path).map_err(|source| OutboundSetupError::CaFile { path: name(), source })?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|_not_pem| OutboundSetupError::NoCertificate { path: name() })?;
    if certificates.is_empty() {
        return Err(OutboundSetupError::NoCertificate { path: name() });
    }
    Ok(certificates)
}
