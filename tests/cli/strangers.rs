//! Whoever knocks without the run's token is turned away, and the run does not suffer.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use record::{Event, FindingKind};

use crate::harness::{Bench, LONG, Started, longer_than_expected};

/// What a stranger may send: noise, silence, both protocols' first bytes with a wrong token or cut short, and lengths
/// nobody should believe.
fn bad_manners() -> Vec<Vec<u8>> {
    let greeting = |magic: &[u8], rest: usize| [magic, &vec![0x5a; rest]].concat();
    vec![
        vec![0xff; 4096],
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        Vec::new(),
        greeting(b"RGDATA01", 256),
        greeting(b"RGJOIN01", 256),
        greeting(b"RGDATA01", 7),
        greeting(b"RGJOIN01", 7),
        u32::MAX.to_le_bytes().repeat(32),
    ]
}

/// Knocks at `door` in every bad way; the connections, held open.
fn knock(door: SocketAddr) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for bytes in bad_manners() {
        // The port may have closed meanwhile.
        if let Ok(mut stream) = TcpStream::connect_timeout(&door, Duration::from_secs(5)) {
            let _ = stream.write_all(&bytes);
            open.push(stream);
        }
    }
    open
}

/// The data ports of all ranks, from the debug lines.
fn doors(run: &Started, ranks: usize) -> Vec<SocketAddr> {
    let mut doors = Vec::new();
    for _ in 0..ranks {
        let line = run.line_with("doors=[");
        let (_, list) = line.split_once("doors=[").unwrap();
        let (list, _) = list.split_once(']').unwrap();
        doors.extend(list.split(", ").map(|door| door.parse::<SocketAddr>().unwrap()));
    }
    doors
}

#[test]
fn strangers_at_data_ports_are_turned_away_recorded_and_harm_nobody() {
    for words in ["", "--procs"] {
        let bench = Bench::new(&longer_than_expected());
        let run = bench.start_measuring(&format!("--budget 4s {words}"));
        let doors = doors(&run, 2);
        assert_eq!(doors.len(), 2, "one rail, two ranks");
        let strangers: Vec<TcpStream> = doors.iter().flat_map(|door| knock(*door)).collect();
        assert_eq!(strangers.len(), doors.len() * bad_manners().len());
        let ended = run.wait().must_exit(20);
        for mut stranger in strangers {
            let mut answer = Vec::new();
            stranger.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let _ = stranger.read_to_end(&mut answer);
            assert!(answer.is_empty(), "a stranger was answered: {answer:?}");
        }
        let recorded = bench.recorded();
        let intruders = recorded
            .events
            .iter()
            .filter(|event| matches!(event, Event::Intruder { .. }));
        assert!(
            intruders.count() >= 2,
            "intruders at both ranks: {}",
            ended.stderr
        );
        assert!(!bench.kinds().contains(&FindingKind::LostRank));
        assert!(!bench.kinds().contains(&FindingKind::Corruption));
        assert_eq!(bench.judgement().ended, Some(record::EndReason::Budget));
    }
}

/// Ports on which `pid` listens.
fn listening_ports(pid: Pid) -> Vec<u16> {
    let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    let targets = files
        .flatten()
        .filter_map(|file| std::fs::read_link(file.path()).ok());
    let inodes: Vec<String> = targets
        .filter_map(|target| {
            Some(
                target
                    .to_str()?
                    .strip_prefix("socket:[")?
                    .strip_suffix(']')?
                    .to_string(),
            )
        })
        .collect();
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let ports = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let listens =
            fields.get(3) == Some(&"0A") && inodes.iter().any(|inode| Some(&inode.as_str()) == fields.get(9));
        let (_, port) = fields.get(1).filter(|_| listens)?.split_once(':')?;
        u16::from_str_radix(port, 16).ok()
    });
    ports.collect()
}

/// Starts a run of many ranks and knocks at its rendezvous while they still arrive; none when it was too late.
fn run_with_a_stranger_at_the_rendezvous(bench: &Bench, out: &str) -> Option<Started> {
    let run = bench.start(&format!(
        "run suite.toml --procs --ranks 12 --only test=short --deadline 30s --out {out}"
    ));
    for _ in 0..20_000 {
        if let Some(port) = listening_ports(run.pid()).first() {
            let strangers = knock(SocketAddr::from((Ipv4Addr::LOCALHOST, *port)));
            drop(strangers);
            return Some(run);
        }
        if bench.path().join(out).join("run.json").exists() {
            break;
        }
    }
    run.signal(Signal::SIGTERM);
    None
}

#[test]
fn strangers_at_the_rendezvous_do_not_keep_ranks_from_meeting() {
    let bench = Bench::new(LONG);
    for attempt in 0..20 {
        let out = format!("out{attempt}");
        let Some(run) = run_with_a_stranger_at_the_rendezvous(&bench, &out) else {
            continue;
        };
        let ended = run.wait().must_exit(20);
        assert!(ended.stdout.contains("1 of 1"), "{}", ended.stdout);
        if ended.stderr.contains("not part of this run") {
            return;
        }
    }
    panic!("the rendezvous was never open long enough to knock at it");
}
