#!/usr/bin/env python3
"""Write a LoRA adapter with random weights for a model folder of make_model.py.

    make_lora.py OUT --model FOLDER [--seed 1] [--rank 8]

The weights are large beside vLLM's made-up ones, so that the adapter's output differs from that of the base model.
"""
import argparse
import json
import os

TARGETS = ["q_proj", "v_proj", "o_proj"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--model", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rank", type=int, default=8)
    args = parser.parse_args()
    import torch
    from safetensors.torch import save_file

    with open(os.path.join(args.model, "config.json"), encoding="utf-8") as handle:
        config = json.load(handle)
    hidden = config["hidden_size"]
    head = hidden // config["num_attention_heads"]
    outputs = {"q_proj": hidden, "v_proj": head * config["num_key_value_heads"], "o_proj": hidden}
    torch.manual_seed(args.seed)
    weights = {}
    for layer in range(config["num_hidden_layers"]):
        for target in TARGETS:
            name = f"base_model.model.model.layers.{layer}.self_attn.{target}"
            weights[f"{name}.lora_A.weight"] = torch.randn(args.rank, hidden)
            weights[f"{name}.lora_B.weight"] = torch.randn(outputs[target], args.rank)
    os.makedirs(args.out, exist_ok=True)
    save_file(weights, os.path.join(args.out, "adapter_model.safetensors"))
    settings = dict(
        peft_type="LORA", task_type="CAUSAL_LM", r=args.rank, lora_alpha=2 * args.rank, lora_dropout=0.0, bias="none",
        target_modules=TARGETS, base_model_name_or_path=args.model, inference_mode=True,
    )
    with open(os.path.join(args.out, "adapter_config.json"), "w", encoding="utf-8") as handle:
        json.dump(settings, handle)


main()
