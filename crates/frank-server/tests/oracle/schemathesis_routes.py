"""Asks an endpoint what its OpenAPI document has, and much that it has not, and holds the answers to the document.

Usage: schemathesis_routes.py URL KEY SECONDS SEED, the URL without /v1; files go below $HOME. The endpoint asks for a
key, and its model is quick. Beside the faults that schemathesis finds it is one if an operation was never done, if a
dialect never streamed, or if nothing was refused for want of a key: such a run has shown little.
"""

import collections
import json
import os
import re
import sys
import tempfile
import urllib.request
import zlib

import schemathesis
from schemathesis.cli import schemathesis as command

# What the document cannot say is that fields contradict each other (`stream_options` without `stream`), that a schema
# admits nothing, that a prompt is longer than the context, or which names there are. These are refused with a 400, so a
# 4xx to what the document allows is no fault: positive_data_acceptance is off. What it forbids must be refused.
CONFIG = """
continue-on-failure = true
request-timeout = 60
max-stream-events = 100000
warnings = false

[generation]
database = "none"
max-examples = 8

[checks]
positive_data_acceptance.enabled = false
# Full is no fault; any other 5xx is one.
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]
"""

# Answers are short, so that there are many.
TOKENS_MAX = 24
TEXT_BYTES_MAX = 48
REQUIRED = ("messages", "prompt", "input", "max_tokens", "content", "tokens")
DIALECTS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")

# The endpoint's own count of its answers.
METRIC = re.compile(r'^frank_http_requests_total\{route="([^"]*)",status="(\d+)"\} (\d+)$', re.MULTILINE)

operations = set()
done = set()
streamed = set()


@schemathesis.hook
def before_load_schema(context, schema):
    """This endpoint has keys, so none of its operations can do without."""
    schema["security"] = [need for need in schema["security"] if need]
    for path, item in schema["paths"].items():
        operations.update(f"{method.upper()} {path}" for method in item)


@schemathesis.hook
def before_call(context, case, kwargs):
    """Lets more of the allowed requests through to the model: they would fail for a name that is not served, or since
    two of thirty fields contradict each other."""
    if isinstance(case.body, dict) and case.meta is not None and case.meta.generation.mode.is_positive:
        case.body = settled(case.body, case.operation.path, case.meta.phase.name.value != "coverage")


def settled(body, path, is_random):
    """The body with fewer fields where it is random, with a bound, and mostly without a name; one in eight as it is."""
    lot = zlib.crc32(json.dumps(body, sort_keys=True, default=str).encode())
    if lot % 8 == 0:
        return body
    names = [name for name in body if name not in REQUIRED and name != "model"]
    names.sort(key=lambda name: zlib.crc32(name.encode(), lot))
    kept = names[: lot % 5] if is_random else names
    body = {name: value for name, value in body.items() if name in kept or name in REQUIRED}
    if path not in DIALECTS:
        return body
    limit = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
    if not isinstance(body.get(limit), int) or body[limit] > TOKENS_MAX:
        body[limit] = 1 + lot % TOKENS_MAX
    if "stream" not in body and lot & 0x100:
        body["stream"] = True
    if isinstance(body.get("prompt"), str):
        body["prompt"] = body["prompt"][:TEXT_BYTES_MAX] or "?"
    return body


@schemathesis.hook
def after_call(context, case, response):
    if response.status_code == 200:
        done.add(f"{case.method.upper()} {case.operation.path}")
    if "text/event-stream" in response.headers.get("content-type", [""])[0]:
        streamed.add(case.operation.path)


def main(url, key, seconds, seed):
    # It keeps what failed in the working folder.
    os.chdir(tempfile.mkdtemp(prefix="schemathesis-", dir=os.environ["HOME"]))
    with open("schemathesis.toml", "w") as config:
        config.write(CONFIG)
    options = ["--max-time", seconds, "--seed", seed, "--header", f"Authorization: Bearer {key}"]
    try:
        command(["--no-color", "run", f"{url}/openapi.json", *options], prog_name="schemathesis")
    except SystemExit as ended:
        status = ended.code
    n_unauthorized = told(url, key)
    # schemathesis has read the document before all else, and leaves its operation out.
    undone = operations - done - {"GET /openapi.json"}
    assert not undone, f"never done: {sorted(undone)}"
    assert streamed == set(DIALECTS), f"streamed: {sorted(streamed)}"
    assert n_unauthorized > 0, "nothing was asked without a key"
    sys.exit(status)


def told(url, key):
    """Tells how many answers of which status each route gave, and returns how many were refused for want of a key."""
    request = urllib.request.Request(f"{url}/metrics", headers={"x-api-key": key})
    counts = collections.Counter()
    with urllib.request.urlopen(request) as reply:
        for route, status, n in sorted(METRIC.findall(reply.read().decode())):
            print(f"{n:>7} {status} {route}")
            counts[status] += int(n)
    print(f"{counts.total()} requests, by status {dict(sorted(counts.items()))}")
    return counts["401"]


main(*sys.argv[1:])
