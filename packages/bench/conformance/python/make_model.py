#!/usr/bin/env python3
"""Write a model folder of the Qwen2 architecture that vLLM can serve with --load-format dummy.

    make_model.py OUT [--size tiny|small] [--vocab 2048] [--tokenizer-from FOLDER]

Nothing is downloaded. The tokenizer is a byte-level BPE with Qwen2's normaliser and word splitting, trained here on
the sources of Python's standard library (the same for one Python version); vLLM makes the weights up. The vocabulary
is small so that the tests can carry it.
"""
import argparse
import glob
import json
import os
import shutil
import sysconfig

SIZES = {
    "tiny": dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, intermediate_size=128),
    "small": dict(hidden_size=512, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4, intermediate_size=1536),
}
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train(out: str, vocab: int) -> int:
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(WORDS), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    files = sorted(glob.glob(os.path.join(sysconfig.get_paths()["stdlib"], "*.py")))[:120]

    def texts():
        for file in files:
            with open(file, encoding="utf-8", errors="replace") as handle:
                yield handle.read()

    trainer = trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=SPECIALS, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(texts(), trainer)
    tokenizer.save(os.path.join(out, "tokenizer.json"), pretty=False)
    return tokenizer.get_vocab_size()


def copy_tokenizer(source: str, out: str) -> int:
    path = os.path.join(source, "tokenizer.json")
    shutil.copy(path, out)
    with open(path, encoding="utf-8") as handle:
        tokenizer = json.load(handle)
    ids = list(tokenizer["model"]["vocab"].values()) + [token["id"] for token in tokenizer["added_tokens"]]
    return max(ids) + 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--size", default="tiny", choices=SIZES)
    parser.add_argument("--vocab", type=int, default=2048)
    parser.add_argument("--max-len", type=int, default=32768)
    parser.add_argument("--tokenizer-from", help="copy tokenizer.json from this folder instead of training one")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    vocab = copy_tokenizer(args.tokenizer_from, args.out) if args.tokenizer_from else train(args.out, args.vocab)
    with open(os.path.join(os.path.dirname(__file__), "chat_template.jinja"), encoding="utf-8") as handle:
        template = handle.read()
    config = dict(
        architectures=["Qwen2ForCausalLM"], model_type="qwen2", vocab_size=vocab, hidden_act="silu", initializer_range=0.02,
        max_position_embeddings=args.max_len, rms_norm_eps=1e-6, rope_theta=1000000.0, tie_word_embeddings=True, use_cache=True,
        use_sliding_window=False, attention_dropout=0.0, bos_token_id=0, eos_token_id=2, torch_dtype="float32", **SIZES[args.size],
    )
    tokenizer_config = dict(
        tokenizer_class="PreTrainedTokenizerFast", model_max_length=args.max_len, add_bos_token=False, add_prefix_space=False,
        clean_up_tokenization_spaces=False, bos_token=None, eos_token="<|im_end|>", pad_token="<|endoftext|>", unk_token=None,
        additional_special_tokens=["<|im_start|>", "<|im_end|>"], chat_template=template,
    )
    generation = dict(bos_token_id=0, eos_token_id=[2, 0], pad_token_id=0, do_sample=False)
    for name, content in (("config", config), ("tokenizer_config", tokenizer_config), ("generation_config", generation)):
        with open(os.path.join(args.out, f"{name}.json"), "w", encoding="utf-8") as handle:
            json.dump(content, handle, indent=1)
            handle.write("\n")
    print("wrote", args.out, "size", args.size, "vocab", vocab)


if __name__ == "__main__":
    main()
