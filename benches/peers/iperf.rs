//! iperf3 on loopback.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// GB/s in each direction with `streams` streams, one way or both ways at once; none without iperf3.
pub fn rate(streams: u16, both_ways: bool) -> Option<f64> {
    let port = TcpListener::bind("127.0.0.1:0")
        .ok()?
        .local_addr()
        .ok()?
        .port()
        .to_string();
    let server = Command::new("iperf3")
        .args(["-s", "-1", "-p", &port])
        .stdout(Stdio::null())
        .spawn()
        .ok()?;
    let _server = Reaped(server);
    std::thread::sleep(Duration::from_millis(300));
    let streams = streams.to_string();
    let mut client = Command::new("iperf3");
    client.args(["-c", "127.0.0.1", "-p", &port, "-P", &streams, "-t", "2", "-J"]);
    if both_ways {
        client.arg("--bidir");
    }
    let output = client.output().ok()?;
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let received = |name: &str| {
        json["end"][name]["bits_per_second"]
            .as_f64()
            .map(|bits| bits / 8e9)
    };
    let forward = received("sum_received")?;
    if !both_ways {
        return Some(forward);
    }
    let back = received("sum_received_bidir_reverse")?;
    Some((forward + back) / 2.0)
}

struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
