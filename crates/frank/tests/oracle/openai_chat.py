"""Streams an answer of a real model through the openai package.

Usage: openai_chat.py BASE_URL MODEL. Prints the answer.
"""

import sys

import openai

base_url, model = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=120)
stream = client.chat.completions.create(
    model=model,
    messages=[{"role": "user", "content": "What is the capital of France, and what is it known for?"}],
    temperature=0,
    max_tokens=100,
    stream=True,
    stream_options={"include_usage": True},
)
chunks = list(stream)
text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
assert len(chunks) > 20, "the answer came in pieces"
assert chunks[-2].choices[0].finish_reason == "stop", chunks[-2]
assert chunks[-1].usage.completion_tokens > 20, chunks[-1]
whole = client.chat.completions.create(
    model=model,
    messages=[{"role": "user", "content": "What is the capital of France, and what is it known for?"}],
    temperature=0,
    max_tokens=100,
)
assert whole.choices[0].message.content == text, "streamed and whole answers differ"
print(text)
