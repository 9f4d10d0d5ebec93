//! Certificates for TLS tests: an authority, a server, a client, and one whose key is another's.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::run;

/// Makes them in a folder, under the names that py-amqp's suite uses.
pub fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    openssl(
        folder,
        "req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=authority \
                     -keyout ca_key.pem -out ca_certificate.pem",
    )?;
    for name in ["server", "client"] {
        openssl(
            folder,
            &format!(
                "req -newkey rsa:2048 -nodes -subj /CN=localhost \
                 -keyout {name}_key.pem -out {name}.csr"
            ),
        )?;
        fs::write(
            folder.join("names"),
            "subjectAltName=DNS:localhost,IP:127.0.0.1\n",
        )?;
        openssl(
            folder,
            &format!(
                "x509 -req -in {name}.csr -CA ca_certificate.pem -CAkey ca_key.pem -CAcreateserial \
             -days 30 -extfile names -out {name}_certificate.pem"
            ),
        )?;
    }
    fs::copy(
        folder.join("server_key.pem"),
        folder.join("client_key_broken.pem"),
    )?;
    fs::copy(
        folder.join("client_certificate.pem"),
        folder.join("client_certificate_broken.pem"),
    )?;
    Ok(())
}

fn openssl(folder: &Path, arguments: &str) -> Result<()> {
    let mut command = Command::new("openssl");
    command
        .args(arguments.split_whitespace())
        .current_dir(folder);
    run::output(&mut command)?;
    Ok(())
}
