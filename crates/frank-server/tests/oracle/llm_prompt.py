"""Runs the program llm against an endpoint: a prompt, a conversation, a schema, tools.

Usage: llm_prompt.py BASE_URL KEY, with a home folder of its own. The endpoint answers as `client_programs.rs` says:
"Hello 😀." as a rule, a person to "Who?"; asked whether it is warm, it says a few words and calls `get_weather`; told a
temperature, it says that it is warm.
"""

import json
import os
import pathlib
import sys

from click.testing import CliRunner
from llm.cli import cli

ANSWER = "Hello \N{GRINNING FACE}."
FUNCTIONS = """
def get_weather(city: str) -> str:
    "Tells the temperature in a town."
    return f"18 degrees in {city}"
"""


def main(base_url, key):
    folder = pathlib.Path(os.environ["HOME"], "llm")
    folder.mkdir()
    os.environ["LLM_USER_PATH"] = str(folder)
    for model, by in [("by-chat", "chat"), ("by-responses", "responses")]:
        entry = {"model_id": model, "model_name": "scripted", "api_base": base_url, "supports_schema": True}
        entry |= {"supports_tools": True, "responses": by == "responses", "api_key_name": "frank"}
        with open(folder / "extra-openai-models.yaml", "a") as file:
            file.write(f"- {json.dumps(entry)}\n")
    (folder / "keys.json").write_text(json.dumps({"frank": key}))
    for model in ["by-chat", "by-responses"]:
        check(model)


def check(model):
    for more in [[], ["--no-stream"]]:
        assert llm("-m", model, *more, "--system", "Be short.", "Hi") == ANSWER
        person = llm("-m", model, *more, "--schema", "name, age int", "Who?")
        assert json.loads(person) == {"name": "Ada", "age": 36}, person
        said = llm("-m", model, *more, "--functions", FUNCTIONS, "Is it warm in Paris?")
        assert said.endswith("It is warm."), said
    assert llm("-m", model, "--continue", "Thanks") == "It is warm."


def llm(*arguments):
    # In this process, for the program takes seconds to start.
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0, f"{arguments}: {done.output}"
    return done.output.strip()


main(*sys.argv[1:])
print("ok")
