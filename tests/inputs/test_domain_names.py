from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.inputs.domain_names import RESERVED_NAMES, check_domain_names, read_domain_names
from fairseq_ext.inputs.errors import InputError


@pytest.mark.parametrize("name", RESERVED_NAMES)
def test_a_new_domain_is_not_named_like_a_route_but_old_data_is_read(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"corpora: '{name}'"):
        check_domain_names([name], "corpora")
    (tmp_path / "domains.txt").write_text(f"{name}\n")
    assert read_domain_names(tmp_path / "domains.txt") == [name]
