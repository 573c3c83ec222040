"""Renders chat templates as transformers does:  python render.py JOBS.json OUT.json

JOBS.json is {"bos", "eos", "now", "jobs": [{"source", "messages", "tools", "lenient"}]}: texts of the tokens, seconds
since 1970 (UTC), a template, the messages as it sees them and a list of tools or null. OUT.json becomes a list of
{"text"} or {"error"}, one for each job. A lenient job finds no `tools` where there are none, writes the items of a
generator as JSON and escapes nothing for HTML.
"""

import functools
import json
import sys
from datetime import datetime, timezone

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class GenerationBlocks(Extension):
    """Between these tags transformers looks for the model's own words. What is there is rendered like the rest."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def lenient_tojson(value, **options):
    return json.dumps(value, ensure_ascii=False, default=list, **options)


def make_environment(now, lenient):
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlocks, loopcontrols]
    )
    environment.filters["tojson"] = lenient_tojson if lenient else tojson
    if lenient:
        environment.filters["safe"] = str
    environment.globals["raise_exception"] = raise_exception
    moment = datetime.fromtimestamp(now, timezone.utc)
    environment.globals["strftime_now"] = moment.strftime
    return environment


def render(environment, job, bos, eos):
    values = {
        "messages": job["messages"],
        "tools": job["tools"],
        "documents": None,
        "add_generation_prompt": True,
        "bos_token": bos,
        "eos_token": eos,
    }
    if job["lenient"] and job["tools"] is None:
        del values["tools"]
    return compiled(environment, job["source"]).render(values)


@functools.cache
def compiled(environment, source):
    return environment.from_string(source)


def main():
    jobs_path, out_path = sys.argv[1:]
    with open(jobs_path, encoding="utf-8") as file:
        given = json.load(file)
    environments = {lenient: make_environment(given["now"], lenient) for lenient in (False, True)}
    answers = []
    for job in given["jobs"]:
        try:
            answers.append({"text": render(environments[job["lenient"]], job, given["bos"], given["eos"])})
        except Exception as error:
            answers.append({"error": f"{type(error).__name__}: {error}"})
    with open(out_path, "w", encoding="utf-8") as file:
        json.dump(answers, file)


main()
