"""Calls tools through the openai package, in chats and in responses, whole and streamed.

Usage: openai_tools.py BASE_URL KEY chat|responses. The endpoint answers as `client_programs.rs` says: asked whether it
is warm, it says a few words and calls `get_weather`, once for each town; told a temperature, it says that it is warm.
"""

import json
import sys

import openai
import pydantic

QUESTION = {"role": "user", "content": "Is it warm in Paris?"}
TWO_TOWNS = {"role": "user", "content": "Is it warm in Paris and Rome?"}
DESCRIPTION = "Tells the temperature in a town."
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}


class GetWeather(pydantic.BaseModel):
    """Tells the temperature in a town."""

    city: str


def main(base_url, key, part):
    client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=60)
    {"chat": check_chat, "responses": check_responses}[part](client)


def check_chat(client):
    tool = {"type": "function", "function": {"name": "get_weather", "description": DESCRIPTION, "parameters": SCHEMA}}
    ask = {"model": "scripted", "tools": [tool]}
    check_chat_round_trip(client, ask, lambda messages: whole_chat(client, ask, messages))
    check_chat_round_trip(client, ask, lambda messages: streamed_chat(client, ask, messages))
    check_chat_deltas(client, ask)
    check_chat_choices(client, ask)
    check_parsed_arguments(client)


def whole_chat(client, ask, messages):
    return client.chat.completions.create(**ask, messages=messages).choices[0]


def streamed_chat(client, ask, messages):
    with client.chat.completions.stream(**ask, messages=messages) as stream:
        stream.until_done()
        return stream.get_final_completion().choices[0]


def check_chat_round_trip(client, ask, answer):
    choice = answer([QUESTION])
    assert choice.finish_reason == "tool_calls", choice
    assert choice.message.content == "Let me look.", choice
    (call,) = choice.message.tool_calls
    assert (call.type, call.function.name) == ("function", "get_weather"), call
    assert json.loads(call.function.arguments) == {"city": "Paris"}, call
    result = {"role": "tool", "tool_call_id": call.id, "content": "18 degrees"}
    said = choice.message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True)
    for message in [choice.message, said]:
        choice = answer([QUESTION, message, result])
        assert (choice.message.content, choice.finish_reason) == ("It is warm.", "stop"), choice
        assert not choice.message.tool_calls, choice


def check_chat_deltas(client, ask):
    arguments, ids, last = {}, {}, None
    for chunk in client.chat.completions.create(**ask, messages=[TWO_TOWNS], stream=True):
        last = chunk.choices[0]
        for call in last.delta.tool_calls or []:
            if call.id:
                ids[call.index] = call.id
            arguments[call.index] = arguments.get(call.index, "") + call.function.arguments
    assert [json.loads(arguments[index]) for index in (0, 1)] == [{"city": "Paris"}, {"city": "Rome"}], arguments
    assert len(set(ids.values())) == 2 and last.finish_reason == "tool_calls", (ids, last)


def check_chat_choices(client, ask):
    named = {"type": "function", "function": {"name": "get_weather"}}
    for choice in ["required", named]:
        # The model would rather say something else.
        reply = client.chat.completions.create(
            **ask, messages=[{"role": "user", "content": "Hi"}], tool_choice=choice
        )
        (call,) = reply.choices[0].message.tool_calls
        assert call.function.name == "get_weather" and json.loads(call.function.arguments)["city"], call
    one = client.chat.completions.create(**ask, messages=[TWO_TOWNS], parallel_tool_calls=False)
    assert len(one.choices[0].message.tool_calls) == 1, one


def check_parsed_arguments(client):
    tool = openai.pydantic_function_tool(GetWeather, name="get_weather")
    ask = {"model": "scripted", "messages": [QUESTION], "tools": [tool]}
    whole = client.chat.completions.parse(**ask)
    with client.chat.completions.stream(**ask) as stream:
        kinds = {event.type for event in stream}
        streamed = stream.get_final_completion()
    for reply in [whole, streamed]:
        function = reply.choices[0].message.tool_calls[0].function
        assert function.parsed_arguments == GetWeather(city="Paris"), reply
    assert {"tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"} <= kinds, kinds


def check_responses(client):
    tool = {"type": "function", "name": "get_weather", "description": DESCRIPTION, "parameters": SCHEMA, "strict": True}
    ask = {"model": "scripted", "tools": [tool]}
    check_response_round_trips(client, lambda **more: client.responses.create(**ask, **more))
    check_response_round_trips(client, lambda **more: streamed_response(client, **ask, **more))
    check_response_events(client, ask)
    parsed = client.responses.parse(
        model="scripted", input=[QUESTION], tools=[openai.pydantic_function_tool(GetWeather, name="get_weather")]
    )
    assert parsed.output[-1].parsed_arguments == GetWeather(city="Paris"), parsed


def streamed_response(client, **ask):
    with client.responses.stream(**ask) as stream:
        stream.until_done()
        return stream.get_final_response()


def check_response_round_trips(client, answer):
    reply = answer(input=[QUESTION])
    words, call = reply.output
    assert words.type == "message" and reply.output_text == "Let me look.", reply
    assert (call.type, call.name, call.status) == ("function_call", "get_weather", "completed"), call
    assert json.loads(call.arguments) == {"city": "Paris"}, call
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}
    # All again, as agents that store nothing send it, and only what is new.
    again = answer(input=[QUESTION, *reply.output, result], store=False)
    after = answer(input=[result], previous_response_id=reply.id)
    assert after.previous_response_id == reply.id, after
    for reply in [again, after]:
        assert reply.output_text == "It is warm." and len(reply.output) == 1, reply


def check_response_events(client, ask):
    events = list(client.responses.create(**ask, input=[TWO_TOWNS], stream=True))
    joined, done = {}, {}
    for event in events:
        if event.type == "response.function_call_arguments.delta":
            joined[event.output_index] = joined.get(event.output_index, "") + event.delta
        if event.type == "response.function_call_arguments.done":
            done[event.output_index] = event.arguments
    assert joined == done and len(done) == 2, (joined, done)
    assert [json.loads(done[index])["city"] for index in sorted(done)] == ["Paris", "Rome"], done
    assert [event.sequence_number for event in events] == list(range(len(events))), events
    final = events[-1]
    assert final.type == "response.completed" and len(final.response.output) == 3, final


main(*sys.argv[1:])
print("ok")
