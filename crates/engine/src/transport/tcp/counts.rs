//! What the kernel's TCP counted of a connection, as `TCP_INFO` tells it.
#![allow(unsafe_code)]

use std::mem;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use nix::libc;

use super::super::link::TcpCounts;
use record::units::Nanos;

/// The shortest round trip of a connection that has had none.
const NO_ROUND_TRIP: u32 = u32::MAX;

/// The counts of a connection; none when the kernel does not tell them.
pub(super) fn counts(stream: &TcpStream) -> Option<TcpCounts> {
    // SAFETY: a structure of plain integers, for which zero is a value: what an older kernel does not fill in stays zero.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut length = mem::size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `info`, which is that long, and sets `length` to what it wrote.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    // Without these counts, in Linux before 5.4, loss cannot be told from late acknowledgements.
    let reaches = mem::offset_of!(libc::tcp_info, tcpi_reord_seen) + mem::size_of::<u32>();
    if result != 0 || (length as usize) < reaches {
        return None;
    }
    let micros = |time: u32| Nanos(u64::from(time) * 1_000);
    Some(TcpCounts {
        segments: info.tcpi_data_segs_out,
        retransmitted: info.tcpi_total_retrans,
        spurious: info.tcpi_dsack_dups,
        reordered: info.tcpi_reord_seen,
        rtt: micros(info.tcpi_rtt),
        min_rtt: (info.tcpi_min_rtt != NO_ROUND_TRIP).then(|| micros(info.tcpi_min_rtt)),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn what_was_sent_is_counted_and_nothing_is_lost_on_the_way_to_oneself() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let before = counts(&near).unwrap();
        near.write_all(&[7; 1000]).unwrap();
        let mut read = [0; 1000];
        far.read_exact(&mut read).unwrap();
        let after = counts(&near).unwrap();
        assert!(after.segments > before.segments);
        assert_eq!((after.retransmitted, after.spurious), (0, 0));
        assert!(after.rtt > Nanos(0) && after.min_rtt.is_some());
        assert_eq!(counts(&far).unwrap().segments, 0, "it sent no data");
    }
}
