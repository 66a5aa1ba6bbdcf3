"""ModernBERT through the fast encoder: the heads that its classes in transformers have, windows, and padding."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from biosmith.artefact import Manifest
from biosmith.errors import BadInput
from biosmith.models.bert import PretrainingModel
from biosmith.models.encoder import Encoder
from biosmith.models.modern import ModernConfig
from biosmith.models.saving import save_model
from biosmith.tasks import fitting
from biosmith.tasks.answer_network import AnswerNetwork, load_answer_network, new_answer_network
from biosmith.tasks.batches import pack
from biosmith.tasks.folders import is_fast
from biosmith.tasks.inputs import Example, InputTransform
from biosmith.tasks.instances import Answer, Instance, Question
from biosmith.tasks.network import EncoderTagger, TransformersTagger, load_tagger, new_tagger
from biosmith.tasks.sequence_network import Form, SequenceNetwork, TransformersSequences, new_sequence_network
from biosmith.tasks.tagged import load_split
from biosmith.tasks.texts import text_examples, with_target
from tasks.conftest import write_tiny_model
from tasks.test_fitting import QUICK, SEQUENCES, distilbert, right, settings_for

WINDOW = 3  # tokens that a local layer sees to either side
LABELS = ("false", "true")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pretrained ModernBERT: layers 0 and 2 are global, 1 and 3 see seven tokens."""
    return written(tmp_path_factory.mktemp("modern"))


def written(folder: Path, width: int = 32) -> Path:
    """Random weights, for the vocabulary of `write_tiny_model`."""
    tokenizer = write_tiny_model(folder / "tokenizer")
    vocabulary = json.loads((tokenizer / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    config = ModernConfig(
        vocabulary_size=len(vocabulary), layers=4, width=width, heads=4, feed_forward=48, positions=64,
        global_every=2, local_attention=2 * WINDOW, initializer_range=0.1,
    )  # fmt: skip
    torch.manual_seed(0)
    return save_model(folder / "model", PretrainingModel(config), tokenizer_from=tokenizer)


def changed(model: Path, folder: Path, **keys: Any) -> Path:
    """The folder with other keys in its configuration."""
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | keys), encoding="utf-8")
    return folder


def of_all_lengths(count: int) -> list[Instance]:
    """Short texts beside long ones, as relations are."""
    rest = " effect of heparin in mice"
    return [
        Instance(str(i), f"@CHEMICAL$ {'xy'[i % 2]} @GENE${rest * (i % 5)}", LABELS[i % 2])
        for i in range(count)
    ]


def made_up(count: int) -> list[Question]:
    contexts = [f"we gave {drug} to mice" for drug in ("aspirin", "heparin", "ibuprofen")]
    return [
        Question(str(i), "we studied", contexts[i % 3], (Answer(contexts[i % 3].split()[2], 8),))
        for i in range(count)
    ]


@pytest.mark.parametrize("kind", ["yesno", "relation", "similarity", "documents", "tagging"])
def test_the_folder_of_a_tuned_model_has_equal_logits_in_transformers(
    kind: str, model: Path, tagging_data: Path, tmp_path: Path
) -> None:
    import transformers

    instances: Any = SEQUENCES[kind](24) if kind in SEQUENCES else load_split(tagging_data, "train").sentences
    tuned = fitting.fit(kind, model, instances, None, settings_for(kind, learning_rate=3e-3))
    values = tuned.predict(instances).values
    if kind in SEQUENCES:
        assert right(kind, instances, values) > 0.7
    tuned.save(tmp_path / "out", Manifest("tuned"))
    loaded = fitting.load_tuned(tmp_path / "out", "cpu")
    assert isinstance(loaded.network.encoder, Encoder)
    again = loaded.predict(instances).values
    assert again == (pytest.approx(values, abs=1e-4) if kind == "similarity" else values)
    ending = "SequenceClassification" if kind in SEQUENCES else "TokenClassification"
    theirs, report = getattr(transformers, f"AutoModelFor{ending}").from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert type(theirs).__name__ == f"ModernBertFor{ending}"
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    if kind == "tagging":
        tagger = load_tagger(tmp_path / "out")
        batch = pack(_some_examples(model), np.arange(8))
        with torch.inference_mode():
            theirs_KL = TransformersTagger(theirs.eval(), _tokenizer(tmp_path / "out")).logits(batch)
            torch.testing.assert_close(tagger.logits(batch), theirs_KL, atol=1e-4, rtol=0)
        return
    form = Form({"similarity": "number", "documents": "classes"}.get(kind, "class"))  # type: ignore[arg-type]
    same = TransformersSequences(theirs.eval(), _tokenizer(tmp_path / "out"), form)
    batch = pack(tuned.examples(instances).examples, np.arange(12))
    with torch.inference_mode():
        torch.testing.assert_close(loaded.network.logits(batch), same.logits(batch), atol=1e-4, rtol=1e-4)


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def _some_examples(model: Path) -> list[Example]:
    texts = of_all_lengths(8)
    examples = text_examples(texts, InputTransform(model), 64).examples
    return [
        with_target(example, LABELS.index(str(text.label)), np.int64, "pooled")
        for example, text in zip(examples, texts, strict=True)
    ]


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_a_step_has_the_loss_and_the_gradients_of_transformers_class(
    pooling: str, model: Path, tmp_path: Path
) -> None:
    from transformers import AutoModelForSequenceClassification

    folder = changed(model, tmp_path / "model", classifier_pooling=pooling)
    ours = new_sequence_network(folder, LABELS, Form("class"), 0.0)
    assert isinstance(ours, SequenceNetwork)
    manifest = Manifest("tuned")
    ours.save(tmp_path / "out", labels=LABELS, manifest=manifest, card="")
    their_model = AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "out", attn_implementation="eager"
    )
    theirs = TransformersSequences(their_model, _tokenizer(folder), Form("class"))
    batch = pack(_some_examples(folder), np.arange(8))
    losses = []
    for network in (ours.train(), theirs.train()):
        loss = network.loss(batch)
        loss.backward()
        losses.append(loss.detach())
    torch.testing.assert_close(*losses, atol=1e-5, rtol=0)
    their_gradients = {n: p.grad for n, p in their_model.named_parameters()}
    pairs = {
        "model.embeddings.tok_embeddings.weight": ours.encoder.embeddings.words.weight,
        "model.layers.1.attn.Wqkv.weight": ours.encoder.layers[1].attention.qkv.weight,
        "head.dense.weight": ours.pooler.dense.weight,
        "classifier.weight": ours.classifier.weight,
    }
    for name, parameter in pairs.items():
        their_gradient = their_gradients[name]
        if name.startswith("model.embeddings"):
            their_gradient[0] = parameter.grad[0]  # transformers gives the padding's row none
        torch.testing.assert_close(parameter.grad, their_gradient, atol=1e-5, rtol=1e-3)


def test_no_query_is_left_without_a_key(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Padding far behind a short text sees nothing but padding in a window. Kernels differ in what they make of a
    # softmax over no key; NaN, as here, spreads through the gradients of all parameters.
    plain = F.scaled_dot_product_attention

    def strict(
        query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, *rest: Any, **more: Any
    ) -> Tensor:
        mixed = plain(query, key, value, attn_mask, *rest, **more)
        if attn_mask is None:
            return mixed
        return torch.where(attn_mask.any(-1, keepdim=True), mixed, math.nan)

    monkeypatch.setattr(F, "scaled_dot_product_attention", strict)
    settings = settings_for("relation", epochs=1)
    tuned = fitting.fit("relation", model, of_all_lengths(16), None, settings)
    assert tuned.history is not None and math.isfinite(tuned.history.lines[-1]["loss"])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    "activation", ["gelu", "silu"]
)  # through the fast encoder, through transformers' class
@pytest.mark.parametrize("longest", [64, 191, 192, 256])
def test_gradients_on_a_card_are_finite_whatever_the_longest_sequence(
    longest: int, activation: str, tmp_path: Path
) -> None:
    folder = changed(written(tmp_path, width=256), tmp_path / "model-too", hidden_activation=activation)
    network = new_sequence_network(folder, LABELS, Form("class"), 0.0).cuda().train()
    assert isinstance(network, SequenceNetwork if activation == "gelu" else TransformersSequences)
    pick, draw = np.zeros(1, np.int32), np.random.default_rng(0)
    made = [
        Example(draw.integers(5, 99, length).astype(np.int32), pick, np.array([i % 2]), i, pick)
        for i, length in enumerate((5, 9, longest))
    ]
    with torch.autocast("cuda", torch.bfloat16):
        loss = network.loss(pack(made, np.arange(3)).to(torch.device("cuda")))
    loss.backward()
    gradients = [p.grad for p in network.parameters() if p.grad is not None]
    assert gradients and all(bool(gradient.isfinite().all()) for gradient in gradients)


def test_fresh_heads_begin_with_the_layer_of_the_masked_language_head(model: Path) -> None:
    from safetensors.torch import load_file

    dense = load_file(model / "model.safetensors")["head.dense.weight"]
    tagger = new_tagger(model, ["O", "B-x"], 0.0)
    sequences = new_sequence_network(model, LABELS, Form("class"), 0.0)
    answers = new_answer_network(model, 0.0)
    assert isinstance(tagger, EncoderTagger) and isinstance(sequences, SequenceNetwork)
    assert isinstance(answers, AnswerNetwork)
    for layer in (tagger.head, sequences.pooler, answers.head):
        assert layer is not None and torch.equal(layer.dense.weight, dense)


def test_answers_are_learnt_saved_and_read_by_transformers(model: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForQuestionAnswering

    settings = fitting.settings_of("squad")(**{**QUICK, "learning_rate": 3e-3, "epochs": 20})
    tuned = fitting.fit("squad", model, made_up(24), None, settings)
    values = tuned.predict(made_up(6)).values
    assert values[:3] == ["aspirin", "heparin", "ibuprofen"]
    tuned.save(tmp_path / "out", Manifest("tuned"))
    assert fitting.load_tuned(tmp_path / "out", "cpu").predict(made_up(6)).values == values
    theirs, report = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert type(theirs).__name__ == "ModernBertForQuestionAnswering"
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    inputs = _tokenizer(tmp_path / "out")("we studied", "we gave heparin to mice", return_tensors="pt")
    with torch.inference_mode():
        given = theirs.eval()(**inputs)
    first, last = int(given.start_logits.argmax()), int(given.end_logits.argmax())
    assert _tokenizer(tmp_path / "out").decode(inputs["input_ids"][0, first : last + 1]) == "heparin"
    # A second stage goes on with the head that is there.
    again = new_answer_network(tmp_path / "out", 0.0)
    assert isinstance(again, AnswerNetwork)
    assert torch.equal(again.qa_outputs.weight, theirs.classifier.weight)


def test_a_tagger_of_two_labels_has_no_head_for_answers(model: Path, tmp_path: Path) -> None:
    tagger = new_tagger(model, ["O", "B-x"], 0.0)
    tagger.save(tmp_path / "out", labels=["O", "B-x"], manifest=Manifest("tuned"), card="")
    with pytest.raises(BadInput, match=r"no head for answers.*classifier\.weight"):
        load_answer_network(tmp_path / "out")


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("relation", {"features": "mentions"}),
        ("classification", {"head": "mlp"}),
        ("classification", {"head": "bilstm"}),
        ("tagging", {"head": "crf"}),
        ("tagging", {"head": "bilstm"}),
    ],
)
def test_heads_without_a_class_in_transformers_are_saved_and_loaded(
    kind: str, changes: dict[str, Any], model: Path, tagging_data: Path, tmp_path: Path
) -> None:
    instances: Any = SEQUENCES[kind](12) if kind in SEQUENCES else load_split(tagging_data, "train").sentences
    tuned = fitting.fit(kind, model, instances, None, settings_for(kind, epochs=2, **changes))
    tuned.save(tmp_path / "out", Manifest("tuned"))
    loaded = fitting.load_tuned(tmp_path / "out", "cpu")
    assert loaded.predict(instances).values == tuned.predict(instances).values


def test_forms_that_only_transformers_computes_go_through_its_class(model: Path, tmp_path: Path) -> None:
    folder = changed(model, tmp_path / "model", hidden_activation="silu")
    assert is_fast(model) and not is_fast(folder)
    assert isinstance(new_tagger(folder, ["O", "B-x"], 0.0), TransformersTagger)


def test_models_of_transformers_run_without_the_attention_of_cudnn(tiny_model: Path, tmp_path: Path) -> None:
    # Its gradients are NaN for some lengths with a mask (pytorch/pytorch, issue 196678).
    network = new_sequence_network(distilbert(tiny_model, tmp_path / "model"), LABELS, Form("class"), 0.0)
    assert isinstance(network, TransformersSequences)
    seen: list[bool] = []
    network.model.register_forward_pre_hook(lambda *_: seen.append(torch.backends.cuda.cudnn_sdp_enabled()))
    before = torch.backends.cuda.cudnn_sdp_enabled()
    network.loss(pack(_some_examples(tiny_model), np.arange(8))).backward()
    assert seen == [False] and torch.backends.cuda.cudnn_sdp_enabled() == before
