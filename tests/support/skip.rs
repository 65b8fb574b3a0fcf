//! Tests that cannot run here say so, and are counted.
//!
//! A skip is printed past the test harness, which would swallow it, and appended to the file that `RAILGAUGE_SKIPS` names.
//! `RAILGAUGE_REQUIRE` lists what must be there (`lab,mpi`), or says `all`: a skip for want of it is then a failure. What a
//! machine may always lack, a GPU, an RDMA NIC or an algorithm of TCP, counts only when it is listed by name.

use std::io::Write;

/// What only some machines or kernels have: `all` does not mean it.
const RARE: [&str; 3] = ["gpu", "rdma-nic", "bbr"];

/// Says that a test is skipped for want of `need`; fails where that is required.
pub fn skip(need: &str, why: &str) {
    let required = std::env::var("RAILGAUGE_REQUIRE").unwrap_or_default();
    let is_required = required
        .split(',')
        .any(|word| word == need || (word == "all" && !RARE.contains(&need)));
    assert!(
        !is_required,
        "{need} is required here (RAILGAUGE_REQUIRE={required}): {why}"
    );
    let thread = std::thread::current();
    let line = format!(
        "skipped: {} needs {need}: {why}\n",
        thread.name().unwrap_or("a test")
    );
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("RAILGAUGE_SKIPS") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("RAILGAUGE_SKIPS names a file that can be written");
    }
}
