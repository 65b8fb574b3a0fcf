//! The keys that a kind of test would ignore. They are errors: a suite must not ask for what the run does not do.

use super::error::SuiteError;
use super::reader::Section;
use super::{EcmpSettings, ProbeSettings, TrafficSettings};
use record::TestKind;

/// The keys that each kind of test ignores.
const NOT_FOR: &[(TestKind, &[&str])] = &[
    (
        TestKind::Collective,
        &["directions", "senders", "schedule", "rails"],
    ),
    (
        TestKind::Rails,
        &["directions", "groups", "stripe", "senders", "schedule", "rails"],
    ),
    (
        TestKind::Pairs,
        &["collective", "groups", "stripe", "root", "op", "senders"],
    ),
    (
        TestKind::Latency,
        &[
            "collective",
            "directions",
            "groups",
            "stripe",
            "root",
            "op",
            "senders",
            "rails",
        ],
    ),
    (
        TestKind::Groups,
        &["directions", "stripe", "senders", "schedule", "rails"],
    ),
    (
        TestKind::Incast,
        &[
            "collective",
            "directions",
            "groups",
            "stripe",
            "root",
            "op",
            "schedule",
            "rails",
        ],
    ),
    (
        TestKind::AllToAll,
        &[
            "collective",
            "directions",
            "groups",
            "stripe",
            "root",
            "op",
            "senders",
            "schedule",
            "rails",
        ],
    ),
    (
        TestKind::Ecmp,
        &[
            "collective",
            "algorithm",
            "sizes",
            "type",
            "op",
            "placement",
            "engine",
            "batch",
            "directions",
            "groups",
            "stripe",
            "root",
            "senders",
            "schedule",
            "rails",
            "tight",
            "expect",
        ],
    ),
    (
        TestKind::Fairness,
        &[
            "collective",
            "algorithm",
            "sizes",
            "type",
            "op",
            "placement",
            "engine",
            "batch",
            "directions",
            "groups",
            "stripe",
            "root",
            "schedule",
            "rails",
            "tight",
            "expect",
        ],
    ),
    (
        TestKind::Permutation,
        &[
            "collective",
            "algorithm",
            "sizes",
            "type",
            "op",
            "placement",
            "engine",
            "batch",
            "directions",
            "groups",
            "stripe",
            "root",
            "schedule",
            "rails",
            "tight",
            "source_port",
            "senders",
        ],
    ),
    (
        TestKind::Probe,
        &[
            "collective",
            "algorithm",
            "type",
            "op",
            "placement",
            "transport",
            "engine",
            "batch",
            "directions",
            "groups",
            "stripe",
            "flows",
            "root",
            "senders",
            "schedule",
            "rails",
            "tight",
            "verify",
            "expect",
        ],
    ),
];

/// Refuses a test with a key that its kind would ignore.
pub(super) fn refuse_others(section: &Section<'_>, kind: TestKind) -> Result<(), SuiteError> {
    let of_kind = NOT_FOR.iter().filter(|(of, _)| *of == kind);
    let mut ignored: Vec<&str> = of_kind.flat_map(|(_, keys)| *keys).copied().collect();
    let used: &[&str] = match kind {
        TestKind::Ecmp => &EcmpSettings::KEYS,
        TestKind::Probe => &ProbeSettings::KEYS,
        TestKind::Fairness => &["window"],
        TestKind::Permutation => &TrafficSettings::KEYS,
        _ => &[],
    };
    let of_some = EcmpSettings::KEYS
        .iter()
        .chain(&ProbeSettings::KEYS)
        .chain(&TrafficSettings::KEYS);
    ignored.extend(of_some.filter(|key| !used.contains(key)));
    match ignored.iter().find_map(|key| Some((key, section.get(key)?))) {
        None => Ok(()),
        Some((key, item)) => Err(item.error(format!(
            "a test of kind \"{kind}\" does not use `{key}`; remove it"
        ))),
    }
}
