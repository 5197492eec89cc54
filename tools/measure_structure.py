#!/usr/bin/env python3
"""Measure the structure of a Python package: its subpackages, their imports and import cycles.

Modules directly below the package, and its own ``__init__``, count as subpackages. Imports inside functions count, too.
A cycle is a strongly connected component. Blank lines are not counted.
"""

import argparse
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

import grimp
from grimp.exceptions import GrimpException

ROOT = Path(__file__).resolve().parents[1]
Imports = Mapping[str, Collection[str]]


def main() -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--package",
        type=Path,
        default=ROOT / "fairseq_ext",
        metavar="DIR",
        help="the package's directory (default: fairseq_ext of this project)",
    )
    parser.add_argument("--imports", action="store_true", help="also print the imports of each subpackage")
    options = parser.parse_args()
    package = options.package.resolve()
    if not (package / "__init__.py").is_file():
        sys.exit(f"--package: {package} has no __init__.py; give the directory of a Python package")
    lines, imports = measure(package)
    _show(lines, imports, with_imports=options.imports)


def measure(package: Path) -> tuple[dict[str, int], dict[str, set[str]]]:
    """Return the lines of each subpackage, and the subpackages that it imports."""
    # grimp searches for packages on Python's path.
    sys.path.insert(0, str(package.parent))
    try:
        graph = grimp.build_graph(package.name, cache_dir=None)
    except GrimpException as error:
        sys.exit(f"--package: {package} cannot be read ({error})")
    files = {subpackage: [path] for path in package.iterdir() if (subpackage := _subpackage_of_file(path))}
    files = {
        subpackage: sorted(paths[0].rglob("*.py")) if paths[0].is_dir() else paths
        for subpackage, paths in files.items()
    }
    imports: dict[str, set[str]] = {subpackage: set() for subpackage in files}
    for module in graph.modules:
        subpackage = _subpackage(module)
        imported = {_subpackage(other) for other in graph.find_modules_directly_imported_by(module)}
        imports[subpackage] |= imported - {subpackage}
    return {subpackage: sum(map(_count_lines, paths)) for subpackage, paths in files.items()}, imports


def find_cycles(imports: Imports) -> list[list[str]]:
    """Return the sets of mutually reachable subpackages, largest first."""
    reached = {subpackage: _reached(imports, subpackage) for subpackage in imports}
    cycles = {tuple(sorted(end for end in reached[subpackage] if subpackage in reached[end])) for subpackage in imports}
    return sorted((list(cycle) for cycle in cycles if cycle), key=lambda cycle: (-len(cycle), cycle))


def _reached(imports: Imports, start: str) -> set[str]:
    """Return the subpackages reachable by imports from a subpackage; includes itself if it is in a cycle."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = set(imports[waiting.pop()]) - found
        found |= new
        waiting += new
    return found


def _subpackage(module: str) -> str:
    """``package.subpackage.module`` → ``subpackage``; the package itself is a subpackage, too."""
    return [*module.split("."), module][1]


def _subpackage_of_file(path: Path) -> str | None:
    if path.name == "__init__.py":
        return path.parent.name
    if path.is_dir():
        return path.name if any(path.rglob("*.py")) else None
    return path.stem if path.suffix == ".py" else None


def _count_lines(path: Path) -> int:
    return sum(bool(line.strip()) for line in path.read_text(encoding="utf-8").splitlines())


def _show(lines: Mapping[str, int], imports: Imports, *, with_imports: bool) -> None:
    importers = {subpackage: sum(subpackage in ends for ends in imports.values()) for subpackage in imports}
    print(f"{'subpackage':<28}{'lines':>8}{'imports':>9}{'imported by':>13}")
    for subpackage in sorted(imports):
        print(f"{subpackage:<28}{lines[subpackage]:>8,}{len(imports[subpackage]):>9}{importers[subpackage]:>13}")
        if with_imports and imports[subpackage]:
            print(f"    → {', '.join(sorted(imports[subpackage]))}")
    cycles = find_cycles(imports)
    print(
        f"\n{len(imports)} subpackages, {sum(lines.values()):,} lines, {sum(map(len, imports.values()))} imports,",
        end=" ",
    )
    print(f"cycles: {len(cycles)}")
    for cycle in cycles:
        print(f"    {len(cycle)}: {', '.join(cycle)}")


if __name__ == "__main__":
    main()
