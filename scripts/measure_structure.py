#!/usr/bin/env python3
"""Measure the structure of a Python package: its rooms, the arrows between them and the knots they form.

A room is a sub-package or module directly below the package, whose own ``__init__`` counts as one. An arrow leads from
a room to another that one of its modules imports, inside functions too; a knot is a set of rooms each of which is
reached from every other (a strongly connected component). Lines are all that are not blank, documentation included.
"""

import argparse
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

import grimp
from grimp.exceptions import GrimpException

ROOT = Path(__file__).resolve().parents[1]
Arrows = Mapping[str, Collection[str]]


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--package",
        type=Path,
        default=ROOT / "fairseq_ext",
        metavar="DIR",
        help="the package's directory (default: fairseq_ext of this project)",
    )
    parser.add_argument("--arrows", action="store_true", help="also print the arrows of each room")
    options = parser.parse_args()
    package = options.package.resolve()
    if not (package / "__init__.py").is_file():
        sys.exit(f"--package: {package} has no __init__.py; give the directory of a Python package")
    lines, arrows = measure(package)
    _show(lines, arrows, with_arrows=options.arrows)


def measure(package: Path) -> tuple[dict[str, int], dict[str, set[str]]]:
    """The lines of a package by room, and the rooms that each room imports."""
    # grimp finds packages where Python does.
    sys.path.insert(0, str(package.parent))
    try:
        graph = grimp.build_graph(package.name, cache_dir=None)
    except GrimpException as error:
        sys.exit(f"--package: {package} cannot be read ({error})")
    files = {room: [path] for path in package.iterdir() if (room := _room_of_file(path))}
    files = {room: sorted(paths[0].rglob("*.py")) if paths[0].is_dir() else paths for room, paths in files.items()}
    arrows: dict[str, set[str]] = {room: set() for room in files}
    for module in graph.modules:
        room = _room(module)
        imported = {_room(other) for other in graph.find_modules_directly_imported_by(module)}
        arrows[room] |= imported - {room}
    return {room: sum(map(_count_lines, paths)) for room, paths in files.items()}, arrows


def find_knots(arrows: Arrows) -> list[list[str]]:
    """The sets of rooms each of which is reached from every other, largest first."""
    reached = {room: _reached(arrows, room) for room in arrows}
    knots = {tuple(sorted(end for end in reached[room] if room in reached[end])) for room in arrows}
    return sorted((list(knot) for knot in knots if knot), key=lambda knot: (-len(knot), knot))


def _reached(arrows: Arrows, start: str) -> set[str]:
    """The rooms that arrows lead to from one; itself, if it is in a knot."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = set(arrows[waiting.pop()]) - found
        found |= new
        waiting += new
    return found


def _room(module: str) -> str:
    """``package.room.module`` → ``room``; the package itself is a room, too."""
    return [*module.split("."), module][1]


def _room_of_file(path: Path) -> str | None:
    if path.name == "__init__.py":
        return path.parent.name
    if path.is_dir():
        return path.name if any(path.rglob("*.py")) else None
    return path.stem if path.suffix == ".py" else None


def _count_lines(path: Path) -> int:
    return sum(bool(line.strip()) for line in path.read_text(encoding="utf-8").splitlines())


def _show(lines: Mapping[str, int], arrows: Arrows, *, with_arrows: bool) -> None:
    importers = {room: sum(room in ends for ends in arrows.values()) for room in arrows}
    print(f"{'room':<28}{'lines':>8}{'imports':>9}{'imported by':>13}")
    for room in sorted(arrows):
        print(f"{room:<28}{lines[room]:>8,}{len(arrows[room]):>9}{importers[room]:>13}")
        if with_arrows and arrows[room]:
            print(f"    → {', '.join(sorted(arrows[room]))}")
    knots = find_knots(arrows)
    print(f"\n{len(arrows)} rooms, {sum(lines.values()):,} lines, {sum(map(len, arrows.values()))} arrows,", end=" ")
    print(f"knots: {len(knots)}")
    for knot in knots:
        print(f"    {len(knot)}: {', '.join(knot)}")


if __name__ == "__main__":
    main()
