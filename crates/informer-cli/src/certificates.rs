//! Reads the TLS certificate of a server from two files or from a directory. If the directory contains no
//! certificate, generates one and stores it there.

use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use informer_apiserver::{Certificate, CertificateAuthority, Tls};

use crate::failure::Failure;

/// The location of a server's TLS certificate and of its private key.
pub(crate) enum Files<'a> {
    /// Two existing files: the certificate chain, and the private key.
    Named(&'a Path, &'a Path),
    /// A directory that contains `apiserver.crt` and `apiserver.key`. Both files are generated if the
    /// certificate is missing.
    In(&'a Path),
}

pub(crate) fn tls(files: &Files<'_>, ip: IpAddr) -> Result<Tls, Failure> {
    let [chain, key]: [PathBuf; 2] = match files {
        Files::Named(chain, key) => [chain.to_path_buf(), key.to_path_buf()],
        Files::In(directory) => ["apiserver.crt", "apiserver.key"].map(|name| directory.join(name)),
    };
    if matches!(files, Files::In(_)) && !chain.exists() {
        make(&chain, &key, ip)?;
    }
    let certificate = Certificate::from_pem(read(&chain)?, read(&key)?);
    Tls::new(&certificate)
        .map_err(|error| Failure::caused(format!("cannot load the certificate {}", chain.display()), error))
}

/// Generates a server certificate and the CA that signs it. Writes both to the file `chain`, so that a client
/// which trusts this file trusts the server, and the private key to the file `key`.
fn make(chain: &Path, key: &Path, ip: IpAddr) -> Result<(), Failure> {
    let failed = |error| Failure::caused("cannot generate a certificate", error);
    let authority = CertificateAuthority::new("informer").map_err(failed)?;
    let hosts = ["localhost".to_owned(), ip.to_string(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let made = authority.issue_for(hosts).map_err(failed)?;
    let both = format!("{}{}", made.chain(), authority.certificate());
    for (path, text) in [(key, made.key()), (chain, both.as_str())] {
        let written = path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| write_private(path, text.as_bytes()));
        written.map_err(|error| Failure::io(&format!("write {}", path.display()), error))?;
    }
    Ok(())
}

/// Writes a file that contains a secret, such as a private key. On Unix, only the owner can read a file that
/// this function creates; an existing file keeps its permissions.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}

pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::io(&format!("read {}", path.display()), error))
}
