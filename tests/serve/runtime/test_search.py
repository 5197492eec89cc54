"""What the graphs and the search in numpy find is what fairseq's search finds, of every form of a model."""

import functools
import tracemalloc
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import data_utils

from fairseq_ext.base.errors import InputError
from fairseq_ext.models.adapter_transformer import NO_ADAPTER
from fairseq_ext.serve.graphs.graph import LARGE_BYTES, Graph
from fairseq_ext.serve.graphs.model_graphs import write_graphs
from fairseq_ext.serve.runtime.manifest import FLOAT32, INT8, graph_files
from fairseq_ext.serve.runtime.model import Model, Route
from fairseq_ext.serve.runtime.next_tokens import Options
from fairseq_ext.serve.runtime.search import Found, GreedySearch, Search
from fairseq_ext.serve.runtime.sessions import Session
from tests import toy_systems

PRE_NORM = ("--encoder-normalize-before", "--decoder-normalize-before")
LORA = ("--adapter-form", "lora", "--lora-modules", "q,k,v,out,fc1,fc2")
SSRU = ("--autoregressive-layer", "ssru", "--layer-norm-epsilon", "1e-6", "--zero-start")
FORMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "post-norm": ("mix", ("--activation-fn", "gelu")),
    "pre-norm": ("mix", (*PRE_NORM, "--decoder-learned-pos", "--layernorm-embedding")),
    "plain adapters": ("ad", PRE_NORM),
    "gates on all": ("gad", ("--gate-inputs", "states,source,encoder")),
    "gates on states": ("gad", ("--gate-inputs", "states", *PRE_NORM)),
    "gates on the source": ("gad", ("--gate-inputs", "source", "--gate-temperature", "1")),
    "a guarded adapter": ("gad", ("--gate-inputs", "states,source,encoder")),
    "two adapters of a gate's": ("gad", ("--gate-top-k", "2")),
    "a gate that may choose the base": ("gad", ("--gate-base", "--gate-inputs", "states,source,encoder")),
    "two of adapters and base": ("gad", ("--gate-base", "--gate-top-k", "2")),
    "plain low-rank adapters": ("ad", LORA),
    "gated low-rank adapters": ("gad", (*LORA, *PRE_NORM)),
    "SSRU": ("mix", SSRU),
    "SSRU with gates": ("gad", ("--gate-inputs", "states,source", *SSRU)),
    "SSRU with low-rank adapters": ("ad", (*LORA[:-1], "forget,candidate,q,v", *SSRU)),
}
QUICK = ["plain adapters", "gates on all", "SSRU"]
SOURCES = [[5, 6, 7, 8, 9, 2], [10, 2], [11, 6, 5, 2], [3, 7, 7, 12, 2]]
ROUTES = [1, NO_ADAPTER, 0, 2]
VOCABULARY: Any = SimpleNamespace(pad=1, unk=3, last=2, first=2, longest_target=1024)
SEARCHES = [
    Options(beam=3, max_len_b=7),
    Options(beam=4, max_len_b=20, lenpen=0.3, unkpen=1.5, min_len=4),
    Options(beam=1, max_len_b=5),
    Options(beam=2, max_len_a=1.5, max_len_b=1, lenpen=2.0, unkpen=-3.0),
]


def make(name: str, data: Path, folder: Path) -> tuple[Any, Any, Model]:
    """Task, model and graphs of a form."""
    system, options = FORMS[name]
    task, _, model = toy_systems.make_system(data, system, *options)
    if name == "a guarded adapter":
        for layer in (*model.encoder.layers, *model.decoder.layers):
            layer.adapter.router.guarded = (2,)
    return task, model.eval(), graphs(model, folder)


@pytest.fixture(scope="module")
def form(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Any, Any, Model]]:
    return functools.cache(lambda name: make(name, data, tmp_path_factory.mktemp("graphs")))


def graphs(model: Any, folder: Path, precision: str = FLOAT32) -> Model:
    folder.mkdir(exist_ok=True)
    write_graphs(model, folder, precision)
    return Model(folder, precision)


def search(
    model: Model, sources: list[list[int]], route: Route, options: Options, kind: Any = Search, **given: Any
) -> list[Found]:
    output = model.output(VOCABULARY.pad)
    return kind(model, output, [np.array(each) for each in sources], route, options, VOCABULARY, **given).run()


def route(model: Model, is_forced: bool) -> Route:
    if not model.num_adapters:
        return {}
    given = np.array([[number == row for number in range(model.num_adapters)] for row in ROUTES], np.float32)
    forced = {"is_forced": np.full((len(SOURCES), 1), is_forced, np.float32)} if model.has_gates else {}
    used = {"used": np.arange(model.num_adapters)}
    return {"given": given, **used, **forced}


def by_fairseq(task: Any, model: Any, options: Options, is_forced: bool) -> list[list[dict[str, Any]]]:
    """One by one: its longest translation depends on the padded batch."""
    found = []
    generator = task.build_generator([model], SimpleNamespace(**vars(options), nbest=options.beam))
    for source, number in zip(SOURCES, ROUTES, strict=True):
        tokens = data_utils.collate_tokens([torch.tensor(source)], 1)
        net_input = {"src_tokens": tokens, "src_lengths": torch.tensor([len(source)])}
        if hasattr(model, "banks"):
            net_input |= {"domain_ids": torch.tensor([number]), "is_forced": torch.tensor([is_forced])}
        sample = {"net_input": net_input, "domain_ids": torch.tensor([number])}
        found += task.inference_step(generator, [model], sample, with_gates=True)
    return found


@pytest.mark.parametrize("precision", [FLOAT32, INT8])
def test_large_constants_are_in_another_file(
    form: Callable, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, model, _ = form("gates on all")
    inside = graphs(model, tmp_path / "inside", precision)
    monkeypatch.setattr("fairseq_ext.serve.graphs.graph.LARGE_BYTES", 4096)
    outside = graphs(model, tmp_path / "outside", precision)
    small, large = ({path.name: path for path in (tmp_path / name).iterdir()} for name in ("inside", "outside"))
    assert {path.suffix for path in small.values()} == {".onnx", ".npz"}
    assert len(large) == len(small) + 2
    assert large[graph_files(precision)[0]].stat().st_size < small[graph_files(precision)[0]].stat().st_size // 2
    one, other = (search(each, SOURCES, route(each, False), SEARCHES[0]) for each in (inside, outside))
    assert [[h.tokens.tolist() for h in each.hypotheses] for each in one] == [
        [h.tokens.tolist() for h in each.hypotheses] for each in other
    ]


def test_writing_a_large_constant_needs_no_copy(tmp_path: Path) -> None:
    array = np.ones((1024, LARGE_BYTES // 4096), np.float32)
    made = Graph()
    made.output("sums", made.op("MatMul", made.input("x", "float", ["N", 1024]), array))
    tracemalloc.start()
    made.write(tmp_path / "graph.onnx", "graph")
    assert tracemalloc.get_traced_memory()[1] < array.nbytes / 4
    tracemalloc.stop()
    [found] = Session(tmp_path / "graph.onnx").run({"x": np.ones((1, 1024), np.float32)})
    assert (found == 1024).all()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *product(QUICK, SEARCHES[:2]),
        *product(["gates on all"], SEARCHES[2:]),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in product(sorted(FORMS.keys() - QUICK), SEARCHES[:2])),
    ],
)
def test_finds_what_fairseq_finds(form: Callable, name: str, options: Options) -> None:
    task, model, graph = form(name)
    for is_forced in {True, not graph.has_gates}:
        expected = by_fairseq(task, model, options, is_forced)
        kind = GreedySearch if options.beam == 1 else Search
        found = search(graph, SOURCES, route(graph, is_forced), options, kind, with_gates=True)
        for one, other in zip(found, expected, strict=True):
            assert [each.tokens.tolist() for each in one.hypotheses] == [each["tokens"].tolist() for each in other]
            scores = [float(each["score"]) for each in other]
            assert [each.score for each in one.hypotheses] == pytest.approx(scores, abs=1e-4)
            if graph.has_gates:
                gates, theirs = one.hypotheses[0].gates, other[0]["gates"]
                assert one.gates == pytest.approx(theirs["encoder"].numpy(), abs=1e-5)
                assert gates.mean(0) == pytest.approx(theirs["decoder"].numpy(), abs=1e-5)
                assert gates.mean(1) == pytest.approx(theirs["tokens"].numpy(), abs=1e-5)


@pytest.mark.parametrize("name", ["plain adapters", "gated low-rank adapters"])
def test_int8_is_near(form: Callable, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairseq_ext.serve.graphs.graph._SMALLEST", 8)
    _, model, exact = form(name)
    rounded = graphs(model, tmp_path, INT8)
    for source in SOURCES:
        scores = []
        for own in (exact, rounded):
            found = search(own, [source] * 4, route(own, True), SEARCHES[0])
            scores.append([each.score for each in found[0].hypotheses])
        assert scores[0] == pytest.approx(scores[1], abs=0.5)


def test_a_translation_begins_as_is_asked(form: Callable) -> None:
    model = form("gates on all")[2]
    prefixes = [[7, 8], [], [9], [10, 11, 12]]
    found = search(model, SOURCES, route(model, False), SEARCHES[0], prefixes=prefixes)
    for each, prefix in zip(found, prefixes, strict=True):
        for hypothesis in each.hypotheses:
            assert hypothesis.tokens[: len(prefix)].tolist() == prefix


@pytest.mark.parametrize(("kind", "options"), [(Search, SEARCHES[0]), (GreedySearch, SEARCHES[2])])
def test_attention_is_the_models(kind: Any, options: Options, data: Path, tmp_path: Path) -> None:
    _, _, model = toy_systems.make_system(data, "mix", *PRE_NORM)
    graph = graphs(model.eval(), tmp_path)
    found = search(graph, SOURCES, {}, options, kind, with_attention=True)
    pairs = [(source, each) for source, own in zip(SOURCES, found, strict=True) for each in own.hypotheses]
    for source, hypothesis in pairs:
        encoded = model.encoder(torch.tensor([source]), torch.tensor([len(source)]))
        before = torch.tensor([[VOCABULARY.first, *hypothesis.tokens[:-1]]])
        layers = [
            model.decoder.extract_features(before, encoded, alignment_layer=layer)[1]["attn"][0][0]
            for layer in range(len(model.decoder.layers))
        ]
        expected = torch.stack(layers).mean(0).detach().numpy()
        assert hypothesis.attention[:, : len(source)] == pytest.approx(expected, abs=1e-5)
        assert not hypothesis.attention[:, len(source) :].any()


def test_a_model_with_other_parts_is_refused(data: Path, tmp_path: Path) -> None:
    _, _, model = toy_systems.make_system(data, "mix")
    model.decoder.project_out_dim = torch.nn.Linear(2, 2)
    with pytest.raises(InputError, match="project_out_dim"):
        graphs(model, tmp_path)
