//! The kernels as PTX, built from `kernels/*.cu` by `ci/kernels` and embedded, so that a machine needs only a driver. Compressed by `build.rs`;
//! all of it is unpacked when the first kernel is asked for.

use std::sync::LazyLock;

use lz4_flex::block::decompress_size_prepended;

macro_rules! module {
    ($name:literal) => {
        (
            $name,
            include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".ptx.lz4")),
        )
    };
}

/// Every module of `kernels/modules`: its name, and its packed text.
const PACKED: &[(&str, &[u8])] = &[
    module!("fill"),
    module!("verify"),
    module!("f32"),
    module!("f64"),
    module!("f16"),
    module!("bf16"),
    module!("i32"),
    module!("i64"),
    module!("u32"),
    module!("u8"),
];

/// The same with their texts.
static MODULES: LazyLock<Vec<(&str, String)>> = LazyLock::new(|| {
    let unpacked =
        |packed: &[u8]| String::from_utf8(decompress_size_prepended(packed).expect("packed by build.rs"));
    PACKED
        .iter()
        .map(|(name, packed)| (*name, unpacked(packed).expect("PTX is text")))
        .collect()
});

/// The module in which a kernel is.
pub(super) fn module_with(kernel: &str) -> Option<(&'static str, &'static str)> {
    let entry = format!(".entry {kernel}(");
    let mut modules = MODULES.iter().map(|(name, text)| (*name, text.as_str()));
    modules.find(|(_, text)| text.contains(&entry))
}

/// The names of all kernels, module by module.
pub fn kernels() -> impl Iterator<Item = (&'static str, &'static str)> {
    MODULES.iter().flat_map(|(module, text)| {
        let entries = text.split(".entry ").skip(1);
        entries.filter_map(move |entry| Some((*module, entry.split_once('(')?.0)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::DType;
    use strum::IntoEnumIterator;

    #[test]
    fn test_data_of_every_type_can_be_filled_and_verified() {
        for dtype in DType::iter() {
            for what in ["fill", "verify"] {
                let kernel = format!("rg_{what}_{dtype}");
                assert!(module_with(&kernel).is_some(), "{kernel}");
                assert!(kernels().any(|(module, name)| module == what && name == kernel));
            }
        }
        assert_eq!(module_with("rg_fill_f3"), None);
    }

    #[test]
    fn the_embedded_text_is_that_of_the_files() {
        for (name, text) in MODULES.iter() {
            let path = format!("{}/../../kernels/ptx/{name}.ptx", env!("CARGO_MANIFEST_DIR"));
            assert!(std::fs::read_to_string(&path).unwrap() == *text, "{path}");
        }
    }
}
