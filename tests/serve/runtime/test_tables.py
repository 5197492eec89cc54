"""The output layer over all tokens and over some, beside its formula."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fairseq_ext.serve.graphs.model_graphs import write_graphs
from fairseq_ext.serve.runtime.manifest import FLOAT32, INT8, PRECISIONS
from fairseq_ext.serve.runtime.model import Model
from tests import toy_systems

PAD = 1
CHOSEN = [None, np.array([0, 1, 2, 3, 7, 11, 20])]


@pytest.fixture(scope="module")
def models(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("tables")
    _, _, model = toy_systems.make_system(data, "mix")
    model.decoder.register_buffer("output_bias", torch.linspace(-3, 3, len(model.decoder.dictionary)))
    for precision in PRECISIONS:
        write_graphs(model.eval(), folder, precision)
    return {precision: Model(folder, precision) for precision in PRECISIONS} | {"model": model}


def scores(model: Any, states: np.ndarray, chosen: np.ndarray | None) -> np.ndarray:
    """Log probabilities among the chosen tokens, N×V; minus infinity for others."""
    logits = model.decoder.output_layer(torch.tensor(states)).detach().numpy()
    others = np.ones(logits.shape[1], bool)
    others[chosen] = False
    logits[:, others & (chosen is not None)] = -np.inf
    return torch.tensor(logits).log_softmax(-1).numpy()


@pytest.mark.parametrize("chosen", CHOSEN)
@pytest.mark.parametrize(("precision", "tolerance"), [(FLOAT32, 1e-4), (INT8, 0.2)])
def test_the_best_tokens_and_asked_ones(
    models: dict[str, Any], precision: str, tolerance: float, chosen: np.ndarray | None
) -> None:
    states = np.random.default_rng(1).standard_normal((5, 64)).astype(np.float32)
    expected = scores(models["model"], states, chosen)
    output = models[precision].output(PAD, chosen)
    best, score = output.best(states)
    assert score == pytest.approx(expected.max(1), abs=tolerance)
    if precision == FLOAT32:
        assert best.tolist() == expected.argmax(1).tolist()
    asked = np.array([[3, 11]] * len(states))
    of_asked, several, tokens = output.several(states, asked, 4)
    assert of_asked == pytest.approx(np.take_along_axis(expected, asked, 1), abs=tolerance)
    assert several == pytest.approx(-np.sort(-expected)[:, :4], abs=tolerance)
    assert several == pytest.approx(np.take_along_axis(expected, tokens, 1), abs=tolerance)
    # With more than there are, padding fills the rest.
    _, every, tokens = output.several(states, asked, 1000)
    assert set(tokens[0][every[0] > -1e8]) == set(range(len(expected[0])) if chosen is None else chosen)
    assert set(tokens[0][every[0] < -1e8]) <= {PAD}
