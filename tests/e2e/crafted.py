"""GGUF files byte by byte: what a test wants to write, right or wrong, is what it gets.

A `File` holds keys and tensors and lays the tensors out one after the other; `offsets`, `counts`
and `tail` bend the result. Element types are numbers, so that unknown ones can be written.
"""

import struct
from dataclasses import dataclass, field

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMATS = {
    U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q",
    I64: "q", F64: "d",
}  # fmt: skip


def text(value):
    return value if isinstance(value, bytes) else value.encode()


@dataclass
class File:
    """One GGUF file: `data = File().key(…).tensor(…).build()`."""

    version: int = 3
    order: str = "<"
    alignment: int = 32
    keys: list = field(default_factory=list)
    tensors: list = field(default_factory=list)

    def key(self, name, kind, value):
        """`kind` is a value type, or (ARRAY, element type)."""
        self.keys.append((name, kind, value))
        return self

    def tensor(self, name, kind, dims, data):
        """`dims` innermost first, `kind` a tensor type's number, `data` the bytes as stored."""
        self.tensors.append((name, kind, dims, data))
        return self

    def pack(self, form, *values):
        return struct.pack(self.order + form, *values)

    def count(self, number):
        return self.pack("I" if self.version == 1 else "Q", number)

    def string(self, value):
        return self.count(len(text(value))) + text(value)

    def value(self, kind, value):
        if isinstance(kind, tuple):
            head = self.pack("I", kind[1]) + self.count(len(value))
            if kind[1] in FORMATS:
                return head + self.pack(f"{len(value)}{FORMATS[kind[1]]}", *value)
            return head + b"".join(self.value(kind[1], each) for each in value)
        if kind == STRING:
            return self.string(value)
        if kind == ARRAY:  # an array inside an array: value is (element type, elements)
            return self.value((ARRAY, value[0]), value[1])
        return self.pack(FORMATS[kind], value) if kind in FORMATS else value

    def offsets(self):
        """Where each tensor starts, from the start of the data section."""
        at, result = 0, []
        for _, _, _, data in self.tensors:
            result.append(at)
            at += len(data) + -len(data) % self.alignment
        return result

    def header(self, offsets=None, counts=None):
        """All before the data section, padded to it."""
        keys = list(self.keys)
        if self.alignment != 32:
            keys.insert(0, ("general.alignment", U32, self.alignment))
        tensor_count, key_count = counts or (len(self.tensors), len(keys))
        out = [b"GGUF", self.pack("I", self.version)]
        out += [self.count(tensor_count), self.count(key_count)]
        for name, kind, value in keys:
            number = kind[0] if isinstance(kind, tuple) else kind
            out += [self.string(name), self.pack("I", number), self.value(kind, value)]
        for (name, kind, dims, _), offset in zip(self.tensors, offsets or self.offsets()):
            out += [self.string(name), self.pack("I", len(dims)), *map(self.count, dims)]
            out += [self.pack("I", kind), self.pack("Q", offset)]
        head = b"".join(out)
        return head + bytes(-len(head) % self.alignment)

    def write(self, file):
        """The header, and holes for the tensors' bytes, of which only the lengths count; where those
        start."""
        header = self.header()
        file.write(header)
        file.truncate(len(header) + self.offsets()[-1] + len(self.tensors[-1][3]))
        return len(header)

    def build(self, offsets=None, counts=None, tail=b""):
        """The whole file, its last tensor padded too, and `tail` after it."""
        body = b"".join(data + bytes(-len(data) % self.alignment) for *_, data in self.tensors)
        return self.header(offsets, counts) + body + tail


def read_by(reader):
    """The file that gguf-py has read, to be changed."""
    file = File(alignment=reader.alignment)
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.alignment":
            kinds, parts = tuple(map(int, field.types)), (field.parts[at] for at in field.data)
            values = [bytes(part) if kinds[-1] == STRING else part[0].item() for part in parts]
            listed = kinds[0] == ARRAY
            file.key(name, kinds if listed else kinds[0], values if listed else values[0])
    for t in reader.tensors:
        file.tensor(t.name, int(t.tensor_type), [int(n) for n in t.shape], t.data.tobytes())
    return file


def holes(file):
    """64 GiB of holes: 1,200 Q4_K tensors, a small one after them, 262,144 tokens."""
    model, count = File().key("general.architecture", STRING, "llama"), 262_144
    model.key("general.name", STRING, "Huge")
    model.key("tokenizer.ggml.tokens", (ARRAY, STRING), [f"token {i * 7919}" for i in range(count)])
    model.key("tokenizer.ggml.scores", (ARRAY, F32), [-float(i) for i in range(count)])
    model.key("tokenizer.ggml.token_type", (ARRAY, I32), [1] * count)
    columns, row_bytes = 4096, 4096 // 256 * 144
    rows = (64 << 30) // 1200 // row_bytes
    for i in range(1200):
        name = f"blk.{i // 12}.part_{i % 12}.weight"
        model.tensor(name, 12, [columns, rows], range(rows * row_bytes))
    model.tensor("output_norm.weight", 0, [columns], range(4 * columns)).write(file)


def base():
    """Two keys and two tensors: F32 `a` of 4x3 and Q8_0 `b` of 32x2."""
    floats = struct.pack("<12f", *(n / 4 - 1 for n in range(12)))
    blocks = bytes.fromhex("003c") + bytes(range(32)) + bytes.fromhex("00c0") + bytes(range(200, 232))
    return (
        File()
        .key("general.architecture", STRING, "test")
        .key("test.block_count", U32, 1)
        .tensor("a", 0, [4, 3], floats)
        .tensor("b", 8, [32, 2], blocks)
    )
