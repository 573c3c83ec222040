"""Tokenizes strings with llama.cpp:  python tokenize.py MODEL.gguf STRINGS.json OUT.json

STRINGS.json is a list of strings. OUT.json becomes {"parse": [ids, ...], "literal": [ids, ...]}: the tokens of each
string with control tokens recognised and not, without BOS or EOS.
"""

import json
import sys
import urllib.request

import xllamacpp

# Stands between two strings of a request. No vocabulary has this id, and the server passes ids through unchecked.
SEPARATOR = 2**30


def tokenize(address, strings, parse_special):
    content = [part for string in strings for part in (string, SEPARATOR)]
    body = json.dumps({"content": content, "add_special": False, "parse_special": parse_special})
    request = urllib.request.Request(f"{address}/tokenize", body.encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        tokens = json.load(response)["tokens"]
    lists = [[]]
    for token in tokens:
        if token == SEPARATOR:
            lists.append([])
        else:
            lists[-1].append(token)
    assert lists.pop() == [] and len(lists) == len(strings), f"{len(lists)} answers for {len(strings)} strings"
    return lists


def main():
    model, strings_path, out_path = sys.argv[1:]
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = 64
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    server = xllamacpp.Server(params)
    with open(strings_path, encoding="utf-8") as file:
        strings = json.load(file)
    answers = {
        "parse": tokenize(server.listening_address, strings, True),
        "literal": tokenize(server.listening_address, strings, False),
    }
    with open(out_path, "w", encoding="utf-8") as file:
        json.dump(answers, file)


if __name__ == "__main__":
    main()
