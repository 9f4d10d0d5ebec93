//! Values of AMQP 1.0 (its specification, part 1), from bytes and to bytes.
//!
//! ```text
//! value     constructor u8, then as many octets as it says
//! list, map size, count, then values one after another        (sizes u8 or u32)
//! array     size, count, one constructor, then the values without theirs
//! described 0x00, descriptor (a value), value
//! ```
//!
//! Reading is lazy: of a list, map or array only the size is looked at until somebody goes through
//! it, so that nothing here recurses.

/// The bytes are no values of AMQP 1.0, or nest where nothing nests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed AMQP 1.0 encoding")]
pub struct Malformed;

/// Names of constructors.
pub mod code {
    #![allow(missing_docs)] // The specification's names.
    pub const DESCRIBED: u8 = 0x00;
    pub const NULL: u8 = 0x40;
    pub const TRUE: u8 = 0x41;
    pub const FALSE: u8 = 0x42;
    pub const UINT_0: u8 = 0x43;
    pub const ULONG_0: u8 = 0x44;
    pub const LIST_0: u8 = 0x45;
    pub const UBYTE: u8 = 0x50;
    pub const BYTE: u8 = 0x51;
    pub const SMALL_UINT: u8 = 0x52;
    pub const SMALL_ULONG: u8 = 0x53;
    pub const SMALL_INT: u8 = 0x54;
    pub const SMALL_LONG: u8 = 0x55;
    pub const BOOLEAN: u8 = 0x56;
    pub const USHORT: u8 = 0x60;
    pub const SHORT: u8 = 0x61;
    pub const UINT: u8 = 0x70;
    pub const INT: u8 = 0x71;
    pub const FLOAT: u8 = 0x72;
    pub const CHAR: u8 = 0x73;
    pub const ULONG: u8 = 0x80;
    pub const LONG: u8 = 0x81;
    pub const DOUBLE: u8 = 0x82;
    pub const TIMESTAMP: u8 = 0x83;
    pub const UUID: u8 = 0x98;
    pub const BINARY_8: u8 = 0xA0;
    pub const STRING_8: u8 = 0xA1;
    pub const SYMBOL_8: u8 = 0xA3;
    pub const BINARY_32: u8 = 0xB0;
    pub const STRING_32: u8 = 0xB1;
    pub const SYMBOL_32: u8 = 0xB3;
    pub const LIST_8: u8 = 0xC0;
    pub const MAP_8: u8 = 0xC1;
    pub const LIST_32: u8 = 0xD0;
    pub const MAP_32: u8 = 0xD1;
    pub const ARRAY_8: u8 = 0xE0;
    pub const ARRAY_32: u8 = 0xF0;
}

/// A value, borrowed from the bytes that it was read from.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // The variants are the types of AMQP 1.0.
pub enum Value<'a> {
    Null,
    Bool(bool),
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    F32(f32),
    F64(f64),
    Char(u32),
    /// Milliseconds since the Unix epoch.
    Timestamp(i64),
    Uuid([u8; 16]),
    Binary(&'a [u8]),
    /// A string, which nobody has promised to be UTF-8.
    Text(&'a [u8]),
    Symbol(&'a [u8]),
    List(Items<'a>),
    Map(Items<'a>),
    Array(Items<'a>),
    /// A decimal number: nobody here computes with it.
    Decimal(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The bytes of a string, a symbol or a binary.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Text(bytes) | Self::Symbol(bytes) | Self::Binary(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// The values of a list, a map (keys and values in turn) or an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Items<'a> {
    left: u32,
    /// The constructor that all items of an array have.
    shared: Option<u8>,
    reader: Reader<'a>,
}

impl<'a> Items<'a> {
    const EMPTY: Items<'static> = Items {
        left: 0,
        shared: None,
        reader: Reader { bytes: &[] },
    };

    /// The next one; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Value<'a>>, Malformed> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        match self.shared {
            Some(code) => self.reader.plain(code).map(Some),
            None => self.reader.value().map(Some),
        }
    }

    /// The next key and value of a map; `None` at the end.
    pub fn next_pair(&mut self) -> Result<Option<(Value<'a>, Value<'a>)>, Malformed> {
        let Some(key) = self.next()? else {
            return Ok(None);
        };
        let value = self.next()?.ok_or(Malformed)?;
        Ok(Some((key, value)))
    }

    /// The value under a key of a map that is a symbol or a string.
    pub fn get(mut self, name: &[u8]) -> Result<Option<Value<'a>>, Malformed> {
        while let Some((key, value)) = self.next_pair()? {
            if matches!(key, Value::Symbol(key) | Value::Text(key) if key == name) {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

/// Reads values one after another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads these bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// What has not been read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(Malformed)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(Malformed)?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// The next octet.
    pub fn octet(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[octet]| octet)
    }

    fn size(&mut self, is_wide: bool) -> Result<usize, Malformed> {
        if is_wide {
            let size = u32::from_be_bytes(self.array()?);
            usize::try_from(size).map_err(|_| Malformed)
        } else {
            self.octet().map(usize::from)
        }
    }

    /// A value; of a described one, that which is described.
    pub fn value(&mut self) -> Result<Value<'a>, Malformed> {
        let mut code = self.octet()?;
        if code == code::DESCRIBED {
            let descriptor = self.octet()?;
            self.plain(descriptor)?;
            code = self.octet()?;
        }
        self.plain(code)
    }

    /// What follows a constructor. A descriptor is none: what it describes is not described again.
    pub fn plain(&mut self, code: u8) -> Result<Value<'a>, Malformed> {
        Ok(match code {
            code::NULL => Value::Null,
            code::TRUE => Value::Bool(true),
            code::FALSE => Value::Bool(false),
            code::UINT_0 => Value::U32(0),
            code::ULONG_0 => Value::U64(0),
            code::LIST_0 => Value::List(Items::EMPTY),
            code::UBYTE => Value::U8(self.octet()?),
            code::BYTE => Value::I8(i8::from_be_bytes(self.array()?)),
            code::SMALL_UINT => Value::U32(self.octet()?.into()),
            code::SMALL_ULONG => Value::U64(self.octet()?.into()),
            code::SMALL_INT => Value::I32(i8::from_be_bytes(self.array()?).into()),
            code::SMALL_LONG => Value::I64(i8::from_be_bytes(self.array()?).into()),
            code::BOOLEAN => Value::Bool(self.octet()? != 0),
            code::USHORT => Value::U16(u16::from_be_bytes(self.array()?)),
            code::SHORT => Value::I16(i16::from_be_bytes(self.array()?)),
            code::UINT => Value::U32(u32::from_be_bytes(self.array()?)),
            code::INT => Value::I32(i32::from_be_bytes(self.array()?)),
            code::FLOAT => Value::F32(f32::from_be_bytes(self.array()?)),
            code::CHAR => Value::Char(u32::from_be_bytes(self.array()?)),
            code::ULONG => Value::U64(u64::from_be_bytes(self.array()?)),
            code::LONG => Value::I64(i64::from_be_bytes(self.array()?)),
            code::DOUBLE => Value::F64(f64::from_be_bytes(self.array()?)),
            code::TIMESTAMP => Value::Timestamp(i64::from_be_bytes(self.array()?)),
            0x74 => Value::Decimal(self.take(4)?),
            0x84 => Value::Decimal(self.take(8)?),
            0x94 => Value::Decimal(self.take(16)?),
            code::UUID => Value::Uuid(self.array()?),
            code::BINARY_8 | code::BINARY_32 => Value::Binary(self.variable(code)?),
            code::STRING_8 | code::STRING_32 => Value::Text(self.variable(code)?),
            code::SYMBOL_8 | code::SYMBOL_32 => Value::Symbol(self.variable(code)?),
            code::LIST_8 | code::LIST_32 => Value::List(self.compound(code & 0x10 != 0)?),
            code::MAP_8 | code::MAP_32 => Value::Map(self.compound(code & 0x10 != 0)?),
            code::ARRAY_8 | code::ARRAY_32 => {
                let mut items = self.compound(code == code::ARRAY_32)?;
                items.shared = Some(items.reader.octet()?);
                Value::Array(items)
            }
            _ => return Err(Malformed),
        })
    }

    fn variable(&mut self, code: u8) -> Result<&'a [u8], Malformed> {
        let size = self.size(code & 0x10 != 0)?;
        self.take(size)
    }

    fn compound(&mut self, is_wide: bool) -> Result<Items<'a>, Malformed> {
        let size = self.size(is_wide)?;
        let mut reader = Reader::new(self.take(size)?);
        let left = u32::try_from(reader.size(is_wide)?).map_err(|_| Malformed)?;
        Ok(Items {
            left,
            shared: None,
            reader,
        })
    }
}

/// Appends a string, a symbol or a binary: `short` is its constructor with a size of one octet, and
/// the wide one is 0x10 above it.
pub fn put_variable(out: &mut Vec<u8>, short: u8, bytes: &[u8]) {
    if let Ok(size) = u8::try_from(bytes.len()) {
        out.extend_from_slice(&[short, size]);
    } else {
        out.push(short + 0x10);
        // What is longer does not come: a frame, and thus a field of it, has less than 4 GiB.
        let size = u32::try_from(bytes.len()).expect("a field has less than 4 GiB");
        out.extend_from_slice(&size.to_be_bytes());
    }
    out.extend_from_slice(bytes);
}

/// Appends a string where the bytes are text, else a binary: clients refuse a string that is not
/// UTF-8.
pub fn put_text(out: &mut Vec<u8>, bytes: &[u8]) {
    let is_text = std::str::from_utf8(bytes).is_ok();
    let short = if is_text {
        code::STRING_8
    } else {
        code::BINARY_8
    };
    put_variable(out, short, bytes);
}

/// Appends a symbol.
pub fn put_symbol(out: &mut Vec<u8>, bytes: &[u8]) {
    put_variable(out, code::SYMBOL_8, bytes);
}

/// Appends a boolean.
pub fn put_bool(out: &mut Vec<u8>, value: bool) {
    out.push(if value { code::TRUE } else { code::FALSE });
}

/// Appends a constructor and the octets of a number.
pub fn put_number<const N: usize>(out: &mut Vec<u8>, code: u8, octets: [u8; N]) {
    out.push(code);
    out.extend_from_slice(&octets);
}

/// Appends an unsigned integer of 32 bits, in as few octets as it takes.
pub fn put_uint(out: &mut Vec<u8>, value: u32) {
    match u8::try_from(value) {
        Ok(0) => out.push(code::UINT_0),
        Ok(small) => out.extend_from_slice(&[code::SMALL_UINT, small]),
        Err(_) => put_number(out, code::UINT, value.to_be_bytes()),
    }
}

/// Appends an unsigned integer of 64 bits, in as few octets as it takes.
pub fn put_ulong(out: &mut Vec<u8>, value: u64) {
    match u8::try_from(value) {
        Ok(0) => out.push(code::ULONG_0),
        Ok(small) => out.extend_from_slice(&[code::SMALL_ULONG, small]),
        Err(_) => put_number(out, code::ULONG, value.to_be_bytes()),
    }
}

/// Octets before the items of a list or map with wide sizes: constructor, size, count.
const WIDE_HEAD_BYTES: usize = 9;
/// Octets by which the head with narrow sizes is shorter.
const NARROW_BY_BYTES: usize = 6;

/// A list or map whose items are being appended.
pub struct Compound {
    start: usize,
    short: u8,
    /// Values in it: of a map, keys and values.
    pub count: u32,
}

impl Compound {
    /// Begins one; `short` is its constructor with sizes of one octet, and the wide one is 0x10
    /// above it.
    pub fn begin(out: &mut Vec<u8>, short: u8) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; WIDE_HEAD_BYTES]);
        Self {
            start,
            short,
            count: 0,
        }
    }

    /// Ends it, in the narrow form if that holds it.
    pub fn end(self, out: &mut Vec<u8>) {
        let items = out.len() - self.start - WIDE_HEAD_BYTES;
        let narrow = (u8::try_from(items + 1), u8::try_from(self.count));
        let head = &mut out[self.start..self.start + WIDE_HEAD_BYTES];
        if let (Ok(size), Ok(count)) = narrow {
            head[..3].copy_from_slice(&[self.short, size, count]);
            let from = self.start + WIDE_HEAD_BYTES;
            out.copy_within(from.., from - NARROW_BY_BYTES);
            out.truncate(out.len() - NARROW_BY_BYTES);
        } else {
            let size = u32::try_from(items + 4).expect("a field has less than 4 GiB");
            head[0] = self.short + 0x10;
            head[1..5].copy_from_slice(&size.to_be_bytes());
            head[5..].copy_from_slice(&self.count.to_be_bytes());
        }
    }
}
