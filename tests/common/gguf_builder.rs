//! GGUF files in memory, of any version and byte order, with every field open to being wrong.

/// The tensor types that tests name, by id.
pub const F32: u32 = 0;
pub const F16: u32 = 1;
pub const Q4_0: u32 = 2;
pub const Q5_0: u32 = 6;
pub const Q8_0: u32 = 8;
pub const Q4_K: u32 = 12;
pub const I8: u32 = 24;
pub const NVFP4: u32 = 40;
pub const Q2_0: u32 = 42;

/// A metadata value.
#[derive(Clone, Debug)]
pub enum Val {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    /// The byte as it is stored.
    Bool(u8),
    Str(Vec<u8>),
    /// The id of the element type, and the elements.
    Array(u32, Vec<Val>),
    U64(u64),
    I64(i64),
    F64(f64),
    /// A type id, and the value's bytes whatever they are.
    Raw(u32, Vec<u8>),
}

impl From<&str> for Val {
    fn from(s: &str) -> Val {
        Val::Str(s.into())
    }
}

impl From<u32> for Val {
    fn from(n: u32) -> Val {
        Val::U32(n)
    }
}

impl Val {
    pub fn id(&self) -> u32 {
        match self {
            Val::U8(_) => 0,
            Val::I8(_) => 1,
            Val::U16(_) => 2,
            Val::I16(_) => 3,
            Val::U32(_) => 4,
            Val::I32(_) => 5,
            Val::F32(_) => 6,
            Val::Bool(_) => 7,
            Val::Str(_) => 8,
            Val::Array(..) => 9,
            Val::U64(_) => 10,
            Val::I64(_) => 11,
            Val::F64(_) => 12,
            Val::Raw(id, _) => *id,
        }
    }
}

/// Numbers as one version and byte order write them.
#[derive(Clone, Copy, Debug)]
pub struct Encoding {
    pub version: u32,
    pub big: bool,
}

impl Encoding {
    pub fn number<const N: usize>(self, little: [u8; N]) -> Vec<u8> {
        let mut bytes = little.to_vec();
        if self.big {
            bytes.reverse();
        }
        bytes
    }

    pub fn u32(self, n: u32) -> Vec<u8> {
        self.number(n.to_le_bytes())
    }

    pub fn u64(self, n: u64) -> Vec<u8> {
        self.number(n.to_le_bytes())
    }

    /// A count or length: 32 bits in version 1.
    pub fn count(self, n: u64) -> Vec<u8> {
        if self.version == 1 { self.u32(n as u32) } else { self.u64(n) }
    }

    pub fn string(self, s: &[u8]) -> Vec<u8> {
        [self.count(s.len() as u64), s.to_vec()].concat()
    }

    pub fn value(self, value: &Val) -> Vec<u8> {
        match value {
            Val::U8(v) | Val::Bool(v) => vec![*v],
            Val::I8(v) => vec![*v as u8],
            Val::U16(v) => self.number(v.to_le_bytes()),
            Val::I16(v) => self.number(v.to_le_bytes()),
            Val::U32(v) => self.u32(*v),
            Val::I32(v) => self.number(v.to_le_bytes()),
            Val::F32(v) => self.number(v.to_le_bytes()),
            Val::Str(s) => self.string(s),
            Val::Array(element, values) => {
                let elements = values.iter().flat_map(|v| self.value(v));
                let head = [self.u32(*element), self.count(values.len() as u64)].concat();
                head.into_iter().chain(elements).collect()
            }
            Val::U64(v) => self.u64(*v),
            Val::I64(v) => self.number(v.to_le_bytes()),
            Val::F64(v) => self.number(v.to_le_bytes()),
            Val::Raw(_, bytes) => bytes.clone(),
        }
    }
}

#[derive(Clone, Debug)]
struct Tensor {
    name: Vec<u8>,
    id: u32,
    dims: Vec<u64>,
    n_dims: u32,
    offset: u64,
    data: Vec<u8>,
}

/// Collects keys and tensors and writes the file.
#[derive(Clone, Debug)]
pub struct GgufBuilder {
    encoding: Encoding,
    alignment: u64,
    keys: Vec<(Vec<u8>, Val)>,
    tensors: Vec<Tensor>,
    n_keys: Option<u64>,
    n_tensors: Option<u64>,
    /// Where the next tensor goes in the data section.
    next: u64,
    pad_last: bool,
}

impl GgufBuilder {
    /// Version 3, little-endian, alignment 32 without a key that says so.
    pub fn new() -> Self {
        GgufBuilder {
            encoding: Encoding { version: 3, big: false },
            alignment: 32,
            keys: Vec::new(),
            tensors: Vec::new(),
            n_keys: None,
            n_tensors: None,
            next: 0,
            pad_last: true,
        }
    }

    /// The small file most field reports start from: two keys, `a` F32 4x3 and `b` Q8_0 32x2.
    pub fn base() -> Self {
        let floats = (0..12u32).flat_map(|i| (i as f32).to_le_bytes()).collect::<Vec<u8>>();
        Self::new()
            .key("general.architecture", "llama")
            .key("llama.block_count", 2)
            .tensor("a", F32, &[4, 3], &floats)
            .tensor("b", Q8_0, &[32, 2], &(0..68).collect::<Vec<u8>>())
    }

    pub fn version(mut self, version: u32) -> Self {
        self.encoding.version = version;
        self
    }

    pub fn big_endian(mut self) -> Self {
        self.encoding.big = true;
        self
    }

    /// Aligns the data (of tensors added after this) and says so in `general.alignment`.
    pub fn alignment(mut self, alignment: u32) -> Self {
        self.alignment = alignment.into();
        self.key("general.alignment", alignment)
    }

    pub fn key(mut self, key: impl AsRef<[u8]>, value: impl Into<Val>) -> Self {
        self.keys.push((key.as_ref().into(), value.into()));
        self
    }

    /// A tensor after the last one, aligned.
    pub fn tensor(self, name: impl AsRef<[u8]>, id: u32, dims: &[u64], data: &[u8]) -> Self {
        let offset = self.next;
        self.tensor_at(name, id, dims, offset, data)
    }

    /// A tensor whose info says `offset` and whose data are there too.
    pub fn tensor_at(
        mut self,
        name: impl AsRef<[u8]>,
        id: u32,
        dims: &[u64],
        offset: u64,
        data: &[u8],
    ) -> Self {
        if !data.is_empty() {
            let end = offset + data.len() as u64;
            self.next = self.next.max(end.next_multiple_of(self.alignment));
        }
        self.tensors.push(Tensor {
            name: name.as_ref().into(),
            id,
            dims: dims.into(),
            n_dims: dims.len() as u32,
            offset,
            data: data.into(),
        });
        self
    }

    /// A tensor info and no data.
    pub fn info(self, name: impl AsRef<[u8]>, id: u32, dims: &[u64], offset: u64) -> Self {
        self.tensor_at(name, id, dims, offset, &[])
    }

    /// Lets the last tensor's info announce another number of dims than it has.
    pub fn n_dims(mut self, n_dims: u32) -> Self {
        self.tensors.last_mut().expect("a tensor").n_dims = n_dims;
        self
    }

    /// Lets the header announce another number of keys.
    pub fn announce_keys(mut self, count: u64) -> Self {
        self.n_keys = Some(count);
        self
    }

    /// Lets the header announce another number of tensors.
    pub fn announce_tensors(mut self, count: u64) -> Self {
        self.n_tensors = Some(count);
        self
    }

    /// Leaves out the padding after the last tensor.
    pub fn no_last_padding(mut self) -> Self {
        self.pad_last = false;
        self
    }

    /// Everything up to the data section, not padded.
    pub fn head(&self) -> Vec<u8> {
        let e = self.encoding;
        let mut out = b"GGUF".to_vec();
        out.extend(e.u32(e.version));
        out.extend(e.count(self.n_tensors.unwrap_or(self.tensors.len() as u64)));
        out.extend(e.count(self.n_keys.unwrap_or(self.keys.len() as u64)));
        for (key, value) in &self.keys {
            out.extend(e.string(key));
            out.extend(e.u32(value.id()));
            out.extend(e.value(value));
        }
        for tensor in &self.tensors {
            out.extend(e.string(&tensor.name));
            out.extend(e.u32(tensor.n_dims));
            out.extend(tensor.dims.iter().flat_map(|d| e.count(*d)));
            out.extend(e.u32(tensor.id));
            out.extend(e.u64(tensor.offset));
        }
        out
    }

    pub fn build(&self) -> Vec<u8> {
        let mut out = self.head();
        if self.tensors.is_empty() {
            return out;
        }
        let start = (out.len() as u64).next_multiple_of(self.alignment) as usize;
        out.resize(start, 0);
        for tensor in self.tensors.iter().filter(|t| !t.data.is_empty()) {
            let at = start + tensor.offset as usize;
            out.resize(out.len().max(at + tensor.data.len()), 0);
            out[at..at + tensor.data.len()].copy_from_slice(&tensor.data);
        }
        if self.pad_last {
            out.resize(out.len().max(start + self.next as usize), 0);
        }
        out
    }
}
