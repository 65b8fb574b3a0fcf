//! Suite `fairness` on real sockets: a host that does not back off where all others do gets most, and nobody else is accused.

use record::{Event, FindingKind, Judgement, Recorded};

use crate::harness::{TestLab, labs_can_be_made};
use crate::skip::skip;

const HOSTS: u32 = 6;
const ODD: &str = "h4";
/// The shipped suite for as long as a test may take.
const SHORT: &str = "name = \"short\"\n[run]\ndeadline = \"30s\"\n[[test]]\nname = \"shares\"\nkind = \"fairness\"\nwindow = \"200ms\"\niterations = 2\n";
const SWITCHES: [&str; 4] = ["rail0-leaf0", "rail0-leaf1", "rail0-leaf2", "rail0-spine0"];
/// Every port of a switch with room for 64 KiB and a millisecond.
const SMALL_BUFFERS: &str = "for port in $(tc qdisc show | awk '$2 == \"tbf\" { print $5 }'); do \
                             tc qdisc replace dev $port root tbf rate 100mbit burst 64k latency 1ms || exit 1; done";

/// Whether hosts of a lab may choose between these algorithms of TCP; it is said why not.
fn algorithms_can_be_chosen() -> bool {
    let file = |name: &str| format!("/proc/sys/net/ipv4/tcp_{name}_congestion_control");
    let available = std::fs::read_to_string(file("available")).unwrap_or_default();
    let has_both = ["bbr", "cubic"]
        .iter()
        .all(|wanted| available.split_whitespace().any(|known| known == *wanted));
    let is_allowed = has_both && std::fs::write(file("allowed"), available.trim()).is_ok();
    if !is_allowed {
        skip(
            "bbr",
            &format!("hosts of a lab cannot choose between BBR and CUBIC; this kernel has {available}"),
        );
    }
    is_allowed
}

#[test]
fn a_host_that_does_not_back_off_gets_most_and_nobody_else_is_accused() {
    if !labs_can_be_made() || !algorithms_can_be_chosen() {
        return;
    }
    let lab = TestLab::up(&["6x1", "--leaves", "3", "--spines", "1", "--rate", "100mbit"]);
    for switch in SWITCHES {
        lab.on(switch, SMALL_BUFFERS);
    }
    for host in 0..HOSTS {
        let host = format!("h{host}");
        let algorithm = if host == ODD { "bbr" } else { "cubic" };
        lab.on(
            &host,
            &format!("echo {algorithm} > /proc/sys/net/ipv4/tcp_congestion_control"),
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let (suite, out) = (folder.path().join("short.toml"), folder.path().join("run"));
    std::fs::write(&suite, SHORT).unwrap();
    let output = lab.run(
        "run",
        &[
            "--",
            "run",
            suite.to_str().unwrap(),
            "--json",
            "--out",
            out.to_str().unwrap(),
        ],
    );
    let said = String::from_utf8_lossy(&output.stdout);
    let judgement: Judgement = serde_json::from_str(&said)
        .unwrap_or_else(|error| panic!("{error}: {said}{}", String::from_utf8_lossy(&output.stderr)));
    let [row] = judgement.fair_shares.as_slice() else {
        panic!("{:?}", judgement.fair_shares)
    };
    assert_eq!((row.senders, row.rail.as_str()), (HOSTS, "rail0"), "{row:?}");
    assert_eq!(row.most.host, ODD, "{row:?}");
    for finding in &judgement.findings {
        // That it runs another algorithm is in the inventory, too.
        let is_its = |kind| matches!(kind, FindingKind::UnfairSender | FindingKind::Drift);
        assert!(is_its(finding.kind), "{}", finding.sentence);
        assert_eq!(finding.place.hosts, [ODD], "{}", finding.sentence);
        let is_told = |line: &String| {
            line.starts_with(&format!(
                "tcp-congestion-control of {ODD} is bbr, and cubic at all 5 others"
            ))
        };
        let is_unfair = finding.kind == FindingKind::UnfairSender;
        assert!(
            !is_unfair || finding.evidence.iter().any(is_told),
            "{:?}",
            finding.evidence
        );
    }
    // All senders of a slot send at the same time to one receiver, from behind other leaves; what arrived of each is recorded.
    let recorded = Recorded::read(&out).unwrap();
    let leaf = |rank: u32| rank / 2;
    for cell in &recorded.run.cells {
        let of_slot = || recorded.run.cells.iter().filter(|other| other.slot == cell.slot);
        assert!(of_slot().all(|other| other.ranks[1] == cell.ranks[1]) && of_slot().count() == 4);
        assert_ne!(leaf(cell.ranks[0]), leaf(cell.ranks[1]));
        let done = recorded.events.iter().find_map(|event| match event {
            Event::CellDone(done) if done.cell == cell.id => Some(done),
            _ => None,
        });
        let streams = &done.unwrap().streams;
        assert_eq!(streams.len(), 4);
        assert!(
            streams.iter().all(|stream| stream.bytes.len() == 2),
            "{streams:?}"
        );
    }
}
