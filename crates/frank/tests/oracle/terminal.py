"""Sits at a terminal before a program:  python terminal.py OUT.json STEPS.json PROGRAM ARGS...

STEPS.json is a list of steps, each taken when the program has written "> " to stderr: {"type": TEXT} types a line,
{"interrupt": TEXT} types one and presses Ctrl-C when the first byte of its answer is there, {"interrupt": null} presses
it at once, {"end": true} presses Ctrl-D. OUT.json becomes {"code", "stdout", "stderr"}.
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


def main():
    out_path, steps_path, *command = sys.argv[1:]
    with open(steps_path, encoding="utf-8") as file:
        steps = json.load(file)
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
        if "interrupt" in step:
            if text is not None:
                stdout += process.stdout.read(1)
            process.send_signal(signal.SIGINT)
        if "end" in step:
            os.write(terminal, b"\x04")
    more, errors = process.communicate()
    answer = {"code": process.returncode, "stdout": (stdout + more).decode(), "stderr": (stderr + errors).decode()}
    with open(out_path, "w", encoding="utf-8") as file:
        json.dump(answer, file)


main()
