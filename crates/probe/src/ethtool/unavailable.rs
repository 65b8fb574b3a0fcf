//! Why a fact is unavailable: the machine does not have it, or it could not be read.

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use record::Fact;

/// The privilege needed to read settings and modules of interfaces.
pub(super) const NET_ADMIN: &str = "CAP_NET_ADMIN";

/// Why a driver did not answer a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unavailable {
    /// The driver does not have it.
    Absent,
    /// It may have it, but it could not be read.
    Unreadable {
        /// Why.
        why: String,
        /// The privilege that is needed, when that is the reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        needs: Option<String>,
    },
}

impl Unavailable {
    /// Unreadable for a reason other than a missing privilege.
    pub(crate) fn because(why: impl Into<String>) -> Unavailable {
        Unavailable::Unreadable {
            why: why.into(),
            needs: None,
        }
    }
}

impl From<Errno> for Unavailable {
    fn from(error: Errno) -> Unavailable {
        match error {
            Errno::EOPNOTSUPP => Unavailable::Absent,
            Errno::EPERM | Errno::EACCES => Unavailable::Unreadable {
                why: "permission denied".to_string(),
                needs: Some(NET_ADMIN.to_string()),
            },
            Errno::ENODEV => Unavailable::because("there is no such interface"),
            other => Unavailable::because(other.desc()),
        }
    }
}

impl From<Unavailable> for Fact {
    fn from(missing: Unavailable) -> Fact {
        match missing {
            Unavailable::Absent => Fact::Absent,
            Unavailable::Unreadable { why, needs } => Fact::Unreadable { why, needs },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_lacks_is_told_from_what_it_may_not_tell() {
        assert_eq!(Unavailable::from(Errno::EOPNOTSUPP), Unavailable::Absent);
        let Unavailable::Unreadable { needs, .. } = Unavailable::from(Errno::EPERM) else {
            panic!("a privilege helps against this")
        };
        assert_eq!(needs.as_deref(), Some(NET_ADMIN));
        let Fact::Unreadable { why, needs: None } = Fact::from(Unavailable::from(Errno::EIO)) else {
            panic!("no privilege helps against this")
        };
        assert!(!why.is_empty());
    }
}
