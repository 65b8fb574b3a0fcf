//! The NCCL library: found, opened, and every function looked up before the first one is called.

use std::ffi::{CStr, OsString, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::ptr::null_mut;
use std::sync::OnceLock;

use cudarc::driver::sys::CUstream;
use libloading::Library;
use thiserror::Error;

use super::super::error::CudaError;

/// Default names of the library: the installed one, then that of development packages.
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

/// The environment variable with the path of the library.
const LIBRARY_VARIABLE: &str = "NCCL_LIB";

/// The oldest version whose configuration has everything that is set here.
pub const OLDEST_VERSION: Version = Version(21_800);

/// All is well.
pub(super) const SUCCESS: c_int = 0;
/// Not there yet, but nothing is wrong.
pub(super) const IN_PROGRESS: c_int = 7;

/// A version of NCCL as it counts: 2.28.9 is 22809.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32);

impl Version {
    /// Whether it refuses two ranks on one GPU.
    pub fn refuses_shared_gpus(self) -> bool {
        self < Version(23_000)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0 / 10_000, self.0 / 100 % 100, self.0 % 100)
    }
}

/// Why NCCL cannot be used on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NcclUnavailable {
    /// It cannot be opened.
    #[error(
        "NCCL cannot be opened ({}); install it (package libnccl2, or nvidia-nccl-cu13 from PyPI) and put its folder into \
         LD_LIBRARY_PATH or its path into NCCL_LIB, or use --engine ours", reasons.join("; ")
    )]
    NoLibrary {
        /// What the loader said about each place.
        reasons: Vec<String>,
    },
    /// It is not NCCL, or not all of it.
    #[error("{library} has no {function}: it is not NCCL, or too old a one")]
    NotNccl {
        /// Which library.
        library: String,
        /// The first function that is not there.
        function: &'static str,
    },
    /// It is too old.
    #[error("{library} is NCCL {found}, and {OLDEST_VERSION} is the oldest that will do")]
    TooOld {
        /// Which library.
        library: String,
        /// Its version.
        found: Version,
    },
}

/// A failed NCCL call.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NcclError {
    /// NCCL refused, or failed.
    #[error("{call}: {text} (NCCL code {code}){}{detail}", if detail.is_empty() { "" } else { ": " })]
    Call {
        /// What was asked.
        call: &'static str,
        /// Its answer.
        code: i32,
        /// Meaning of the answer.
        text: String,
        /// The last thing NCCL complained about.
        detail: String,
    },
    /// The communicator was aborted.
    #[error("the NCCL communicator was aborted")]
    Aborted,
    /// Another communicator holds a setting of the process that this one needs differently.
    #[error(
        "another NCCL communicator of this process is being created with NCCL_ALGO={held} and did not finish in time"
    )]
    Busy {
        /// The setting.
        held: String,
    },
    /// The GPU does not work.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// An invalid argument.
    #[error("{0}")]
    Misuse(&'static str),
}

/// `ncclUniqueId`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct RawId {
    pub internal: [u8; 128],
}

/// `ncclConfig_t` as NCCL 2.18 has it. A later library takes what is there and its defaults for the rest.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    pub blocking: c_int,
    pub cga_cluster_size: c_int,
    pub min_ctas: c_int,
    pub max_ctas: c_int,
    pub net_name: *const c_char,
    pub split_share: c_int,
}

impl Config {
    /// What a field holds that was not set.
    const UNSET: c_int = c_int::MIN;

    /// Nothing is set.
    pub fn new() -> Config {
        Config {
            size: size_of::<Config>(),
            magic: 0xcafe_beef,
            version: 21_800,
            blocking: Config::UNSET,
            cga_cluster_size: Config::UNSET,
            min_ctas: Config::UNSET,
            max_ctas: Config::UNSET,
            net_name: null_mut(),
            split_share: Config::UNSET,
        }
    }
}

/// `ncclComm_t`.
pub(super) type Comm = *mut c_void;

macro_rules! functions {
    ($($name:ident($($arg:ty),*) -> $answer:ty;)+) => {
        #[allow(non_snake_case)]
        pub(super) struct Functions {
            $(pub $name: unsafe extern "C" fn($($arg),*) -> $answer,)+
        }

        impl Functions {
            /// Looks up every function; the name of the first one that is not there otherwise.
            fn load(library: &Library) -> Result<Functions, &'static str> {
                Ok(Functions {
                    $($name: {
                        type Function = unsafe extern "C" fn($($arg),*) -> $answer;
                        let name = stringify!($name);
                        // SAFETY: the signature is the one of nccl.h, which has been the same since 2.18 for this name.
                        *unsafe { library.get::<Function>(name.as_bytes()) }.map_err(|_| name)?
                    },)+
                })
            }
        }
    };
}

functions! {
    ncclGetVersion(*mut c_int) -> c_int;
    ncclGetErrorString(c_int) -> *const c_char;
    ncclGetLastError(Comm) -> *const c_char;
    ncclGetUniqueId(*mut RawId) -> c_int;
    ncclCommInitRankConfig(*mut Comm, c_int, RawId, c_int, *mut Config) -> c_int;
    ncclCommGetAsyncError(Comm, *mut c_int) -> c_int;
    ncclCommDestroy(Comm) -> c_int;
    ncclCommAbort(Comm) -> c_int;
    ncclAllReduce(*const c_void, *mut c_void, usize, c_int, c_int, Comm, CUstream) -> c_int;
    ncclReduceScatter(*const c_void, *mut c_void, usize, c_int, c_int, Comm, CUstream) -> c_int;
    ncclAllGather(*const c_void, *mut c_void, usize, c_int, Comm, CUstream) -> c_int;
    ncclBroadcast(*const c_void, *mut c_void, usize, c_int, c_int, Comm, CUstream) -> c_int;
    ncclSend(*const c_void, usize, c_int, c_int, Comm, CUstream) -> c_int;
    ncclRecv(*mut c_void, usize, c_int, c_int, Comm, CUstream) -> c_int;
    ncclGroupStart() -> c_int;
    ncclGroupEnd() -> c_int;
}

/// NCCL, open.
pub struct Nccl {
    pub(super) call: Functions,
    version: Version,
    name: String,
    /// Keeps the functions where they are.
    _library: Library,
}

impl Nccl {
    /// The NCCL of this machine; the same answer every time.
    pub fn get() -> Result<&'static Nccl, NcclUnavailable> {
        static NCCL: OnceLock<Result<Nccl, NcclUnavailable>> = OnceLock::new();
        let opened = NCCL.get_or_init(|| Nccl::open(std::env::var_os(LIBRARY_VARIABLE)));
        opened.as_ref().map_err(Clone::clone)
    }

    /// Opens the library at `place`, or wherever the loader finds it.
    fn open(place: Option<OsString>) -> Result<Nccl, NcclUnavailable> {
        let names: Vec<OsString> = match place {
            Some(place) if !place.is_empty() => vec![place],
            _ => NAMES.iter().map(OsString::from).collect(),
        };
        let mut reasons = Vec::new();
        for name in names {
            // SAFETY: opening NCCL runs its initialisers, which whoever asks for NCCL has to accept; it happens once.
            match unsafe { Library::new(&name) } {
                Ok(library) => return Nccl::load(library, name.to_string_lossy().into_owned()),
                Err(error) => {
                    let why = std::error::Error::source(&error).map(ToString::to_string);
                    reasons.push(why.unwrap_or_else(|| error.to_string()));
                }
            }
        }
        Err(NcclUnavailable::NoLibrary { reasons })
    }

    fn load(library: Library, name: String) -> Result<Nccl, NcclUnavailable> {
        let call = match Functions::load(&library) {
            Ok(call) => call,
            Err(function) => {
                return Err(NcclUnavailable::NotNccl {
                    library: name,
                    function,
                });
            }
        };
        let mut version = 0;
        // SAFETY: writes one int; needs no GPU.
        let code = unsafe { (call.ncclGetVersion)(&mut version) };
        let found = Version(u32::try_from(version).unwrap_or(0));
        if code != SUCCESS || found < OLDEST_VERSION {
            return Err(NcclUnavailable::TooOld { library: name, found });
        }
        Ok(Nccl {
            call,
            version: found,
            name,
            _library: library,
        })
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// What it was opened as.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An error for every answer but success.
    pub(super) fn check(&self, call: &'static str, code: c_int) -> Result<(), NcclError> {
        if code == SUCCESS || code == IN_PROGRESS {
            return Ok(());
        }
        Err(NcclError::Call {
            call,
            code,
            // SAFETY: answers every code with a string that is part of the library.
            text: text(unsafe { (self.call.ncclGetErrorString)(code) }),
            // SAFETY: takes no communicator, and answers with a string of its own that ends with zero.
            detail: text(unsafe { (self.call.ncclGetLastError)(null_mut()) }),
        })
    }
}

/// A text of the library, without the line feeds it likes to end with.
fn text(at: *const c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // SAFETY: the library's texts end with zero; they are copied at once.
    let text = unsafe { CStr::from_ptr(at) }.to_string_lossy();
    text.trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_nccl_it_is_said_what_to_install_and_where_to_put_it() {
        let Err(missing) = Nccl::open(Some("/nowhere/libnccl.so.2".into())) else {
            panic!("there is no library there");
        };
        let text = missing.to_string();
        for part in ["/nowhere/libnccl.so.2", "libnccl2", "NCCL_LIB", "--engine ours"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn another_library_of_that_name_is_told_from_nccl() {
        let Err(missing) = Nccl::open(Some("libc.so.6".into())) else {
            panic!("the C library is not NCCL");
        };
        assert_eq!(
            missing.to_string(),
            "libc.so.6 has no ncclGetVersion: it is not NCCL, or too old a one"
        );
    }

    #[test]
    fn versions_read_as_people_write_them() {
        assert_eq!(Version(22_809).to_string(), "2.28.9");
        assert!(Version(22_907).refuses_shared_gpus());
        assert!(!Version(23_007).refuses_shared_gpus());
    }

    #[test]
    fn the_configuration_has_the_layout_of_nccl_h() {
        assert_eq!(size_of::<Config>(), 48);
        assert_eq!(std::mem::offset_of!(Config, blocking), 16);
        assert_eq!(std::mem::offset_of!(Config, max_ctas), 28);
        assert_eq!(std::mem::offset_of!(Config, net_name), 32);
        assert_eq!(std::mem::offset_of!(Config, split_share), 40);
    }
}
