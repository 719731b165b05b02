"""``connector config``: shows the resolved configuration."""

from __future__ import annotations

from connector.cli.common import DEFAULT_CONFIG, ConfigOption, JsonOption, answer, answer_json
from connector.config.loading import load
from connector.config.resolved import as_document, as_yaml


def config(config: ConfigOption = DEFAULT_CONFIG, json: JsonOption = False) -> None:
    """Shows the resolved configuration: environment and defaults filled in, secrets masked.

    The answer is YAML in the form of adapter.yaml, with --json the same as a JSON document.
    """
    document = as_document(load(config))
    if json:
        answer_json(document)
    else:
        answer(as_yaml(document))
