//! Which rules the counters of a rail end break.
//!
//! A rate breaks its rule when it is above the bound and the excess is significant: a port exactly at the bound would
//! count that many less often than the level, which is the run's false-positive budget divided over all ends and
//! counters. Where it is not known how long, or over how much traffic, a counter was watched, its rate is not judged.

use std::borrow::Cow;
use std::cmp::Reverse;

use super::tally::{CounterIncrease, CountersByEnd, EndCounters};
use record::Recorded;
use record::counters::{COUNTERS, CounterKind};
use record::stats::as_often;
use record::units::Nanos;
use topology::suite::counters::{self, Bound, CounterRule, Per, Severity, in_short};

/// The rules a run is judged by.
pub(in crate::findings) struct CounterRules {
    /// The run's own rules, or the built-in ones.
    pub(in crate::findings) rules: Cow<'static, [CounterRule]>,
    /// Why the run's own rules could not be used.
    pub(in crate::findings) trouble: Option<String>,
}

impl CounterRules {
    /// The rules of a recorded run. Where its own cannot be read, the built-in ones apply, and `trouble` says so.
    pub(in crate::findings) fn of(recorded: &Recorded) -> CounterRules {
        let own = recorded.counter_rules.as_deref();
        match own.map(|text| counters::parse(text, record::files::COUNTER_RULES)) {
            Some(Ok(rules)) => CounterRules {
                rules: Cow::Owned(rules),
                trouble: None,
            },
            Some(Err(error)) => CounterRules {
                rules: Cow::Borrowed(counters::built_in()),
                trouble: Some(format!("{error}; judged by the built-in rules")),
            },
            None => CounterRules {
                rules: Cow::Borrowed(counters::built_in()),
                trouble: None,
            },
        }
    }

    /// Rules about links going down that say how often within which time.
    pub(in crate::findings) fn of_flaps(&self) -> impl Iterator<Item = &CounterRule> {
        let windows = self.rules.iter();
        windows.filter(|rule| rule.severity == Severity::Bad && matches!(rule.bound, Bound::Within { .. }))
    }
}

/// What a rule says about a counter that moved.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::findings) enum BoundCheck {
    /// Too much, and how much in the rule's own terms: `4.1e-9 per bit`.
    Broken(Option<String>),
    /// Within the bound, or not significantly above it.
    Within,
    /// The exposure (time, packets or bits) is not known.
    Unjudged,
}

/// A broken rule.
#[derive(Debug, Clone)]
pub(in crate::findings) struct Breach<'r> {
    /// The rule.
    pub(in crate::findings) rule: &'r CounterRule,
    /// The counter that broke it.
    pub(in crate::findings) counter: String,
    /// What kind of counter that is.
    pub(in crate::findings) kind: CounterKind,
    /// By how much it moved.
    pub(in crate::findings) moved: CounterIncrease,
    /// The same in the rule's own terms.
    pub(in crate::findings) measured: Option<String>,
}

impl Breach<'_> {
    /// `symbol_error +4112 (4.1e-9 per bit, accepted 1e-12 per bit: ibdiagnet ...)`.
    pub(in crate::findings) fn words(&self) -> String {
        let accepted = match self.rule.bound {
            Bound::Any => "accepted none".to_string(),
            bound => format!("accepted {bound}"),
        };
        let measured = self
            .measured
            .as_ref()
            .map_or_else(String::new, |rate| format!("{rate}, "));
        let moved = self.moved.words();
        format!(
            "{} {moved} ({measured}{accepted}: {})",
            self.counter, self.rule.source
        )
    }
}

/// The significance level where this many ends are judged.
pub(in crate::findings) fn level(budget: f64, ends: &CountersByEnd<'_>) -> f64 {
    budget / (ends.len() * COUNTERS.len()).max(1) as f64
}

/// The rules that an end breaks: for each counter the most severe, and the most severe first. Links going down are
/// judged by `flap`.
pub(in crate::findings) fn breaches<'r>(
    end: &EndCounters<'_>,
    rules: &'r CounterRules,
    level: f64,
) -> Vec<Breach<'r>> {
    let mut found = Vec::new();
    for (name, moved) in end.trouble() {
        let about = rules.rules.iter().filter(|rule| rule.is_about(name));
        let broken = about.filter_map(|rule| match check_rule(end, moved, rule, level) {
            BoundCheck::Broken(measured) => Some((rule, measured)),
            BoundCheck::Within | BoundCheck::Unjudged => None,
        });
        let Some((rule, measured)) = broken.min_by_key(|(rule, _)| Reverse(rule.severity)) else {
            continue;
        };
        let kind = rule.counters.iter().find(|counter| counter.is_called(name));
        let Some(kind) = kind
            .map(|counter| counter.kind)
            .filter(|kind| *kind != CounterKind::Flap)
        else {
            continue;
        };
        found.push(Breach {
            rule,
            counter: name.to_string(),
            kind,
            moved: moved.clone(),
            measured,
        });
    }
    found.sort_by_key(|breach| {
        (
            Reverse(breach.rule.severity),
            breach.kind,
            Reverse(breach.moved.by),
        )
    });
    found
}

/// Whether a counter of a port that moved breaks a rule.
pub(in crate::findings) fn check_rule(
    end: &EndCounters<'_>,
    moved: &CounterIncrease,
    rule: &CounterRule,
    level: f64,
) -> BoundCheck {
    let carried = |per| match per {
        Per::Packet => end.packets(),
        _ => end.bits(),
    };
    check_bound(rule.bound, moved.by, end.watched, carried, level)
}

/// Whether a counter that moved by that much in some time breaks a bound; `carried` is the traffic meanwhile, in
/// packets or bits.
pub(in crate::findings) fn check_bound(
    bound: Bound,
    moved: u64,
    watched: Nanos,
    carried: impl Fn(Per) -> Option<f64>,
    level: f64,
) -> BoundCheck {
    let seconds = Some(watched.as_secs_f64()).filter(|seconds| *seconds > 0.0);
    let by = moved as f64;
    match bound {
        Bound::Any if moved > 0 => BoundCheck::Broken(None),
        // How often links go down is counted over the whole run, not around cells.
        Bound::Any | Bound::Within { .. } => BoundCheck::Within,
        Bound::ShareOfTime(most) => match seconds.map(|seconds| by / 1e6 / seconds) {
            None => BoundCheck::Unjudged,
            Some(share) if share > most => {
                BoundCheck::Broken(Some(format!("{}% of time", in_short(share * 100.0))))
            }
            Some(_) => BoundCheck::Within,
        },
        Bound::Rate { most, per } => {
            let exposure = match per {
                Per::Second => seconds,
                Per::Minute => seconds.map(|seconds| seconds / 60.0),
                Per::Hour => seconds.map(|seconds| seconds / 3600.0),
                Per::Packet | Per::Bit => carried(per),
            };
            match exposure {
                None => BoundCheck::Unjudged,
                Some(exposure) if by > most * exposure && as_often(moved, most * exposure) < level => {
                    BoundCheck::Broken(Some(format!("{} per {per}", in_short(by / exposure))))
                }
                Some(_) => BoundCheck::Within,
            }
        }
    }
}
