"""Speaks with an endpoint through litellm, by each of its ways to a server of one's own.

Usage: litellm_routes.py URL KEY, the URL without /v1, with LITELLM_LOCAL_MODEL_COST_MAP=True. The endpoint answers as
`client_programs.rs` says: "Hello 😀." as a rule, a person to "Who?"; asked whether it is warm, it says a few words and
calls `get_weather`; told a temperature, it says that it is warm.
"""

import json
import sys

import litellm
import pydantic

ANSWER = "Hello \N{GRINNING FACE}."
HI = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}]
QUESTION = {"role": "user", "content": "Is it warm in Paris?"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}}, "required": ["city"]}
FUNCTION = {"name": "get_weather", "description": "Tells the temperature in a town.", "parameters": SCHEMA}
TOOLS = [{"type": "function", "function": FUNCTION}]


class Person(pydantic.BaseModel):
    name: str
    age: int


def main(url, key):
    routes = [("openai/scripted", f"{url}/v1"), ("hosted_vllm/scripted", f"{url}/v1"), ("anthropic/scripted", url)]
    for model, base in routes:
        ask = {"model": model, "api_base": base, "api_key": key, "num_retries": 0, "max_tokens": 300}
        check_text(ask)
        check_form(ask)
        check_tools(ask, stream=False)
        check_tools(ask, stream=True)
        check_error(ask)
    check_responses({"model": "openai/scripted", "api_base": f"{url}/v1", "api_key": key, "num_retries": 0})


def check_text(ask):
    reply = litellm.completion(**ask, messages=HI)
    assert reply.choices[0].message.content == ANSWER and reply.choices[0].finish_reason == "stop", reply
    assert reply.usage.completion_tokens == len(ANSWER.encode()) and reply.usage.prompt_tokens > 0, reply
    chunks = list(litellm.completion(**ask, messages=HI, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == ANSWER, chunks
    assert litellm.stream_chunk_builder(chunks).usage.completion_tokens == len(ANSWER.encode()), chunks[-1]


def check_form(ask):
    reply = litellm.completion(**ask, messages=[{"role": "user", "content": "Who?"}], response_format=Person)
    assert json.loads(reply.choices[0].message.content) == {"name": "Ada", "age": 36}, reply


def check_tools(ask, stream):
    choice = answer(ask, [QUESTION], stream)
    assert choice.finish_reason == "tool_calls" and choice.message.content == "Let me look.", choice
    (call,) = choice.message.tool_calls
    assert call.function.name == "get_weather", call
    assert json.loads(call.function.arguments) == {"city": "Paris"}, call
    result = {"role": "tool", "tool_call_id": call.id, "content": "18 degrees"}
    choice = answer(ask, [QUESTION, choice.message.model_dump(), result], stream)
    assert (choice.message.content, choice.finish_reason) == ("It is warm.", "stop"), choice


def answer(ask, messages, stream):
    reply = litellm.completion(**ask, messages=messages, tools=TOOLS, stream=stream)
    return (litellm.stream_chunk_builder(list(reply)) if stream else reply).choices[0]


def check_error(ask):
    try:
        litellm.completion(**{**ask, "model": ask["model"].replace("scripted", "other")}, messages=HI)
        raise AssertionError("an unknown model was taken")
    except litellm.NotFoundError as error:
        assert "other" in str(error), error


def check_responses(ask):
    reply = litellm.responses(**ask, input="Hi")
    assert reply.output[0].content[0].text == ANSWER, reply
    events = list(litellm.responses(**ask, input="Hi", stream=True))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == ANSWER, events
    tools = [{"type": "function", **FUNCTION}]
    reply = litellm.responses(**ask, input=[QUESTION], tools=tools)
    call = reply.output[-1]
    assert call.name == "get_weather" and json.loads(call.arguments) == {"city": "Paris"}, reply
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}
    reply = litellm.responses(**ask, input=[result], tools=tools, previous_response_id=reply.id)
    assert reply.output[0].content[0].text == "It is warm.", reply


main(*sys.argv[1:])
print("ok")
