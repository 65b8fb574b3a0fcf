//! The kernels as PTX, built from `kernels/*.cu` by `ci/kernels` and embedded, so that a machine needs only a driver.

macro_rules! module {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../../../kernels/ptx/", $name, ".ptx")),
        )
    };
}

/// Every module of `kernels/modules`: its name, and its text.
const MODULES: &[(&str, &str)] = &[
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

/// The module in which a kernel is.
pub(super) fn module_with(kernel: &str) -> Option<(&'static str, &'static str)> {
    let entry = format!(".entry {kernel}(");
    MODULES.iter().copied().find(|(_, text)| text.contains(&entry))
}

/// The names of all kernels, module by module.
pub fn kernels() -> impl Iterator<Item = (&'static str, &'static str)> {
    MODULES.iter().flat_map(|&(module, text)| {
        let entries = text.split(".entry ").skip(1);
        entries.filter_map(move |entry| Some((module, entry.split_once('(')?.0)))
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
}
