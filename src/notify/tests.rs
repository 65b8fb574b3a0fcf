use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use proptest::prelude::*;

use super::*;
use record::{FindingKind, Issue, IssueStatus, SCHEMA, Severity};

const QUICK: Patience = Patience {
    each: Duration::from_secs(20),
    all: Duration::from_secs(60),
    pause: Duration::from_millis(1),
};

fn notice(part: &str) -> Notice {
    let issue = Issue {
        kind: Some(FindingKind::SlowLink),
        part: part.to_string(),
        status: IssueStatus::New,
        severity: Severity::Page,
        due: true,
        first: "tonight".to_string(),
        sentence: format!("{part} is slow"),
        finding: None,
        change: None,
    };
    Notice {
        schema: SCHEMA,
        severity: issue.severity,
        key: format!("slow-link: {part}"),
        suite: "nightly".to_string(),
        run: "tonight".to_string(),
        started: "2026-11-16T03:00:00Z".to_string(),
        folder: "/srv/nights/tonight".to_string(),
        sentence: issue.sentence.clone(),
        issue,
    }
}

/// A server that answers one request after another with these codes, and tells what it was sent.
fn server(codes: &'static [u16]) -> (String, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/hook?token=secret", listener.local_addr().unwrap());
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for code in codes {
            let (stream, _) = listener.accept().unwrap();
            sender.send(take(stream, *code)).unwrap();
        }
    });
    (address, receiver)
}

fn take(stream: TcpStream, code: u16) -> (String, Vec<u8>) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "cut off: {head}");
    }
    let lower = head.to_lowercase();
    let length = lower.split("content-length: ").nth(1).unwrap();
    let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let answer = format!("HTTP/1.1 {code} Said\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    reader.get_mut().write_all(answer.as_bytes()).unwrap();
    (head, body)
}

#[test]
fn a_webhook_gets_the_notice_as_it_is() {
    let (address, requests) = server(&[204]);
    let notice = notice("h2/rail1");
    let sent = send(&[address.parse().unwrap()], std::slice::from_ref(&notice), QUICK);
    assert_eq!((sent.delivered, sent.troubles), (1, Vec::new()));
    let (head, body) = requests.recv().unwrap();
    assert!(head.starts_with("POST /hook?token=secret HTTP/1.1\r\n"), "{head}");
    assert!(
        head.to_lowercase().contains("content-type: application/json"),
        "{head}"
    );
    assert_eq!(serde_json::from_slice::<Notice>(&body).unwrap(), notice);
}

#[test]
fn a_webhook_that_is_busy_is_asked_again_and_one_that_refuses_is_not() {
    let (address, requests) = server(&[503, 429, 200]);
    let sent = send(&[address.parse().unwrap()], &[notice("a")], QUICK);
    assert_eq!((sent.delivered, sent.troubles), (1, Vec::new()));
    assert_eq!(requests.iter().count(), 3);

    let (address, requests) = server(&[403]);
    let sent = send(&[address.parse().unwrap()], &[notice("a")], QUICK);
    assert_eq!(sent.delivered, 0);
    let trouble = &sent.troubles[0];
    assert!(trouble.contains("it answered 403"), "{trouble}");
    assert!(
        !trouble.contains("secret"),
        "an address may be a secret: {trouble}"
    );
    assert_eq!(requests.iter().count(), 1);

    let (address, requests) = server(&[500, 500, 500]);
    let sent = send(&[address.parse().unwrap()], &[notice("a")], QUICK);
    assert!(sent.troubles[0].contains("3 attempts"), "{:?}", sent.troubles);
    assert_eq!(requests.iter().count(), 3);
}

#[test]
fn nobody_at_the_other_end_is_a_trouble_and_nothing_more() {
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let target: Target = format!("http://user:word@{nowhere}/x").parse().unwrap();
    let sent = send(&[target], &[notice("a")], QUICK);
    assert_eq!(sent.delivered, 0);
    assert!(
        sent.troubles[0].contains(&format!("http://{nowhere}/...")),
        "{:?}",
        sent.troubles
    );
    assert!(!sent.troubles[0].contains("word"), "{:?}", sent.troubles);
}

#[test]
fn a_program_gets_one_notice_at_a_time_and_its_severity() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("tell");
    let heard = folder.path().join("heard");
    let text = format!(
        "printf '%s ' \"$RAILGAUGE_SEVERITY\" \"$1\" >>{0}; cat >>{0}; echo >>{0}",
        heard.display()
    );
    std::fs::write(&script, text).unwrap();
    let target: Target = format!("sh {} $(id)", script.display()).parse().unwrap();
    let notices = [notice("a"), notice("b'; touch x")];
    let sent = send(&[target], &notices, QUICK);
    assert_eq!((sent.delivered, sent.troubles), (2, Vec::new()));
    let heard = std::fs::read_to_string(heard).unwrap();
    let lines: Vec<&str> = heard.lines().collect();
    assert_eq!(lines.len(), 2);
    for (line, notice) in lines.iter().zip(&notices) {
        let json = line
            .strip_prefix("page $(id) ")
            .expect("no shell reads the arguments");
        assert_eq!(&serde_json::from_str::<Notice>(json).unwrap(), notice);
    }
}

#[test]
fn many_notices_are_not_all_sent_and_that_is_said() {
    let notices: Vec<Notice> = (0..MAX_NOTICES + 7).map(|n| notice(&n.to_string())).collect();
    let sent = send(&["true".parse().unwrap()], &notices, QUICK);
    assert_eq!(sent.delivered, MAX_NOTICES);
    assert_eq!(
        sent.troubles,
        ["only the first 50 were sent; 7 more are in the report"]
    );
    let failing = send(&["false".parse().unwrap()], &notices[..1], QUICK);
    assert!(
        failing.troubles[0].starts_with("false: exit status: 1"),
        "{:?}",
        failing.troubles
    );
    let no_time = Patience {
        all: Duration::ZERO,
        ..QUICK
    };
    let late = send(&["true".parse().unwrap()], &notices[..3], no_time);
    assert_eq!(late.troubles, ["true: 3 not sent within 0ns"]);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let parse = |text: &str| text.parse::<Target>();
    assert!(matches!(
        parse("https://hooks.example/abc"),
        Ok(Target::Webhook(_))
    ));
    assert!(matches!(parse("/usr/local/bin/tell --room 7"), Ok(Target::Program(words)) if words.len() == 3));
    assert!(
        matches!(parse("tell https://x/"), Ok(Target::Program(_))),
        "an address may be an argument"
    );
    for wrong in ["", "  ", "https://", "https:///x", "ftp://x/y"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn no_target_brings_it_down_and_none_shows_its_path(text in ".{0,40}", path in "[a-z0-9]{8,20}") {
        _ = text.parse::<Target>().map(|target| target.to_string());
        let shown = format!("https://u:{path}@host.example:8443/{path}?{path}").parse::<Target>().unwrap().to_string();
        prop_assert_eq!(shown, "https://host.example:8443/...");
    }
}

#[test]
fn the_address_of_a_webhook_is_not_recorded() {
    let words = "railgauge run nightly --notify https://hooks.example/T0/secret --notify=http://h:1/secret --notify tell --out x";
    let recorded = redacted_command(words.split(' ').map(String::from)).join(" ");
    assert_eq!(
        recorded,
        "railgauge run nightly --notify https://hooks.example/... --notify=http://h:1/... --notify tell --out x"
    );
}
