"""Of a training's log, the last of every epoch counts."""

from __future__ import annotations

from pathlib import Path

from fairseq_ext.recipes.train import read_training_log


def log_text(perplexities: list[float]) -> str:
    """What fairseq logs at the ends of epochs."""
    lines = []
    for epoch, perplexity in enumerate(perplexities, start=1):
        lines += [
            f"2026-01-01 00:00:00 | INFO | train_inner | epoch {epoch:03d}:    100 / 200 loss=9.1, ppl=550.1, wall=9",
            f"2026-01-01 00:00:00 | INFO | valid | epoch {epoch:03d} | valid on 'valid' subset | loss 250.1 | nll_loss "
            f"6.1 | ppl {perplexity:g} | wps 9000 | wpb 800 | bsz 20 | num_updates {100 * epoch} | best_loss 250.1",
            f"2026-01-01 00:00:00 | INFO | train | epoch {epoch:03d} | loss 260.1 | nll_loss 6.3 | ppl 70.5 | wps 9000 "
            f"| ups 11 | lr 1 | gnorm 1.2 | clip 0 | train_wall 40 | wall {50 * epoch}",
        ]
    return "\n".join(lines) + "\n"


def test_a_repeated_epoch_replaces_the_first(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(log_text([300]) + log_text([290, 200]), encoding="utf-8")
    assert read_training_log(path) == ({1: 290.0, 2: 200.0}, 100)
