//! A port that stops now and then, for a few milliseconds, as one that is paused does: a process of its own, inside the namespace of the
//! port's node. Nothing is lost: what should leave the port waits in its queue.
//!
//! The port's shaper is told to let almost nothing pass, and one packet takes what it would let pass; a moment later the shaper is as before.

use std::net::UdpSocket;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};

use super::config::config;
use super::wiring::{Cable, Port};
use super::{Fault, Lab, LabError, LabName, Node, keeper, tools};
use record::units::Nanos;

/// The name of the hidden subcommand, and how its processes are known.
pub(super) const SUBCOMMAND: &str = "stall";
/// Bytes of a frame besides what the largest packet holds, and a few more that no packet is as small as.
const FRAME: u32 = 14;
const SPARE: u32 = 10;
/// UDP's and IP's headers.
const HEADERS: u32 = 28;
/// Nobody listens there.
const DISCARD: u16 = 9;

/// Starts stalling a port.
pub fn start(lab: &Lab, port: &str) -> Result<(), LabError> {
    keeper::start(lab, SUBCOMMAND, port)
}

/// Ends the stalling of a port and restores its rate.
pub fn stop(lab: &Lab, port: &str) -> Result<(), LabError> {
    let (here, _) = ends(lab, port)?;
    keeper::end(lab, SUBCOMMAND, here.node, port)?;
    let line = shaper(lab, &here);
    super::apply::in_namespaces(lab, &[here.node], |node| {
        tools::feed(
            "tc",
            &["-batch", "-"],
            std::slice::from_ref(&line),
            &node.to_string(),
        )
    })
}

/// Stalls until the fault is no longer in force. The process that runs this does nothing else.
pub fn stall(name: &LabName, port: &str) -> Result<(), LabError> {
    let lab = Lab::open(name)?;
    let (here, there) = ends(&lab, port)?;
    let namespace = lab.namespace(here.node)?;
    setns(namespace, CloneFlags::CLONE_NEWNET)
        .map_err(LabError::system(format!("cannot enter {}", here.node)))?;
    let trouble = |what: &str| LabError::system(format!("{what} {port}"));
    let socket = UdpSocket::bind((here.address, 0)).map_err(trouble("cannot send from"))?;
    let mtu = lab.wiring.shape.mtu;
    let largest = vec![0; (mtu - HEADERS) as usize];
    let place = here.node.to_string();
    // Done when it returns: what is sent next meets the new shaper.
    let tell = |line: &str| tools::feed("tc", &line.split(' ').collect::<Vec<_>>(), &[], &place);
    let queue = "limit 1000000";
    let held = format!(
        "qdisc replace dev {} root tbf rate 1kbit burst {} {queue}",
        here.interface,
        mtu + FRAME + SPARE
    );
    // Waits are drawn from the port's own name: the same lab stalls alike, and two ports of it do not.
    let mut draw = port.bytes().fold(0x9e37_79b9_7f4a_7c15u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    while let Some((lab, lasts, every)) = current(name, port) {
        draw = draw
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let share = (draw >> 33) as f64 / f64::from(1u32 << 31);
        std::thread::sleep(every.mul_f64(0.5 + share));
        tell(&held)?;
        // It takes what the shaper still lets pass, or waits itself and holds up all others.
        let _ = socket.send_to(&largest, (there.address, DISCARD));
        std::thread::sleep(lasts);
        tell(&shaper(&lab, &here))?;
        // The queue moves on with the next packet.
        std::thread::sleep(Duration::from_micros(200));
        let _ = socket.send_to(&[0], (there.address, DISCARD));
    }
    Ok(())
}

/// The port, and the one at the other end of its cable.
fn ends(lab: &Lab, port: &str) -> Result<(Port, Port), LabError> {
    let here = lab.wiring.port(port)?.clone();
    let has_it = |cable: &&Cable| cable.ends.contains(&here);
    let cable = lab.wiring.cables.iter().find(has_it);
    let there = cable.and_then(|cable| cable.ends.iter().find(|end| **end != here));
    let there = there.cloned().unwrap_or_else(|| here.clone());
    Ok((here, there))
}

/// What `tc` is told of a port that does not stall.
fn shaper(lab: &Lab, port: &Port) -> String {
    let wanted = config(&lab.plugged(), lab.in_force(), port.node);
    let dev = format!("dev {} ", port.interface);
    let mut rates = wanted.rates.into_iter();
    rates.find(|line| line.contains(&dev)).unwrap_or_default()
}

/// The lab, how long the port stops, and how often, while the fault is in force.
fn current(name: &LabName, port: &str) -> Option<(Lab, Duration, Duration)> {
    let lab = Lab::open(name).ok()?;
    let (lasts, every) = lab.faults.iter().find_map(|fault| match fault {
        Fault::Stall {
            port: of,
            lasts,
            every,
        } if of == port => Some((*lasts, *every)),
        _ => None,
    })?;
    Some((lab, lasts.into(), every.into()))
}

/// Reads `PORT=5ms,every=1s`.
pub(super) fn read(rest: &str) -> Result<Fault, String> {
    let (target, every) = match rest.split_once(',') {
        None => (rest, None),
        Some((target, every)) => (target, Some(every)),
    };
    let time = |text: &str| {
        text.parse::<Nanos>()
            .map_err(|error: record::units::ParseError| error.to_string())
    };
    let (port, lasts) = target
        .split_once('=')
        .ok_or("how long it stops is missing, like stall:h1/rail0=5ms")?;
    let lasts = time(lasts)?;
    let every = match every.map(|every| every.split_once('=')) {
        None => Nanos::from_secs(1),
        Some(Some(("every", every))) => time(every)?,
        Some(_) => {
            return Err("after the comma comes every=TIME, like stall:h1/rail0=5ms,every=1s".to_string());
        }
    };
    if !(Nanos(500_000)..=Nanos::from_secs(1)).contains(&lasts)
        || every.0 < 2 * lasts.0
        || every > Nanos::from_secs(3600)
    {
        return Err(
            "a port may stop for 500us to 1s, every 1h at the least and at most half of the time".to_string(),
        );
    }
    Ok(Fault::Stall {
        port: port.to_string(),
        lasts,
        every,
    })
}

/// Whether a port of this lab can stall: a host with a kernel of its own sends past the shaper's namespace.
pub(super) fn is_possible(lab: &Lab, port: &str) -> bool {
    let is_host = |port: &Port| matches!(port.node, Node::Host(_));
    lab.wiring.shape.guests.is_none() || !ends(lab, port).is_ok_and(|(here, _)| is_host(&here))
}
