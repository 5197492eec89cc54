"""A server has neither torch nor fairseq."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from fairseq_ext.runtime.requests import Request
from fairseq_ext.runtime.translator import SystemTranslator

_CODE = """
import json, sys
sys.modules["torch"] = None  # so that importing it fails
from fairseq_ext.runtime.requests import Request
from fairseq_ext.runtime.translator import SystemTranslator
answers = SystemTranslator.load(sys.argv[1]).translate([Request("w1 w4"), Request("w2 w5", "classifier")])
print(json.dumps([[each.candidates[0].text, each.domain, each.weights] for each in answers]))
assert not {"fairseq", "sklearn", "scipy"} & sys.modules.keys(), "a library of training is loaded"
"""


def test_an_exported_system_translates_without_torch_and_fairseq(exported: Path) -> None:
    command = [sys.executable, "-c", _CODE, str(exported / "gad")]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    answers = SystemTranslator.load(exported / "gad").translate([Request("w1 w4"), Request("w2 w5", "classifier")])
    assert found == [[each.candidates[0].text, each.domain, each.weights] for each in answers]
