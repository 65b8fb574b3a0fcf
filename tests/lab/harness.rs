//! A lab for one test, and traffic inside it.

use std::ffi::OsStr;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::skip::skip;
use nix::sched::{CloneFlags, setns};

/// Longer than anything in a lab takes on a busy machine; what takes longer hangs.
pub const HANGS: Duration = Duration::from_secs(120);

/// Whether labs can be made here; says why when not.
pub fn labs_can_be_made() -> bool {
    let missing = ["ip", "tc", "nft", "ethtool"].into_iter().find(|tool| {
        let folders = ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"];
        !folders.iter().any(|folder| Path::new(folder).join(tool).exists())
    });
    let why = match (nix::unistd::Uid::effective().is_root(), missing) {
        (false, _) => "not root".to_string(),
        (true, Some(tool)) => format!("`{tool}` is not installed"),
        (true, None) => return true,
    };
    skip("lab", &why);
    false
}

/// Runs `railgauge lab` with arguments.
pub fn lab<S: AsRef<OsStr>>(arguments: &[S]) -> Output {
    command(arguments).output().unwrap()
}

/// The command `railgauge lab` with arguments.
pub fn command<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_railgauge"));
    command.arg("lab").args(arguments);
    command
}

/// A name that no other test has.
pub fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("t{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Waits until `is_so`; fails with `what` when it never is.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + HANGS;
    while !is_so() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A lab that goes with its test.
pub struct TestLab {
    pub name: String,
}

impl TestLab {
    /// Brings up a lab; `arguments` as on the command line.
    pub fn up(arguments: &[&str]) -> TestLab {
        TestLab::named(&name(), arguments)
    }

    /// The same with a name of its own.
    pub fn named(name: &str, arguments: &[&str]) -> TestLab {
        let made = TestLab {
            name: name.to_string(),
        };
        made.does("up", arguments);
        made
    }

    /// Runs `railgauge lab ACTION --name ...`.
    pub fn run(&self, action: &str, arguments: &[&str]) -> Output {
        lab(&[&[action, "--name", &self.name], arguments].concat())
    }

    /// The same, which must succeed; its standard output.
    pub fn does(&self, action: &str, arguments: &[&str]) -> String {
        let output = self.run(action, arguments);
        let (said, error) = (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        );
        assert!(
            output.status.success(),
            "lab {action} {arguments:?}: {said}{error}"
        );
        said
    }

    /// Standard output of a shell line on a node.
    pub fn on(&self, node: &str, script: &str) -> String {
        self.does("exec", &[node, "--", "sh", "-c", script])
    }

    /// Runs `work` on a thread inside a node's network namespace. Sockets made there stay there.
    pub fn inside<T: Send>(&self, node: &str, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/rg-{}-{node}", self.name)).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
                work()
            });
            thread.join().unwrap()
        })
    }

    /// The address of a host on a rail, or on `mg0`.
    pub fn address(&self, host: &str, interface: &str) -> IpAddr {
        let found = self.inside(host, || {
            let all = nix::ifaddrs::getifaddrs().unwrap();
            let mut ours = all.filter(|entry| entry.interface_name == interface);
            ours.find_map(|entry| Some(entry.address?.as_sockaddr_in()?.ip()))
        });
        let address: Ipv4Addr = found.unwrap_or_else(|| panic!("{host} has no address on {interface}"));
        IpAddr::V4(address)
    }

    /// Connects from one host to another over an interface; what went wrong when it did not work.
    pub fn connect(&self, from: &str, to: &str, interface: &str) -> Result<(TcpStream, TcpStream), String> {
        let address = self.address(to, interface);
        let door = self.inside(to, || TcpListener::bind((address, 0)).unwrap());
        let there = door.local_addr().unwrap();
        let stream = self.inside(from, || {
            TcpStream::connect_timeout(&there, Duration::from_millis(700))
        });
        let stream = stream.map_err(|error| error.to_string())?;
        Ok((stream, door.accept().map_err(|error| error.to_string())?.0))
    }

    /// Datagrams that arrive when each of `flows` source ports sends `each`, over a rail.
    pub fn datagrams(&self, from: &str, to: &str, rail: &str, flows: usize, each: usize) -> usize {
        let (source, target) = (self.address(from, rail), self.address(to, rail));
        let receiver = self.inside(to, || UdpSocket::bind((target, 19_000)).unwrap());
        receiver
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        let there: SocketAddr = receiver.local_addr().unwrap();
        let mut arrived = 0;
        let mut buffer = [0; 2048];
        for flow in 0..flows {
            // The same ports in every run: placement is repeatable.
            let sender = self.inside(from, || {
                UdpSocket::bind((source, 20_000 + flow as u16 * 7)).unwrap()
            });
            for _ in 0..each {
                sender.send_to(&[7; 1000], there).unwrap();
            }
            receiver.set_nonblocking(true).unwrap();
            std::thread::sleep(Duration::from_millis(2));
            while receiver.recv(&mut buffer).is_ok() {
                arrived += 1;
            }
            receiver.set_nonblocking(false).unwrap();
        }
        while receiver.recv(&mut buffer).is_ok() {
            arrived += 1;
        }
        arrived
    }

    /// The root of a switch's exported tree.
    pub fn tree(&self, switch: &str) -> PathBuf {
        PathBuf::from(format!("/run/railgauge/labs/{}/switches/{switch}/sys", self.name))
    }

    /// A counter of a switch port, read as the product reads it.
    pub fn counter(&self, switch: &str, port: &str, counter: &str) -> u64 {
        let counters = probe::sysfs::read_counters(&self.tree(switch), port);
        let found = counters.into_iter().find(|(name, _)| name == counter);
        found
            .and_then(|(_, value)| value)
            .unwrap_or_else(|| panic!("{switch}/{port} has no {counter}"))
    }

    /// What is left of the lab: namespaces, mounts, folders.
    pub fn remains(&self) -> Vec<String> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
            let namespace = entry.file_name().into_string().unwrap();
            let node = namespace
                .strip_prefix(&format!("rg-{}-", self.name))
                .map(str::to_string);
            found.extend(node.filter(|node| !node.starts_with("b-")));
        }
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let folder = format!("/run/railgauge/labs/{}", self.name);
        found.extend(
            mounts
                .lines()
                .filter(|line| line.contains(&format!("{folder}/")))
                .map(str::to_string),
        );
        found.extend(Path::new(&folder).exists().then_some(folder));
        found
    }
}

impl Drop for TestLab {
    fn drop(&mut self) {
        let _ = self.run("down", &[]);
    }
}
