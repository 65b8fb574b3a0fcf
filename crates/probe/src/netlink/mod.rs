//! Queries by netlink, generic families and rtnetlink: one request, its answers, and a timeout.
//!
//! A family that the kernel lacks is a reason, not a failure. Answers are bounded in length and time.

pub(super) mod message;

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto, setsockopt,
    socket,
};
use nix::sys::time::TimeVal;

use super::ethtool::Unavailable;
use message::{Answer, Attributes, answers, attribute, request};

/// The controller family.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// Longer than the kernel takes to answer, firmware included.
const PATIENCE_S: i64 = 2;
/// The most bytes of all answers.
const MOST_BYTES: usize = 16 << 20;
/// The longest message of the kernel.
const PIECE: usize = 256 << 10;

/// A socket of one netlink protocol.
pub(super) struct Netlink(OwnedFd);

impl Netlink {
    fn open(protocol: SockProtocol) -> Result<Netlink, Unavailable> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            protocol,
        );
        let socket = socket.map_err(|error| Unavailable::because(format!("no netlink: {}", error.desc())))?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        setsockopt(&socket, ReceiveTimeout, &TimeVal::new(PATIENCE_S, 0))?;
        Ok(Netlink(socket))
    }

    /// The one for links, routes and data centre bridging.
    pub(super) fn route() -> Result<Netlink, Unavailable> {
        Netlink::open(SockProtocol::NetlinkRoute)
    }

    /// The attributes of every answer to a message of that kind, behind four bytes of their own. With `all` it is about everything there is.
    pub(super) fn ask(
        &self,
        kind: u16,
        header: [u8; 4],
        attributes: Attributes,
        all: bool,
    ) -> Result<Vec<Vec<u8>>, Errno> {
        let request = request(kind, header, all, &attributes);
        sendto(
            self.0.as_raw_fd(),
            &request,
            &NetlinkAddr::new(0, 0),
            MsgFlags::empty(),
        )?;
        let mut found = Vec::new();
        let mut piece = vec![0; PIECE];
        let mut bytes = 0;
        loop {
            let len = match recv(self.0.as_raw_fd(), &mut piece, MsgFlags::empty()) {
                Ok(len) => len,
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => return Err(Errno::ETIMEDOUT),
                Err(error) => return Err(error),
            };
            bytes += len;
            if len == 0 || bytes > MOST_BYTES {
                return Err(Errno::EMSGSIZE);
            }
            for answer in answers(&piece[..len]) {
                match answer {
                    Answer::Content(attributes) => found.push(attributes.to_vec()),
                    Answer::End(0) => return Ok(found),
                    Answer::End(error) => return Err(Errno::from_raw(error)),
                    Answer::Malformed => return Err(Errno::EBADMSG),
                }
            }
        }
    }
}

/// A family of generic netlink and the socket to query it.
pub(super) struct Family {
    netlink: Netlink,
    id: u16,
    version: u8,
}

impl Family {
    /// The family of that name; why not, when the kernel does not have it.
    pub(super) fn find(name: &str, version: u8) -> Result<Family, Unavailable> {
        let mut family = Family {
            netlink: Netlink::open(SockProtocol::NetlinkGeneric)?,
            id: CONTROL,
            version: 1,
        };
        let found = family.ask(GET_FAMILY, Attributes::new().text(FAMILY_NAME, name), false);
        let answer = match found {
            Ok(answers) => answers.into_iter().next().unwrap_or_default(),
            Err(Errno::ENOENT | Errno::EOPNOTSUPP) => {
                return Err(Unavailable::because(format!("this kernel has no {name}")));
            }
            Err(error) => return Err(error.into()),
        };
        let id = attribute(&answer, FAMILY_ID).and_then(|id| Some(u16::from_ne_bytes(id.try_into().ok()?)));
        family.id =
            id.ok_or_else(|| Unavailable::because(format!("the kernel returned no id for {name}")))?;
        family.version = version;
        Ok(family)
    }

    /// The attributes of every answer to a command. With `all` it is about everything that the family knows.
    pub(super) fn ask(&self, command: u8, attributes: Attributes, all: bool) -> Result<Vec<Vec<u8>>, Errno> {
        let header = [command, self.version, 0, 0];
        self.netlink.ask(self.id, header, attributes, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_that_the_kernel_lacks_is_a_reason_with_its_name() {
        match Family::find("no-such-family", 1).err() {
            Some(Unavailable::Unreadable { why, .. }) => {
                assert!(why.contains("netlink") || why.contains("no-such-family"))
            }
            other => panic!("{other:?}"),
        }
    }
}
