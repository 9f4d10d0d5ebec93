//! Little-endian numbers in byte buffers, and the checksum of everything on disk.

/// Checksum that starts from a store's salt and a list of numbers that say what the bytes are and
/// where they belong: the same bytes anywhere else have another checksum.
pub(crate) fn seed(salt: u64, identity: &[u64]) -> u32 {
    identity
        .iter()
        .fold(crc32c::crc32c(&salt.to_le_bytes()), |crc, number| {
            crc32c::crc32c_append(crc, &number.to_le_bytes())
        })
}

/// Checksum of a record: over its length, its bytes and the checksum before it.
pub(crate) fn chain(previous: u32, record: &[u8]) -> u32 {
    crc32c::crc32c_append(previous.wrapping_add(record.len() as u32), record)
}

/// Checksum of a record whose bytes have been checked by themselves: over its length, the CRC-32C
/// of its bytes and the checksum before it. So whoever has the bytes at hand sums them up, and
/// whoever knows what came before makes the chain.
pub(crate) fn chain_crc(previous: u32, len: u32, crc: u32) -> u32 {
    crc32c::crc32c_append(previous.wrapping_add(len), &crc.to_le_bytes())
}

/// Puts numbers at the end of a buffer.
pub(crate) trait Put {
    fn put_u8(&mut self, value: u8);
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
}

/// Takes numbers from the front of a slice; `None` when it is too short.
pub(crate) struct Take<'a>(pub(crate) &'a [u8]);

impl<'a> Take<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The number at `at` of a table whose size was checked before.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}
