//! Kinds of findings that are one issue over cycles: a part that is slow is found as a slow link today and as a slow pair tomorrow.

use record::FindingKind;

/// What is counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    /// Wrong data.
    Corruption,
    /// A node or rank that was lost.
    Lost,
    /// A link that went down.
    Flap,
    /// Errors of ports.
    PortErrors,
    /// Errors of GPUs.
    GpuErrors,
    /// Clocks held down.
    Throttled,
    /// Slow by itself.
    Slow,
    /// Slow now and then.
    Sporadic,
    /// What inventories say; told, and decided on elsewhere.
    Inventory,
}

impl Family {
    /// The family of a finding; none for what says that something was not measured or is not settled, which is a question of coverage.
    pub(super) fn of(kind: FindingKind) -> Option<Family> {
        Some(match kind {
            FindingKind::Corruption => Family::Corruption,
            FindingKind::LostRank => Family::Lost,
            FindingKind::Flap | FindingKind::SilentRail => Family::Flap,
            FindingKind::PortErrors => Family::PortErrors,
            FindingKind::GpuErrors => Family::GpuErrors,
            FindingKind::Throttled => Family::Throttled,
            FindingKind::Intermittent => Family::Sporadic,
            FindingKind::SlowRail
            | FindingKind::SlowLink
            | FindingKind::LossyLink
            | FindingKind::SlowHop
            | FindingKind::UnfairSender
            | FindingKind::LossyClass
            | FindingKind::LateMarks
            | FindingKind::SpreadingPauses
            | FindingKind::MeetingRails
            | FindingKind::TrafficBelowFloor
            | FindingKind::SlowPair
            | FindingKind::SlowCollective
            | FindingKind::SlowEngine
            | FindingKind::StragglerRank
            | FindingKind::Dip
            | FindingKind::LatencyFloor
            | FindingKind::SlowRamp
            | FindingKind::EcmpImbalance => Family::Slow,
            FindingKind::Drift
            | FindingKind::Changed
            | FindingKind::UnclearDrift
            | FindingKind::Miscabled
            | FindingKind::UnusedCable => Family::Inventory,
            FindingKind::IncompleteCoverage | FindingKind::TrafficBelowPrediction => return None,
        })
    }

    /// The criterion that it is measured by; none where none is.
    pub(super) fn criterion(self) -> Option<&'static str> {
        Some(match self {
            Family::Corruption => "corruption",
            Family::Lost => "losses",
            Family::Flap => "flaps",
            Family::PortErrors | Family::GpuErrors => "error_cycles",
            Family::Throttled => "throttled",
            Family::Slow => "slow_cycles",
            Family::Sporadic => "sporadic",
            Family::Inventory => return None,
        })
    }

    /// Whether it is about how fast something is.
    pub(super) fn is_about_speed(self) -> bool {
        matches!(self, Family::Slow | Family::Sporadic)
    }
}

/// Whether a kind of finding names the part that is at fault, not only where it shows.
pub(super) fn names_the_part(kind: FindingKind) -> bool {
    matches!(
        kind,
        FindingKind::SlowLink | FindingKind::LossyLink | FindingKind::SlowHop | FindingKind::StragglerRank
    )
}
