#!/usr/bin/env python3
"""Write a model folder of the Whisper architecture that vLLM can serve with --load-format dummy.

    make_whisper.py OUT --tokenizer-from FOLDER

Nothing is downloaded: the words are those of the folder's tokenizer, followed by Whisper's own special tokens (languages,
tasks, timestamps); vLLM makes the weights up. It hears windows of 30 seconds in 1500 positions, as the real one does.
"""
import argparse
import json
import os


def special_tokens() -> list[str]:
    from transformers.models.whisper.tokenization_whisper import LANGUAGES

    tasks = ["translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps"]
    names = ["startoftranscript", *LANGUAGES, *tasks, *(f"{tick / 50:.2f}" for tick in range(1501))]
    return [f"<|{name}|>" for name in names]


def main() -> None:
    from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperProcessor, WhisperTokenizer

    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--tokenizer-from", required=True)
    args = parser.parse_args()
    with open(os.path.join(args.tokenizer_from, "tokenizer.json"), encoding="utf-8") as handle:
        words = json.load(handle)["model"]
    tokenizer = WhisperTokenizer(vocab=words["vocab"], merges=[tuple(pair) for pair in words["merges"]])
    tokenizer.add_special_tokens({"additional_special_tokens": special_tokens()})
    config = WhisperConfig(
        architectures=["WhisperForConditionalGeneration"], vocab_size=len(tokenizer), d_model=64, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=128, decoder_ffn_dim=128,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id or 0,
        decoder_start_token_id=tokenizer.convert_tokens_to_ids("<|startoftranscript|>"), dtype="float32",
    )
    config.save_pretrained(args.out)
    WhisperProcessor(WhisperFeatureExtractor(feature_size=config.num_mel_bins), tokenizer).save_pretrained(args.out)
    print("wrote", args.out, "vocab", len(tokenizer))


if __name__ == "__main__":
    main()
