"""What the recurrent language models promise."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.modules.combinations import COMBINATIONS
from tests import toy_stream

V, E, H, PAD = 24, toy_stream.VECTOR_DIM, 16, 1
GRU_SIZES = {"input.weight", "input.bias", "gates.weight", "candidate.weight"}
GATE_SIZES = {"given.weight", "given.bias", "context.weight"}


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_stream.make_stream(tmp_path_factory.mktemp("stream"))


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_stream.write_vectors(tmp_path_factory.mktemp("vectors") / "v.txt")


def make_model(stream: Path, vectors: Path, combination: str = "dagru", *extra: str) -> Any:
    task, cfg = toy_stream.make_task(stream, "--combination", combination, "--word-vectors", str(vectors), *extra)
    torch.manual_seed(1)
    return task.build_model(cfg).eval()


@pytest.fixture
def model(stream: Path, vectors: Path) -> Any:
    return make_model(stream, vectors)


def tokens_of(rows: int = 3, length: int = 7) -> Tensor:
    return torch.randint(4, V, (rows, length), generator=torch.Generator().manual_seed(3))


def scores(model: Any, tokens: Tensor, **given: Any) -> Tensor:
    with torch.no_grad():
        return model(tokens, **given)[0]


@pytest.mark.parametrize("name", COMBINATIONS)
def test_what_is_trained(stream: Path, vectors: Path, name: str) -> None:
    model = make_model(stream, vectors, name)
    expected = {"output.weight", "output.bias"}
    expected |= {f"gru.gru.{'gru.' * COMBINATIONS[name].has_gates}{part}" for part in GRU_SIZES}
    if name != "fixed":
        expected.add("embed.weight")
    if name in ("cvc", "wcvc", "cvs", "wcvs", "wvg", "cvg", "dagru"):
        expected |= {f"gru.general_gru.{part}" for part in GRU_SIZES}
    if name in ("wcvc", "wcvs"):
        expected.add("gru.context_weight")
    for gate, names in (("word", ("wvg", "dagru")), ("context", ("cvg", "dagru"))):
        if name in names:
            expected |= {f"gru.gru.{gate}_gate.{part}" for part in GATE_SIZES}
    assert {f"decoder.{part}" for part in expected} == {part for part, _ in model.named_parameters()}
    assert {part for part, _ in model.named_buffers()} == {"decoder.vectors"}
    assert all(parameter.abs().max() <= 0.1 for parameter in model.parameters())


@pytest.mark.parametrize("name", COMBINATIONS)
def test_cached_decoding_is_full_decoding(stream: Path, vectors: Path, name: str) -> None:
    model, tokens = make_model(stream, vectors, name), tokens_of()
    whole, state = scores(model, tokens), {}
    steps = [scores(model, tokens[:, : n + 1], incremental_state=state) for n in range(tokens.size(1))]
    torch.testing.assert_close(torch.cat(steps, 1), whole)


@pytest.mark.parametrize("name", ["none", "cvs", "dagru"])
def test_segments_are_one_text(stream: Path, vectors: Path, name: str) -> None:
    model, tokens = make_model(stream, vectors, name), tokens_of(length=9)
    parts = [scores(model, part, segment=n) for n, part in enumerate(tokens.split(3, 1))]
    torch.testing.assert_close(torch.cat(parts, 1), scores(model, tokens))
    assert not torch.allclose(parts[1], scores(model, tokens[:, 3:6]))


def test_segments_out_of_order(model: Any) -> None:
    scores(model, tokens_of(), segment=0)
    with pytest.raises(InputError, match="segment 2 with 3 rows of text does not follow segment 0 with 3"):
        scores(model, tokens_of(), segment=2)
    with pytest.raises(InputError, match="segment 1 with 2 rows of text does not follow segment 0 with 3"):
        scores(model, tokens_of(rows=2), segment=1)


def test_checkpoints_have_the_vectors_and_the_carried_state(stream: Path, vectors: Path, model: Any) -> None:
    model.train()
    scores(model, tokens_of(), segment=0)
    saved = copy.deepcopy(model.state_dict())
    task, cfg = toy_stream.make_task(stream, "--word-vectors", "/nowhere", "--vector-dim", str(E))
    other = task.build_model(cfg, from_checkpoint=True)
    other.load_state_dict(saved, strict=True)
    assert torch.equal(other.decoder.vectors, model.decoder.vectors)
    torch.testing.assert_close(scores(other.train(), tokens_of(), segment=1), scores(model, tokens_of(), segment=1))
    torch.testing.assert_close(scores(other.eval(), tokens_of()), scores(model.eval(), tokens_of()))


@pytest.mark.parametrize(
    ("options", "rms"), [([], 0.1 / 3**0.5), (["--init-range", "0.3"], 0.3 / 3**0.5), (["--vector-scale", "2"], 2.0)]
)
def test_general_vectors_come_in_at_the_scale_of_trained_ones(
    stream: Path, vectors: Path, options: list[str], rms: float
) -> None:
    """As they start, or at one that is given; checkpoints keep both the vectors and the scale."""
    task, cfg = toy_stream.make_task(stream, "--word-vectors", str(vectors), *options)
    model = task.build_model(cfg)
    words = model.decoder.vectors[4:]
    assert words.square().mean().sqrt().item() == pytest.approx(rms)
    assert cfg.vector_scale == pytest.approx(rms)
    if "--vector-scale" not in options:
        own = model.decoder.embed.weight
        assert own.square().mean().sqrt().item() == pytest.approx(rms, rel=0.1)
