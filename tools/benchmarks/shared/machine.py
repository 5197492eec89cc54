"""Description of the machine: processor, bfloat16 units, libraries and code."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from fairseq_ext.base.processes import cores

_UNITS = ("avx512_bf16", "amx_bf16", "amx_int8", "avx512_vnni", "bf16")


def machine_facts() -> dict[str, Any]:
    """Return facts about the machine that readers need to interpret figures; the keys are always the same."""
    name, flags = _processor()
    return {
        "processor": name,
        "cores": os.cpu_count(),
        "usable_cores": cores(),
        "units": [unit for unit in _UNITS if unit in flags],
        "load": [round(each, 1) for each in os.getloadavg()],
        "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
    }


def _processor() -> tuple[str, set[str]]:
    """Return the processor's name and flags, if the system provides them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or platform.machine(), set()
    found = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*: (.*)$", text, re.MULTILINE)
    return found[1] if found else platform.machine(), set(flags[1].split()) if flags else set()


def commit_of(folder: Path) -> str:
    """Return the commit of a checkout, or the folder's name without git."""
    if not (folder / ".git").exists():
        return folder.name
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or folder.name
