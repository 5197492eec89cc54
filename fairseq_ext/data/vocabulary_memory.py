"""Checkpoints that remember the vocabulary they were trained with."""

from collections.abc import Mapping
from typing import Any

from fairseq_ext.data.data_directory import split_directories
from fairseq_ext.data.vocabulary_fingerprint import check_fingerprint, fingerprint_of

_ENTRY = "vocabulary"


class VocabularyMemory:
    """Mixed into a task of fairseq's: its state in checkpoints tells dictionaries and subwords, and is compared.

    Checkpoints without that, of fairseq's own tasks and of earlier versions, load as they are.
    """

    cfg: Any

    def dictionaries(self) -> dict[str, Any]:
        """The dictionaries that numbers are looked up in, by file name."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """What checkpoints keep of the task."""
        return {**super().state_dict(), _ENTRY: self._fingerprint()}  # type: ignore[misc]

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take what a checkpoint kept of a task."""
        self.check_vocabulary(state_dict)
        super().load_state_dict({name: value for name, value in state_dict.items() if name != _ENTRY})  # type: ignore[misc]

    def check_vocabulary(self, state_dict: Mapping[str, Any]) -> None:
        """Compare the data's vocabulary with what a checkpoint kept of its task."""
        remembered = state_dict.get(_ENTRY)
        if isinstance(remembered, Mapping):
            check_fingerprint(self._fingerprint(), remembered, split_directories(self.cfg.data)[0])

    def _fingerprint(self) -> dict[str, str]:
        return fingerprint_of(self.dictionaries(), split_directories(self.cfg.data)[0])
