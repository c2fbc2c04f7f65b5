//! Metadata entries: keys, values, and the one key that parsing itself needs, the alignment.

use super::cursor::Cursor;
use super::error::{Error, Place, Rule};
use super::index::{Index, NameTable};
use super::printable::Printable;
use super::{Array, KeyValue, Span, Value, ValueType};
use crate::source::ReadAt;

/// Levels of arrays in arrays that are read; a plain array is one. More would only serve to
/// exhaust the stack.
const MAX_NESTING: u32 = 4;

/// The key of the alignment, a u32.
const ALIGNMENT: &[u8] = b"general.alignment";

/// The alignment where no key says another.
pub(super) const DEFAULT_ALIGNMENT: u64 = 32;

/// Reads `count` entries into the index; returns the alignment they set. In a lenient parse the
/// first damage ends the list; None then, and where the alignment cannot be known.
pub(super) fn read<R: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, R>,
    count: u64,
    lenient: bool,
    index: &mut Index,
) -> Result<Option<u64>, Error> {
    let mut seen = NameTable::default();
    let mut alignment = Alignment::Default;
    for position in 0..count {
        let offset = cursor.position();
        let start = index.names.len();
        let entry = match entry(cursor, index) {
            Ok(entry) => entry,
            Err(rule) => {
                let key = index.names.get(start..).filter(|key| !key.is_empty()).map(Into::into);
                index.names.truncate(start);
                let place = Place::Key(position, key);
                index.tolerate(lenient, Error { place, offset, rule })?;
                return Ok(None);
            }
        };
        index.metadata.push(entry);
        let Index { metadata, names, .. } = &*index;
        let key_of = |p: usize| metadata.get(p).map_or(&[][..], |entry| entry.key.of(names));
        if seen.enter(metadata.len() - 1, key_of).is_some() {
            index.warn(|index| format!("duplicate key {}", Printable(index.name(entry.key))));
        }
        if index.name(entry.key) == ALIGNMENT
            && let Err(rule) = alignment.accept(entry.value)
        {
            let place = Place::Key(position, Some(ALIGNMENT.into()));
            index.tolerate(lenient, Error { place, offset, rule })?;
            alignment = Alignment::Unusable;
        }
    }
    Ok(alignment.known())
}

fn entry<R: ReadAt + ?Sized>(
    cursor: &mut Cursor<'_, R>,
    index: &mut Index,
) -> Result<KeyValue, Rule> {
    index.check_budget()?;
    let key = cursor.name(&mut index.names)?;
    Ok(KeyValue { key, value: value(cursor)? })
}

/// What the metadata say of the alignment so far.
enum Alignment {
    Default,
    Given(u32),
    Unusable,
}

impl Alignment {
    fn accept(&mut self, value: Value) -> Result<(), Rule> {
        let Value::U32(found) = value else {
            return Err(Rule::AlignmentType { found: value.value_type() });
        };
        if found == 0 || !(found.is_power_of_two() || found.is_multiple_of(8)) {
            return Err(Rule::Alignment { found });
        }
        match *self {
            Alignment::Given(first) if first != found => {
                Err(Rule::AlignmentTwice { first, second: found })
            }
            Alignment::Unusable => Ok(()),
            _ => {
                *self = Alignment::Given(found);
                Ok(())
            }
        }
    }

    fn known(&self) -> Option<u64> {
        match *self {
            Alignment::Default => Some(DEFAULT_ALIGNMENT),
            Alignment::Given(alignment) => Some(alignment.into()),
            Alignment::Unusable => None,
        }
    }
}

fn value<R: ReadAt + ?Sized>(c: &mut Cursor<'_, R>) -> Result<Value, Rule> {
    const PART: &str = "its value";
    let id = c.u32("its value type")?;
    Ok(match ValueType::from_id(id).ok_or(Rule::ValueType { id })? {
        ValueType::U8 => Value::U8(u8::from_le_bytes(c.number(PART)?)),
        ValueType::I8 => Value::I8(i8::from_le_bytes(c.number(PART)?)),
        ValueType::U16 => Value::U16(u16::from_le_bytes(c.number(PART)?)),
        ValueType::I16 => Value::I16(i16::from_le_bytes(c.number(PART)?)),
        ValueType::U32 => Value::U32(u32::from_le_bytes(c.number(PART)?)),
        ValueType::I32 => Value::I32(i32::from_le_bytes(c.number(PART)?)),
        ValueType::F32 => Value::F32(f32::from_le_bytes(c.number(PART)?)),
        ValueType::U64 => Value::U64(u64::from_le_bytes(c.number(PART)?)),
        ValueType::I64 => Value::I64(i64::from_le_bytes(c.number(PART)?)),
        ValueType::F64 => Value::F64(f64::from_le_bytes(c.number(PART)?)),
        ValueType::Bool => Value::Bool(c.number(PART)? != [0]),
        ValueType::String => {
            let len = c.count("the length of its string")?;
            let span = Span { offset: c.position(), len };
            c.skip(len, "string")?;
            Value::String(span)
        }
        ValueType::Array => Value::Array(array(c, 1)?),
    })
}

/// An array from its element type on; `level` is 1 for one that is a value itself.
fn array<R: ReadAt + ?Sized>(c: &mut Cursor<'_, R>, level: u32) -> Result<Array, Rule> {
    if level > MAX_NESTING {
        return Err(Rule::Nesting { most: MAX_NESTING });
    }
    let id = c.u32("the element type of an array")?;
    let element = ValueType::from_id(id).ok_or(Rule::ElementType { id })?;
    let len = c.count("the length of an array")?;
    let start = c.position();
    let least = match element {
        ValueType::String => c.layout().length_bytes() as u64,
        ValueType::Array => 4 + c.layout().length_bytes() as u64,
        number => number.size().unwrap_or(1),
    };
    let bytes = u128::from(len) * u128::from(least);
    let left = c.left();
    if bytes > left.into() {
        return Err(Rule::Length { part: "array", bytes, left });
    }
    match element {
        ValueType::String => c.skip_strings(len)?,
        ValueType::Array => {
            for _ in 0..len {
                array(c, level + 1)?;
            }
        }
        _ => c.skip(bytes as u64, "array")?,
    }
    Ok(Array { element, len, span: Span { offset: start, len: c.position() - start } })
}
