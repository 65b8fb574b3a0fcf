//! A webhook behind TLS, for real: told when its certificate is trusted, not told when it is not, and the verdict stays what it is.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use record::{FindingKind, Notice};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::harness::{Bench, SMALL};

/// A server with a certificate of its own making, kept in `certificate`.
struct Hook {
    address: String,
    heard: Receiver<String>,
}

impl Hook {
    fn open(certificate: &Path) -> Hook {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_string()]).unwrap();
        std::fs::write(certificate, made.cert.pem()).unwrap();
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("https://{}/T0/secret", listener.local_addr().unwrap());
        let (tell, heard) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                // Whoever does not trust the certificate hangs up.
                if let Ok(request) = answer(StreamOwned::new(connection, stream)) {
                    tell.send(request).unwrap();
                }
            }
        });
        Hook { address, heard }
    }

    /// What one POST said.
    fn notice(&self) -> Notice {
        let request = self.heard.recv_timeout(Duration::from_secs(20)).unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /T0/secret "), "{head}");
        serde_json::from_str(body).unwrap()
    }
}

/// Reads one request to its end and thanks for it.
fn answer(mut stream: StreamOwned<ServerConnection, std::net::TcpStream>) -> std::io::Result<String> {
    let mut request = String::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece)?;
        request += &String::from_utf8_lossy(&piece[..count]);
        let length = request.to_lowercase();
        let length = length
            .split("content-length: ")
            .nth(1)
            .and_then(|rest| rest.lines().next()?.trim().parse::<usize>().ok());
        let is_whole = |(_, body): (&str, &str)| length.is_some_and(|length| body.len() >= length);
        if count == 0 || request.split_once("\r\n\r\n").is_some_and(is_whole) {
            break;
        }
    }
    stream.write_all(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
    stream.conn.send_close_notify();
    stream.flush()?;
    Ok(request)
}

#[test]
fn a_webhook_is_told_over_tls_when_its_certificate_is_trusted_and_else_not() {
    let certificate = tempfile::NamedTempFile::new().unwrap();
    let hook = Hook::open(certificate.path());
    let words = format!(
        "run suite.toml --history nights --inject flip:rank=1 --notify {}",
        hook.address
    );
    let trusting = Bench::new(SMALL).with("SSL_CERT_FILE", certificate.path().to_str().unwrap());
    let ended = trusting.railgauge(&words).must_exit(22);
    assert!(!ended.stderr.contains("--notify:"), "{}", ended.stderr);
    assert_eq!(hook.notice().issue.kind, Some(FindingKind::Corruption));

    let wary = Bench::new(SMALL).railgauge(&words).must_exit(22);
    assert!(
        wary.stderr.contains("--notify: https://127.0.0.1:"),
        "{}",
        wary.stderr
    );
    assert!(
        wary.stderr.to_lowercase().contains("certificate"),
        "{}",
        wary.stderr
    );
    assert!(!wary.stderr.contains("secret"), "{}", wary.stderr);
    assert!(hook.heard.try_recv().is_err(), "nothing was sent");
}
