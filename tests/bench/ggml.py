"""ggml's table of types and its C decoders, called through ctypes in two packages' libraries."""

import ctypes
import importlib.util
import mmap
import pathlib
import time
from typing import NamedTuple

DECODER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
LIBRARIES = {"xllamacpp": "xllamacpp*.so", "libggml": "lib64/libggml-base.so"}


class Traits(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("block_len", ctypes.c_int64),
        ("interleave", ctypes.c_int64),
        ("block_bytes", ctypes.c_size_t),
        ("quantized", ctypes.c_bool),
        ("to_float", ctypes.c_void_p),
        ("from_float", ctypes.c_void_p),
    ]


class Type(NamedTuple):
    """A tensor type: elements and bytes of a block."""

    id: int
    name: str
    block_len: int
    block_bytes: int

    def bytes(self, elements):
        return elements // self.block_len * self.block_bytes


def library(package, pattern):
    folder = pathlib.Path(importlib.util.find_spec(package).origin).parent
    [path] = folder.glob(pattern)
    lib = ctypes.CDLL(str(path))
    lib.ggml_get_type_traits.restype = ctypes.POINTER(Traits)
    lib.ggml_version.restype = ctypes.c_char_p
    return lib


LIBS = {package: library(package, pattern) for package, pattern in LIBRARIES.items()}


def types():
    """Every type that ggml has, in the order of their ids; retired ones have no block."""
    for id in range(43):
        traits = LIBS["xllamacpp"].ggml_get_type_traits(id).contents
        if traits.block_len > 0 and traits.block_bytes > 0:
            yield Type(id, traits.name.decode().upper(), traits.block_len, traits.block_bytes)


TYPES = list(types())


def decoders(kind):
    """ggml's decoders of a type, one a library: f(source address, floats' address, elements).

    None for the plain types that ggml only stores, F32 among them, and for Q8_1.
    """
    for lib in LIBS.values():
        address = lib.ggml_get_type_traits(kind.id).contents.to_float
        if address:
            yield DECODER(address)
        elif kind.name == "Q8_K":
            yield DECODER(("dequantize_row_q8_K", lib))


def speed(kind, blocks, elements, seconds=0.05):
    """Elements a second of the better of ggml's decoders, less the cost of the call; or None."""
    source, floats = aligned(len(blocks)), aligned(4 * elements)
    ctypes.memmove(source, blocks, len(blocks))
    best = None
    for decode in decoders(kind):
        cost = least_seconds(decode, source, floats, elements, seconds)
        cost -= least_seconds(decode, source, floats, 0, seconds / 10)
        best = max(best or 0, elements / cost)
    return best


def aligned(size):
    """Memory at the start of a page."""
    return (ctypes.c_char * size).from_buffer(mmap.mmap(-1, size))


def least_seconds(decode, source, floats, count, seconds):
    """The best of many runs, as for the project's own decoders."""
    least, end = 1, time.perf_counter() + seconds
    source, floats = ctypes.addressof(source), ctypes.addressof(floats)
    while (start := time.perf_counter()) < end:
        decode(source, floats, count)
        least = min(least, time.perf_counter() - start)
    return least
