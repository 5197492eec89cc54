"""Every filter just within and just outside its limits: each judgement is the recorded one, with its reason.

A line of ``judgements.jsonl`` is a filter, its options, the languages, source, target, and the reason or null.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from fairseq_ext.cleaning.clean import FILTERS
from tests.cleaning.judging import judge

LINES = [json.loads(line) for line in Path(__file__).with_name("judgements.jsonl").read_text("utf-8").splitlines()]
GROUPS: dict[tuple[str, str, str], list[tuple[str, str, str | None]]] = defaultdict(list)
for name, options, langs, source, target, reason in LINES:
    GROUPS[name, json.dumps(options), langs].append((source, target, reason))


@pytest.mark.parametrize(("name", "options", "langs"), GROUPS)
def test_judgements_are_the_recorded_ones(name: str, options: str, langs: str) -> None:
    cases = GROUPS[name, options, langs]
    criterion = FILTERS[name].model_validate_json(options)
    source_lang, target_lang = langs.split()
    found = judge(criterion, *((one, other) for one, other, _ in cases), langs=(source_lang, target_lang))
    assert found == [reason for *_, reason in cases]
