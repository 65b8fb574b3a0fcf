//! Why there is no answer: the machine does not have it, or it could not be read.

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use record::Fact;

/// The privilege that settings and modules of interfaces take.
pub(super) const NET_ADMIN: &str = "CAP_NET_ADMIN";

/// Why a driver did not tell something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// The driver does not have it.
    Absent,
    /// It may have it, and did not say.
    Unreadable {
        /// Why.
        why: String,
        /// The privilege that it takes, when it is that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        needs: Option<String>,
    },
}

impl Missing {
    /// Unreadable for a reason that no privilege helps against.
    pub(crate) fn because(why: impl Into<String>) -> Missing {
        Missing::Unreadable {
            why: why.into(),
            needs: None,
        }
    }
}

impl From<Errno> for Missing {
    fn from(error: Errno) -> Missing {
        match error {
            Errno::EOPNOTSUPP => Missing::Absent,
            Errno::EPERM | Errno::EACCES => Missing::Unreadable {
                why: "permission denied".to_string(),
                needs: Some(NET_ADMIN.to_string()),
            },
            Errno::ENODEV => Missing::because("there is no such interface"),
            other => Missing::because(other.desc()),
        }
    }
}

impl From<Missing> for Fact {
    fn from(missing: Missing) -> Fact {
        match missing {
            Missing::Absent => Fact::Absent,
            Missing::Unreadable { why, needs } => Fact::Unreadable { why, needs },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_lacks_is_told_from_what_it_may_not_tell() {
        assert_eq!(Missing::from(Errno::EOPNOTSUPP), Missing::Absent);
        let Missing::Unreadable { needs, .. } = Missing::from(Errno::EPERM) else {
            panic!("a privilege helps against this")
        };
        assert_eq!(needs.as_deref(), Some(NET_ADMIN));
        let Fact::Unreadable { why, needs: None } = Fact::from(Missing::from(Errno::EIO)) else {
            panic!("no privilege helps against this")
        };
        assert!(!why.is_empty());
    }
}
