"""Sits at a terminal before a program:  python terminal.py OUT.json STEPS.json PROGRAM ARGS...

STEPS.json is a list of steps, each taken when the program has written "> " to stderr: {"type": TEXT} types a line,
{"bytes": [NUMBER, ...]} types what may be no text, {"interrupt": TEXT} types a line and presses Ctrl-C when the first
byte of its answer is there, {"interrupt": null} presses it at once, {"end": true} presses Ctrl-D. OUT.json becomes
{"code", "stdout", "stderr"}. Where STEPS.json is null nothing is typed, and stdout is the terminal.
"""

import json
import os
import pty
import signal
import subprocess
import sys


def read_until_prompt(file):
    text = b""
    while not text.endswith(b"> "):
        byte = file.read(1)
        assert byte, f"it ended: {text.decode()}"
        text += byte
    return text


def read_terminal(terminal):
    text = b""
    while True:
        try:
            some = os.read(terminal, 4096)
        except OSError:  # Linux: the other side was closed.
            return text
        if not some:
            return text
        text += some


def show(command):
    terminal, stdout = pty.openpty()
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE
    )
    os.close(stdout)
    stdout = read_terminal(terminal)
    _, errors = process.communicate()
    return process.returncode, stdout, errors


def chat(command, steps):
    terminal, stdin = pty.openpty()
    process = subprocess.Popen(
        command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    os.close(stdin)
    stdout = stderr = b""
    for step in steps:
        stderr += read_until_prompt(process.stderr)
        text = step.get("type", step.get("interrupt"))
        if text is not None:
            os.write(terminal, text.encode() + b"\n")
        if "bytes" in step:
            os.write(terminal, bytes(step["bytes"]))
        if "interrupt" in step:
            if text is not None:
                stdout += process.stdout.read(1)
            process.send_signal(signal.SIGINT)
        if "end" in step:
            os.write(terminal, b"\x04")
    more, errors = process.communicate()
    return process.returncode, stdout + more, stderr + errors


def main():
    out_path, steps_path, *command = sys.argv[1:]
    with open(steps_path, encoding="utf-8") as file:
        steps = json.load(file)
    code, stdout, stderr = show(command) if steps is None else chat(command, steps)
    answer = {"code": code, "stdout": stdout.decode(), "stderr": stderr.decode()}
    with open(out_path, "w", encoding="utf-8") as file:
        json.dump(answer, file)


main()
