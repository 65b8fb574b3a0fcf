//! Querying a driver by `SIOCETHTOOL`: the answer overwrites the request in the same buffer.
//!
//! For some requests the kernel does not check the size of the buffer. So the buffer has pages of its own and a guard page
//! behind them: an answer that is too long fails with `EFAULT` there and does not overwrite anything else.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// The longest buffer; no answer is that long.
const MOST: usize = 8 << 20;

/// A multiple of the page size on every machine.
const PAGE: usize = 64 << 10;

/// Memory for one request and its answer, zeroed.
pub(super) struct RequestBuffer {
    memory: NonNull<c_void>,
    /// Bytes that may be read and written; a guard page follows them.
    len: usize,
}

impl RequestBuffer {
    /// RequestBuffer for at least `bytes`, the first four of which are the command.
    pub(super) fn new(command: u32, bytes: usize) -> Result<RequestBuffer, Errno> {
        let len = bytes.max(4).next_multiple_of(PAGE);
        let all = NonZeroUsize::new(len + PAGE).filter(|_| len <= MOST);
        let all = all.ok_or(Errno::EMSGSIZE)?;
        // SAFETY: a new mapping of its own, which overlaps nothing.
        let memory = unsafe {
            mmap_anonymous(
                None,
                all,
                ProtFlags::PROT_NONE,
                MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE,
            )?
        };
        let mut buffer = RequestBuffer { memory, len };
        // SAFETY: the first `len` bytes of the mapping just made, which is not used by anyone yet.
        unsafe { mprotect(memory, len, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)? };
        buffer.put(0, command);
        Ok(buffer)
    }

    /// Its content.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes are mapped readable and zeroed for as long as `self` lives, and written through `&mut` only.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, also writable, and `&mut self` makes this the only way to them.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().cast(), self.len) }
    }

    /// Writes a number at an offset, in native byte order. An offset outside is ignored.
    pub(super) fn put(&mut self, at: usize, number: u32) {
        if let Some(place) = self.bytes_mut().get_mut(at..at + 4) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
    }

    /// Sends the request to the driver of an interface; the answer replaces it.
    pub(super) fn ask(&mut self, interface: &str) -> Result<(), Errno> {
        let name = interface.as_bytes();
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(&0) {
            return Err(Errno::ENODEV);
        }
        let socket: OwnedFd = socket(
            AddressFamily::Inet,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            None,
        )?;
        // SAFETY: a plain C structure of numbers and pointers, for which all zeroes is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name) {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = self.memory.as_ptr().cast();
        // SAFETY: the socket is open, `request` outlives the call and its name ends in zero. The kernel reads and writes from
        // `memory` on, of which at least a page is ours; where ours ends follows a page that it cannot write, so it stops there.
        let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        Errno::result(result).map(drop)
    }
}

impl Drop for RequestBuffer {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, made in `new`, to which no reference outlives `self`.
        if let Err(error) = unsafe { munmap(self.memory, self.len + PAGE) } {
            tracing::warn!("cannot unmap the memory of an ethtool request: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_as_long_as_was_asked_and_not_without_bound() {
        let mut buffer = RequestBuffer::new(7, PAGE + 1).unwrap();
        assert_eq!(buffer.bytes().len(), 2 * PAGE);
        assert_eq!(buffer.bytes()[..4], 7u32.to_ne_bytes());
        buffer.put(2 * PAGE - 4, u32::MAX);
        buffer.put(2 * PAGE - 3, 1);
        assert_eq!(buffer.bytes()[2 * PAGE - 4..], [0xff; 4]);
        assert_eq!(RequestBuffer::new(7, MOST + 1).err(), Some(Errno::EMSGSIZE));
    }

    #[test]
    fn an_answer_that_is_too_long_stops_where_the_room_ends() {
        let mut buffer = RequestBuffer::new(0, 4).unwrap();
        let (file, beyond) = (std::fs::File::open("/dev/zero").unwrap(), buffer.len + PAGE / 2);
        buffer.bytes_mut().fill(1);
        // SAFETY: a read of the kernel into our mapping, beyond whose end it must not write.
        let read = unsafe { libc::read(file.as_raw_fd(), buffer.memory.as_ptr(), beyond) };
        assert!(read <= buffer.len as isize, "{read}");
    }

    #[test]
    fn a_name_that_no_interface_can_have_is_not_asked_about() {
        let mut buffer = RequestBuffer::new(3, 196).unwrap();
        for name in ["", "sixteen-bytes-xx", "et\0h0"] {
            assert_eq!(buffer.ask(name), Err(Errno::ENODEV), "{name:?}");
        }
    }
}
