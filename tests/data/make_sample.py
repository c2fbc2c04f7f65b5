#!/usr/bin/env python3
"""Makes sample.gguf beside this file: a small model that looks like a real one.

The same bytes every time. Weights are noise: quantized by gguf-py where it can, else random
blocks of the type with scales that give values of the usual size.
"""

import pathlib

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFWriter, LlamaFileType, TokenType
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import quantize

EMBED, HIDDEN, EXPERTS, BLOCKS = 256, 128, 4, 3

TEMPLATE = """\
{{- bos_token -}}
{#- Tokens of this family are written with U+FF5C and U+2581: <｜user｜>, <｜end▁of▁turn｜>. -#}
{%- for message in messages %}
{{ '<｜' + message['role'] + '｜>\\n' + message['content'] | trim + '<｜end▁of▁turn｜>' }}
{%- endfor %}
{%- if add_generation_prompt %}
<｜assistant｜> 🦙
{%- endif %}"""

# Tokens that a line of text or a UTF-8 reader could stumble over.
ODD_TOKENS = [
    "\n", "\n\n", "\r\n", "\t", "\\", "\\n", "\\\\", " ", "", '"quoted"', "#", "- ", "▁", "▁▁",
    "▁the", "▁naïve", "日本語", "🦙", "e\u0301", "\u202e", "\x00", "\x1b[31m", "\x7f", "\u0085",
    b"\xff\xfe", b"\x80", b"\xe2\x96", b"ok\xc3", b"\xed\xa0\x80",
]  # fmt: skip
PIECES = ["th", "in", "er", "an", "on", "re", "at", "en", "or", "es", "is", "it", "▁t", "▁a", "▁s"]

# Byte offset of each f16 scale in a block, and the size it usually has.
SCALES = {
    T.Q2_K: {80: 2e-3, 82: 3e-3},
    T.Q3_K: {108: 2e-4},
    T.Q4_K: {0: 1e-4, 2: 7e-4},
    T.Q5_K: {0: 6e-5, 2: 9e-4},
    T.Q6_K: {208: 2e-5},
    T.IQ4_NL: {0: 3e-4},
    T.IQ4_XS: {0: 2e-5},
    T.IQ3_S: {0: 2e-4},
}


def random_blocks(rng, kind, shape):
    elements, size = GGML_QUANT_SIZES[kind]
    rows, count = int(np.prod(shape[:-1])), shape[-1] // elements
    blocks = rng.integers(0, 256, (rows * count, size), dtype=np.uint8)
    for at, scale in SCALES[kind].items():
        scales = (scale * rng.uniform(0.5, 1.5, rows * count)).astype("<f2")
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(*shape[:-1], count * size)


def add(writer, rng, name, kind, *shape):
    centre = 1 if name.endswith("_norm.weight") else 0
    values = rng.normal(centre, 0.02, shape).astype(np.float32)
    match kind:
        case T.F32:
            writer.add_tensor(name, values)
        case T.F16:
            writer.add_tensor(name, values.astype(np.float16))
        case _ if kind in SCALES:
            writer.add_tensor(name, random_blocks(rng, kind, shape), raw_dtype=kind)
        case _:
            writer.add_tensor(name, quantize(values, kind), raw_dtype=kind)


def metadata(writer):
    writer.add_type("model")
    writer.add_name("Sample Llama")
    writer.add_author("the gguf-fs developers")
    writer.add_version("v1.0")
    writer.add_description("Random weights in the shape of a small llama.\nOf no use but to look at.")
    writer.add_size_label("0.6M")
    writer.add_license("mit")
    writer.add_tags(["sample", "text-generation"])
    writer.add_languages(["en", "de", "ja"])
    writer.add_vocab_size(3 + 256 + len(ODD_TOKENS) + len(PIECES))
    writer.add_context_length(2048)
    writer.add_embedding_length(EMBED)
    writer.add_block_count(BLOCKS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(8)
    writer.add_head_count_kv([4, 4, 2])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(EMBED // 8)
    writer.add_rope_freq_base(10000.0)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(2)
    writer.add_file_type(LlamaFileType.MOSTLY_Q4_K_M)
    writer.add_quantization_version(2)
    writer.add_float64("llama.training.loss", 2.718281828459045)
    writer.add_uint64("llama.training.tokens", 2**53 + 1)
    writer.add_int64("llama.training.seed", -(2**40) - 1)


def vocabulary(writer):
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *ODD_TOKENS, *PIECES]
    kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL] + [TokenType.BYTE] * 256
    kinds += [TokenType.NORMAL] * (len(tokens) - len(kinds))
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 259 + [-0.1 * i for i in range(len(tokens) - 259)])
    writer.add_token_types(kinds)
    writer.add_token_merges([f"{piece[0]} {piece[1]}" for piece in PIECES])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_chat_template(TEMPLATE)


def tensors(writer, rng):
    add(writer, rng, "token_embd.weight", T.Q6_K, 3 + 256 + len(ODD_TOKENS) + len(PIECES), EMBED)
    add(writer, rng, "rope_freqs.weight", T.F32, EMBED // 16)
    attention = [(T.Q4_K, T.Q4_K, T.Q6_K), (T.Q5_K, T.Q3_K, T.Q2_K), (T.IQ4_NL, T.IQ4_XS, T.IQ3_S)]
    gates = [(T.Q4_0, T.Q4_1), (T.Q5_0, T.Q5_1), (T.MXFP4, T.Q8_0)]
    for block in range(BLOCKS):
        name = f"blk.{block}."
        q, k, v = attention[block]
        add(writer, rng, name + "attn_norm.weight", T.F32, EMBED)
        add(writer, rng, name + "attn_q.weight", q, EMBED, EMBED)
        add(writer, rng, name + "attn_k.weight", k, EMBED // 4, EMBED)
        add(writer, rng, name + "attn_v.weight", v, EMBED // 4, EMBED)
        add(writer, rng, name + "attn_output.weight", q, EMBED // 2, EMBED)
        gate, up = gates[block]
        add(writer, rng, name + "ffn_norm.weight", T.F32, EMBED)
        if block == BLOCKS - 1:
            add(writer, rng, name + "ffn_gate_inp.weight", T.BF16, EXPERTS, EMBED)
            add(writer, rng, name + "ffn_gate_exps.weight", gate, EXPERTS, HIDDEN // 4, EMBED)
            add(writer, rng, name + "ffn_up_exps.weight", up, EXPERTS, HIDDEN // 4, EMBED)
            add(writer, rng, name + "ffn_down_exps.weight", T.F16, EXPERTS, EMBED // 8, HIDDEN // 4)
        else:
            add(writer, rng, name + "ffn_gate.weight", gate, HIDDEN // 2, EMBED)
            add(writer, rng, name + "ffn_up.weight", up, HIDDEN // 2, EMBED)
            add(writer, rng, name + "ffn_down.weight", T.Q8_0, EMBED // 4, HIDDEN)
    add(writer, rng, "output_norm.weight", T.F32, EMBED)
    writer.add_tensor("output.scale", np.array([-1.0, 300.5, 1e300], np.float64))
    writer.add_tensor("position_ids", np.arange(8, dtype=np.int32))


def main():
    writer = GGUFWriter(pathlib.Path(__file__).with_name("sample.gguf"), "llama")
    metadata(writer)
    vocabulary(writer)
    tensors(writer, np.random.Generator(np.random.PCG64(2026)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
