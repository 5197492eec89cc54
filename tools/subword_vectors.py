#!/usr/bin/env python3
"""Write vectors of a text's words as GloVe text: of each word, the mean of the vectors of its subwords.

For static vectors of a language model's subwords, such as wordllama's, which come with pip:

    pip download --no-deps wordllama==0.3.9 && unzip wordllama-*.whl
    tools/subword_vectors.py wordllama/weights/l2_supercat_256.safetensors \
        wordllama/tokenizers/l2_supercat_tokenizer_config.json ptb.train.txt vectors.txt
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from safetensors.torch import load_file
from tokenizers import Tokenizer


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("vectors", type=Path, help="safetensors file of one matrix: a row for each subword")
    parser.add_argument("tokenizer", type=Path, help="tokenizer.json of the subwords")
    parser.add_argument("text", type=Path, help="words, separated by spaces")
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    [matrix] = load_file(options.vectors).values()
    tokenizer = Tokenizer.from_file(str(options.tokenizer))
    words = sorted(set(options.text.read_text(encoding="utf-8").split()))
    with options.output.open("w", encoding="utf-8") as file:
        for word, encoding in zip(words, tokenizer.encode_batch(words, add_special_tokens=False), strict=True):
            vector = matrix[encoding.ids].float().mean(dim=0)
            print(word, *(f"{value:.5f}" for value in vector.tolist()), file=file)


if __name__ == "__main__":
    main()
