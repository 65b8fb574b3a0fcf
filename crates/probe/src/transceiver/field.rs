//! Fields of a module's memory: text, dates, lengths and sums over bytes.

use std::ops::Range;

use record::Fact;

/// What a module says, whatever its standard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) vendor: Fact,
    pub(super) part_number: Fact,
    pub(super) serial: Fact,
    pub(super) revision: Fact,
    pub(super) date: Fact,
    pub(super) length: Fact,
    pub(super) firmware: Fact,
    pub(super) medium: Fact,
    pub(super) checksum: Fact,
}

impl Fields {
    /// All of them are unreadable for one reason.
    pub(super) fn all_unreadable(why: &str) -> Fields {
        let fact = || unreadable(why);
        Fields {
            vendor: fact(),
            part_number: fact(),
            serial: fact(),
            revision: fact(),
            date: fact(),
            length: fact(),
            firmware: fact(),
            medium: fact(),
            checksum: fact(),
        }
    }

    /// In the order of their names.
    pub(super) fn in_order(&self) -> [Fact; 8] {
        [
            self.vendor.clone(),
            self.part_number.clone(),
            self.serial.clone(),
            self.revision.clone(),
            self.date.clone(),
            self.length.clone(),
            self.firmware.clone(),
            self.medium.clone(),
        ]
    }
}

/// A fact that could not be read.
pub(super) fn unreadable(why: &str) -> Fact {
    Fact::Unreadable {
        why: why.to_string(),
        needs: None,
    }
}

/// A field of the memory; the fact that it is not there otherwise.
fn field(memory: &[u8], range: Range<usize>) -> Result<&[u8], Fact> {
    memory
        .get(range)
        .ok_or_else(|| unreadable("the module gave out too little of its memory"))
}

/// Printable text, without what fills it up. One that is empty is absent.
pub(super) fn text(memory: &[u8], range: Range<usize>) -> Fact {
    let bytes = match field(memory, range) {
        Ok(bytes) => bytes,
        Err(fact) => return fact,
    };
    // Some makers fill up with zeroes or ones instead of spaces.
    let end = bytes.iter().rposition(|byte| !matches!(byte, 0 | 0xff | b' '));
    let bytes = &bytes[..end.map_or(0, |end| end + 1)];
    if !bytes.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return unreadable("it is not text");
    }
    match String::from_utf8_lossy(bytes).trim() {
        "" => Fact::Absent,
        text => Fact::Value(text.to_string()),
    }
}

/// `230417  ` is 2023-04-17; two more characters are the maker's lot. A text that is not a date stays as it is.
pub(super) fn date(memory: &[u8], range: Range<usize>) -> Fact {
    let Fact::Value(text) = text(memory, range.clone()) else {
        return text(memory, range);
    };
    let is_date = text.len() >= 6 && text.bytes().take(6).all(|byte| byte.is_ascii_digit());
    if !is_date {
        return Fact::Value(text);
    }
    let day = format!("20{}-{}-{}", &text[..2], &text[2..4], &text[4..6]);
    Fact::Value(match text[6..].trim() {
        "" => day,
        lot => format!("{day} lot {lot}"),
    })
}

/// A length in tenths of a metre, as people write it; none that is zero.
pub(super) fn length(tenths: u64) -> Fact {
    Fact::Value(match tenths {
        0 => return Fact::Absent,
        tenths if tenths.is_multiple_of(10_000) => format!("{} km", tenths / 10_000),
        tenths if tenths.is_multiple_of(10) => format!("{} m", tenths / 10),
        tenths => format!("{}.{} m", tenths / 10, tenths % 10),
    })
}

/// A byte, or the fact that it is not there.
pub(super) fn byte(memory: &[u8], at: usize) -> Result<u8, Fact> {
    Ok(field(memory, at..at + 1)?[0])
}

/// Whether the bytes of each range add up to the byte behind it.
pub(super) fn checksum(memory: &[u8], ranges: impl IntoIterator<Item = Range<usize>>) -> Fact {
    for range in ranges {
        let (bytes, said) = match (field(memory, range.clone()), byte(memory, range.end)) {
            (Ok(bytes), Ok(said)) => (bytes, said),
            (Err(fact), _) | (_, Err(fact)) => return fact,
        };
        if bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) != said {
            return Fact::Value("wrong".to_string());
        }
    }
    Fact::Value("right".to_string())
}
