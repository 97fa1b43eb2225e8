"""Writes a llama model with random weights and the vocabulary of a GGUF file, for llama.cpp's server.

usage: make_gguf.py VOCAB.gguf OUT.gguf   (needs the package gguf)
"""
import sys

import gguf
import numpy

WIDTH, HEADS, LAYERS, HIDDEN, CONTEXT = 64, 4, 2, 128, 2048


def copy_tokenizer(reader, writer):
    """Copies the keys tokenizer.* and returns the number of tokens."""
    count = 0
    for field in reader.fields.values():
        if not field.name.startswith("tokenizer."):
            continue
        kind = field.types[0]
        item = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, item)
        if field.name == "tokenizer.ggml.tokens":
            count = len(field.data)
    return count


def main(vocabulary, out):
    reader = gguf.GGUFReader(vocabulary)
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    tokens = copy_tokenizer(reader, writer)
    random = numpy.random.default_rng(1)

    def weight(name, *shape):
        scale = 0.02 if len(shape) > 1 else 0.0
        values = random.normal(0.0, scale, shape) if scale else numpy.ones(shape)
        writer.add_tensor(name, values.astype(numpy.float32))

    weight("token_embd.weight", tokens, WIDTH)
    weight("output_norm.weight", WIDTH)
    weight("output.weight", tokens, WIDTH)
    for layer in range(LAYERS):
        weight(f"blk.{layer}.attn_norm.weight", WIDTH)
        weight(f"blk.{layer}.ffn_norm.weight", WIDTH)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weight(f"blk.{layer}.{part}.weight", WIDTH, WIDTH)
        weight(f"blk.{layer}.ffn_gate.weight", HIDDEN, WIDTH)
        weight(f"blk.{layer}.ffn_up.weight", HIDDEN, WIDTH)
        weight(f"blk.{layer}.ffn_down.weight", WIDTH, HIDDEN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main(*sys.argv[1:3])
