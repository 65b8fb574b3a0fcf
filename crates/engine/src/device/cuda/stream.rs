//! Streams: work for a GPU, done in the order it was given. Nothing here waits without a limit.

use std::ffi::c_void;
use std::ptr::{from_ref, null_mut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytemuck::Pod;
use cudarc::driver::sys::{CUevent, CUevent_flags, CUstream};

use super::driver::{NOT_READY, cuda};
use super::error::CudaError;
use super::gpu::Gpu;
use super::kernel::Kernel;
use super::pinned::Pinned;
use record::units::Nanos;

/// How long a wait yields before it sleeps: where others want the core, one yield lasts as long as they may keep it.
const LONGEST_YIELDING: Duration = Duration::from_micros(500);

/// How far the work of a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// All of it is done.
    Ready,
    /// There is some left.
    Busy,
}

/// A queue of work for a GPU.
pub struct Stream {
    gpu: Arc<Gpu>,
    stream: CUstream,
}

// SAFETY: a stream is a handle that any thread may use; the GPU it belongs to is kept.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Gpu {
    /// A stream that waits for no other.
    pub fn stream(self: &Arc<Gpu>) -> Result<Stream, CudaError> {
        Ok(Stream {
            stream: self.new_stream()?,
            gpu: Arc::clone(self),
        })
    }

    /// A mark for the order and timing of work.
    pub fn event(self: &Arc<Gpu>) -> Result<Event, CudaError> {
        self.enter()?;
        let mut event = null_mut();
        let flags = CUevent_flags::CU_EVENT_DEFAULT as u32;
        // SAFETY: writes one handle.
        unsafe { cuda!(self.driver, cuEventCreate(&mut event, flags)) }?;
        Ok(Event {
            gpu: Arc::clone(self),
            event,
        })
    }
}

impl Stream {
    /// The GPU it gives work to.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// The driver's handle, for libraries that take one.
    pub(super) fn raw(&self) -> CUstream {
        self.stream
    }

    /// Launches `grid` blocks of `block` threads with `shared` bytes of dynamic shared memory each. A cooperative launch is
    /// refused by the driver unless all blocks fit on the GPU at the same time.
    ///
    /// The addresses in `parameter` must be the kernel's to use until it is done: whoever fills it in keeps the memory.
    pub fn launch<P: Pod>(
        &self,
        kernel: &Kernel,
        grid: u32,
        block: u32,
        shared: u32,
        parameter: &P,
        cooperative: bool,
    ) -> Result<(), CudaError> {
        if kernel.parameter() != size_of::<P>() {
            return Err(CudaError::Parameter {
                kernel: kernel.name().into(),
                takes: kernel.parameter(),
                given: size_of::<P>(),
            });
        }
        self.gpu.enter()?;
        let driver = self.gpu.driver;
        let mut parameters: [*mut c_void; 1] = [from_ref(parameter).cast_mut().cast()];
        let (f, list) = (kernel.function(), parameters.as_mut_ptr());
        if cooperative {
            // SAFETY: one parameter of the size the kernel takes, which the driver copies before it returns.
            unsafe {
                cuda!(
                    driver,
                    cuLaunchCooperativeKernel(f, grid, 1, 1, block, 1, 1, shared, self.stream, list)
                )
            }
        } else {
            // SAFETY: as above.
            unsafe {
                cuda!(
                    driver,
                    cuLaunchKernel(f, grid, 1, 1, block, 1, 1, shared, self.stream, list, null_mut())
                )
            }
        }
    }

    /// Copies `bytes` between addresses that the GPU sees, with the driver's own copy (a copy engine where there is one).
    pub fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), CudaError> {
        self.gpu.enter()?;
        // SAFETY: addresses are checked by the GPU; whoever gives them keeps the memory.
        unsafe { cuda!(self.gpu.driver, cuMemcpyAsync(to, from, bytes, self.stream)) }
    }

    /// Whether everything is done. An error when something on the GPU went wrong.
    pub fn query(&self) -> Result<Progress, CudaError> {
        self.gpu.enter()?;
        // SAFETY: the stream is alive.
        let code = unsafe { (self.gpu.driver.cuStreamQuery)(self.stream) };
        if code == NOT_READY {
            return Ok(Progress::Busy);
        }
        self.gpu.driver.check("cuStreamQuery", code)?;
        Ok(Progress::Ready)
    }

    /// Waits until everything is done, but not longer than `limit`: an error then.
    pub fn synchronize_within(&self, limit: Duration) -> Result<(), CudaError> {
        let began = Instant::now();
        while self.query()? == Progress::Busy {
            let waited = began.elapsed();
            if waited > limit {
                return Err(CudaError::Overdue {
                    what: "work on the GPU",
                });
            }
            match waited < LONGEST_YIELDING {
                true => std::thread::yield_now(),
                false => std::thread::sleep(Duration::from_micros(50)),
            }
        }
        Ok(())
    }

    /// Marks this point of the stream.
    pub fn record(&self, event: &Event) -> Result<(), CudaError> {
        self.gpu.enter()?;
        // SAFETY: both are alive.
        unsafe { cuda!(self.gpu.driver, cuEventRecord(event.event, self.stream)) }
    }

    /// What is given to this stream from now on begins when the word at `offset` of `gate` is `value` or higher. Whether the
    /// driver can do so; the stream is not held when it cannot.
    pub fn hold(&self, gate: &Pinned, offset: usize, value: u64) -> Result<bool, CudaError> {
        let Some(wait) = self.gpu.driver.wait_value else {
            return Ok(false);
        };
        if offset + size_of::<u64>() > gate.bytes() {
            return Err(CudaError::OutOfRange {
                start: offset,
                end: offset + size_of::<u64>(),
                len: gate.bytes(),
            });
        }
        self.gpu.enter()?;
        let at = gate.address() + offset as u64;
        // SAFETY: the word is pinned memory that the GPU sees and that `gate` keeps; 0 means "until at least that high".
        let code = unsafe { wait(self.stream, at, value, 0) };
        self.gpu.driver.check("cuStreamWaitValue64", code)?;
        Ok(true)
    }

    /// What is given to this stream from now on begins after `event`.
    pub fn wait_for(&self, event: &Event) -> Result<(), CudaError> {
        self.gpu.enter()?;
        // SAFETY: both are alive; the flags must be zero.
        unsafe { cuda!(self.gpu.driver, cuStreamWaitEvent(self.stream, event.event, 0)) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: made by `stream`, destroyed once; work that is left is still done.
        self.gpu.release("cuStreamDestroy", |driver| unsafe {
            (driver.cuStreamDestroy_v2)(self.stream)
        });
    }
}

/// A point in a stream.
pub struct Event {
    gpu: Arc<Gpu>,
    event: CUevent,
}

// SAFETY: an event is a handle that any thread may use; the GPU it belongs to is kept.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Whether everything before it is done.
    pub fn query(&self) -> Result<Progress, CudaError> {
        self.gpu.enter()?;
        // SAFETY: the event is alive.
        let code = unsafe { (self.gpu.driver.cuEventQuery)(self.event) };
        if code == NOT_READY {
            return Ok(Progress::Busy);
        }
        self.gpu.driver.check("cuEventQuery", code)?;
        Ok(Progress::Ready)
    }

    /// Time from `earlier` to this, on the GPU; both must have passed.
    pub fn since(&self, earlier: &Event) -> Result<Nanos, CudaError> {
        self.gpu.enter()?;
        let mut milliseconds = 0f32;
        // SAFETY: writes one number; both are alive.
        unsafe {
            cuda!(
                self.gpu.driver,
                cuEventElapsedTime_v2(&mut milliseconds, earlier.event, self.event)
            )
        }?;
        Ok(Nanos((f64::from(milliseconds) * 1e6) as u64))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made by `event`, destroyed once.
        self.gpu.release("cuEventDestroy", |driver| unsafe {
            (driver.cuEventDestroy_v2)(self.event)
        });
    }
}
