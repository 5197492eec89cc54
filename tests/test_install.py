"""Importing the package changes nothing; ``install`` and ``--user-dir`` do, until ``undo``."""

import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_ext.base.fairseq_cli import USER_DIR, own_environment

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("true_processes")]
COMPARE = """
import importlib, inspect, pkgutil, sys
import fairseq.trainer, fairseq_cli.eval_lm, fairseq_cli.generate, fairseq_cli.train
import torch
import fairseq_ext

def state():
    ours = [finder for finder in sys.meta_path if type(finder).__module__.startswith("fairseq_ext")]
    found = {"meta_path": ours, "path": list(sys.path), "types": frozenset(torch.serialization.get_safe_globals())}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("fairseq", "fairseq_cli", "sys", "builtins", "torch"):
            found[name, "eval"] = vars(module).get("eval")
            for key, value in vars(module).items():
                if inspect.isroutine(value) or inspect.isclass(value) or inspect.ismodule(value):
                    found[name, key] = value
                if inspect.isclass(value) and value.__module__ == name:
                    found |= {(name, key, each): item for each, item in vars(value).items() if callable(item)}
    found["options"] = dict(vars(fairseq.models.transformer.TransformerConfig)["__dataclass_fields__"])
    return found | {"preset": fairseq.models.ARCH_CONFIG_REGISTRY["transformer"]}

def changed(old, new):
    return [key for key, value in old.items() if value is not new.get(key) and value != new.get(key)]

before = state()
for module in pkgutil.walk_packages(fairseq_ext.__path__, "fairseq_ext."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
imported = state()
fairseq_ext.install()
installed = state()
fairseq_ext.install()
again = state()
fairseq_ext.patches.undo()
print(changed(before, imported))
print(changed(installed, again))
print(changed(imported, state()))
print(len(changed(imported, installed)))
"""
USE = """
from fairseq.tasks import TASK_REGISTRY
from fairseq import checkpoint_utils, options

def is_installed():
    return "multi_domain_translation" in TASK_REGISTRY, hasattr(checkpoint_utils.load_checkpoint_to_cpu, "__wrapped__")
"""


def _run(program: str, *words: str) -> list[str]:
    command = [sys.executable, "-P", "-c", program, *words]
    done = subprocess.run(command, env=own_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def test_no_import_changes_anything_and_undo_restores_what_install_changes() -> None:
    by_import, by_second_install, after_undo, count = _run(COMPARE)
    assert [by_import, by_second_install, after_undo] == ["[]", "[]", "[]"]
    assert int(count) > 300  # with the `eval` of every module


@pytest.mark.parametrize("program", [f"import fairseq_ext\n{USE}", f"{USE}\nimport fairseq_ext"])
def test_models_are_registered_by_install_and_not_by_an_import(program: str) -> None:
    found = _run(f"{program}\nprint(is_installed())\nfairseq_ext.install()\nprint(is_installed())")
    assert found == ["(False, False)", "(True, True)"]


@pytest.mark.parametrize("is_linked", [False, True])
def test_models_are_registered_by_the_user_dir(
    is_linked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / USER_DIR.name).symlink_to(USER_DIR)
    monkeypatch.chdir(tmp_path if is_linked else USER_DIR.parent)  # fairseq completes the path
    program = f"{USE}\noptions.get_training_parser()\nprint(is_installed())"
    assert _run(program, "--user-dir", f"{USER_DIR.name}/") == ["(True, True)"]
