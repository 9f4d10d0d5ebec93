//! Bytes that lie on disks, frozen as hexadecimal text: what was written once must be read for
//! good, and what is written may change only with a version.

/// Bytes as text.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of such a text, which may have spaces between its bytes.
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|c| !c.is_ascii_whitespace()).collect();
    let pairs = digits.chunks_exact(2).map(|pair| {
        let pair = std::str::from_utf8(pair).expect("it is ASCII");
        u8::from_str_radix(pair, 16).expect("it is hexadecimal")
    });
    pairs.collect()
}

/// Whether these bytes are those of this text.
#[track_caller]
pub(crate) fn assert_frozen(written: &[u8], frozen: &str) {
    let (now, then) = (hex(written), hex(&bytes(frozen)));
    assert_eq!(now, then, "the format has changed");
}
