"""Checks the objects of a file ([[name, object], ...]) against the schemas of a version of Kubernetes; a line for each fault."""

import json
import sys

import kubernetes_validate

version, path = sys.argv[1:]
for name, data in json.load(open(path)):
    try:
        kubernetes_validate.validate(data, version, strict=True)
    except kubernetes_validate.ValidationError as fault:
        where = ".".join(str(part) for part in fault.path)
        print(f"{name}: {where}: {fault.message}")
