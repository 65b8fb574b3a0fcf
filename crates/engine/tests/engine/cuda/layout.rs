//! Host and GPU mean the same bytes: every field of `abi.rs` lies where `abi.h` has it.

use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use railgauge_engine::device::cuda::abi;

/// Assertions, in C++, that a structure has this size, these fields at these offsets, and no others.
fn assertions(name: &str, size: usize, fields: &[(&str, usize)]) -> String {
    let mut text = format!("static_assert(sizeof({name}) == {size}, \"{name}\");\n");
    for (field, offset) in fields {
        text += &format!("static_assert(offsetof({name}, {field}) == {offset}, \"{name}.{field}\");\n");
    }
    // Structured bindings take exactly as many names as there are fields.
    let names: Vec<_> = (0..fields.len()).map(|i| format!("f{i}")).collect();
    let names = names.join(", ");
    text + &format!("void count({name} x) {{ auto [{names}] = x; (void)sizeof(f0); }}\n")
}

macro_rules! layout {
    ($cpp:literal, $rust:ident { $($field:ident),+ $(,)? }) => {{
        // Does not compile when a field is left out here.
        let _ = |abi::$rust { $($field: _),+ }: abi::$rust| ();
        assertions($cpp, size_of::<abi::$rust>(), &[$((stringify!($field), offset_of!(abi::$rust, $field))),+])
    }};
}

fn constants() -> String {
    let same = [
        ("RG_FLAG_STRIDE", abi::FLAG_STRIDE as u64),
        ("RG_NO_PORT", abi::NO_PORT.into()),
        ("RG_MOST_PORTS", abi::MOST_PORTS as u64),
        ("RG_MOST_OPS", abi::MOST_OPS as u64),
        ("RG_FIFO", abi::Mode::Fifo as u64),
        ("RG_PULL", abi::Mode::Pull as u64),
        ("RG_PUSH", abi::Mode::Push as u64),
        ("RG_WORDS", abi::Mode::Words as u64),
        ("RG_INCOMING", abi::INCOMING.into()),
        ("RG_SYSTEM", abi::SYSTEM.into()),
        ("RG_DRAIN", abi::DRAIN.into()),
        ("RG_OWN_INPUT", abi::OWN_INPUT.into()),
        ("RG_OWN_OUTPUT", abi::OWN_OUTPUT.into()),
        ("RG_KEEP", abi::KEEP.into()),
        ("RG_FINISH", abi::FINISH.into()),
        ("RG_COUNT_ONLY", abi::COUNT_ONLY.into()),
        ("RG_DEADLINE", abi::FAILED_DEADLINE.into()),
        ("RG_ABORTED", abi::FAILED_ABORTED.into()),
    ];
    let line =
        |(name, value): (&str, u64)| format!("static_assert((u64){name} == {value}ull, \"{name}\");\n");
    same.map(line).concat()
}

fn structures() -> String {
    [
        layout!(
            "RgPort",
            Port {
                data,
                tail,
                head,
                mode,
                flags,
                slots,
                slot_bytes,
                peer,
                half_bytes
            }
        ),
        layout!(
            "RgOp",
            Op {
                begin,
                elements,
                source_at,
                target_at,
                source,
                target,
                flags,
                lag,
                skew,
                unused
            }
        ),
        layout!(
            "RgStatus",
            Status {
                arrived,
                done,
                started,
                ended,
                waited,
                failed,
                op,
                chunk,
                worker,
                peer,
                incoming,
                stood
            }
        ),
        layout!(
            "RgJob",
            Job {
                input,
                output,
                ops,
                ports,
                status,
                scratch,
                op_count,
                port_count,
                workers,
                blocks,
                first_block,
                chunk,
                ranks,
                iterations,
            }
        ),
        layout!(
            "RgScratch",
            Scratch {
                go,
                finished,
                stop,
                unused
            }
        ),
        layout!(
            "RgLaunch",
            Launch {
                jobs,
                gate,
                abort,
                deadline,
                sequence,
                job_count,
                unused
            }
        ),
        layout!(
            "RgPattern",
            PatternRule {
                seed,
                iteration,
                rank,
                ranks,
                least,
                mask,
                slots,
                turns
            }
        ),
        layout!(
            "RgFill",
            Fill {
                to,
                elements,
                first,
                pattern
            }
        ),
        layout!(
            "RgVerify",
            Verify {
                found,
                elements,
                first,
                result,
                pattern,
                op,
                unused
            }
        ),
        layout!("RgMismatch", Mismatch { element, wrong }),
    ]
    .concat()
}

/// What the compiler says about a file with these assertions.
fn compile(assertions: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("layout.cpp");
    let text = format!("#include <cstddef>\n#include \"abi.h\"\n{assertions}");
    std::fs::write(&source, text).unwrap();
    let kernels = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("kernels");
    let done = Command::new("g++")
        .args(["-std=c++20", "-fsyntax-only", "-I"])
        .arg(kernels)
        .arg(&source)
        .output()
        .expect("this test needs g++");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    if done.status.success() { Ok(()) } else { Err(said) }
}

#[test]
fn every_field_lies_where_the_kernels_look_for_it() {
    compile(&(constants() + &structures())).unwrap();
}

#[test]
fn a_field_that_moved_would_be_named() {
    let moved = structures().replace(
        "offsetof(RgLaunch, deadline) == 24",
        "offsetof(RgLaunch, deadline) == 32",
    );
    assert!(compile(&moved).unwrap_err().contains("RgLaunch.deadline"));
    let forgotten = assertions("RgMismatch", 16, &[("element", 0)]);
    assert!(
        compile(&forgotten).is_err(),
        "a field that the host does not know"
    );
}
