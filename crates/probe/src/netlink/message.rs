//! Encoding and decoding of netlink messages whose own header has four bytes: those of generic netlink, and of data centre bridging. No received data makes a reader fail or loop forever.

const HEADER: usize = 16;
const OWN_HEADER: usize = 4;
const ATTRIBUTE_HEADER: usize = 4;

const ERROR: u16 = 2;
const DONE: u16 = 3;

const IS_REQUEST: u16 = 0x01;
const WITH_END: u16 = 0x04;
const ALL: u16 = 0x300;
const IS_NESTED: u16 = 0x8000;
/// The two upper bits of an attribute's kind say how it is written.
const KIND: u16 = 0x3fff;

/// Attributes of a request.
#[derive(Default)]
pub(crate) struct Attributes(Vec<u8>);

impl Attributes {
    /// None yet.
    pub(crate) fn new() -> Attributes {
        Attributes::default()
    }

    /// As they are sent.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// With one more.
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Attributes {
        let len = (ATTRIBUTE_HEADER + value.len()) as u16;
        self.0.extend(len.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// With a text, as the kernel reads it: it ends in zero.
    pub(crate) fn text(self, kind: u16, value: &str) -> Attributes {
        self.with(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// With one that holds others.
    pub(crate) fn nest(self, kind: u16, inner: &Attributes) -> Attributes {
        self.with(kind | IS_NESTED, &inner.0)
    }
}

/// One request.
pub(super) fn request(kind: u16, header: [u8; 4], all: bool, attributes: &Attributes) -> Vec<u8> {
    let flags = if all {
        IS_REQUEST | ALL
    } else {
        IS_REQUEST | WITH_END
    };
    let len = HEADER + OWN_HEADER + attributes.0.len();
    let mut bytes = Vec::with_capacity(len);
    bytes.extend((len as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]); // one request per socket at a time: no need to number them
    bytes.extend(header);
    bytes.extend(&attributes.0);
    bytes
}

/// One message of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer<'b> {
    /// Its attributes.
    Content(&'b [u8]),
    /// No more follows; a number of the system's errors, or zero.
    End(i32),
    /// Not a message; what follows cannot be read either.
    Malformed,
}

/// The messages in what was received.
pub(super) fn answers(mut bytes: &[u8]) -> Vec<Answer<'_>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let Some((kind, content, rest)) = split(bytes) else {
            found.push(Answer::Malformed);
            return found;
        };
        bytes = rest;
        let code = content
            .get(..4)
            .and_then(|code| code.try_into().ok())
            .map(i32::from_ne_bytes);
        found.push(match (kind, code) {
            (ERROR, None) => Answer::Malformed,
            (ERROR | DONE, code) => Answer::End(code.unwrap_or(0).checked_neg().unwrap_or(i32::MAX)),
            _ => content
                .get(OWN_HEADER..)
                .map_or(Answer::Malformed, Answer::Content),
        });
    }
    found
}

/// The kind and content of the first message, and what follows it.
fn split(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let len = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let content = bytes.get(HEADER..len)?;
    let rest = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, content, rest))
}

/// The attributes in order, by kind, up to the first malformed one.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?) & KIND;
        let value = bytes.get(ATTRIBUTE_HEADER..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The first attribute of a kind.
pub(crate) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes)
        .find(|(found, _)| *found == kind)
        .map(|(_, value)| value)
}

/// The text of the first attribute of a kind, up to its zero.
pub(crate) fn text(bytes: &[u8], kind: u16) -> Option<String> {
    let value = attribute(bytes, kind)?;
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    let text = String::from_utf8_lossy(&value[..end]).trim().to_string();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A message as the kernel sends it.
    fn message(kind: u16, content: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER + content.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn answers_are_told_from_their_end_and_from_refusals() {
        let content = [&[7u8, 1, 0, 0][..], &Attributes::new().text(3, "mlx5").0].concat();
        let all = [message(0x20, &content), message(DONE, &0i32.to_ne_bytes())].concat();
        assert_eq!(answers(&all), [Answer::Content(&content[4..]), Answer::End(0)]);
        assert_eq!(text(&content[4..], 3).as_deref(), Some("mlx5"));
        let refusal = message(ERROR, &(-95i32).to_ne_bytes());
        assert_eq!(answers(&refusal), [Answer::End(95)]);
        assert_eq!(answers(&all[..20]).last(), Some(&Answer::Malformed));
    }

    #[test]
    fn what_is_asked_is_what_the_kernel_reads() {
        let inner = Attributes::new().text(2, "eth0");
        let asked = request(0x15, [4, 1, 0, 0], false, &Attributes::new().nest(1, &inner));
        assert_eq!(asked.len() % 4, 0);
        assert_eq!(asked[..4], (asked.len() as u32).to_ne_bytes());
        let nested = attribute(&asked[HEADER + OWN_HEADER..], 1).unwrap();
        assert_eq!(text(nested, 2).as_deref(), Some("eth0"));
    }

    proptest! {
        #[test]
        fn nothing_that_is_received_makes_a_reader_fail(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(answers(&bytes).len() <= bytes.len() / HEADER + 1);
            prop_assert!(attributes(&bytes).count() <= bytes.len() / ATTRIBUTE_HEADER + 1);
            text(&bytes, 1);
        }

        #[test]
        fn what_is_put_together_is_taken_apart_again(
            values in proptest::collection::vec((0u16..0x3fff, proptest::collection::vec(any::<u8>(), 0..40)), 0..8)
        ) {
            let put = values.iter().fold(Attributes::new(), |all, (kind, value)| all.with(*kind, value));
            let taken: Vec<(u16, Vec<u8>)> = attributes(&put.0).map(|(kind, value)| (kind, value.to_vec())).collect();
            prop_assert_eq!(taken, values);
        }
    }
}
