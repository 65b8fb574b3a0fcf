//! An opened RDMA device and what its ports say about themselves.

use std::ffi::CStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use rdma_mummy_sys as ib;

/// How verbs call Ethernet as a link layer.
const LINK_LAYER_ETHERNET: u8 = 2;

/// The names of the devices of this host. An error without a list tells a missing library (EOPNOTSUPP) from a kernel without
/// RDMA (ENOSYS).
pub fn device_names() -> io::Result<Vec<String>> {
    let list = DeviceList::read()?;
    Ok(list.iter().map(|(name, _)| name).collect())
}

/// The kernel's list of devices, given back when dropped.
struct DeviceList {
    first: NonNull<*mut ib::ibv_device>,
    count: usize,
}

impl DeviceList {
    fn read() -> io::Result<DeviceList> {
        let mut count = 0;
        // SAFETY: the count is valid for writing; the answer is a list of that length or null.
        let first = unsafe { ib::ibv_get_device_list(&mut count) };
        let first = NonNull::new(first).ok_or_else(io::Error::last_os_error)?;
        Ok(DeviceList {
            first,
            count: usize::try_from(count).unwrap_or(0),
        })
    }

    fn iter(&self) -> impl Iterator<Item = (String, *mut ib::ibv_device)> {
        (0..self.count).map(|at| {
            // SAFETY: the list has `count` devices, each alive until the list is given back.
            let device = unsafe { *self.first.as_ptr().add(at) };
            // SAFETY: the name is a string within the device, copied at once.
            let name = unsafe { CStr::from_ptr(ib::ibv_get_device_name(device)) };
            (name.to_string_lossy().into_owned(), device)
        })
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: read in `read` and not given back before.
        unsafe { ib::ibv_free_device_list(self.first.as_ptr()) };
    }
}

/// An opened device.
pub struct Context {
    raw: NonNull<ib::ibv_context>,
    name: String,
    limits: DeviceLimits,
    /// Set once the device has reported that it is lost.
    lost: AtomicBool,
}

// SAFETY: libibverbs is thread-safe; the context is only read after it was opened.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// What a device can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Work requests of one queue.
    pub work_requests: u32,
    /// Entries of one completion queue.
    pub completions: u32,
    /// RDMA reads under way on one queue pair.
    pub reads: u8,
}

/// What a port says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortState {
    /// Whether it carries data.
    pub active: bool,
    /// Whether it is InfiniBand, which is addressed by local identifiers, rather than Ethernet.
    pub infiniband: bool,
    /// Local identifier on InfiniBand.
    pub lid: u16,
    /// Largest packet payload in bytes.
    pub mtu: u16,
}

/// A port's address.
pub type Gid = [u8; 16];

impl Context {
    /// Opens a device by its name.
    pub fn open(name: &str) -> io::Result<Arc<Context>> {
        let list = DeviceList::read()?;
        let (_, device) = list
            .iter()
            .find(|(found, _)| found == name)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such RDMA device"))?;
        // SAFETY: the device is in the list, which is still held.
        let raw =
            NonNull::new(unsafe { ib::ibv_open_device(device) }).ok_or_else(io::Error::last_os_error)?;
        let mut context = Context {
            raw,
            name: name.to_string(),
            limits: DeviceLimits {
                work_requests: 0,
                completions: 0,
                reads: 0,
            },
            lost: AtomicBool::new(false),
        };
        // SAFETY: the context is open for as long as the borrow, and so is its descriptor.
        let events = unsafe { BorrowedFd::borrow_raw((*context.raw()).async_fd) };
        fcntl(events, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        context.limits = context.read_limits()?;
        Ok(Arc::new(context))
    }

    fn read_limits(&self) -> io::Result<DeviceLimits> {
        // SAFETY: the attributes are plain numbers, for which zero is a value.
        let mut attributes: ib::ibv_device_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the context is open, the attributes are valid for writing.
        checked(unsafe { ib::ibv_query_device(self.raw(), &mut attributes) })?;
        Ok(DeviceLimits {
            work_requests: u32::try_from(attributes.max_qp_wr).unwrap_or(0),
            completions: u32::try_from(attributes.max_cqe).unwrap_or(0),
            reads: attributes.max_qp_rd_atom.clamp(0, 128) as u8,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it can take.
    pub fn limits(&self) -> DeviceLimits {
        self.limits
    }

    /// What a port says about itself now.
    pub fn port(&self, port: u8) -> io::Result<PortState> {
        // SAFETY: the attributes are plain numbers, for which zero is a value.
        let mut attributes: ib::ibv_port_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the context is open, the attributes are valid for writing.
        checked(unsafe { ib::ibv_query_port(self.raw(), port, &mut attributes) })?;
        Ok(PortState {
            active: attributes.state == ib::ibv_port_state::IBV_PORT_ACTIVE,
            infiniband: attributes.link_layer != LINK_LAYER_ETHERNET,
            lid: attributes.lid,
            mtu: mtu_bytes(attributes.active_mtu),
        })
    }

    /// An address of a port.
    pub fn gid(&self, port: u8, index: u8) -> io::Result<Gid> {
        let mut gid = ib::ibv_gid { raw: [0; 16] };
        // SAFETY: the context is open, the address is valid for writing.
        let answer = unsafe { ib::ibv_query_gid(self.raw(), port, i32::from(index), &mut gid) };
        checked(answer)?;
        // SAFETY: sixteen bytes are an address whatever they are.
        Ok(unsafe { gid.raw })
    }

    /// Whether the device has reported that it is lost: removed, or failed for good.
    pub fn is_lost(&self) -> bool {
        loop {
            // SAFETY: zero is a value for every field: a null pointer and a number.
            let mut event: ib::ibv_async_event = unsafe { std::mem::zeroed() };
            // SAFETY: the context is open and its descriptor does not block; the event is valid for writing.
            if unsafe { ib::ibv_get_async_event(self.raw(), &mut event) } != 0 {
                return self.lost.load(Ordering::Relaxed);
            }
            // SAFETY: read as the number it is: a newer kernel may know events that this program does not.
            let kind = unsafe { (&raw const event.event_type).cast::<u32>().read() };
            if kind == ib::ibv_event_type::IBV_EVENT_DEVICE_FATAL as u32 {
                self.lost.store(true, Ordering::Relaxed);
            }
            // SAFETY: every event that was taken is acknowledged once.
            unsafe { ib::ibv_ack_async_event(&mut event) };
        }
    }

    pub(super) fn raw(&self) -> *mut ib::ibv_context {
        self.raw.as_ptr()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened in `open`; everything made from it holds it, so nothing is left.
        let answer = unsafe { ib::ibv_close_device(self.raw()) };
        if let Err(error) = checked(answer) {
            tracing::debug!(device = self.name, %error, "an RDMA device could not be closed");
        }
    }
}

/// Bytes of a packet size as verbs number them.
fn mtu_bytes(number: ib::ibv_mtu::Type) -> u16 {
    match number {
        1..=5 => 128 << number,
        _ => 0,
    }
}

/// The number by which verbs call a packet size; none for one that does not exist.
pub(super) fn mtu_number(bytes: u16) -> Option<ib::ibv_mtu::Type> {
    (1..=5).find(|number| mtu_bytes(*number) == bytes)
}

/// An answer as calls give it that return an error code: some positive, some negative, some through errno.
pub(super) fn checked(answer: i32) -> io::Result<()> {
    match answer {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        code => Err(io::Error::from_raw_os_error(code.abs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_sizes_are_those_of_the_specification() {
        for (number, bytes) in [(1, 256), (2, 512), (3, 1024), (4, 2048), (5, 4096)] {
            assert_eq!(mtu_bytes(number), bytes);
            assert_eq!(mtu_number(bytes), Some(number));
        }
        assert_eq!((mtu_bytes(0), mtu_bytes(77)), (0, 0));
        assert_eq!(mtu_number(9000), None);
    }
}
