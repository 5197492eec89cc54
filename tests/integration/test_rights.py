"""Files and folders that may not be read are one line, also where nothing is to be run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.fork_server import PYTHON
from tests.small_corpus import write_config, write_corpora

CAPABILITIES = "-dac_override,-dac_read_search"
CASES = ("file", "folder", "entry", "zip", "tar", "catalogues", "config", "work")
# Prepares each file that it is given, with --dry-run and without, and prints what ends that.
PROGRAM = """
import json, sys
from functools import partial
from fairseq_ext.cli.main import run_verb
from fairseq_ext.inputs.errors import run_command

for config in sys.argv[1:]:
    for options in (["--dry-run"], []):
        try:
            run_command(partial(run_verb, ["prepare", config, *options]))
            said = None
        except SystemExit as end:
            said = end.code
        print(json.dumps([config, options, said]))
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may read everything"),
]


def prepare(configs: list[Path]) -> list[tuple[Path, list[str], str | None]]:
    """What ends the preparations, without the rights that root has beyond a file's owner."""
    drop = ["setpriv", f"--bounding-set={CAPABILITIES}", f"--inh-caps={CAPABILITIES}"] if os.geteuid() == 0 else []
    command = [*drop, PYTHON, "-c", PROGRAM, *map(str, configs)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return [(Path(config), options, said) for config, options, said in lines]


def test_what_may_not_be_read_is_one_line(tmp_path: Path) -> None:
    named = {}
    for case in CASES:
        folder = tmp_path / case / "corpora"
        locked, config = _lock(case, tmp_path / case, write_corpora(folder))
        named[config] = locked
    found = prepare(list(named))
    for path in [*tmp_path.rglob("*")]:
        path.chmod(0o700)
    assert len(found) == 2 * len(CASES)
    for config, options, said in found:
        if (config.parent.name, options) == ("work", ["--dry-run"]):
            continue  # nothing is written
        assert said is not None, config
        assert "\n" not in said
        assert "Permission denied" in said or "you may not read it" in said
        assert str(named[config]) in said
        assert not (config.parent / "work" / "corpora").exists()


def _lock(case: str, root: Path, folder: Path) -> tuple[Path, Path]:
    """Lock what the case is about; returns its name, and the experiment file."""
    if case in ("file", "folder", "config", "work"):
        config = write_config(root / "c.yaml", folder)
        locked = {"file": folder / "bank.en", "folder": folder, "config": config, "work": root / "work"}[case]
        locked.mkdir(exist_ok=True) if case == "work" else None
    else:
        locked = {"entry": folder, "zip": folder / "a.zip", "tar": folder / "a.tar", "catalogues": folder / "a.mo"}[
            case
        ]
        if case == "zip":
            with zipfile.ZipFile(locked, "w") as archive:
                archive.writestr("a.en", "x\n")
        elif case != "entry":
            locked.write_bytes(b"x")
        entry = str(folder / "bank.{lang}") if case == "entry" else str(locked)
        config = write_config(root / "c.yaml", folder, corpora={"domains": {"bank": [entry]}})
    locked.chmod(0o500 if case == "work" else 0)
    return locked, config
