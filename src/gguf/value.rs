//! Metadata entries and their values.

use super::Name;

/// A run of bytes of the file, absolute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte from the start of the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// Type of a metadata value, with the format's ids.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    const ALL: [(ValueType, &str, Option<u64>); 13] = [
        (ValueType::U8, "u8", Some(1)),
        (ValueType::I8, "i8", Some(1)),
        (ValueType::U16, "u16", Some(2)),
        (ValueType::I16, "i16", Some(2)),
        (ValueType::U32, "u32", Some(4)),
        (ValueType::I32, "i32", Some(4)),
        (ValueType::F32, "f32", Some(4)),
        (ValueType::Bool, "bool", Some(1)),
        (ValueType::String, "string", None),
        (ValueType::Array, "array", None),
        (ValueType::U64, "u64", Some(8)),
        (ValueType::I64, "i64", Some(8)),
        (ValueType::F64, "f64", Some(8)),
    ];

    /// The type of an id in the file.
    pub fn from_id(id: u32) -> Option<ValueType> {
        Self::ALL.get(id as usize).map(|row| row.0)
    }

    /// Its name, as in the format's document but lower-case and without underscores.
    pub fn name(self) -> &'static str {
        Self::ALL.get(self as usize).map_or("", |row| row.1)
    }

    /// Bytes of a value; None for strings and arrays, which have no fixed size.
    pub fn size(self) -> Option<u64> {
        Self::ALL.get(self as usize).and_then(|row| row.2)
    }
}

/// A metadata value: scalars by value, strings and arrays as where they are in the file.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    /// The string's bytes, without its length.
    String(Span),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl Value {
    /// Its type.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::F32(_) => ValueType::F32,
            Value::Bool(_) => ValueType::Bool,
            Value::String(_) => ValueType::String,
            Value::Array(_) => ValueType::Array,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F64(_) => ValueType::F64,
        }
    }

    /// The value of any integer type, if it is one.
    pub fn as_integer(&self) -> Option<i128> {
        Some(match *self {
            Value::U8(v) => v.into(),
            Value::I8(v) => v.into(),
            Value::U16(v) => v.into(),
            Value::I16(v) => v.into(),
            Value::U32(v) => v.into(),
            Value::I32(v) => v.into(),
            Value::U64(v) => v.into(),
            Value::I64(v) => v.into(),
            _ => return None,
        })
    }
}

/// An array value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    /// Type of the elements ([`ValueType::Array`] for a nested one).
    pub element: ValueType,
    /// Number of elements.
    pub len: u64,
    /// The elements' bytes: after the element type and the count, to the end of the last element.
    pub span: Span,
}

/// One metadata entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyValue {
    /// The key, see [`Header::name`].
    pub key: Name,
    /// Its value.
    pub value: Value,
}
