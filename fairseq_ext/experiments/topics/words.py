"""Words of topics: candidate words, the top words of a model's topics, and their coherence.

LDA and NMF, topic models without a language model, use the same candidate words.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from gensim.corpora import Dictionary
from gensim.matutils import corpus2csc
from gensim.models import CoherenceModel, LdaModel
from sklearn.decomposition import NMF
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfTransformer
from torch import Tensor
from tqdm import tqdm

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.scoring import Batch
from fairseq_ext.text.byte_level_bpe import TOKENIZER_FILE
from fairseq_ext.text.model_tokenizer import read_model_tokenizer
from fairseq_ext.text.split import stable_hash
from fairseq_ext.text.text_files import stream_lines

_WORD_START = "\u2581"  # SentencePiece's mark
_SHORTEST = 3  # letters
# Parts of contracted stop words before the apostrophe.
_CONTRACTED = frozenset(
    ["ain", "aren", "couldn", "didn", "doesn", "don", "hadn", "hasn", "haven", "isn", "mightn", "mustn", "needn"]
    + ["shouldn", "wasn", "weren", "wouldn"]
)
_PASSES = 20  # LDA
_ITERATIONS = 400  # NMF


# Words of a domain


@dataclass(frozen=True)
class WordCorpus:
    """Lines drawn from a domain, reduced to candidate words.

    Attributes:
        numbers: line numbers in the file, starting from 0, in ascending order.
        words: candidate words in sorted order, keyed by their piece in the dictionary.
        documents: candidate words of each line, in order; may be empty.
    """

    numbers: np.ndarray
    words: Mapping[str, str]
    documents: Sequence[Sequence[str]]


def read_word_corpus(path: Path, subwords: Path, domain: str, *, count: int, min_count: int, seed: int) -> WordCorpus:
    """Draw up to ``count`` lines from a file of subword pieces and keep their candidate words.

    A candidate occurs in at least ``min_count`` of these lines. ``subwords`` is the folder of the subword model.
    """
    lines = list(stream_lines(path))
    generator = np.random.default_rng(stable_hash(seed, "topics", domain))
    drawn = np.sort(generator.permutation(len(lines))[:count])
    # Spellings of a model's tokens in SentencePiece's notation; empty for SentencePiece.
    tokenizer = subwords / TOKENIZER_FILE
    spellings = read_model_tokenizer(tokenizer).spellings() if tokenizer.is_file() else {}
    marked = {piece: text.replace(" ", _WORD_START, 1) for piece, text in spellings.items()}
    texts = [list(whole_words([marked.get(piece, piece) for piece in lines[number].split()])) for number in drawn]
    words = candidate_words(texts, min_count)
    if not words:
        raise InputError(
            f"{path}: no whole word is in {min_count} of {len(drawn)} lines; lower topics: min_count, or use subwords "
            "that include whole words"
        )
    piece_of = {text: piece for piece, text in marked.items()}
    pieces = {piece_of.get(_WORD_START + word, _WORD_START + word): word for word in words}
    known = set(words)
    return WordCorpus(drawn, pieces, [[word for word in text if word in known] for text in texts])


def whole_words(pieces: Sequence[str]) -> Iterator[str]:
    """Return the words of a line that are a single piece.

    The next piece must begin with a word boundary or with a character that is neither a letter nor a digit.
    """
    for piece, following in zip(pieces, [*pieces[1:], ""], strict=False):
        if piece.startswith(_WORD_START) and not following[:1].isalnum():
            yield piece[1:]


def candidate_words(documents: Iterable[Sequence[str]], min_count: int) -> list[str]:
    """Return content words in sorted order.

    They occur in at least ``min_count`` documents, consist of at least three lower-case letters, and are neither
    English stop words (scikit-learn's list) nor parts of contracted ones, such as "didn".
    """
    counts = Counter(word for words in documents for word in set(words))
    return sorted(
        word
        for word, count in counts.items()
        if count >= min_count and word.isalpha() and word.islower() and len(word) >= _SHORTEST
        if word not in ENGLISH_STOP_WORDS and word not in _CONTRACTED
    )


# Topics of a language model


def count_use(model: Any, batches: Sequence[Batch], padding_idx: int) -> Tensor:
    """Sum the weights of the topics by predicted token.

    Shape:
        result: V×(Z+1), in double precision
    """
    device = next(model.parameters()).device
    counts = torch.zeros(len(model.decoder.output_weight), model.num_topics + 1, dtype=torch.float64)
    for batch in tqdm(batches, desc="topics", unit=" batches", leave=False, disable=None):
        target = batch["target"].to(device)
        with torch.inference_mode():
            _, extra = model(batch["net_input"]["src_tokens"].to(device), features_only=True)
        is_token = target.ne(padding_idx)
        counts.index_add_(0, target[is_token].cpu(), extra["topic_weights"][is_token].double().cpu())
    return counts


def words_near(embeddings: Tensor, output_weight: Tensor, candidates: Sequence[int], num_words: int) -> list[list[int]]:
    """Return the candidates whose output embeddings are nearest to each topic's embedding by cosine, as in the paper.

    Shape:
        embeddings: (Z+1)×H, W_Z transposed; output_weight: V×H, W_V transposed; result: Z+1 lists of tokens
    """
    index = torch.as_tensor(candidates, device=output_weight.device)
    cosines = F.normalize(embeddings, dim=1) @ F.normalize(output_weight[index], dim=1).T  # (Z+1)×C
    return _best(cosines, candidates, num_words)


def words_by_use(counts: Tensor, candidates: Sequence[int], num_words: int) -> list[list[int]]:
    """Return the most typical predicted tokens of each topic by ``p(w|z)·log(p(w|z)/p(w))``.

    The probability alone favours frequent words, the quotient alone favours rare ones. The distributions are over the
    candidates only.

    Shape:
        counts: V×(Z+1), from :func:`count_use`; result: Z+1 lists of tokens
    """
    uses = counts[torch.as_tensor(candidates)].double().clamp(min=1e-12)  # C×(Z+1)
    of_topic = uses / uses.sum(0)
    of_all = uses.sum(1, keepdim=True) / uses.sum()
    return _best((of_topic * (of_topic / of_all).log()).T, candidates, num_words)


def _best(scores: Tensor, candidates: Sequence[int], num_words: int) -> list[list[int]]:
    """Return the candidates with the highest scores in each row of R×C. Ties keep their order."""
    order = scores.argsort(dim=1, descending=True, stable=True)[:, :num_words]
    return [[candidates[place] for place in row] for row in order.tolist()]


# Coherence, and topic models without a language model


def u_mass(
    topics: Sequence[Sequence[str]], documents: Sequence[Sequence[str]], tops: Sequence[int]
) -> dict[int, float]:
    """Compute the mean coherence of topics from their first words (Mimno et al., 2010): at most 0, higher is better.

    This is gensim's variant, as in the Topic Aware Transformer paper: the mean over pairs of
    ``log(D(w_i, w_j)/D + 1e-12) − log(D(w_j)/D)``, w_j before w_i, where D(·) of D documents contain the words. A pair
    that never shares a document thus counts about −20. Such pairs are common in short documents.

    Returns:
        The coherence by the number of words.
    """
    dictionary = Dictionary(documents)
    corpus = [dictionary.doc2bow(document) for document in documents]
    lists, of_corpus = [list(words) for words in topics], {"corpus": corpus, "dictionary": dictionary}
    by_top = {}
    for top in tops:
        model = CoherenceModel(topics=lists, coherence="u_mass", topn=top, processes=1, **of_corpus)
        by_top[top] = float(statistics.fmean(model.get_coherence_per_topic()))
    return by_top


def learn_topics(
    method: str, documents: Sequence[Sequence[str]], num_topics: int, num_words: int, seed: int
) -> list[list[str]]:
    """Train a topic model, ``lda`` (gensim) or ``nmf`` (scikit-learn), and return the first words of each topic."""
    dictionary = Dictionary(documents)
    corpus = [dictionary.doc2bow(document) for document in documents]
    seed %= 2**32  # numpy's range
    if method == "lda":
        lda = LdaModel(corpus, id2word=dictionary, num_topics=num_topics, passes=_PASSES, random_state=seed)
        return [[word for word, _ in lda.show_topic(topic, num_words)] for topic in range(num_topics)]
    # tf-idf weights are usual: with counts, frequent words would dominate every topic.
    weights = TfidfTransformer().fit_transform(corpus2csc(corpus, num_terms=len(dictionary)).T.tocsr())
    nmf = NMF(num_topics, init="nndsvda", random_state=seed, max_iter=_ITERATIONS).fit(weights)
    order = (-nmf.components_).argsort(axis=1, kind="stable")[:, :num_words]
    return [[dictionary[int(word)] for word in row] for row in order]
