#!/usr/bin/env python3
"""Greedy answers of llama.cpp (the xllamacpp package), for frank to be teacher-forced on.

    greedy.py MODEL.gguf PROMPTS.json N_TOKENS
reads a list of texts and prints a list of {"prompt": [ids], "answer": [ids], "best": [ids]}. The answer never ends
early, so it may hold a second choice where the best one is an end token; best has the most likely token of each
position, or the answer's where the server withholds probabilities (a token that ends inside a character).
"""
import json
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import xllamacpp

# Prompts answered together: the weights are then read once for all of them.
PARALLEL = 10


def start(model):
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = 512 * PARALLEL
    params.n_parallel = PARALLEL
    params.warmup = False
    # One thread: more would wait for each other at barriers whenever a core is taken away.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    return xllamacpp.Server(params)


def post(server, path, body):
    request = urllib.request.Request(
        server.listening_address + path, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as response:
        return json.load(response)


def best(position, token):
    top = position.get("top_logprobs", [])
    return max(top, key=lambda entry: entry["logprob"])["id"] if top else token


def answer(server, text, n_tokens):
    prompt = post(server, "/tokenize", {"content": text, "add_special": True})["tokens"]
    completion = post(
        server,
        "/completion",
        {
            "prompt": prompt,
            "n_predict": n_tokens,
            "temperature": 0,
            "top_k": 1,
            "n_probs": 2,
            "cache_prompt": False,
            "ignore_eos": True,
            "return_tokens": True,
        },
    )
    tokens, positions = completion["tokens"], completion["completion_probabilities"]
    return {"prompt": prompt, "answer": tokens, "best": [best(*pair) for pair in zip(positions, tokens, strict=True)]}


def main():
    model, prompts, n_tokens = sys.argv[1:4]
    server = start(model)
    with open(prompts) as file:
        texts = json.load(file)
    with ThreadPoolExecutor(PARALLEL) as pool:
        answers = list(pool.map(lambda text: answer(server, text, int(n_tokens)), texts))
    print("ANSWERS " + json.dumps(answers), flush=True)


main()
