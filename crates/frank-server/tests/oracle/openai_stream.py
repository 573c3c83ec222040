"""Asks an endpoint through the openai package and checks what it makes of the replies.

Usage: openai_stream.py BASE_URL KEY. The endpoint answers everything with "Hello 😀.", one byte for each token.
"""

import sys

import openai

ANSWER = "Hello \N{GRINNING FACE}."
N_TOKENS = len(ANSWER.encode())
MESSAGES = [{"role": "developer", "content": "Be short."}, {"role": "user", "content": "Hi"}]


def main(base_url, key):
    client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=60)
    check_whole(client)
    check_stream(client)
    check_completions(client)
    check_choices(client)
    check_logprobs(client)
    check_sampling(client)
    check_models(client)
    check_errors(client, base_url)


def check_whole(client):
    reply = client.chat.completions.create(model="scripted", messages=MESSAGES, temperature=0, seed=1, user="u")
    assert reply.choices[0].message.content == ANSWER, reply
    assert reply.choices[0].finish_reason == "stop", reply
    assert reply.usage.completion_tokens == N_TOKENS, reply
    assert reply.usage.timings["prefilled_tokens"] == reply.usage.prompt_tokens, reply
    assert reply.id.startswith("chatcmpl-") and reply.object == "chat.completion", reply
    cut = client.chat.completions.create(model="scripted", messages=MESSAGES, max_completion_tokens=5, stop=["x"])
    assert (cut.choices[0].message.content, cut.choices[0].finish_reason) == ("Hello", "length"), cut


def check_stream(client):
    options = {"include_usage": True}
    chunks = list(
        client.chat.completions.create(model="scripted", messages=MESSAGES, stream=True, stream_options=options)
    )
    assert chunks[0].choices[0].delta.role == "assistant", chunks[0]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == ANSWER, text
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == N_TOKENS, chunks[-1]
    assert chunks[-1].usage.timings["decode_ms"] > 0, chunks[-1]
    assert chunks[-2].choices[0].finish_reason == "stop", chunks[-2]
    with client.chat.completions.stream(model="scripted", messages=MESSAGES) as stream:
        stream.until_done()
        assert stream.get_final_completion().choices[0].message.content == ANSWER


def check_completions(client):
    whole = client.completions.create(model="scripted", prompt="Once", max_tokens=5)
    assert (whole.choices[0].text, whole.choices[0].finish_reason) == ("Hello", "length"), whole
    chunks = client.completions.create(model="scripted", prompt=[1, 2, 3], stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == ANSWER


def check_choices(client):
    whole = client.chat.completions.create(model="scripted", messages=MESSAGES, n=3)
    assert [(choice.index, choice.message.content) for choice in whole.choices] == [(i, ANSWER) for i in range(3)], whole
    assert whole.usage.completion_tokens == 3 * N_TOKENS, whole
    assert whole.usage.prompt_tokens_details.cached_tokens == 0, whole
    texts = ["", "", ""]
    for chunk in client.chat.completions.create(model="scripted", messages=MESSAGES, n=3, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == [ANSWER] * 3, texts
    both = client.completions.create(model="scripted", prompt="Once", max_tokens=5, n=2, best_of=2)
    assert [choice.text for choice in both.choices] == ["Hello", "Hello"], both


def check_logprobs(client):
    ask = {"model": "scripted", "messages": MESSAGES, "logprobs": True, "top_logprobs": 2}
    whole = client.chat.completions.create(**ask)
    tokens = whole.choices[0].logprobs.content
    assert bytes(sum((token.bytes for token in tokens), [])).decode() == ANSWER, tokens
    assert all(token.logprob <= 0 and len(token.top_logprobs) == 2 for token in tokens), tokens
    streamed = []
    for chunk in client.chat.completions.create(**ask, stream=True):
        if chunk.choices[0].logprobs:
            streamed += chunk.choices[0].logprobs.content
    assert streamed == tokens, streamed
    legacy = client.completions.create(model="scripted", prompt="Once", max_tokens=5, logprobs=2).choices[0].logprobs
    assert legacy.tokens == list("Hello") and legacy.text_offset == [0, 1, 2, 3, 4], legacy
    assert all(len(top) == 2 for top in legacy.top_logprobs) and max(legacy.token_logprobs) <= 0, legacy


def check_sampling(client):
    ask = {"model": "scripted", "messages": MESSAGES, "max_tokens": 3}
    biased = client.chat.completions.create(**ask, logit_bias={"74": 100})
    assert biased.choices[0].message.content == "JJJ", biased
    texts = {client.chat.completions.create(**ask, temperature=2, seed=7).choices[0].message.content for _ in range(3)}
    assert len(texts) == 1, texts
    more = {"dry_multiplier": 0.8, "xtc_probability": 0.1, "samplers": ["top_k", "temperature"], "n_probs": 1}
    assert client.chat.completions.create(**ask, extra_body=more).choices[0].message.content == "Hel"


def check_models(client):
    models = client.models.list().data
    assert [model.id for model in models] == ["scripted", "alias"], models
    assert models[0].context_length == 4096, models
    assert client.models.retrieve("alias").id == "alias"


def check_errors(client, base_url):
    try:
        client.chat.completions.create(model="scripted", messages=MESSAGES, verbosity="low")
        raise AssertionError("verbosity was taken")
    except openai.BadRequestError as error:
        assert error.param == "verbosity" and error.code == "unsupported_parameter", error
        assert error.type == "invalid_request_error", error
    try:
        client.chat.completions.create(model="scripted", messages=MESSAGES, stream=True, max_tokens=0)
        raise AssertionError("max_tokens of 0 was taken")
    except openai.BadRequestError as error:
        assert error.param == "max_tokens", error
    try:
        client.chat.completions.create(model="other", messages=MESSAGES)
        raise AssertionError("an unknown model was taken")
    except openai.NotFoundError as error:
        assert error.code == "model_not_found", error
    try:
        openai.OpenAI(base_url=base_url, api_key="wrong", max_retries=0).models.list()
        raise AssertionError("a wrong key was taken")
    except openai.AuthenticationError as error:
        assert error.code == "invalid_api_key", error


main(*sys.argv[1:])
print("ok")
