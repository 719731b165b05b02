"""``connector schema``: shows the JSON Schema of adapter.yaml."""

from __future__ import annotations

import json as encoder

from connector.cli.common import DEFAULT_CONFIG, ConfigOption, JsonOption, answer, answer_json
from connector.config.schema import json_schema


def schema(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Shows the JSON Schema of adapter.yaml, for editors. With --json on one line.

    The schema is the same for every configuration. -c is accepted as by every verb.
    """
    if json:
        answer_json(json_schema())
    else:
        answer(encoder.dumps(json_schema(), ensure_ascii=False, indent=2))
