"""Checks objects of Kubernetes against the OpenAPI of several releases.

Standard input is a JSON list of [origin, object]. Objects of other APIs are
checked against the schemas in the folder of the first argument, one file per
kind. The other arguments are releases of Kubernetes, as in "1.37". Each finding is
a line on standard output, and unknown members are findings. An object without a
schema is a finding too.
"""

import functools
import json
import pathlib
import sys

import jsonschema
from kubernetes_validate import utils

# The definitions of a release are read once instead of once per object.
utils.schema_contents = functools.lru_cache(maxsize=None)(utils.schema_contents)


def findings(item, own, releases):
    """The findings of one object."""
    schema = own.get(item["kind"])
    if schema is not None:
        for error in jsonschema.Draft7Validator(schema).iter_errors(item):
            yield f"{error.json_path}: {error.message}"
        return
    for release in releases:
        try:
            utils.validate(item, release, strict=True)
        except utils.SchemaNotFoundError as error:
            yield error.message
        except jsonschema.ValidationError as error:
            yield f"{release}: {error.json_path}: {error.message}"


def main():
    folder, *releases = sys.argv[1:]
    own = {}
    for path in pathlib.Path(folder).glob("*.json"):
        schema = json.loads(path.read_text())
        own[schema["properties"]["kind"]["const"]] = schema
    for origin, item in json.load(sys.stdin):
        name = item.get("metadata", {}).get("name")
        for finding in findings(item, own, releases):
            print(f"{origin}: {item['kind']} {name}: {finding}")


main()
