"""Labelling new text with a trained teacher."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from fairseq_ext.corpora.text_files import collapse, read_lines
from fairseq_ext.data.teacher_labels import read_teacher_record, write_probs
from fairseq_ext.teacher.classifier import MODEL_FOLDER, load_classifier


def label_file(teacher_dir: Path, input_path: Path, output_path: Path) -> None:
    """Write P(domain | sentence) of every line as float32 N×D, columns as in ``teacher.json``.

    Raises:
        InputError: if the teacher or the text cannot be read.
    """
    record = read_teacher_record(teacher_dir)
    lines = [collapse(line) for line in read_lines(input_path)]
    classifier = load_classifier(teacher_dir / MODEL_FOLDER, record["backend"])
    write_probs(output_path, classifier.predict(lines))


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``data-prep/label.py``."""
    parser = argparse.ArgumentParser(
        description="Label text with a trained teacher: one row of domain probabilities a line, a .npy file.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--teacher", type=Path, required=True, metavar="DIR", help="folder with teacher.json")
    parser.add_argument("--input", type=Path, required=True, metavar="FILE", help="text, one sentence a line")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE.npy", help="labels to write")
    options = parser.parse_args(arguments)
    if options.output.suffix != ".npy":
        parser.error(f"--output must end in .npy, got {options.output}")
    label_file(options.teacher, options.input, options.output)
