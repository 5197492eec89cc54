from __future__ import annotations

from pathlib import Path

import pytest

from tests import toy, toy_systems


@pytest.fixture(scope="session")
def systems(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """Checkpoints ``NAME/model.pt`` of MIX, TAG, AD and GAD on one base, and of AD and GAD with LoRA."""
    root = toy_systems.write_systems(data, tmp_path_factory.mktemp("systems"))
    for name in ("ad", "gad"):
        task, args, model = toy_systems.make_system(data, name, "--adapter-form", "lora", "--lora-alpha", "1")
        args.source_lang, args.target_lang = task.cfg.source_lang, task.cfg.target_lang
        toy.write_checkpoint(root / f"{name}-lora" / "model.pt", args, model)
    return root
