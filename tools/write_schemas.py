#!/usr/bin/env python3
"""Write ``configs/schema/KIND.json``, the JSON schemas with which editors complete and check experiment files.

An editor with a YAML language server uses the schema in a file's first line:

    # yaml-language-server: $schema=../schema/translation.json
"""

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from fairseq_ext.base.own_python import use_own_python

use_own_python()

from fairseq_ext.base.errors import run_command
from fairseq_ext.experiments.registry import schemas


def main() -> None:
    """Write all schemas."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "configs" / "schema", help="folder to write to")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in schemas().items():
        text = json.dumps(schema, indent=1, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_command(main)
