#!/usr/bin/env python3
"""Write a model folder of the LLaVA architecture that vLLM can serve with --load-format dummy.

    make_llava.py OUT --tokenizer-from FOLDER

Nothing is downloaded: the words are those of the folder's tokenizer and `<image>`; vLLM makes the weights up. An image
becomes 16 tokens.
"""
import argparse
import os

SIZE, PATCH = 56, 14
TURN = (
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{% if part.type == 'text' %}{{ part.text }}{% else %}<image>{% endif %}{% endfor %}{% endif %}"
)
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n" + TURN + "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def main() -> None:
    from transformers import CLIPImageProcessor, CLIPVisionConfig, LlavaConfig, LlavaProcessor, PreTrainedTokenizerFast, Qwen2Config

    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--tokenizer-from", required=True)
    args = parser.parse_args()
    words = os.path.join(args.tokenizer_from, "tokenizer.json")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=words, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>", "<image>"]})
    layers = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2)
    LlavaConfig(
        architectures=["LlavaForConditionalGeneration"], dtype="float32", image_seq_length=(SIZE // PATCH) ** 2,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"), vision_feature_layer=-2, vision_feature_select_strategy="default",
        text_config=Qwen2Config(
            **layers, num_key_value_heads=2, vocab_size=len(tokenizer), max_position_embeddings=4096, tie_word_embeddings=True,
            bos_token_id=0, eos_token_id=2,
        ),
        vision_config=CLIPVisionConfig(**layers, image_size=SIZE, patch_size=PATCH, projection_dim=64),
    ).save_pretrained(args.out)
    LlavaProcessor(
        CLIPImageProcessor(size={"shortest_edge": SIZE}, crop_size={"height": SIZE, "width": SIZE}), tokenizer, patch_size=PATCH,
        vision_feature_select_strategy="default", chat_template=TEMPLATE, image_token="<image>", num_additional_image_tokens=1,
    ).save_pretrained(args.out)
    print("wrote", args.out, "vocab", len(tokenizer))


if __name__ == "__main__":
    main()
