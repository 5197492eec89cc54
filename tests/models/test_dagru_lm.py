"""What the recurrent language models promise."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.modules.combinations import COMBINATIONS
from tests import toy, toy_stream

V, E = 24, toy_stream.VECTOR_DIM


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text, and word vectors in it."""
    data = toy_stream.make_stream(tmp_path_factory.mktemp("stream"))
    toy_stream.write_vectors(data / "v.txt")
    return data


def make_model(stream: Path, *extra: str) -> Any:
    return toy.make_model(*toy_stream.make_task(stream, "--word-vectors", str(stream / "v.txt"), *extra))


def tokens_of(rows: int = 3, length: int = 7) -> Tensor:
    return torch.randint(4, V, (rows, length), generator=torch.Generator().manual_seed(3))


def scores(model: Any, tokens: Tensor, **given: Any) -> Tensor:
    with torch.no_grad():
        return model(tokens, **given)[0]


@pytest.mark.parametrize("name", COMBINATIONS)
def test_cached_decoding_is_full_decoding(stream: Path, name: str) -> None:
    model, tokens = make_model(stream, "--combination", name), tokens_of()
    whole, state = scores(model, tokens), {}
    steps = [scores(model, tokens[:, : n + 1], incremental_state=state) for n in range(tokens.size(1))]
    torch.testing.assert_close(torch.cat(steps, 1), whole)


def test_segments_are_one_text_in_their_order(stream: Path) -> None:
    model, tokens = make_model(stream), tokens_of(length=9)
    parts = [scores(model, part, segment=n) for n, part in enumerate(tokens.split(3, 1))]
    torch.testing.assert_close(torch.cat(parts, 1), scores(model, tokens))
    assert not torch.allclose(parts[1], scores(model, tokens[:, 3:6]))
    for rows, segment in ((tokens[:, :3], 4), (tokens[:2, :3], 3)):
        with pytest.raises(InputError, match=f"segment {segment} with {len(rows)} rows .* segment 2 with 3"):
            scores(model, rows, segment=segment)


def test_checkpoints_have_the_vectors_and_the_carried_state(stream: Path) -> None:
    model = make_model(stream).train()
    scores(model, tokens_of(), segment=0)
    saved = copy.deepcopy(model.state_dict())
    task, cfg = toy_stream.make_task(stream, "--word-vectors", "/nowhere", "--vector-dim", str(E))
    other = task.build_model(cfg, from_checkpoint=True)
    other.load_state_dict(saved, strict=True)
    assert torch.equal(other.decoder.vectors, model.decoder.vectors)
    torch.testing.assert_close(scores(other.train(), tokens_of(), segment=1), scores(model, tokens_of(), segment=1))
    torch.testing.assert_close(scores(other.eval(), tokens_of()), scores(model.eval(), tokens_of()))


@pytest.mark.parametrize(("options", "scale"), [([], 0.1), (["--init-range", "0.3"], 0.3)])
def test_general_vectors_come_in_at_the_scale_of_trained_ones(stream: Path, options: list[str], scale: float) -> None:
    decoder = make_model(stream, *options).decoder
    assert decoder.embed.weight.abs().max() <= scale
    rms = scale / 3**0.5  # of a uniform distribution
    assert decoder.embed.weight.square().mean().sqrt().item() == pytest.approx(rms, rel=0.1)
    assert decoder.vectors[4:].square().mean().sqrt().item() == pytest.approx(rms)
