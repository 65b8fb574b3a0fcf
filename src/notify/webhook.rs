//! One POST. A temporary failure is tried again; a refusal is final.

use std::time::Instant;

use ureq::Agent;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use super::Patience;

const ATTEMPTS: u32 = 3;
/// Names a file of certificates to trust instead of the built-in ones, as for other programs.
const CERTIFICATES: &str = "SSL_CERT_FILE";

/// How an attempt failed.
enum Failed {
    /// Another attempt may succeed.
    Temporary(String),
    /// Another attempt would fail the same way.
    Permanent(String),
}

pub(super) fn post(address: &str, body: &[u8], patience: Patience) -> Result<(), String> {
    let until = Instant::now() + patience.all;
    let tls = TlsConfig::builder().root_certs(trusted()?).build();
    let mut pause = patience.pause;
    let mut last = String::new();
    for attempt in 1..=ATTEMPTS {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("{last} (no time for another attempt)"));
        }
        let config = Agent::config_builder()
            .timeout_global(Some(patience.each.min(left)))
            .http_status_as_error(false)
            // A redirect could send the notice to another host.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .tls_config(tls.clone())
            .user_agent(format!("railgauge/{}", record::VERSION))
            .build();
        match once(&config.into(), address, body) {
            Ok(()) => return Ok(()),
            Err(Failed::Permanent(why)) => return Err(why),
            Err(Failed::Temporary(why)) => last = why,
        }
        if attempt < ATTEMPTS {
            std::thread::sleep(pause.min(until.saturating_duration_since(Instant::now())));
            pause *= 2;
        }
    }
    Err(format!("{last} ({ATTEMPTS} attempts)"))
}

fn once(agent: &Agent, address: &str, body: &[u8]) -> Result<(), Failed> {
    let sent = agent
        .post(address)
        .header("content-type", "application/json")
        .send(body);
    let status = match sent {
        Ok(response) => response.status(),
        Err(error @ (ureq::Error::BadUri(_) | ureq::Error::Http(_))) => {
            return Err(Failed::Permanent(kind_of(&error)));
        }
        Err(error) => return Err(Failed::Temporary(kind_of(&error))),
    };
    let answered = format!("it answered {status}");
    match status.as_u16() {
        200..=299 => Ok(()),
        // Asked to wait, or a temporary failure of the server.
        408 | 429 | 500..=599 => Err(Failed::Temporary(answered)),
        _ => Err(Failed::Permanent(answered)),
    }
}

/// The error without the address, which may hold a secret.
fn kind_of(error: &ureq::Error) -> String {
    match error {
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => "not a valid URL".to_string(),
        ureq::Error::HostNotFound => "no such host".to_string(),
        ureq::Error::Timeout(_) => "no answer in time".to_string(),
        ureq::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

fn trusted() -> Result<RootCerts, String> {
    let Some(path) = std::env::var_os(CERTIFICATES).filter(|path| !path.is_empty()) else {
        return Ok(RootCerts::WebPki);
    };
    let cannot = |why: String| format!("cannot read the certificates that {CERTIFICATES} names: {why}");
    let text = std::fs::read(path).map_err(|error| cannot(error.to_string()))?;
    let certificates = parse_pem(&text).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
        Ok(_) => None,
        Err(error) => Some(Err(cannot(error.to_string()))),
    });
    let certificates: Vec<_> = certificates.collect::<Result<_, _>>()?;
    Ok(RootCerts::new_with_certs(&certificates))
}
