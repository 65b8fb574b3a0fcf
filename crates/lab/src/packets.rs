//! Faults of single packets, of queues and of marks: how they are read, and the lines that make the kernel do them.
//!
//! Pure. The kernel's packet filter draws which packets are concerned and copies or marks them itself; what it cannot do, a process does
//! (`disturb`), to which the filter passes those packets. Nothing here needs `netem` or `red`, which many kernels are built without.

use super::{Fault, Lab, LabError, Port, apply, tools};
use record::units::{Bytes, Nanos, Rate};

/// What packets carry that were taken out of a port's way and come back: they are not drawn again.
pub(super) const RETURNED: u32 = 0x7267;
/// The longest that a packet is held.
pub(super) const LONGEST: Nanos = Nanos(50_000_000);
/// Of packets copied, which may be copied again.
pub(super) const MOST_COPIED: f64 = 50.0;
/// A switch that marks does so beyond so many waiting bytes, unless the fault says otherwise.
const MARKED_ABOVE: Bytes = Bytes(128_000);
/// Frames that always wait without a mark.
const FEWEST_WAITING: u64 = 2;
/// Share of the port's rate at which the queue that is counted for marks empties: a queue that only stands still is to be marked, too.
const COUNTED_RATE: f64 = 0.98;
/// Bytes of a frame besides what the largest packet holds.
const FRAME: u64 = 14;
/// What a shaper lets pass at once, where nobody asked for small buffers, and how long a packet may wait for it.
const BURST: u64 = 128 << 10;
const PATIENCE: &str = "latency 20ms";
/// A port has room for so many of the largest frames at least: two that pass at once, and one that waits.
const FEWEST_FRAMES: u64 = 3;
const LARGEST_BUFFER: Bytes = Bytes(100_000_000);

/// What a process does to packets that leave a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Disturbance {
    /// Of a million packets, how many get a wrong bit.
    pub corrupt_ppm: u32,
    /// Of a million packets, how many others overtake.
    pub late_ppm: u32,
    /// For how long those are held.
    pub late_by: Nanos,
    /// All packets wait for a time up to this, in order.
    pub jitter: Nanos,
}

impl Disturbance {
    /// Whether nothing is done.
    pub(super) fn is_none(&self) -> bool {
        self.taken_ppm() == 0
    }

    /// Of a million packets, how many pass through the process.
    pub(super) fn taken_ppm(&self) -> u32 {
        match self.jitter {
            Nanos(0) => (self.corrupt_ppm + self.late_ppm).min(1_000_000),
            _ => 1_000_000,
        }
    }

    /// The longest that it holds a packet.
    pub(super) fn longest(&self) -> Nanos {
        Nanos(self.late_by.0 + self.jitter.0)
    }
}

/// What `tc` is told of a port of this rate: its shaper, and how much waits there before packets are dropped.
pub(super) fn shaper(interface: &str, rate: Rate, mtu: u32, buffer: Option<Bytes>) -> String {
    let bits = (rate.0 * 8.0).round();
    let room = match buffer {
        None => format!("burst 128k {PATIENCE}"),
        Some(buffer) => {
            let burst = (buffer.0 / 2).clamp(2 * frame(mtu), BURST);
            format!("burst {burst} limit {}", buffer.0.saturating_sub(burst))
        }
    };
    format!("qdisc replace dev {interface} root tbf rate {bits}bit {room}")
}

/// The smallest buffer of a port.
pub(super) fn least_buffer(mtu: u32) -> Bytes {
    Bytes(FEWEST_FRAMES * frame(mtu))
}

fn frame(mtu: u32) -> u64 {
    u64::from(mtu) + FRAME
}

/// The rule that sends so many of a million packets twice.
pub(super) fn copy_rule(ppm: u32, interface: &str) -> Option<String> {
    (ppm > 0).then(|| format!("{}dup to \"{interface}\"", drawn(ppm)))
}

/// The rule that marks packets beyond a queue of `above` bytes that empties nearly as fast as the port sends.
///
/// The kernel's meter counts packets (of bytes it would let a whole second's pass at once), so only large ones are counted, as if each were as large
/// as can be, and only these are marked.
pub(super) fn mark_rule(above: Bytes, rate: Rate, mtu: u32) -> String {
    let emptied = (rate.0 * COUNTED_RATE / frame(mtu) as f64).ceil();
    let waiting = above.0.div_ceil(frame(mtu)).max(FEWEST_WAITING);
    format!(
        "meta length > {} ip ecn {{ ect0, ect1 }} limit rate over {emptied}/second burst {waiting} packets ip ecn set ce",
        mtu / 2
    )
}

/// Packets that come back pass.
pub(super) fn returned_rule() -> String {
    format!("meta mark {RETURNED} accept")
}

/// The packet filter that passes those of a port's packets that a process is to have to the interface `hold`.
pub(super) fn diversion(table: &str, interface: &str, hold: &str, disturbance: &Disturbance) -> Vec<String> {
    vec![
        format!("table netdev {table} {{"),
        format!("chain out {{ type filter hook egress device \"{interface}\" priority 10; policy accept;"),
        format!("{};", returned_rule()),
        format!("{};", divert_rule(disturbance.taken_ppm(), hold)),
        "}".to_string(),
        "}".to_string(),
    ]
}

/// The rule that passes so many of a million packets to another interface.
pub(super) fn divert_rule(ppm: u32, to: &str) -> String {
    format!("{}fwd to \"{to}\"", drawn(ppm))
}

/// Picks so many of a million packets. ARP stays, so that routes keep pointing where they did.
pub(super) fn drawn(ppm: u32) -> String {
    match ppm {
        1_000_000.. => "meta protocol ip ".to_string(),
        _ => format!("meta protocol ip numgen random mod 1000000 < {ppm} "),
    }
}

/// Reads `PORT=1%,by=2ms`.
pub(super) fn read_reorder(
    rest: &str,
    percent: impl Fn(&str) -> Result<f64, String>,
) -> Result<Fault, String> {
    let wrong = || "write it like reorder:h1/rail0=1%,by=2ms".to_string();
    let (target, by) = match rest.split_once(',') {
        None => (rest, Nanos(2_000_000)),
        Some((target, by)) => (target, held(by.strip_prefix("by=").ok_or_else(wrong)?)?),
    };
    let (port, share) = target.split_once('=').ok_or_else(wrong)?;
    Ok(Fault::Reorder {
        port: port.to_string(),
        percent: percent(share)?,
        by,
    })
}

/// Reads how long packets are held.
pub(super) fn held(text: &str) -> Result<Nanos, String> {
    let time: Nanos = text
        .parse()
        .map_err(|error: record::units::ParseError| error.to_string())?;
    match (Nanos(100_000)..=LONGEST).contains(&time) {
        true => Ok(time),
        false => Err("packets are held for 100us to 50ms".to_string()),
    }
}

/// Reads the room of a port.
pub(super) fn buffer(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text
        .parse()
        .map_err(|error: record::units::ParseError| error.to_string())?;
    match size <= LARGEST_BUFFER {
        true => Ok(size),
        false => Err(format!("a port has room for {LARGEST_BUFFER} at the most")),
    }
}

/// Reads `on`, `on,above=64kB` or `off`.
pub(super) fn marks(text: &str) -> Result<Option<Bytes>, String> {
    match text.split_once(',') {
        None if text == "on" => Ok(Some(MARKED_ABOVE)),
        None if text == "off" => Ok(None),
        Some(("on", above)) if above.starts_with("above=") => {
            let above = buffer(&above["above=".len()..])?;
            match above.0 >= 2_000 {
                true => Ok(Some(above)),
                false => Err("marks begin above 2kB at the least".to_string()),
            }
        }
        _ => Err(format!(
            "`{text}` is not on, on,above=SIZE or off; write it like ecn:all=on,above=128kB"
        )),
    }
}

/// Refuses a fault whose rules the kernel here does not take for a port.
pub(super) fn try_rules(fault: &Fault, lab: &Lab, port: &Port, rules: &[String]) -> Result<(), LabError> {
    let chain = format!(
        "table netdev railgauge-try {{\nchain out {{ type filter hook egress device \"{}\" priority 20; policy accept; {}; }}\n}}",
        port.interface,
        rules.join("; ")
    );
    apply::in_namespaces(lab, &[port.node], |node| {
        let tried = tools::feed(
            "nft",
            &["-c", "-f", "-"],
            std::slice::from_ref(&chain),
            &node.to_string(),
        );
        tried.map_err(|error| LabError::BadFault {
            given: fault.to_string(),
            why: format!("this kernel cannot do that: {error}"),
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_port_has_room_for_what_was_asked_and_its_shaper_never_refuses_the_largest_frame() {
        let rate = Rate(25e6);
        let of = |buffer| shaper("p0", rate, 1500, buffer);
        assert_eq!(
            of(None),
            "qdisc replace dev p0 root tbf rate 200000000bit burst 128k latency 20ms"
        );
        assert_eq!(
            of(Some(Bytes(30_000))),
            "qdisc replace dev p0 root tbf rate 200000000bit burst 15000 limit 15000"
        );
        assert!(of(Some(Bytes(1_000_000))).ends_with("burst 131072 limit 868928"));
        for mtu in [1500, 9000] {
            let least = shaper("p0", rate, mtu, Some(least_buffer(mtu)));
            let frame = u64::from(mtu) + 14;
            assert!(
                least.ends_with(&format!("burst {} limit {frame}", 2 * frame)),
                "{least}"
            );
        }
    }

    #[test]
    fn only_drawn_packets_leave_the_way_and_those_that_come_back_pass() {
        let disturbance = Disturbance {
            corrupt_ppm: 1_000,
            late_ppm: 10_000,
            late_by: Nanos(2_000_000),
            jitter: Nanos(0),
        };
        let lines = diversion("t", "p0", "hold-p0", &disturbance).join("\n");
        assert!(
            lines.contains("< 11000 fwd to \"hold-p0\""),
            "one in a thousand and one in a hundred: {lines}"
        );
        assert!(lines.find("accept;\nmeta mark").unwrap() < lines.find("fwd").unwrap());
        let all = Disturbance {
            jitter: Nanos(1),
            ..disturbance
        };
        assert_eq!(
            (all.taken_ppm(), Disturbance::default().is_none()),
            (1_000_000, true)
        );
        assert!(
            diversion("t", "p0", "hold-p0", &all)
                .join("\n")
                .contains("ip fwd to")
        );
    }

    #[test]
    fn a_queue_that_stands_still_is_marked() {
        let rule = mark_rule(Bytes(30_000), Rate(12.5e6), 1500);
        assert!(rule.contains("over 8092/second burst 20 packets"), "{rule}");
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read_or_refused(text in "\\PC{0,24}") {
            let _ = (marks(&text), held(&text), buffer(&text));
            let _ = read_reorder(&text, |share| Ok(share.len() as f64));
        }

        #[test]
        fn buffers_hold_what_they_say(size in 4_542u64..100_000_000) {
            let line = shaper("p0", Rate(25e6), 1500, Some(Bytes(size)));
            let number = |word: &str| -> u64 {
                let mut words = line.split(' ').skip_while(|known| *known != word);
                words.nth(1).unwrap().parse().unwrap()
            };
            prop_assert_eq!(number("burst") + number("limit"), size);
            prop_assert!(number("limit") >= 1514 && number("burst") >= 2 * 1514);
        }
    }
}
