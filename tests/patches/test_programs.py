from __future__ import annotations

from pathlib import Path

import pytest
from fairseq.data import Dictionary, data_utils
from fairseq.tasks.audio_pretraining import AudioPretrainingConfig, AudioPretrainingTask

import fairseq_ext  # noqa: F401  registers, fairseq being loaded
from fairseq_ext.inputs.errors import InputError


def test_no_part_of_a_path_reaches_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = Path("data $(mkdir PWN)")
    data.mkdir()
    (data / "train.fasta").write_text(">one\nABC\n")
    with pytest.raises(InputError, match=r"train\.fasta: data in FASTA files is not read"):
        data_utils.load_indexed_dataset(str(data / "train"), Dictionary())
    assert not Path("PWN").exists()


def test_no_option_names_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoint.pt").write_text("weights")
    task = AudioPretrainingTask(AudioPretrainingConfig(post_save_script="mkdir PWN"))
    with pytest.raises(InputError, match="--post-save-script 'mkdir PWN': no programs are run"):
        task.post_save(str(tmp_path / "checkpoint.pt"), 3)
    AudioPretrainingTask(AudioPretrainingConfig()).post_save(str(tmp_path / "checkpoint.pt"), 3)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]
