//! Text that nobody holds: rendered piece by piece when read, with the exact size known before.
//!
//! A [`Text`] is a state machine that walks over the model. One code does both jobs: into a
//! [`Count`] it measures, into a `Vec` it renders. The first pass over a large text measures and
//! keeps the state at check-points, from which any later read starts.

use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::number::{Number, byte_widths};
use super::{clamp, quote};
use crate::gguf::Endian;
use crate::source::{ReadError, Source};

/// Source bytes that one step looks at, and the bound for the text of a step up to a small factor.
pub const PIECE: usize = 4 << 10;

/// Source bytes read from the file at once: enough to make the system call cheap, and within the L2
/// cache.
const WINDOW: u64 = 64 << 10;

/// Text between two check-points; rendering it takes less time than asking the kernel for a page.
const SPACING: u64 = 64 << 10;

/// Most check-points of a text, about 100 KiB; beyond, their spacing is doubled.
pub const MAX_POINTS: usize = 1024;

/// A text, as the machine that renders it.
pub trait Text {
    /// Where a rendering stands. Small, since check-points keep a thousand.
    type State: Copy;

    /// The state before the first byte.
    fn start(&self) -> Self::State;

    /// Renders a little more, some [`PIECE`]s at most; false once it is all there.
    ///
    /// # Errors
    /// Source bytes cannot be had, or are no longer what they were when the model was opened.
    fn step<S: Sink>(
        &self,
        state: &mut Self::State,
        window: &mut Window<'_>,
        out: &mut S,
    ) -> Result<bool, ReadError>;
}

/// Where text goes.
pub trait Sink {
    /// Appends bytes.
    fn bytes(&mut self, bytes: &[u8]);

    /// Appends a number.
    fn number<N: Number>(&mut self, number: N);

    /// Appends bytes, those of a `width` above 1 as what `escape` makes of them.
    fn escaped(
        &mut self,
        bytes: &[u8],
        width: impl Fn(u8) -> u8,
        escape: impl Fn(u8) -> quote::Escape,
    ) {
        // Without an early exit, so that it vectorises: nearly all strings are plain.
        if !bytes.iter().fold(false, |any, b| any | (width(*b) > 1)) {
            return self.bytes(bytes);
        }
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|b| width(*b) > 1) {
            let (plain, special) = rest.split_at(at);
            let Some((byte, after)) = special.split_first() else { break };
            self.bytes(plain);
            self.bytes(escape(*byte).as_bytes());
            rest = after;
        }
        self.bytes(rest);
    }

    /// Appends an integer.
    fn decimal(&mut self, number: impl itoa::Integer) {
        self.bytes(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Appends the numbers of an array, each followed by `separator`.
    fn numbers<N: Number>(&mut self, raw: &[u8], endian: Endian, separator: u8) {
        for bytes in raw.chunks_exact(N::SIZE) {
            self.number(N::read(bytes, endian));
            self.bytes(&[separator]);
        }
    }
}

impl Sink for Vec<u8> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn number<N: Number>(&mut self, number: N) {
        number.write(self);
    }
}

/// Measures text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count(pub u64);

impl Sink for Count {
    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.0 += bytes.len() as u64;
    }

    #[inline]
    fn number<N: Number>(&mut self, number: N) {
        self.0 += u64::from(number.width());
    }

    fn escaped(&mut self, bytes: &[u8], width: impl Fn(u8) -> u8, _: impl Fn(u8) -> quote::Escape) {
        self.0 += byte_widths(bytes, width);
    }

    fn numbers<N: Number>(&mut self, raw: &[u8], endian: Endian, _separator: u8) {
        self.0 += N::widths(raw, endian) + (raw.len() / N::SIZE) as u64;
    }
}

/// Bytes of the first shard, which holds the metadata, read through a buffer.
#[derive(Debug)]
pub struct Window<'a> {
    source: &'a Source,
    buf: &'a mut Vec<u8>,
    start: u64,
    len: usize,
}

impl<'a> Window<'a> {
    /// An empty window with a buffer to use.
    pub fn new(source: &'a Source, buf: &'a mut Vec<u8>) -> Self {
        Window { source, buf, start: 0, len: 0 }
    }

    /// The `n` bytes from `at`, which end at or before `end`; more up to there is read ahead.
    pub fn bytes(&mut self, at: u64, n: usize, end: u64) -> Result<&[u8], ReadError> {
        let have = |start: u64, len: usize| {
            let skip = usize::try_from(at.checked_sub(start)?).ok()?;
            let stop = skip.checked_add(n)?;
            (stop <= len).then_some(skip..stop)
        };
        if have(self.start, self.len).is_none() {
            let stop = end.min(at.saturating_add(WINDOW));
            if stop.checked_sub(at).is_none_or(|room| room < n as u64) {
                return Err(changed());
            }
            self.len = 0;
            self.len = self.source.bytes(0, at..stop, self.buf)?.len();
            self.start = at;
        }
        have(self.start, self.len).and_then(|range| self.buf.get(range)).ok_or_else(changed)
    }
}

/// The error for a file that is no longer what was parsed.
pub fn changed() -> ReadError {
    let message = "the file has changed since it was opened";
    ReadError::Io(std::io::Error::new(std::io::ErrorKind::InvalidData, message))
}

/// Length of a whole text, bytes. Takes a pass over it.
pub fn measure<T: Text>(text: &T, window: &mut Window<'_>) -> Result<u64, ReadError> {
    let mut count = Count::default();
    let mut state = text.start();
    while text.step(&mut state, window, &mut count)? {}
    Ok(count.0)
}

/// An offset in a text, and the state there.
type Point<S> = (u64, S);

/// Renders the bytes `range` of a text, as far as it goes, into `out`, from a point at or before the
/// range. Returns where in `out` they are, and the point after all that was rendered.
pub fn render<T: Text>(
    text: &T,
    from: Point<T::State>,
    range: Range<u64>,
    window: &mut Window<'_>,
    out: &mut Vec<u8>,
) -> Result<(Range<usize>, Point<T::State>), ReadError> {
    out.clear();
    let (mut at, mut state) = from;
    let mut more = true;
    while more && at < range.start {
        let before = state;
        let mut count = Count::default();
        more = text.step(&mut state, window, &mut count)?;
        if at + count.0 > range.start {
            state = before;
            more = true;
            break;
        }
        at += count.0;
    }
    while more && at + (out.len() as u64) < range.end {
        more = text.step(&mut state, window, out)?;
    }
    let place = |offset: u64| out.len().min(offset.saturating_sub(at) as usize);
    Ok((place(range.start)..place(range.end), (at + out.len() as u64, state)))
}

/// What is remembered of a large text, so that it can be read anywhere.
#[derive(Debug)]
pub struct Index<S> {
    /// Length of the text, bytes.
    size: u64,
    /// Ascending; the first is the start.
    points: Vec<Point<S>>,
    /// Where the last read ended: a reader that goes on from there need not go back.
    last: Mutex<Point<S>>,
}

impl<S: Copy> Index<S> {
    fn build<T: Text<State = S>>(
        text: &T,
        max_points: usize,
        window: &mut Window<'_>,
    ) -> Result<Self, ReadError> {
        let mut state = text.start();
        let mut points = vec![(0, state)];
        let mut spacing = SPACING;
        let mut next = spacing;
        let mut count = Count::default();
        while text.step(&mut state, window, &mut count)? {
            if count.0 < next {
                continue;
            }
            points.push((count.0, state));
            if points.len() > max_points.max(1) {
                let mut nth = 0;
                points.retain(|_| {
                    nth += 1;
                    nth % 2 == 1
                });
                spacing *= 2;
            }
            next = count.0 + spacing;
        }
        points.shrink_to_fit();
        Ok(Index { size: count.0, points, last: Mutex::new((0, text.start())) })
    }

    /// Renders the bytes `range` of the text, which must be within its size, as a part of `out`.
    fn read<'a, T: Text<State = S>>(
        &self,
        text: &T,
        range: Range<u64>,
        window: &mut Window<'_>,
        out: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], ReadError> {
        let point = self.points.partition_point(|p| p.0 <= range.start).saturating_sub(1);
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let point = self.points.get(point).copied().unwrap_or((0, text.start()));
        let from = if (point.0..=range.start).contains(&last.0) { last } else { point };
        let len = range.end - range.start;
        let (place, end) = render(text, from, range, window, out)?;
        if (place.len() as u64) < len {
            return Err(changed());
        }
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = end;
        out.get(place).ok_or_else(changed)
    }
}

/// An index built when it is first needed. A pass that fails leaves nothing behind.
#[derive(Debug)]
pub struct Lazy<S> {
    index: OnceLock<Box<Index<S>>>,
    building: Mutex<()>,
    max_points: usize,
}

impl<S> Default for Lazy<S> {
    fn default() -> Self {
        Lazy::new(MAX_POINTS)
    }
}

impl<S> Lazy<S> {
    /// An index of this many check-points at most, at least one.
    pub fn new(max_points: usize) -> Self {
        Lazy { index: OnceLock::new(), building: Mutex::new(()), max_points }
    }
}

impl<S: Copy> Lazy<S> {
    /// Size of the text if it is known already.
    pub fn known_size(&self) -> Option<u64> {
        self.index.get().map(|index| index.size)
    }

    /// Size of the text, bytes.
    ///
    /// # Errors
    /// As [`Text::step`].
    pub fn size<T: Text<State = S>>(&self, text: &T, source: &Source) -> Result<u64, ReadError> {
        match self.known_size() {
            Some(size) => Ok(size),
            None => Ok(self.get(text, &mut Window::new(source, &mut Vec::new()))?.size),
        }
    }

    /// The bytes `range` of the text, as far as it goes: a part of `out`, rendered with `buf` for the
    /// model's bytes.
    ///
    /// # Errors
    /// As [`Text::step`], and where the text has become shorter than it was measured.
    pub fn read<'a, T: Text<State = S>>(
        &self,
        text: &T,
        range: Range<u64>,
        source: &Source,
        buf: &mut Vec<u8>,
        out: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], ReadError> {
        let mut window = Window::new(source, buf);
        let index = self.get(text, &mut window)?;
        let range = clamp(range, index.size);
        if range.is_empty() {
            return Ok(&[]);
        }
        index.read(text, range, &mut window, out)
    }

    /// The index, built by the first that asks while others wait.
    fn get<T: Text<State = S>>(
        &self,
        text: &T,
        window: &mut Window<'_>,
    ) -> Result<&Index<S>, ReadError> {
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        let _alone = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        let index = Box::new(Index::build(text, self.max_points, window)?);
        Ok(self.index.get_or_init(|| index))
    }
}
