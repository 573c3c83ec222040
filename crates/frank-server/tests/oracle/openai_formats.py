"""Asks for answers of a form through the openai package and reads them as that package offers.

Usage: openai_formats.py BASE_URL KEY. The endpoint wants to say '{"name": "Ada", "age": 36} is my answer'.
"""

import json
import sys

import openai
import pydantic

MESSAGES = [{"role": "user", "content": "Who?"}]
EXPECTED = {"name": "Ada", "age": 36}


class Person(pydantic.BaseModel):
    name: str
    age: int


def main(base_url, key):
    client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=60)
    check_object(client)
    check_parsed(client)
    check_streamed(client)
    check_refused(client)


def check_object(client):
    reply = client.chat.completions.create(
        model="scripted", messages=MESSAGES, response_format={"type": "json_object"}, n=2
    )
    assert [json.loads(choice.message.content) for choice in reply.choices] == [EXPECTED] * 2, reply
    assert reply.choices[0].finish_reason == "stop", reply


def check_parsed(client):
    reply = client.chat.completions.parse(model="scripted", messages=MESSAGES, response_format=Person)
    assert reply.choices[0].message.parsed == Person(**EXPECTED), reply


def check_streamed(client):
    with client.chat.completions.stream(model="scripted", messages=MESSAGES, response_format=Person) as stream:
        stream.until_done()
        parsed = stream.get_final_completion().choices[0].message.parsed
    assert parsed == Person(**EXPECTED), parsed


def check_refused(client):
    schema = {"name": "odd", "schema": {"type": "nonsense"}}
    form = {"type": "json_schema", "json_schema": schema}
    try:
        client.chat.completions.create(model="scripted", messages=MESSAGES, response_format=form)
        raise AssertionError("a schema without meaning was taken")
    except openai.BadRequestError as error:
        assert error.param == "response_format.json_schema.schema", error


main(*sys.argv[1:])
print("ok")
