import re
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import fairseq
import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.patches.options import evaluate_literal, read_values_as_literals

PWN = "__import__('os').mkdir('PWN')"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(0.9, 0.98)", (0.9, 0.98)),
        ("[(512, 3)] * 2 + [(1024, 1)]", [(512, 3), (512, 3), (1024, 1)]),
        ("-1e-8", -1e-8),
        ("{'beam': 5, 'paths': ['a']}", {"beam": 5, "paths": ["a"]}),
    ],
)
def test_python_literals_are_read(text: str, value: Any) -> None:
    assert evaluate_literal(text) == value
    assert type(evaluate_literal(text)) is type(value)


@pytest.mark.parametrize("text", [PWN, f"[({PWN}, 3)]", "().__class__.__bases__", "10 ** 100000000", "(" * 5000, ""])
def test_other_python_is_refused_in_one_short_line(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a plain value") as caught:
        evaluate_literal(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert list(tmp_path.iterdir()) == []


def test_every_module_of_fairseq_with_eval_reads_literals_only() -> None:
    [package] = fairseq.__path__
    files = [path for path in Path(package).rglob("*.py") if "examples" not in path.relative_to(package).parts]
    evaluating = {
        str(path) for path in files if re.search(r"(?<![.\w])(eval|exec)\(", path.read_text(encoding="utf-8"))
    }
    loaded = {getattr(module, "__file__", None): module for module in list(sys.modules.values())}
    assert len(evaluating) > 10
    assert all(loaded[path].__dict__["eval"] is evaluate_literal for path in evaluating)


def test_programs_read_literals_only_too(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ModuleType("__main__")
    program.__spec__ = ModuleSpec("fairseq_cli.eval_lm", None)
    monkeypatch.setitem(sys.modules, "as __main__", program)
    read_values_as_literals()
    assert program.__dict__["eval"] is evaluate_literal
