"""Parses expositions with the parsers of Prometheus's Python client.

usage: parse.py {openmetrics|text} FILE...
Prints one line of JSON for each file: its samples, each as [name, labels, value].
"""

import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text

parse = {"openmetrics": openmetrics, "text": text}[sys.argv[1]]
for file in sys.argv[2:]:
    with open(file, encoding="utf-8", newline="") as exposition:
        families = list(parse(exposition.read()))
    names = [family.name for family in families]
    assert len(names) == len(set(names)), f"{file}: a metric comes twice"
    samples = [s for family in families for s in family.samples]
    print(json.dumps([[s.name, s.labels, repr(float(s.value))] for s in samples]))
