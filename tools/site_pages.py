"""MkDocs hooks for files outside ``docs/``: the README is the first page, and links out of ``docs/`` work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
# Files by their path on the site, whose root is docs/.
OUTSIDE = {
    "index.md": "README.md",
    **{name: name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "CITATION.cff")},
    **{
        path.relative_to(ROOT).as_posix(): path.relative_to(ROOT).as_posix()
        for pattern in ("configs/**/*.yaml", "examples/*.ipynb")
        for path in ROOT.glob(pattern)
    },
}
_LINK = re.compile(r"(?<=\]\()[^)\s]+")


def on_files(files: Files, config: Any) -> Files:
    """Add the files."""
    for uri, name in OUTSIDE.items():
        files.append(File.generated(config, uri, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(text: str, page: Any, **_: Any) -> str:
    """Rewrite links relative to the page's place on the site."""
    uri = page.file.src_uri
    folder = ROOT if uri in OUTSIDE else (ROOT / "docs" / uri).parent
    depth = uri.count("/")
    return _LINK.sub(lambda link: _on_site(link[0], folder, depth), text)


def _on_site(link: str, folder: Path, depth: int) -> str:
    path, mark, anchor = link.partition("#")
    if not path or re.match(r"[a-z]+:", path):
        return link
    target = (folder / path).resolve()
    if target == ROOT / "docs":
        return "index.html"
    if not target.is_relative_to(ROOT):
        return link
    inside = target.relative_to(ROOT / "docs" if target.is_relative_to(ROOT / "docs") else ROOT).as_posix()
    return "../" * depth + ("index.md" if inside == "README.md" else inside) + mark + anchor
