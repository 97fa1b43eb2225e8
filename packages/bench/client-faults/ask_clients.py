"""Asks through one client for Python and prints what it saw of each case: `ask_clients.py CLIENT URL KEY CASES`."""

import json
import sys


def openai_python(url: str, key: str) -> dict:
    import openai

    client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=20)

    def chat(content: str, stream: bool) -> str:
        answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": content}], stream=stream)
        if not stream:
            return answer.choices[0].message.content
        return "".join(event.choices[0].delta.content or "" for event in answer if event.choices)

    def responses(content: str, stream: bool) -> str:
        answer = client.responses.create(model="m", input=content, stream=stream)
        if not stream:
            return answer.output_text
        return "".join(event.delta for event in answer if event.type == "response.output_text.delta")

    return {"chat": chat, "responses": responses}


def anthropic_python(url: str, key: str) -> dict:
    import anthropic

    client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=20)

    def body(content: str) -> dict:
        return {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": content}]}

    def messages(content: str, stream: bool) -> str:
        answer = client.messages.create(**body(content), stream=stream)
        if not stream:
            return answer.content[0].text
        return "".join(event.delta.text for event in answer if event.type == "content_block_delta")

    def helper(content: str, stream: bool) -> str | None:
        if not stream:
            return None
        with client.messages.stream(**body(content)) as opened:
            return opened.get_final_text()

    return {"messages": messages, "messages (stream helper)": helper}


if __name__ == "__main__":
    which, address, secret, cases = sys.argv[1:5]
    protocols = {"openai-python": openai_python, "anthropic-python": anthropic_python}[which](address, secret)
    seen = []
    for case in json.loads(cases):
        for protocol, ask in protocols.items():
            one = {"protocol": protocol, "fault": case["fault"]}
            try:
                text = ask(case["prompt"], case["stream"])
                if text is not None:
                    seen.append({**one, "raised": None, "text": text})
            except Exception as error:
                response = getattr(error, "response", None)
                wait = response.headers.get("retry-after") if response is not None else None
                status = getattr(error, "status_code", None)
                seen.append({**one, "raised": type(error).__name__, "status": status, "retryAfter": wait})
    print(json.dumps(seen))
