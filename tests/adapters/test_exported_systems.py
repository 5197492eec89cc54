"""All verbs on exported systems: what comes out is one, and verifies."""

from pathlib import Path

import pytest
from fairseq import checkpoint_utils

from fairseq_ext.adapters.domains import add_domain, remove_domain, rename_domain
from fairseq_ext.adapters.system import System
from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.runtime.manifest import verify
from tests.adapters.test_files import assert_same_state

pytestmark = pytest.mark.slow


def test_domains_of_an_exported_system(exports: Path, tmp_path: Path) -> None:
    add_domain(System.read(exports / "gad"), "news", "mean", guarded=True).write(tmp_path / "four")
    manifest = verify(tmp_path / "four")
    assert manifest.domains == ("law", "med", "news", "sub")
    assert (exports / "gad/classifier").exists()
    assert manifest.classifier is None
    assert not (tmp_path / "four/classifier").exists()
    assert (tmp_path / "four/domains.txt").read_text().split() == list(manifest.domains)
    rename_domain(tmp_path / "four", "news", "press", tmp_path / "renamed")
    assert verify(tmp_path / "renamed").domains == ("law", "med", "press", "sub")
    assert System.read(tmp_path / "renamed").guarded == ("press",)
    remove_domain(tmp_path / "renamed", "press", tmp_path / "three")
    assert verify(tmp_path / "three").domains == ("law", "med", "sub")
    assert_same_state(System.read(tmp_path / "three"), System.read(exports / "gad"))
    with (tmp_path / "three/dict.en.txt").open("r+") as file:
        file.write("x")
    with pytest.raises(InputError, match=r"dict\.en\.txt: was damaged or edited"):
        remove_domain(tmp_path / "three", "law", tmp_path / "two")
    assert not (tmp_path / "two").exists()


def test_graphs_are_made_of_the_weights_in_memory(
    exports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = System.read(exports / "gad")
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint_to_cpu", None)
    system.write(tmp_path / "copy")
    graphs = sorted(path.name for path in (exports / "gad").glob("*.onnx"))
    assert len(graphs) == 8
    assert all((tmp_path / "copy" / name).read_bytes() == (exports / "gad" / name).read_bytes() for name in graphs)
