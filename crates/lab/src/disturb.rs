//! Packets that leave a port with a wrong bit, behind others, or after a wait: a process of its own, inside the namespace of the port's node.
//!
//! The packet filter passes the packets concerned to one end of a cable that leads nowhere else (`hold-`); the process takes them from its other
//! end (`held-`) and sends them out of the port when it is time, past the filter and through the port's shaper. The sender computes checksums of
//! these packets, which packets of the same machine otherwise go without: a wrong bit is one that the receiver can see.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;

use super::packets::{self, Disturbance};
use super::wiring::Port;
use super::{Fault, Lab, LabError, LabName, apply, keeper, tools};

/// The name of the hidden subcommand, and how its processes are known.
pub(super) const SUBCOMMAND: &str = "disturb";
/// What the process says when packets may come.
const READY: &str = "ready";
/// How often it looks whether the fault is still in force.
const LOOKS: Duration = Duration::from_secs(1);
/// Room for packets that come faster than they are taken, or that the shaper has not let pass yet.
const ROOM: usize = 16 << 20;
/// Larger than any frame.
const FRAME: usize = 1 << 16;
/// Of an Ethernet frame, what is before the packet; of a packet's payload, what is left alone: ports, and where UDP has its checksum, of which
/// zero means that there is none.
const ETHERNET: usize = 14;
const LEFT_ALONE: usize = 8;

/// Refuses a fault where packets cannot be taken out of a port's way and put back.
pub fn check(fault: &Fault, port: &Port, lab: &Lab) -> Result<(), LabError> {
    let divert = packets::divert_rule(1, &port.interface);
    packets::try_rules(fault, lab, port, &[packets::returned_rule(), divert])?;
    let open = apply::in_namespaces(lab, &[port.node], |_| {
        let opened = packet_socket(&port.interface, None);
        opened.map(drop).map_err(LabError::system("no packet sockets"))
    });
    open.map_err(|error| LabError::BadFault {
        given: fault.to_string(),
        why: format!("this kernel cannot do that: {error}"),
    })
}

/// Packets that leave a port are disturbed from here on.
pub fn start(lab: &Lab, port: &Port) -> Result<(), LabError> {
    let disturbance = lab.in_force().disturbance(port);
    apply::in_namespaces(lab, &[port.node], |node| {
        let (hold, held) = ends(port);
        // Of a command that was killed half way.
        unplug(port, &node.to_string())?;
        let mtu = lab.wiring.shape.mtu;
        let cable = [
            format!("link add name {hold} mtu {mtu} type veth peer name {held} mtu {mtu}"),
            format!("link set dev {hold} up"),
            format!("link set dev {held} up"),
        ];
        tools::feed("ip", &["-batch", "-"], &cable, &node.to_string())?;
        tools::feed("ethtool", &["-K", &hold, "tx", "off"], &[], &node.to_string())
    })?;
    let name = port.to_string();
    let mut process = keeper::spawn(lab, SUBCOMMAND, &name, Stdio::piped())?;
    let mut said = String::new();
    if let Some(output) = process.stdout.take() {
        BufReader::new(output)
            .read_line(&mut said)
            .map_err(LabError::system(format!(
                "cannot hear from the process of {name}"
            )))?;
    }
    if said.trim() != READY {
        return Err(LabError::CannotRun(format!(
            "packets of {name} cannot be disturbed: {}",
            said.trim()
        )));
    }
    apply::in_namespaces(lab, &[port.node], |node| {
        let lines = packets::diversion(&table(port), &port.interface, &ends(port).0, &disturbance);
        tools::feed("nft", &["-f", "-"], &lines, &node.to_string())
    })
}

/// Packets pass again as they are. What is on hold by then, for up to `longest`, still leaves.
pub fn stop(lab: &Lab, port: &Port, longest: Duration) -> Result<(), LabError> {
    apply::in_namespaces(lab, &[port.node], |node| {
        let table = format!("table netdev {}", table(port));
        let lines = [format!("{table} {{}}"), format!("delete {table}")];
        tools::feed("nft", &["-f", "-"], &lines, &node.to_string())
    })?;
    std::thread::sleep(longest + Duration::from_millis(5));
    keeper::end(lab, SUBCOMMAND, port.node, &port.to_string())?;
    apply::in_namespaces(lab, &[port.node], |node| unplug(port, &node.to_string()))
}

/// Removes the cable to the process, if there is one.
fn unplug(port: &Port, place: &str) -> Result<(), LabError> {
    let (hold, _) = ends(port);
    match if_nametoindex(hold.as_str()) {
        Err(_) => Ok(()),
        Ok(_) => tools::feed("ip", &["-batch", "-"], &[format!("link del dev {hold}")], place),
    }
}

/// The two ends of the cable that leads packets of a port to its process.
fn ends(port: &Port) -> (String, String) {
    (
        format!("hold-{}", port.interface),
        format!("held-{}", port.interface),
    )
}

fn table(port: &Port) -> String {
    format!("railgauge-{}", port.interface)
}

/// Disturbs until the fault is no longer in force. The process that runs this does nothing else.
pub fn disturb(name: &LabName, port: &str) -> Result<(), LabError> {
    let ready = |said: &str| {
        let mut output = std::io::stdout();
        let _ = writeln!(output, "{said}").and_then(|()| output.flush());
    };
    let (inlet, outlet, packets) = match open(name, port) {
        Ok(open) => open,
        Err(error) => {
            ready(&error.to_string());
            return Err(error);
        }
    };
    ready(READY);
    carry(&inlet, &outlet, packets, &|| current(name, port).is_some())
        .map_err(LabError::system(format!("cannot carry packets of {port}")))
}

/// Enters the namespace; where packets come from, where they go, and what is done to them.
fn open(name: &LabName, port: &str) -> Result<(OwnedFd, OwnedFd, Packets), LabError> {
    let lab = Lab::open(name)?;
    let here = lab.wiring.port(port)?.clone();
    let namespace = lab.namespace(here.node)?;
    setns(namespace, CloneFlags::CLONE_NEWNET)
        .map_err(LabError::system(format!("cannot enter {}", here.node)))?;
    let trouble = || LabError::system(format!("no packet socket for {port}"));
    let inlet = packet_socket(&ends(&here).1, Some(SockProtocol::EthAll)).map_err(trouble())?;
    // Without a protocol it receives nothing.
    let outlet = packet_socket(&here.interface, None).map_err(trouble())?;
    setsockopt(&outlet, sockopt::Mark, &packets::RETURNED).map_err(trouble())?;
    setsockopt(&inlet, sockopt::RcvBufForce, &ROOM).map_err(trouble())?;
    setsockopt(&outlet, sockopt::SndBufForce, &ROOM).map_err(trouble())?;
    let disturbance = lab.in_force().disturbance(&here);
    Ok((inlet, outlet, Packets::new(disturbance, port)))
}

fn current(name: &LabName, port: &str) -> Option<Disturbance> {
    let lab = Lab::open(name).ok()?;
    let here = lab.wiring.port(port).ok()?;
    Some(lab.in_force().disturbance(here)).filter(|known| !known.is_none())
}

fn packet_socket(interface: &str, protocol: Option<SockProtocol>) -> nix::Result<OwnedFd> {
    let socket = socket(
        AddressFamily::Packet,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        protocol,
    )?;
    let mut all = getifaddrs()?;
    let address = all.find_map(|entry| match entry.interface_name == interface {
        true => entry.address?.as_link_addr().copied(),
        false => None,
    });
    bind(socket.as_raw_fd(), &address.ok_or(Errno::ENODEV)?)?;
    Ok(socket)
}

/// Takes packets and sends them when they are due.
fn carry(
    inlet: &OwnedFd,
    outlet: &OwnedFd,
    mut packets: Packets,
    is_wanted: &dyn Fn() -> bool,
) -> nix::Result<()> {
    let mut buffer = vec![0; FRAME];
    let mut look = Instant::now() + LOOKS;
    loop {
        loop {
            match recv(inlet.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => packets.take(&buffer[..length], Instant::now()),
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR | Errno::ENETDOWN) => {}
                Err(error) => return Err(error),
            }
            send_due(outlet, &mut packets);
        }
        send_due(outlet, &mut packets);
        let now = Instant::now();
        if now > look {
            if !is_wanted() {
                return Ok(());
            }
            look = now + LOOKS;
        }
        let next = packets.next_due().map_or(look, |due| due.min(look));
        let wait = TimeSpec::from_duration(next.saturating_duration_since(Instant::now()));
        match ppoll(
            &mut [PollFd::new(inlet.as_fd(), PollFlags::POLLIN)],
            Some(wait),
            None,
        ) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Sends what is due. What the port has no room for is lost, as everywhere.
fn send_due(outlet: &OwnedFd, packets: &mut Packets) {
    while let Some(frame) = packets.due(Instant::now()) {
        let _ = send(outlet.as_raw_fd(), &frame, MsgFlags::MSG_DONTWAIT);
    }
}

/// Packets on hold.
struct Packets {
    disturbance: Disturbance,
    random: Random,
    begun: Instant,
    /// When the last one leaves that no other overtakes.
    last: Instant,
    /// By when they are due, then in the order in which they came.
    held: BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>>,
    came: u64,
}

impl Packets {
    fn new(disturbance: Disturbance, port: &str) -> Packets {
        let now = Instant::now();
        Packets {
            disturbance,
            random: Random::of(port),
            begun: now,
            last: now,
            held: BinaryHeap::new(),
            came: 0,
        }
    }

    /// Draws what becomes of a packet.
    fn take(&mut self, frame: &[u8], now: Instant) {
        let disturbance = self.disturbance;
        let mut frame = frame.to_vec();
        let drawn = self.random.below(u64::from(disturbance.taken_ppm())) as u32;
        let is_late =
            (disturbance.corrupt_ppm..disturbance.corrupt_ppm + disturbance.late_ppm).contains(&drawn);
        if drawn < disturbance.corrupt_ppm {
            flip(&mut frame, &mut self.random);
        }
        let due = (now + self.wait(now)).max(self.last);
        let due = match is_late {
            true => due + Duration::from(disturbance.late_by),
            false => {
                self.last = due;
                due
            }
        };
        self.came += 1;
        self.held.push(Reverse((due, self.came, frame)));
    }

    /// How long everything waits just now: another time, from none to the longest, in every span as long as that.
    fn wait(&self, now: Instant) -> Duration {
        let longest = self.disturbance.jitter.0;
        if longest == 0 {
            return Duration::ZERO;
        }
        let since = now.saturating_duration_since(self.begun).as_nanos() as u64;
        Duration::from_nanos(self.random.at(since / longest) % (longest + 1))
    }

    /// When the next one is due.
    fn next_due(&self) -> Option<Instant> {
        self.held.peek().map(|Reverse((due, _, _))| *due)
    }

    /// The next one that is due by now.
    fn due(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.next_due().filter(|due| *due <= now)?;
        self.held.pop().map(|Reverse((_, _, frame))| frame)
    }
}

/// Inverts one bit of what an IPv4 packet carries, where checksums see it; leaves a frame alone that carries nothing.
fn flip(frame: &mut [u8], random: &mut Random) {
    let header = frame.get(ETHERNET).map_or(0, |first| usize::from(first & 15) * 4);
    // Short frames are padded: behind the packet there is nothing to corrupt.
    let length = match frame.get(ETHERNET + 2..ETHERNET + 4) {
        Some(bytes) => usize::from(bytes[0]) << 8 | usize::from(bytes[1]),
        None => return,
    };
    let end = frame.len().min(ETHERNET + length);
    let start = ETHERNET + header + LEFT_ALONE;
    if start < end {
        let place = start + random.below((end - start) as u64) as usize;
        frame[place] ^= 1 << random.below(8);
    }
}

/// Numbers drawn from a port's name: the same lab is disturbed alike, and two ports of it are not.
struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    fn of(port: &str) -> Random {
        let seed = port.bytes().fold(0xcbf2_9ce4_8422_2325u64, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Random { seed, drawn: 0 }
    }

    /// The number at a place of a sequence of its own: SplitMix64.
    fn at(&self, place: u64) -> u64 {
        let mut mixed = self
            .seed
            .wrapping_add(place.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.drawn += 1;
        self.at(self.drawn << 20) % limit.max(1)
    }
}

#[cfg(test)]
mod tests {
    use record::units::Nanos;

    use super::*;

    /// A frame with an IPv4 packet of so many bytes of payload.
    fn frame(payload: usize) -> Vec<u8> {
        let length = 20 + payload;
        let mut frame = vec![0; ETHERNET + length];
        frame[ETHERNET] = 0x45;
        frame[ETHERNET + 2] = (length >> 8) as u8;
        frame[ETHERNET + 3] = length as u8;
        frame
    }

    fn packets(disturbance: Disturbance) -> Packets {
        Packets::new(disturbance, "h1/rail0")
    }

    /// When packets leave that come every 100 us, in the order in which they leave: which, and how long after it came.
    fn leaves(disturbance: Disturbance, count: u64) -> Vec<(u64, Duration)> {
        let mut packets = packets(disturbance);
        let begun = packets.begun;
        let comes = |number: u64| begun + Duration::from_micros(100 * number);
        for number in 0..count {
            let mut frame = frame(40);
            let end = frame.len();
            frame[end - 8..].copy_from_slice(&number.to_be_bytes());
            packets.take(&frame, comes(number));
        }
        let mut left = Vec::new();
        while let Some(due) = packets.next_due() {
            let frame = packets.due(due).unwrap();
            let number = u64::from_be_bytes(frame[frame.len() - 8..].try_into().unwrap());
            left.push((number, due.saturating_duration_since(comes(number))));
        }
        left
    }

    #[test]
    fn a_late_packet_is_overtaken_and_all_others_keep_their_order() {
        // One in four of those that are taken at all; the others were only given a wrong bit.
        let late = leaves(
            Disturbance {
                corrupt_ppm: 0,
                late_ppm: 250_000,
                late_by: Nanos(2_000_000),
                jitter: Nanos(1),
            },
            4_000,
        );
        assert_eq!(late.len(), 4_000, "nothing is lost");
        let held: Vec<&(u64, Duration)> = late
            .iter()
            .filter(|(_, wait)| *wait >= Duration::from_millis(2))
            .collect();
        assert!((900..1100).contains(&held.len()), "{}", held.len());
        let mut others = late.iter().filter(|(_, wait)| *wait < Duration::from_millis(2));
        assert!(
            others
                .clone()
                .zip(others.by_ref().skip(1))
                .all(|(one, next)| one.0 < next.0)
        );
        let overtaken = late.windows(2).filter(|pair| pair[0].0 > pair[1].0).count();
        assert!(overtaken > 500, "{overtaken}");
    }

    #[test]
    fn jitter_makes_packets_wait_for_different_times_and_keeps_their_order() {
        let left = leaves(
            Disturbance {
                jitter: Nanos(2_000_000),
                ..Disturbance::default()
            },
            4_000,
        );
        assert!(left.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order");
        let longest = Duration::from_millis(2);
        assert!(left.iter().all(|(_, wait)| *wait <= longest));
        let shares = [0.25, 0.5, 0.75].map(|share| {
            let below = left.iter().filter(|(_, wait)| *wait < longest.mul_f64(share));
            below.count() as f64 / left.len() as f64
        });
        let about = [0.1..0.4, 0.3..0.65, 0.6..0.95];
        let mut both = shares.iter().zip(&about);
        assert!(both.all(|(share, about)| about.contains(share)), "{shares:?}");
    }

    #[test]
    fn one_bit_is_wrong_and_never_one_of_ports_addresses_or_padding() {
        let mut random = Random::of("h1/rail0");
        for payload in [9, 40, 1480] {
            let whole = frame(payload);
            let mut places = std::collections::HashSet::new();
            for _ in 0..4_000 {
                let mut padded = [whole.clone(), vec![0; 6]].concat();
                flip(&mut padded, &mut random);
                let wrong: Vec<usize> = (0..padded.len())
                    .filter(|at| padded[*at] != whole.get(*at).copied().unwrap_or(0))
                    .collect();
                let [at] = wrong[..] else { panic!("{wrong:?}") };
                assert_eq!((padded[at] ^ whole[at]).count_ones(), 1);
                assert!((ETHERNET + 20 + LEFT_ALONE..whole.len()).contains(&at), "{at}");
                places.insert(at);
            }
            assert!(places.len() >= (payload - LEFT_ALONE).min(1000), "anywhere in it");
        }
        // Nothing to corrupt: an empty datagram, and what is no packet at all.
        for short in [frame(8), vec![0; 14], Vec::new()] {
            let mut same = short.clone();
            flip(&mut same, &mut random);
            assert_eq!(same, short);
        }
    }
}
