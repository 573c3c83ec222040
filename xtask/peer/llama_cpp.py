#!/usr/bin/env python3
"""Serves a model with llama.cpp (the xllamacpp package), for `cargo xtask peer`, until it is killed.

    llama_cpp.py MODEL.gguf CTX_SIZE PARALLEL THREADS
CTX_SIZE is the context of one request. Says `ready on http://ADDRESS` on stderr once it answers.
"""
import sys
import threading

import xllamacpp

# llama.cpp writes its log to stderr piece by piece, which must not break the line that says it is ready.
ERRORS_ONLY = 1


def main():
    model, ctx_size, parallel, threads = sys.argv[1], *map(int, sys.argv[2:5])
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_parallel = parallel
    params.n_ctx = ctx_size * parallel
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.verbosity = ERRORS_ONLY
    server = xllamacpp.Server(params)
    print(f"ready on {server.listening_address}", file=sys.stderr, flush=True)
    threading.Event().wait()


main()
