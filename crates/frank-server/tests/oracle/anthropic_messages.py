"""Speaks with an endpoint through the anthropic package.

Usage: anthropic_messages.py URL KEY text|tools, the URL without /v1. The endpoint answers as `client_programs.rs` says:
"Hello 😀." as a rule, a person to "Who?"; asked whether it is warm, it says a few words and calls `get_weather`, once for
each town; told a temperature, it says that it is warm.
"""

import sys

import anthropic
import pydantic

ANSWER = "Hello \N{GRINNING FACE}."
HI = [{"role": "user", "content": "Hi"}]
QUESTION = {"role": "user", "content": "Is it warm in Paris?"}
TWO_TOWNS = {"role": "user", "content": "Is it warm in Paris and Rome?"}
TOOL = {
    "name": "get_weather",
    "description": "Tells the temperature in a town.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "cache_control": {"type": "ephemeral"},
}


class Person(pydantic.BaseModel):
    name: str
    age: int


def main(url, key, part):
    client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=60)
    {"text": check_text, "tools": check_tools}[part](client, url)


def check_text(client, url):
    check_whole(client)
    check_stream(client)
    check_form(client)
    check_counts(client)
    check_models(client)
    check_errors(client, url)


def check_whole(client):
    system = [{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}]
    reply = client.messages.create(
        model="scripted", max_tokens=100, system=system, messages=HI, metadata={"user_id": "u"}, stop_sequences=["x"]
    )
    assert [(block.type, block.text) for block in reply.content] == [("text", ANSWER)], reply
    assert (reply.type, reply.role, reply.stop_reason) == ("message", "assistant", "end_turn"), reply
    assert reply.id.startswith("msg_") and reply.model == "scripted", reply
    assert reply.usage.output_tokens == len(ANSWER.encode()) and reply.usage.cache_read_input_tokens == 0, reply
    cut = client.messages.create(model="scripted", max_tokens=5, messages=HI)
    assert (cut.content[0].text, cut.stop_reason) == ("Hello", "max_tokens"), cut
    stopped = client.messages.create(model="scripted", max_tokens=100, messages=HI, stop_sequences=["lo"])
    assert (stopped.content[0].text, stopped.stop_reason) == ("Hel", "stop_sequence"), stopped
    assert stopped.stop_sequence == "lo", stopped


def check_stream(client):
    with client.messages.stream(model="scripted", max_tokens=100, messages=HI) as stream:
        assert "".join(stream.text_stream) == ANSWER
        final = stream.get_final_message()
    assert final.content[0].text == ANSWER and final.stop_reason == "end_turn", final
    assert final.usage.output_tokens == len(ANSWER.encode()) and final.usage.input_tokens > 0, final
    events = client.messages.create(model="scripted", max_tokens=100, messages=HI, stream=True)
    kinds = [event.type for event in events if event.type not in ("content_block_delta", "ping")]
    assert kinds == [
        "message_start",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ], kinds


def check_form(client):
    ask = {"model": "scripted", "max_tokens": 100, "messages": [{"role": "user", "content": "Who?"}]}
    expected = Person(name="Ada", age=36)
    assert client.messages.parse(**ask, output_format=Person).parsed_output == expected
    with client.messages.stream(**ask, output_format=Person) as stream:
        stream.until_done()
        assert stream.get_final_message().parsed_output == expected


def check_counts(client):
    reply = client.messages.create(model="scripted", max_tokens=1, messages=HI, tools=[TOOL])
    assert client.messages.count_tokens(model="scripted", messages=HI, tools=[TOOL]).input_tokens == (
        reply.usage.input_tokens
    )
    beta = client.beta.messages.count_tokens(model="scripted", messages=HI, system="Be short.")
    assert 0 < beta.input_tokens < reply.usage.input_tokens, beta


def check_models(client):
    models = list(client.models.list())
    assert [(model.type, model.id) for model in models] == [("model", "scripted"), ("model", "alias")], models
    assert client.models.retrieve("alias").id == "alias"


def check_errors(client, url):
    try:
        client.messages.create(model="scripted", max_tokens=5, messages=[])
        raise AssertionError("a conversation without messages was taken")
    except anthropic.BadRequestError as error:
        assert error.body["error"]["type"] == "invalid_request_error", error
    try:
        client.messages.create(model="other", max_tokens=5, messages=HI)
        raise AssertionError("an unknown model was taken")
    except anthropic.NotFoundError as error:
        assert error.body["error"]["type"] == "not_found_error", error
    try:
        anthropic.Anthropic(base_url=url, api_key="wrong", max_retries=0).messages.create(
            model="scripted", max_tokens=5, messages=HI
        )
        raise AssertionError("a wrong key was taken")
    except anthropic.AuthenticationError as error:
        assert error.body["type"] == "error", error
    bearer = anthropic.Anthropic(base_url=url, auth_token="test-key", max_retries=0)
    assert bearer.messages.create(model="scripted", max_tokens=5, messages=HI).content[0].text == "Hello"


def check_tools(client, _url):
    ask = {"model": "scripted", "max_tokens": 300, "tools": [TOOL]}
    check_round_trip(lambda messages: client.messages.create(**ask, messages=messages))
    check_round_trip(lambda messages: streamed(client, **ask, messages=messages))
    check_input_events(client, ask)
    check_choices(client, ask)
    check_tool_runner(client)


def streamed(client, **ask):
    with client.messages.stream(**ask) as stream:
        return stream.get_final_message()


def check_round_trip(answer):
    reply = answer([QUESTION])
    words, call = reply.content
    assert reply.stop_reason == "tool_use" and words.text == "Let me look.", reply
    assert (call.type, call.name, call.input) == ("tool_use", "get_weather", {"city": "Paris"}), call
    assert call.id.startswith("toolu_"), call
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "18 degrees"}]}
    messages = [QUESTION, {"role": "assistant", "content": reply.content}, {"role": "user", "content": [result]}]
    reply = answer(messages)
    assert [block.text for block in reply.content] == ["It is warm."] and reply.stop_reason == "end_turn", reply


def check_input_events(client, ask):
    with client.messages.stream(**ask, messages=[TWO_TOWNS]) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    calls = [block.input for block in final.content if block.type == "tool_use"]
    assert calls == [{"city": "Paris"}, {"city": "Rome"}], final
    assert kinds.count("input_json") > 2 and kinds.count("content_block_stop") == 3, kinds


def check_choices(client, ask):
    for choice in [{"type": "any"}, {"type": "tool", "name": "get_weather"}]:
        # The model would rather say something else, and takes all the white space that it may.
        reply = client.messages.create(**{**ask, "max_tokens": 1000}, messages=HI, tool_choice=choice)
        assert reply.content[-1].type == "tool_use" and reply.stop_reason == "tool_use", reply
    one = {"type": "auto", "disable_parallel_tool_use": True}
    reply = client.messages.create(**ask, messages=[TWO_TOWNS], tool_choice=one)
    assert [block.type for block in reply.content] == ["text", "tool_use"], reply


def check_tool_runner(client):
    asked = []

    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Tells the temperature in a town.

        Args:
            city: Its name.
        """
        asked.append(city)
        return "18 degrees"

    runner = client.beta.messages.tool_runner(
        model="scripted", max_tokens=300, tools=[get_weather], messages=[TWO_TOWNS]
    )
    assert runner.until_done().content[0].text == "It is warm."
    assert asked == ["Paris", "Rome"], asked


main(*sys.argv[1:])
print("ok")
