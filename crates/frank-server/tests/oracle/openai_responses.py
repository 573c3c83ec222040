"""Asks for responses through the openai package: whole, streamed, stored, gone on after, of a form.

Usage: openai_responses.py BASE_URL KEY. The endpoint says "Hello 😀.", and to "Who?" '{"name": "Ada", "age": 36}' and
more.
"""

import sys

import openai
import pydantic

ANSWER = "Hello \N{GRINNING FACE}."


class Person(pydantic.BaseModel):
    name: str
    age: int


def main(base_url, key):
    client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=60)
    check_whole(client)
    check_stream(client)
    check_stored(client)
    check_form(client)
    check_errors(client)


def check_whole(client):
    reply = client.responses.create(
        model="scripted",
        instructions="Be short.",
        input="Hi",
        temperature=0,
        metadata={"a": "b"},
        reasoning={"effort": "low"},
        include=["reasoning.encrypted_content"],
        service_tier="auto",
        parallel_tool_calls=True,
    )
    assert reply.output_text == ANSWER and reply.status == "completed", reply
    assert reply.object == "response" and reply.id.startswith("resp_"), reply
    assert reply.instructions == "Be short." and reply.metadata == {"a": "b"}, reply
    usage = reply.usage
    assert usage.output_tokens == len(ANSWER.encode()) and usage.input_tokens_details.cached_tokens == 0, usage
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens, usage
    cut = client.responses.create(model="scripted", input="Hi", max_output_tokens=5)
    assert (cut.output_text, cut.status) == ("Hello", "incomplete"), cut
    assert cut.incomplete_details.reason == "max_output_tokens", cut


def check_stream(client):
    messages = [{"role": "developer", "content": "Be short."}, {"role": "user", "content": "Hi"}]
    events = list(client.responses.create(model="scripted", input=messages, stream=True))
    kinds = [event.type for event in events if event.type != "response.output_text.delta"]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ], kinds
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == ANSWER and len(deltas) > 1, deltas
    assert events[-1].response.output_text == ANSWER and events[-1].response.usage.output_tokens > 0, events[-1]
    with client.responses.stream(model="scripted", input=messages) as stream:
        stream.until_done()
        assert stream.get_final_response().output_text == ANSWER


def check_stored(client):
    first = client.responses.create(model="scripted", input="My name is Ada.")
    assert client.responses.retrieve(first.id).output_text == ANSWER
    next_one = client.responses.create(model="scripted", input="Hi", previous_response_id=first.id)
    assert next_one.previous_response_id == first.id, next_one
    assert next_one.usage.input_tokens > first.usage.input_tokens + len(ANSWER), next_one
    client.responses.delete(first.id)
    for gone in [client.responses.retrieve, client.responses.delete]:
        try:
            gone(first.id)
            raise AssertionError("a deleted response was found")
        except openai.NotFoundError as error:
            assert error.code == "response_not_found", error
    unstored = client.responses.create(model="scripted", input="Hi", store=False)
    try:
        client.responses.create(model="scripted", input="Hi", previous_response_id=unstored.id)
        raise AssertionError("it went on after a response that is not stored")
    except openai.BadRequestError as error:
        assert error.code == "previous_response_not_found" and error.param == "previous_response_id", error


def check_form(client):
    expected = Person(name="Ada", age=36)
    assert client.responses.parse(model="scripted", input="Who?", text_format=Person).output_parsed == expected
    with client.responses.stream(model="scripted", input="Who?", text_format=Person) as stream:
        stream.until_done()
        assert stream.get_final_response().output_parsed == expected


def check_errors(client):
    try:
        client.responses.create(model="scripted", input="Hi", background=True)
        raise AssertionError("background was taken")
    except openai.BadRequestError as error:
        assert error.param == "background", error
    try:
        client.responses.create(model="other", input="Hi")
        raise AssertionError("an unknown model was taken")
    except openai.NotFoundError as error:
        assert error.code == "model_not_found", error


main(*sys.argv[1:])
print("ok")
