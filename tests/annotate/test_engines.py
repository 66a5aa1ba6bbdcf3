"""Engines: equal scores, why one is chosen, shared encoders, int8 and its gate."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn

import biosmith
from biosmith.annotate import engines
from biosmith.annotate.annotator import Annotator
from biosmith.annotate.engines import Settings, choose_engine, evaluating, quantization, torch_engine
from biosmith.annotate.engines.conversion import PaddedNetwork, to_onnx, to_openvino
from biosmith.annotate.engines.sharing import encoder_digest
from biosmith.annotate.sequences import Engine, Sequences
from biosmith.annotate.tuned import read_tuned
from biosmith.artefact import load_manifest
from biosmith.cli import main
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.machine import Processor
from biosmith.models.modern import ModernConfig, ModernEncoder
from biosmith.tasks.labels import read_spans
from biosmith.tasks.metrics.entities import score_spans
from biosmith.tasks.network import EncoderTagger
from biosmith.tasks.tagged import read_conll
from biosmith.text.document import Document, Passage
from tasks.conftest import write_tiny_model

TEXTS = [
    "Patients with anemia were given heparin. No effect of aspirin was seen.",
    "Gout is rare. " * 7,
    "",
    "We studied ataxia telangiectasia, breast cancer and sodium chloride in " + "mice " * 70,
]
CPU_ENGINES = ["openvino", "onnx"]


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Converted networks go into a folder of this module."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


def documents() -> list[Document]:
    return [Document.build(str(i), [Passage("abstract", t)]) for i, t in enumerate(TEXTS)]


def spans(nlp: Annotator) -> list[list[tuple[int, int, str]]]:
    return [[(m.start, m.end, m.type) for m in d.mentions] for d in nlp.annotate(documents())]


@pytest.fixture(scope="module")
def int8(tagger_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The tagger in int8 for each engine, calibrated on its own training sentences."""
    made = {}
    training = tagger_folder.parent / "data" / "train.tsv"
    for engine in CPU_ENGINES:
        pytest.importorskip(engines.ENGINES[engine][0])
        made[engine] = tmp_path_factory.mktemp("int8") / engine
        # A network 32 wide has little to average rounding out over: the gate here is wide.
        quantization.quantize(tagger_folder, made[engine], data=[training], gate=20.0, engine=engine)
    return made


def test_int4_embeddings_make_a_smaller_file_that_finds_mentions(
    tagger_folder: Path, int8: dict[str, Path], tmp_path: Path
) -> None:
    """Half a byte for each value of the embeddings, and a scale for 32 of them, in the place of a byte."""
    training = tagger_folder.parent / "data" / "train.tsv"
    quantization.quantize(tagger_folder, tmp_path / "int4", data=[training], gate=20.0, embeddings="int4")
    assert spans(biosmith.load(tmp_path / "int4")) != [[] for _ in TEXTS]
    words = load_file(tagger_folder / "model.safetensors")["bert.embeddings.word_embeddings.weight"].size
    sizes = [(folder / "openvino.bin").stat().st_size for folder in (tmp_path / "int4", int8["openvino"])]
    assert sizes[0] < sizes[1] - words // 3
    with pytest.raises(UsageError, match="int4 on openvino"):
        quantization.quantize(tagger_folder, tmp_path / "onnx", engine="onnx", embeddings="int4")


def test_portable_weights_keep_to_seven_bits(tagger_folder: Path, tmp_path: Path) -> None:
    """Sums of products of eight bits overflow without int8 dot products (VNNI), so weights there go to 63, not 127."""
    openvino = pytest.importorskip("openvino")
    training = tagger_folder.parent / "data" / "train.tsv"
    out = tmp_path / "portable"
    quantization.quantize(
        tagger_folder,
        out,
        data=[training],
        gate=20.0,
        engine="openvino",
        embeddings="int4",  # of eight bits there are then the layers alone
        portable=True,
    )
    assert load_manifest(out).config["engine"]["vnni"] is False
    layers = [
        node.get_data()
        for node in openvino.Core().read_model(out / "openvino.xml").get_ops()
        if node.get_type_name() == "Constant" and node.get_element_type() == openvino.Type.i8
    ]
    assert layers and max(int(abs(weights.astype(int)).max()) for weights in layers) <= 64


class _Windowed(nn.Module):
    """What Longformer does: the example's length ends up in the shapes of its attention."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        length = int(np.asarray(input_ids.shape[1]))
        table = torch.linspace(0, 1, length)[None, :, None].expand(input_ids.shape[0], length, 3)
        return table * attention_mask[..., None]


def test_a_network_that_reads_the_lengths_of_the_example_alone_is_refused() -> None:
    pytest.importorskip("openvino")
    with pytest.raises(BiosmithError, match=r"cannot be converted for the openvino engine.*--engine torch"):
        to_openvino(cast("PaddedNetwork", _Windowed()))


def test_a_batch_that_fails_in_openvino_leaves_the_next_ones_alone() -> None:
    openvino = pytest.importorskip("openvino")
    from openvino import opset13 as ops

    from biosmith.annotate.engines.openvino_engine import OpenVinoEngine

    ids, mask = (ops.parameter([-1, -1], np.int64, name=n) for n in ("input_ids", "attention_mask"))
    ids.output(0).tensor.set_names({"input_ids"})
    mask.output(0).tensor.set_names({"attention_mask"})
    # Fails unless lengths are multiples of 16.
    rows = ops.reshape(ids, np.array([0, -1, 16]), special_zero=True)
    scores = ops.convert(ops.reduce_max(rows, np.array([2]), keep_dims=True), "f32")
    engine = OpenVinoEngine(openvino.Model([scores], [ids, mask]), 1, 64, hint="f32", threads=2)

    def score(length: int) -> float:
        one = Sequences(np.full(length, 5, np.int32), np.array([0, length]), np.array([0]))
        return float(engine(one)[0, 0])

    assert score(16) == 5
    with pytest.raises(RuntimeError):
        score(23)
    assert [score(length) for length in (16, 32, 48)] == [5, 5, 5]


@pytest.mark.parametrize("engine", CPU_ENGINES)
def test_a_converted_network_scores_as_torch_does(tagger_folder: Path, engine: str) -> None:
    pytest.importorskip(engines.ENGINES[engine][0])
    torch_nlp = biosmith.load(tagger_folder, engine="torch", precision="float32")
    nlp = biosmith.load(tagger_folder, engine=engine, precision="float32")
    prepared = torch_nlp.prepare(documents())
    (expected,), (found,) = torch_nlp.score(prepared), nlp.score(nlp.prepare(documents()))
    assert np.abs(found - expected).max() < 1e-4
    assert spans(nlp) == spans(torch_nlp)


@pytest.mark.parametrize("engine", CPU_ENGINES)
def test_a_conversion_is_not_taken_for_a_folder_whose_tokenizer_was_changed(
    tagger_folder: Path, engine: str, tmp_path: Path
) -> None:
    pytest.importorskip(engines.ENGINES[engine][0])
    folder = Path(shutil.copytree(tagger_folder, tmp_path / "tagger"))
    biosmith.load(folder, engine=engine)
    written = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    pieces = written["model"]["vocab"]
    pieces["heparin"] = len(pieces) + 100  # a piece that the model has no row for
    (folder / "tokenizer.json").write_text(json.dumps(written), encoding="utf-8")
    with pytest.raises(UsageError, match="they belong to different models"):
        biosmith.load(folder, engine=engine)


@pytest.mark.parametrize("engine", CPU_ENGINES)
def test_a_network_with_windows_scores_as_torch_does_at_every_length(engine: str, tmp_path: Path) -> None:
    """Texts shorter than a window, longer ones, and padding that sees nothing but padding in its window."""
    pytest.importorskip(engines.ENGINES[engine][0])
    tokenizer = write_tiny_model(tmp_path / "tokenizer")
    config = ModernConfig(
        vocabulary_size=164, layers=4, width=32, heads=4, feed_forward=48, positions=128,
        global_every=2, local_attention=60, initializer_range=0.1,
    )  # fmt: skip
    torch.manual_seed(0)
    tagger = EncoderTagger(ModernEncoder(config), 3, 0.0, tokenizer)
    network = PaddedNetwork([tagger]).eval()
    score = _compiled(network, engine, tmp_path)
    for lengths in ((7, 20), (20, 100), (90, 100)):
        mask = torch.arange(lengths[1]) < torch.tensor(lengths)[:, None]
        ids = torch.randint(5, 164, mask.shape) * mask
        with torch.no_grad():
            expected = network(ids, mask.long())
        found = torch.from_numpy(score({"input_ids": ids.numpy(), "attention_mask": mask.long().numpy()}))
        torch.testing.assert_close(found[mask], expected[mask], atol=1e-4, rtol=0)


def _compiled(
    network: PaddedNetwork, engine: str, folder: Path
) -> Callable[[dict[str, np.ndarray]], np.ndarray]:
    if engine == "openvino":
        import openvino

        compiled = openvino.compile_model(to_openvino(network), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        return lambda inputs: compiled(inputs)[0]
    import onnxruntime

    to_onnx(network, folder / "model.onnx")
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    return lambda inputs: session.run(None, inputs)[0]


@pytest.mark.parametrize("engine", CPU_ENGINES)
def test_an_int8_folder_is_a_tuned_model_and_auto_takes_its_engine(
    int8: dict[str, Path], tagger_folder: Path, engine: str
) -> None:
    nlp = biosmith.load(int8[engine])
    assert [reader.engine.name for reader in nlp.readers] == [engine]
    assert "quantised for it" in nlp.readers[0].engine.reason
    given = spans(biosmith.load(tagger_folder, engine="torch"))
    same = sum(len(set(a) & set(b)) for a, b in zip(spans(nlp), given, strict=True))
    assert same >= 0.7 * sum(map(len, given))
    for document in nlp.annotate(documents()):
        assert all(document.text[m.start : m.end] == m.text for m in document.mentions)


@pytest.mark.parametrize("engine", CPU_ENGINES)
def test_annotating_in_int8_loads_neither_torch_nor_transformers(int8: dict[str, Path], engine: str) -> None:
    # They take seconds to import and hundreds of megabytes; a cold start could not afford them.
    program = (
        "import sys, biosmith\n"
        f"nlp = biosmith.load({str(int8[engine])!r})\n"
        "(d,) = nlp.annotate([biosmith.Document('1', 'Patients with gout were given aspirin.')])\n"
        "print(sorted({'torch', 'transformers', 'pyarrow'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_manifest_of_an_int8_folder_says_what_it_was_made_of(
    int8: dict[str, Path], tagger_folder: Path
) -> None:
    for engine, folder in int8.items():
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        assert manifest["kind"] == "tuned" and manifest["config"]["engine"]["engine"] == engine
        assert manifest["config"]["engine"]["precision"] == "int8"
        assert manifest["inputs"][0]["path"] == str(tagger_folder)
        tuned, original = read_tuned(folder), read_tuned(tagger_folder)
        assert (tuned.label_set, tuned.stride) == (original.label_set, original.stride)
        assert tuned.max_length == 64


def test_int8_that_costs_too_much_is_refused_and_leaves_nothing(
    tagger_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")

    def ruined(traced: object, sequences: object, spared: object, file: Path, *, vnni: bool) -> None:
        import torch

        network = traced.network  # type: ignore[attr-defined]
        with torch.no_grad():
            network.shared.first.classifier.weight.zero_()
        quantization.to_onnx(network, file)

    monkeypatch.setitem(quantization.MAKERS, "onnx", ruined)
    training = tagger_folder.parent / "data" / "train.tsv"
    with pytest.raises(
        BiosmithError, match=r"loses more than 0.3 points of F1 .* nothing was written"
    ) as caught:
        quantization.quantize(tagger_folder, tmp_path / "out", data=[training], engine="onnx")
    assert caught.value.exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_quantize_needs_something_to_calibrate_on(tagger_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    with pytest.raises(UsageError, match=r"nothing to calibrate .* --data.* --text"):
        quantization.quantize(tagger_folder, tmp_path / "out", engine="onnx")
    with pytest.raises(UsageError, match="valid: auto, openvino, onnx"):
        quantization.quantize(tagger_folder, tmp_path / "out", engine="torch")


def test_an_int8_folder_is_refused_by_other_engines_and_is_not_quantised_again(
    int8: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="was made for the onnx engine"):
        biosmith.load(int8["onnx"], engine="torch")
    with pytest.raises(UsageError, match="quantised already"):
        quantization.quantize(int8["onnx"], tmp_path / "again", engine="onnx")


@pytest.mark.parametrize("engine", CPU_ENGINES)
def test_a_device_that_no_engine_would_use_is_refused(
    int8: dict[str, Path], tagger_folder: Path, engine: str
) -> None:
    for folder, asked in ((int8[engine], "auto"), (int8[engine], engine), (tagger_folder, engine)):
        with pytest.raises(
            UsageError, match=rf"runs on {engine}, .*device cuda has no effect.*--engine torch"
        ):
            biosmith.load(folder, engine=asked, device="cuda")
    assert biosmith.load(int8[engine], device="cpu").readers[0].engine.name == engine


def test_a_device_that_some_models_use_is_warned_of(
    int8: dict[str, Path],
    tagger_folder: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A machine with a card is not to be had everywhere.
    monkeypatch.setattr(torch_engine, "choose_device", lambda name: torch.device("cpu"))
    nlp = biosmith.load([int8["onnx"], tagger_folder], device="cuda")
    assert [reader.engine.name for reader in nlp.readers] == ["onnx", "torch"]
    (warned,) = caplog.messages
    assert "onnx runs on onnx" in warned and "device cuda has no effect on it" in warned


@pytest.mark.parametrize("engine", CPU_ENGINES)
def test_an_int8_folder_writes_its_predictions(
    int8: dict[str, Path], tagger_folder: Path, tmp_path: Path, engine: str
) -> None:
    data, out = tagger_folder.parent / "data" / "train.tsv", tmp_path / "predictions.jsonl"
    call = ["evaluate", str(int8[engine]), "--data", str(data), "--split", "train", "--json"]
    assert main([*call, "--predictions", str(out)]) == 0
    sentences = list(read_conll(data))
    predicted = [json.loads(line)["prediction"] for line in out.read_text(encoding="utf-8").splitlines()]
    assert [len(tags) for tags in predicted] == [len(s.words) for s in sentences]
    said = score_spans([read_spans(s.tags) for s in sentences], [read_spans(tags) for tags in predicted])
    assert said.overall.f1 == evaluating.evaluate(int8[engine], data, "train").conll.overall.f1 > 0.3
    assert main([*call, "--device", "cuda"]) == 2


def test_an_int8_folder_that_is_scored_by_word_is_evaluated(
    int8: dict[str, Path], tagger_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(int8["onnx"], tmp_path / "pico")
    manifest = tmp_path / "pico" / "manifest.json"
    plain = json.loads(manifest.read_text(encoding="utf-8"))
    plain["config"] |= {"task": "pico", "kind": "words"}
    manifest.write_text(json.dumps(plain), encoding="utf-8")
    data = tagger_folder.parent / "data" / "train.tsv"
    assert main(["evaluate", str(tmp_path / "pico"), "--data", str(data), "--split", "train", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["task"], values["metric"]) == ("pico", "word_f1_macro") and values["value"] > 0.3


@pytest.mark.parametrize(
    "changed",
    [
        {"config": "ner"},
        {"config": {"task": "ner", "chain": {"0": 5}}},
        {"config": {"task": "ner", "engine": {"engine": "onnx"}}},
        {"counts": {"longest_mention": "long"}},
    ],
)
def test_a_damaged_manifest_of_a_tagger_is_named(
    tagger_folder: Path, tmp_path: Path, changed: object
) -> None:
    shutil.copytree(tagger_folder, tmp_path / "tagger")
    file = tmp_path / "tagger" / "manifest.json"
    plain = json.loads(file.read_text(encoding="utf-8"))
    assert isinstance(changed, dict)
    file.write_text(json.dumps({**plain, **changed}), encoding="utf-8")
    with pytest.raises(
        BadInput, match=r"manifest\.json(: is not the manifest of a tagger|, \w+(\.\w+)?: has to be)"
    ):
        read_tuned(tmp_path / "tagger")


def test_auto_says_why(tagger_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = read_tuned(tagger_folder)
    monkeypatch.setattr(engines, "has_graphics_card", lambda: True)
    assert choose_engine(tuned, Settings()) == engines.Choice("torch", "there is a graphics card")
    monkeypatch.setattr(engines, "has_graphics_card", lambda: False)
    for fast in (True, False):
        monkeypatch.setattr(engines, "has_int8_dot_products", lambda fast=fast: fast)
        choice = choose_engine(tuned, Settings())
        # int8 is recommended where the processor gains by it.
        assert choice.engine == "torch" and ("quantize" in choice.reason) == fast
    assert choose_engine(tuned, Settings("torch")).reason == "asked for"


@pytest.mark.parametrize(
    ("model", "features", "is_fast"),
    [
        ("AMD EPYC 9654 96-Core Processor", ("avx512f", "avx512_bf16"), True),
        ("Intel(R) Xeon(R) Processor", ("avx512f", "avx512_bf16"), False),
        ("Intel(R) Xeon(R) Processor", ("avx512f", "avx512_bf16", "amx_bf16"), True),
        ("Intel(R) Xeon(R) Platinum 8168 CPU", ("avx512f",), False),
        ("Neoverse-V1", ("asimddp", "bf16"), True),
        ("", (), False),
    ],
)
def test_bfloat16_is_taken_where_it_is_faster_than_float32(
    model: str, features: tuple[str, ...], is_fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "processor", lambda: Processor(model, 2, features))
    assert engines.has_fast_bfloat16() is is_fast


def test_a_missing_engine_names_the_extra(tagger_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "is_installed", lambda engine: False)
    with pytest.raises(UsageError, match=r"engine openvino needs openvino: pip install 'biosmith\[cpu\]'"):
        choose_engine(read_tuned(tagger_folder), Settings("openvino"))


@pytest.fixture(scope="module")
def sibling(tagger_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger with the same encoder and another head: every label is some other one."""
    folder = tmp_path_factory.mktemp("siblings") / "sibling"
    shutil.copytree(tagger_folder, folder)
    tensors = load_file(folder / "model.safetensors")
    for name in ("classifier.weight", "classifier.bias"):
        tensors[name] = np.ascontiguousarray(np.roll(tensors[name], 2, axis=0))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize("engine", ["torch", *CPU_ENGINES])
def test_taggers_with_one_encoder_read_a_text_once_and_find_what_each_finds_alone(
    tagger_folder: Path, sibling: Path, engine: str
) -> None:
    pytest.importorskip(engines.ENGINES[engine][0])
    alone = [biosmith.load(folder, engine=engine) for folder in (tagger_folder, sibling)]
    together = biosmith.load([tagger_folder, sibling], engine=engine)
    assert len(together.readers) == 1
    found = list(together.annotate(documents()))
    for nlp, name in zip(alone, ("diseases", "sibling"), strict=True):
        mine = [[(m.start, m.end, m.type) for m in d.mentions if m.infons["model"] == name] for d in found]
        assert mine == spans(nlp)
    assert together.counts.tokens == alone[0].counts.tokens
    assert any(d.mentions for d in found)


def test_taggers_with_other_encoders_share_nothing(tagger_folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(tagger_folder, other)
    tensors = load_file(other / "model.safetensors")
    name = next(n for n in tensors if n.endswith("word_embeddings.weight"))
    tensors[name] = tensors[name] + np.float32(1e-3)
    save_file(tensors, other / "model.safetensors", metadata={"format": "pt"})
    assert encoder_digest(other) != encoder_digest(tagger_folder)
    assert len(biosmith.load([tagger_folder, other], engine="torch").readers) == 2


def test_openvino_keeps_few_kernels_for_shapes_that_may_never_come_again(
    tagger_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openvino = pytest.importorskip("openvino")
    given: dict[str, int] = {}
    compile_model = openvino.Core.compile_model

    def noted(self: object, model: object, device: str, options: dict[str, int]) -> object:
        given.update(options)
        return compile_model(self, model, device, options)

    monkeypatch.setattr(openvino.Core, "compile_model", noted)
    nlp = biosmith.load(tagger_folder, engine="openvino")
    assert 0 < given["CPU_RUNTIME_CACHE_CAPACITY"] < 1000  # OpenVINO's own is 5,000: 2 MB a shape without end
    (document,) = nlp.annotate([Document("1", "Gout is rare.")])
    assert [m.text for m in document.mentions] == ["Gout"]


def test_layers_keep_their_precision_until_enough_mentions_are_the_same(
    tagger_folder: Path, int8: dict[str, Path], tmp_path: Path
) -> None:
    """In the end only the embedding is in int8, and what is left takes two bytes a value."""
    openvino = pytest.importorskip("openvino")
    training = tagger_folder.parent / "data" / "train.tsv"
    asked: dict[str, Any] = {"data": [training], "gate": 100.0, "engine": "openvino", "cascade": False}
    tried: list[float] = []

    class Counting(quantization._Judge):
        def __call__(self, engine: Engine) -> quantization._Verdict:
            verdict = super().__call__(engine)
            tried.append(verdict.equal_mentions)
            return dataclasses.replace(verdict, equal_mentions=len(tried) / 4)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantization, "_Judge", Counting)
        report = quantization.quantize(tagger_folder, tmp_path / "half", equal=75.0, **asked)
        assert report.scheme == quantization.EMBEDDING_ALONE and len(tried) == 3
        assert tried[-1] >= 0.99
        with pytest.raises(BiosmithError, match=r"changes more than 24.9 % of mentions.*the embedding alone"):
            tried.clear()
            quantization.quantize(tagger_folder, tmp_path / "none", equal=75.1, **asked)
    assert not (tmp_path / "none").exists()
    assert sorted(f.name for f in (tmp_path / "half").glob("*.xml")) == ["openvino.xml"]
    kinds = {
        str(node.get_element_type())
        for node in openvino.Core().read_model(tmp_path / "half" / "openvino.xml").get_ops()
        if node.get_type_name() == "Constant" and node.get_byte_size() > 1000
    }
    assert any("uint8" in kind for kind in kinds) and not any("float32" in kind for kind in kinds)
    assert spans(biosmith.load(tmp_path / "half")) == spans(biosmith.load(tagger_folder, engine="torch"))


@pytest.mark.parametrize(
    ("asked", "problem"),
    [({"equal": 100.5}, "in percent"), ({"equal": 99.0, "text": True}, "without a development set")],
)
def test_equal_mentions_are_asked_for_in_percent_and_of_a_development_set(
    asked: dict[str, Any], problem: str, tagger_folder: Path, tmp_path: Path
) -> None:
    if asked.pop("text", False):
        (tmp_path / "text.txt").write_text("Cisplatin caused nephrotoxicity.")
        asked["text"] = [tmp_path / "text.txt"]
    with pytest.raises(UsageError, match=problem):
        quantization.quantize(tagger_folder, tmp_path / "out", **asked)
