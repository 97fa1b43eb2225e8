#!/usr/bin/env python3
"""LangChain and LiteLLM against a gateway: text, streams with usage, tools, an unknown model. Prints one JSON line.

    foreign_clients.py langchain|litellm BASE_URL KEY MODEL
"""
import json
import os
import sys

os.environ.update(LANGSMITH_TRACING="false", LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_TELEMETRY="False")

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather now",
        "parameters": {"type": "object", "properties": {"unit": {"type": "string", "enum": ["c", "f"]}}, "required": ["unit"]},
    },
}
TURNS = [("system", "Be brief."), ("user", "Hello"), ("assistant", "Hello."), ("user", "And then? 👋🏽")]


def langchain(url: str, key: str, model: str) -> dict:
    import langchain_openai
    import openai
    from importlib.metadata import version

    def chat(**more):
        return langchain_openai.ChatOpenAI(base_url=url, api_key=key, max_retries=0, temperature=0, **{"model": model, "max_tokens": 8, "stream_usage": True, **more})

    whole = chat().invoke(TURNS)
    text, usage = "", None
    for piece in chat().stream(TURNS):
        text += piece.content
        usage = piece.usage_metadata or usage
    # As a stream: made-up weights never end a call, and of a whole answer LangChain takes no arguments that are cut off.
    called = chat(max_tokens=64).bind_tools([TOOL], tool_choice="required").stream(TURNS)
    tools = [call["name"] for piece in called for call in piece.tool_call_chunks if call["name"]]
    try:
        chat(model="nope").invoke(TURNS)
        error = "none"
    except openai.NotFoundError as raised:
        error = type(raised).__name__
    batch = chat().batch([TURNS] * 4, config={"max_concurrency": 4})
    return {
        "version": version("langchain-openai"), "text": whole.content, "stream": text, "output_tokens": usage["output_tokens"],
        "tool": " ".join(tools),
        "unknown_model": error, "batch": len({answer.content for answer in batch}),
    }


def litellm(url: str, key: str, model: str) -> dict:
    import litellm as client
    from importlib.metadata import version

    turns = [{"role": role, "content": content} for role, content in TURNS]
    common = dict(api_base=url, api_key=key, temperature=0, num_retries=0, messages=turns)
    whole = client.completion(model=f"openai/{model}", max_tokens=8, **common)
    text, tokens = "", None
    for piece in client.completion(model=f"openai/{model}", max_tokens=8, stream=True, stream_options={"include_usage": True}, **common):
        if piece.choices:
            text += piece.choices[0].delta.content or ""
        usage = getattr(piece, "usage", None)
        tokens = usage.completion_tokens if usage else tokens
    called = client.completion(model=f"openai/{model}", max_tokens=64, tools=[TOOL], tool_choice="required", **common)
    try:
        client.completion(model="openai/nope", max_tokens=1, **common)
        error = "none"
    except client.NotFoundError as raised:
        error = type(raised).__name__
    return {
        "version": version("litellm"), "text": whole.choices[0].message.content, "stream": text, "output_tokens": tokens,
        "tool": called.choices[0].message.tool_calls[0].function.name, "unknown_model": error, "batch": 1,
    }


if __name__ == "__main__":
    which, url, key, model = sys.argv[1:5]
    try:
        print(json.dumps({"langchain": langchain, "litellm": litellm}[which](url, key, model)))
    except Exception as raised:  # One line is what the table has room for.
        sys.exit(f"{type(raised).__name__}: {raised}")
