//! What a user who types faults relies on.

use super::*;
use crate::{Shape, Wiring};

fn wiring() -> Wiring {
    Wiring::new(&Shape::parse("4x2").unwrap())
}

fn checked(text: &str) -> Result<Fault, String> {
    let fault: Fault = text.parse().map_err(|error: LabError| error.to_string())?;
    fault.check(&wiring()).map_err(|error| error.to_string())
}

#[test]
fn every_fault_is_read_back_as_it_is_written() {
    let texts = [
        "slow:h1/rail0=60%",
        "slow-cable:h1-rail0-leaf0=37.5%",
        "cut:rail0-leaf0-spine1",
        "flap:h1-rail0-leaf0,period=2000ms,duty=50%",
        "stall:h1/rail0=5ms,every=1000ms",
        "loss:rail0-leaf0/p1=0.1%",
        "corrupt:rail0-leaf0/p1=0.1%",
        "duplicate:h1/rail0=1%",
        "reorder:h1/rail0=1%,by=2ms",
        "jitter:rail0-spine1/d0=0.5ms",
        "buffer:rail0-leaf0/p1=30000B",
        "ecn:all=on,above=64000B",
        "ecn:rail0-leaf0/u1=on,above=30000B",
        "ecn:rail0-leaf0/u1=off",
        "hash-l3:all",
        "hash-l3:rail0-leaf0",
        "unpinned:all",
        "unpinned:rail1-leaf1",
        "spray:all",
        "spray:rail0-spine1",
        "answers:all=limited",
        "answers:rail0-leaf1=loopback",
        "slow-switch:rail0-spine1=60%",
        "weights:rail1-leaf0=3:1",
        "dead-hop:rail0-leaf0->rail0-spine1",
        "freeze:h2",
        "kill:h2",
        "management-cut:h3",
        "firmware:h1=28.39.1002",
        "firmware:h1=28.39.1002,device=mlx5_1",
        "switch-firmware:rail0-leaf0=31.2010.3118",
        "clock:h1=+250000us",
        "clock:h1=-1.5us",
    ];
    for text in texts {
        let fault = checked(text).unwrap();
        assert_eq!(fault.to_string(), text);
        assert_eq!(fault.to_string().parse::<Fault>().unwrap(), fault);
    }
    assert_eq!("polarised".parse::<Fault>().unwrap().to_string(), "polarised");
}

#[test]
fn every_kind_is_in_the_help() {
    for kind in KINDS {
        assert!(
            example(kind).len() > "write ".len() + kind.len() - 1,
            "{kind}: {}",
            example(kind)
        );
        assert!(HELP.lines().any(|line| line.starts_with(kind)), "{kind}");
    }
}

#[test]
fn a_slip_is_answered_with_what_was_meant() {
    let cases = [
        ("slwo:h1/rail0=60%", "did you mean `slow`?"),
        ("slow:h1/rial0=60%", "did you mean `h1/rail0`?"),
        ("cut:h1-rail0-leaf1", "did you mean `h1-rail0-leaf0`?"),
        ("freeze:h9", "the lab has no host `h9`"),
        ("freeze:rail0-leaf0", "the lab has no host `rail0-leaf0`"),
        ("slow:h1/rail0", "a value is missing: write slow:PORT=60%"),
        ("slow:h1/rail0=160%", "is not a percentage from 1% to 100%"),
        ("slow:h1/rail0=60", "is not a percentage"),
        ("loss:h1/rail0=0%", "is not a percentage"),
        ("flap:h1-rail0-leaf0,speed=2s", "is not period or duty"),
        ("corupt:h1/rail0=1%", "did you mean `corrupt`?"),
        ("corrupt:h1/rial0=1%", "did you mean `h1/rail0`?"),
        ("corrupt:h1/rail0", "a value is missing: write corrupt:PORT=0.1%"),
        ("corrupt:h1/rail0=0%", "is not a percentage"),
        ("duplicate:h1/rail0=60%", "from 0.0001% to 50%"),
        ("reorder:h1/rail0=1%,late=2ms", "reorder:h1/rail0=1%,by=2ms"),
        ("reorder:h1/rail0", "reorder:h1/rail0=1%,by=2ms"),
        ("reorder:h1/rail0=1%,by=2s", "100us to 50ms"),
        ("jitter:h1/rail0=1us", "100us to 50ms"),
        ("jitter:h1/rail0=soon", "30s"),
        ("buffer:h1/rail0=1kB", "27042 bytes at the least"),
        ("buffer:h1/rail0=1GB", "at the most"),
        ("buffer:h1/rail0=much", "64K"),
        ("ecn:h1/rail0=on", "name a port of a switch, or all"),
        ("ecn:rail0-leaf0/p9=on", "did you mean"),
        ("ecn:all=maybe", "is not on, on,above=SIZE or off"),
        ("ecn:all=off", "heal ecn:all"),
        ("ecn:rail0-leaf0=on", "the lab has no port `rail0-leaf0`"),
        ("stall:h1/rail0", "how long it stops is missing"),
        ("stall:h1/rail0=5ms,often=1s", "every=TIME"),
        ("stall:h1/rail0=5ms,every=6ms", "half of the time"),
        ("flap:h1-rail0-leaf0,period=1ms", "100ms to 1h"),
        ("weights:rail0-leaf0=3:1:1", "2 spines"),
        ("weights:rail0-spine0=3:1", "the lab has no leaf `rail0-spine0`"),
        ("weights:rail0-leaf0=0:1", "1 to 256"),
        ("polarised", "--trunk 2"),
        ("dead-hop:rail0-leaf0->rail1-spine0", "no cable between"),
        ("dead-hop:rail0-leaf0", "write dead-hop:SWITCH->SWITCH"),
        ("firmware:h0=1,device=mlx5_9", "mlx5_"),
        ("firmware:h0=1;rm", "not a firmware version"),
        ("switch-firmware:h0=1", "the lab has no switch `h0`"),
        ("switch-firmware:rail0-leaf0=$(x)", "not a firmware version"),
        ("clock:h0=soon", "30s"),
        ("clock:h0=+90000s", "at most a day"),
        ("cut:", "the target is missing"),
        ("", "unknown fault"),
    ];
    for (text, wanted) in cases {
        let error = checked(text).unwrap_err();
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

#[test]
fn the_value_is_not_part_of_what_a_fault_is_about() {
    let key = |text: &str| text.parse::<Fault>().unwrap().key();
    assert_eq!(key("slow:h1/rail0=60%"), key("slow:h1/rail0=50%"));
    assert_eq!(key("slow:h1/rail0=60%"), "slow:h1/rail0");
    assert_eq!(key("flap:a,period=2s,duty=50%"), "flap:a");
    assert_ne!(key("firmware:h1=1"), key("firmware:h1=1,device=mlx5_1"));
    assert_ne!(key("slow:h1/rail0=60%"), key("slow:h1/rail1=60%"));
}
