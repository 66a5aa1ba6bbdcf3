"""Every kind of task through the one interface: it learns, it saves, it loads and predicts the same."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from biosmith.artefact import Manifest, digest_file, load_manifest, to_plain
from biosmith.errors import BadInput, UsageError
from biosmith.tasks import fitting
from biosmith.tasks.answer_network import load_answer_network, new_answer_network
from biosmith.tasks.fit_sequences import settings_from
from biosmith.tasks.inputs import InputTransform
from biosmith.tasks.instances import Answer, Instance, Question
from biosmith.tasks.metrics.classification import accuracy
from biosmith.tasks.metrics.entities import score_tags
from biosmith.tasks.metrics.similarity import pearson
from biosmith.tasks.network import load_tagger
from biosmith.tasks.settings import RelationSettings, SequenceSettings, TaggingSettings
from biosmith.tasks.tagged import TaggedSentence, load_split

QUICK: dict[str, Any] = {
    "learning_rate": 1e-2,
    "batch_size": 4,
    "epochs": 10,
    "keep": "last",
    "device": "cpu",
}
DISEASES = ("gout", "anemia", "colitis")


def relations(count: int) -> list[Instance]:
    """`@CHEMICAL$ does not cause @GENE$` is false, `@CHEMICAL$ is given` in front of it is true."""
    frames = (("{a} does not cause {b} .", "false"), ("patients with {b} were given {a} .", "true"))
    made = []
    for i in range(count):
        text, label = frames[i % 2]
        marked = text.format(a="@CHEMICAL$", b="@GENE$") + f" {DISEASES[i % 3]}"
        made.append(Instance(str(i), marked, label))
    return made


def pairs(count: int) -> list[Instance]:
    """The same sentence twice is 4, two others are 0."""
    made = []
    for i in range(count):
        first = f"{DISEASES[i % 3]} is rare"
        second = first if i % 2 else "no effect was seen in mice"
        made.append(Instance(str(i), first, 4.0 if i % 2 else 0.0, second))
    return made


def documents(count: int) -> list[Instance]:
    """A sentence has the label of each disease in it; one without any has none."""
    made = []
    for i in range(count):
        chosen = [d for bit, d in enumerate(DISEASES[:2]) if (i >> bit) & 1]
        text = f"{' '.join(3 * chosen)} in mice"
        made.append(Instance(f"{i // 2}_s{i % 2}", text, tuple(chosen), group=str(i // 2)))
    return made


def classes(count: int) -> list[Instance]:
    made = []
    for i in range(count):
        made.append(Instance(str(i), f"{DISEASES[i % 2]} in mice {'x' * (i % 5)}", DISEASES[i % 2]))
    return made


def questions(count: int) -> list[Instance]:
    """The answer stands in the second text."""
    made = []
    for i in range(count):
        text = "no effect was seen" if i % 2 else "patients were given aspirin"
        made.append(Instance(str(i), f"does aspirin cause {DISEASES[i % 3]}", "no" if i % 2 else "yes", text))
    return made


SEQUENCES = {
    "relation": relations,
    "similarity": pairs,
    "documents": documents,
    "classification": classes,
    "yesno": questions,
}


def settings_for(kind: str, **changes: Any) -> Any:
    slower = {"learning_rate": 5e-3} if kind in ("documents", "classification") else {}
    return fitting.settings_of(kind)(**{**QUICK, **slower, **changes})


def right(kind: str, instances: list[Instance], predicted: list[Any]) -> float:
    if kind == "similarity":
        return pearson([float(i.label) for i in instances], predicted)  # type: ignore[arg-type]
    if kind == "documents":
        return sum(set(i.label) == set(p) for i, p in zip(instances, predicted, strict=True)) / len(predicted)  # type: ignore[arg-type]
    return accuracy([str(i.label) for i in instances], predicted)


@pytest.fixture(scope="module", params=sorted(SEQUENCES))
def learnt(request: pytest.FixtureRequest, tiny_model: Path) -> tuple[str, list[Instance], Any]:
    kind = request.param
    instances = SEQUENCES[kind](24)
    return kind, instances, fitting.fit(kind, tiny_model, instances, None, settings_for(kind))


def test_every_kind_learns_what_it_is_shown(learnt: tuple[str, list[Instance], Any]) -> None:
    kind, instances, tuned = learnt
    predictions = tuned.predict(instances)
    # Chance is 0.5 for two classes, 0.25 for two independent labels, 0 for a correlation.
    assert right(kind, instances, predictions.values) > 0.85
    assert predictions.truncated == 0
    assert tuned.history.lines[-1]["loss"] < tuned.history.lines[0]["loss"]


def test_saved_and_loaded_it_predicts_the_same(
    learnt: tuple[str, list[Instance], Any], tmp_path: Path
) -> None:
    kind, instances, tuned = learnt
    tuned.save(tmp_path / "out", Manifest("tuned", {"task": "x"}, 0))
    loaded = fitting.load_tuned(tmp_path / "out", "cpu")
    assert loaded.kind == kind and loaded.history is None and loaded.labels == tuned.labels
    before, after = tuned.predict(instances).values, loaded.predict(instances).values
    assert after == (pytest.approx(before, abs=1e-4) if kind == "similarity" else before)
    manifest = load_manifest(tmp_path / "out", "tuned")
    assert manifest.config["kind"] == kind and manifest.config["task"] == "x"
    assert manifest.config["settings"]["epochs"] == 10
    assert {"model.safetensors", "metrics.jsonl", "config.json", "tokenizer.json"} <= set(manifest.files)
    for name, described in manifest.files.items():
        assert digest_file(tmp_path / "out" / name) == described["digest"]


def test_transformers_loads_the_folder_with_equal_logits(
    learnt: tuple[str, list[Instance], Any], tmp_path: Path
) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    _, instances, tuned = learnt
    tuned.save(tmp_path / "out", Manifest("tuned"))
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    assert type(theirs).__name__ == "BertForSequenceClassification"
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    ours = tuned.scores(tuned.examples(instances).examples)
    for instance, scores in zip(instances, ours, strict=True):
        second = {"text_pair": instance.pair} if instance.pair else {}
        with torch.inference_mode():
            logits = theirs(**tokenizer(instance.text, **second, return_tensors="pt")).logits[0]
        torch.testing.assert_close(torch.from_numpy(scores), logits, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("key", "value", "like"),
    [
        ("epochs", None, "5"),
        ("max_length", "256", "256"),
        ("batch_size", 1.5, "16"),
        ("learning_rate", True, "5e-05"),
        ("markers", ["<<", ">>", 1, "]]"], r"\('<<', '>>', '\[\[', '\]\]'\)"),
    ],
)
def test_settings_of_another_type_in_a_manifest_are_refused_by_name(
    key: str, value: object, like: str, tmp_path: Path
) -> None:
    Manifest("tuned", {"kind": "relation", "settings": {key: value}}).save(tmp_path)
    with pytest.raises(BadInput, match=rf"manifest\.json, config\.settings\.{key}: has to be like {like}"):
        settings_from("relation", tmp_path)


def test_settings_are_those_of_the_manifest_as_far_as_they_are_known(tmp_path: Path) -> None:
    assert settings_from("relation", tmp_path) == RelationSettings()
    settings = RelationSettings(learning_rate=1, text="markers", markers=("a", "b", "c", "d"))
    written = {**to_plain(settings), "of a later version": 1}
    Manifest("tuned", {"kind": "relation", "settings": written}).save(tmp_path)
    assert settings_from("relation", tmp_path) == settings


def test_two_runs_of_one_seed_predict_the_same_and_of_two_seeds_do_not(tiny_model: Path) -> None:
    instances = pairs(12)
    settings = settings_for("similarity", epochs=2)
    runs = [
        fitting.fit("similarity", tiny_model, instances, None, dataclasses.replace(settings, seed=seed))
        for seed in (3, 3, 4)
    ]
    first, again, other = (run.predict(instances).values for run in runs)
    assert first == again
    assert first != other


def test_the_score_that_is_passed_decides_which_epoch_is_kept(tiny_model: Path) -> None:
    seen: list[list[str]] = []

    def score(predictions: list[Any]) -> float:
        seen.append(predictions)
        return [0.2, 0.9, 0.1][len(seen) - 1]

    instances = classes(12)
    settings = settings_for("classification", epochs=3, keep="best")
    tuned = fitting.fit("classification", tiny_model, instances, instances, settings, score=score)
    assert tuned.history is not None and tuned.history.best_epoch == 2
    assert tuned.predict(instances).values == seen[1]


def write_vocab_size(folder: Path, size: int) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": size}), encoding="utf-8")


def test_a_model_without_its_tokenizer_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    # transformers makes an empty one of no files, to which every word is unknown.
    shutil.copytree(tiny_model, tmp_path / "bare")
    for file in (tmp_path / "bare").glob("*token*"):
        file.unlink()
    with pytest.raises(UsageError, match=r"bare has no tokenizer: tokenizer\.json, or the vocabulary"):
        fitting.fit("classification", tmp_path / "bare", classes(4), None, settings_for("classification"))


def test_the_tokenizer_of_another_model_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    # Ids behind the last row are an error on a processor, junk in OpenVINO, and end the device's process in CUDA.
    shutil.copytree(tiny_model, tmp_path / "mixed")
    pieces = len(InputTransform(tiny_model).tokenizer)
    write_vocab_size(tmp_path / "mixed", pieces - 1)
    with pytest.raises(
        UsageError, match=rf"the tokenizer has {pieces} pieces, the model was made for {pieces - 1}"
    ):
        InputTransform(tmp_path / "mixed")
    tokenizer = InputTransform(tiny_model).tokenizer
    tokenizer.add_tokens(["<never>"])  # as in many folders of the hub
    tokenizer.save_pretrained(tmp_path / "mixed")
    write_vocab_size(tmp_path / "mixed", pieces)
    assert InputTransform(tmp_path / "mixed").digest


def test_rows_to_spare_in_a_model_do_not_lose_what_was_trained(tiny_model: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_model, tmp_path / "wide")
    tensors = load_file(tmp_path / "wide" / "model.safetensors")
    (name,) = [name for name in tensors if "word_embeddings" in name]
    tensors[name] = torch.cat([tensors[name], torch.zeros(3_000, tensors[name].shape[1])])
    save_file(tensors, tmp_path / "wide" / "model.safetensors", {"format": "pt"})
    write_vocab_size(tmp_path / "wide", len(tensors[name]))
    settings = settings_for("classification", epochs=1)
    tuned = fitting.fit("classification", tmp_path / "wide", classes(4), None, settings)
    tuned.save(tmp_path / "tuned", Manifest("tuned"))
    assert (tmp_path / "tuned" / "model.safetensors").is_file()


def test_what_does_not_fit_is_counted_and_only_the_second_text_of_a_question_is_cut(tiny_model: Path) -> None:
    transform = InputTransform(tiny_model)
    tuned = fitting.fit(
        "yesno", tiny_model, questions(4), None, settings_for("yesno", epochs=1, max_length=24)
    )
    long = Instance("1", "does aspirin cause gout", "yes", "rare " * 40)
    predictions = tuned.predict([long, *questions(2)])
    assert predictions.truncated == 1
    (example,) = tuned.examples([long]).examples  # type: ignore[attr-defined]
    question = transform.cut_texts([long.text])[0].ids.tolist()
    assert len(example.ids) == 24
    assert example.ids[1 : 1 + len(question)].tolist() == question


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("classification", {"features": "cls"}),
        ("classification", {"features": "mean"}),
        ("classification", {"head": "mlp"}),
        ("classification", {"head": "bilstm"}),
        ("relation", {"features": "mentions", "pooling": "max", "epochs": 4}),
        ("relation", {"features": "mentions", "pooling": "mean", "epochs": 4}),
    ],
)
def test_every_choice_of_featurizer_and_head_learns_saves_and_loads(
    kind: str, changes: dict[str, Any], tiny_model: Path, tmp_path: Path
) -> None:
    from transformers import AutoModel

    instances = SEQUENCES[kind](24)
    tuned = fitting.fit(kind, tiny_model, instances, None, settings_for(kind, **changes))
    values = tuned.predict(instances).values
    assert right(kind, instances, values) > 0.7
    tuned.save(tmp_path / "out", Manifest("tuned"))
    assert fitting.load_tuned(tmp_path / "out", "cpu").predict(instances).values == values
    # The head lies beside the encoder, which transformers still loads.
    assert (tmp_path / "out" / "head.safetensors").is_file()
    assert "head.safetensors" in load_manifest(tmp_path / "out").files
    assert AutoModel.from_pretrained(tmp_path / "out").config.num_hidden_layers == 2


@pytest.mark.parametrize(
    ("changes", "architecture"),
    [
        ({"scheme": "BIOUL"}, "BertForTokenClassification"),
        ({"scheme": "IO"}, "BertForTokenClassification"),
        ({"labelled": "all"}, "BertForTokenClassification"),
        ({"head": "crf"}, "BertForTokenClassification"),
        ({"head": "crf", "scheme": "IOBES"}, "BertForTokenClassification"),
        ({"head": "bilstm"}, "BertModel"),
    ],
)
def test_every_choice_of_tagger_learns_saves_and_loads(
    changes: dict[str, Any], architecture: str, tiny_model: Path, tagging_data: Path, tmp_path: Path
) -> None:
    sentences = load_split(tagging_data, "train").sentences
    settings = TaggingSettings(**{**QUICK, "learning_rate": 1e-2, "batch_size": 4, "epochs": 15, **changes})
    tuned = fitting.fit("tagging", tiny_model, sentences, None, settings)
    tags = tuned.predict(sentences).values
    assert score_tags([s.tags for s in sentences], tags).overall.f1 > 0.8
    # Whatever the scheme of the model, what it says is BIO.
    assert {tag[0] for of_sentence in tags for tag in of_sentence} <= {"B", "I", "O"}
    tuned.save(tmp_path / "out", Manifest("tuned"))
    loaded = fitting.load_tuned(tmp_path / "out", "cpu")
    assert loaded.predict(sentences).values == tags
    assert f'"{architecture}"' in (tmp_path / "out" / "config.json").read_text(encoding="utf-8")


def test_pico_words_are_learnt_like_mentions(tiny_model: Path, tagging_data: Path) -> None:
    sentences = load_split(tagging_data, "train").sentences
    settings = TaggingSettings(
        **{**QUICK, "learning_rate": 1e-2, "batch_size": 4, "epochs": 10, "keep": "best"}
    )
    tuned = fitting.fit("words", tiny_model, sentences, sentences, settings)
    # The plain score of the kind: the mean of the classes' word F1.
    assert tuned.history is not None and tuned.history.best_score is not None
    assert tuned.history.best_score > 0.8


def distilbert(tiny_model: Path, folder: Path) -> Path:
    from transformers import AutoTokenizer, DistilBertConfig, DistilBertModel

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = DistilBertConfig(
        vocab_size=len(tokenizer), dim=32, n_layers=1, n_heads=2, hidden_dim=64, max_position_embeddings=64
    )
    DistilBertModel(config).save_pretrained(folder)
    return folder


def modern(tiny_model: Path, folder: Path) -> Path:
    """A ModernBERT: no segments, no pooler, rotary positions."""
    from transformers import AutoTokenizer, ModernBertConfig, ModernBertModel

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = ModernBertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        pad_token_id=0,
        cls_token_id=2,
        sep_token_id=3,
        bos_token_id=2,
        eos_token_id=3,
    )
    ModernBertModel(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["tagging", "yesno"])
def test_a_modern_encoder_goes_the_same_way(
    kind: str, tiny_model: Path, tagging_data: Path, tmp_path: Path
) -> None:
    model = modern(tiny_model, tmp_path / "model")
    instances: Any = SEQUENCES[kind](24) if kind in SEQUENCES else load_split(tagging_data, "train").sentences
    tuned = fitting.fit(kind, model, instances, None, settings_for(kind, epochs=6, layer_decay=0.9))
    values = tuned.predict(instances).values
    tuned.save(tmp_path / "out", Manifest("tuned"))
    assert fitting.load_tuned(tmp_path / "out", "cpu").predict(instances).values == values
    assert tuned.history is not None
    assert tuned.history.lines[-1]["loss"] < 0.8 * tuned.history.lines[0]["loss"]


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("yesno", {}),
        ("relation", {"features": "mentions"}),
        ("tagging", {"head": "crf", "learning_rate": 1e-2}),
        ("tagging", {"head": "bilstm", "learning_rate": 1e-2}),
    ],
)
def test_models_of_other_families_go_the_same_way(
    kind: str, changes: dict[str, Any], tiny_model: Path, tagging_data: Path, tmp_path: Path
) -> None:
    model = distilbert(tiny_model, tmp_path / "model")
    instances: Any = SEQUENCES[kind](24) if kind in SEQUENCES else load_split(tagging_data, "train").sentences
    tuned = fitting.fit(kind, model, instances, None, settings_for(kind, **changes))
    values = tuned.predict(instances).values
    if kind in SEQUENCES:
        assert right(kind, instances, values) > 0.7
    else:
        assert score_tags([s.tags for s in instances], values).overall.f1 > 0.5
    tuned.save(tmp_path / "out", Manifest("tuned"))
    assert fitting.load_tuned(tmp_path / "out", "cpu").predict(instances).values == values


def test_a_model_of_another_family_is_tuned_for_one_task_after_the_other(
    tiny_model: Path, tagging_data: Path, tmp_path: Path
) -> None:
    # The fast encoder leaves a head of another shape out; transformers' classes must not stumble over it either.
    sentences = load_split(tagging_data, "train").sentences
    once = settings_for("tagging", epochs=1)
    first = fitting.fit("tagging", distilbert(tiny_model, tmp_path / "model"), sentences, None, once)
    first.save(tmp_path / "tagger", Manifest("tuned"))
    other = [dataclasses.replace(s, tags=tuple("O" if t == "O" else f"{t[0]}-New{i % 2}" for t in s.tags))
             for i, s in enumerate(sentences)]  # fmt: skip
    again = fitting.fit("tagging", tmp_path / "tagger", other, None, once)
    again.save(tmp_path / "again", Manifest("tuned"))
    assert fitting.load_tuned(tmp_path / "again", "cpu").labels == again.labels != first.labels
    network = new_answer_network(tmp_path / "again", 0.0)
    assert network.model.qa_outputs.weight.shape == (2, 32)
    with pytest.raises(BadInput, match="for answers"):
        load_answer_network(tmp_path / "again")


def test_a_bare_encoder_of_another_family_is_no_tagger_whatever_its_label_map_says(
    tiny_model: Path, tmp_path: Path
) -> None:
    # transformers would make up the head that is not there, and find mentions at random.
    model = distilbert(tiny_model, tmp_path / "model")
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    config |= {"id2label": {"0": "O", "1": "B", "2": "I"}, "label2id": {"O": 0, "B": 1, "I": 2}}
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(BadInput, match=r"lacks tensors for token classification.*classifier\.weight"):
        load_tagger(model)


def test_wrong_calls_name_what_is_valid(tiny_model: Path) -> None:
    with pytest.raises(UsageError, match="kind 'ner' is unknown; valid: tagging, words, relation"):
        fitting.settings_of("ner")
    with pytest.raises(UsageError, match="relation takes RelationSettings, not SequenceSettings"):
        fitting.fit("relation", tiny_model, relations(2), None, SequenceSettings())
    with pytest.raises(UsageError, match="nothing to train on"):
        fitting.fit("relation", tiny_model, [], None, RelationSettings())
    with pytest.raises(UsageError, match="no two labels"):
        fitting.fit("yesno", tiny_model, questions(1), None, SequenceSettings())
    with pytest.raises(UsageError, match="is not a tuned model"):
        fitting.load_tuned(tiny_model)


def test_an_unknown_label_is_named_with_its_line(tiny_model: Path) -> None:
    odd = Instance("7", "gout", "mayhap", "rare", file="train.tsv", line=3)
    with pytest.raises(BadInput, match=r"train\.tsv, line 3 \(7\).*'mayhap'.*yes, no"):
        fitting.fit("yesno", tiny_model, [odd], None, SequenceSettings(), labels=("yes", "no"))


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        ("regression", "similarity"),
        ("multi_label_classification", "documents"),
        ("single_label_classification", "classification"),
        (None, "classification"),
    ],
)
def test_what_others_tuned_is_read_as_what_it_is(
    problem: str | None, kind: str, tiny_model: Path, tmp_path: Path
) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    labels = 1 if kind == "similarity" else 3
    model = AutoModelForSequenceClassification.from_pretrained(
        tiny_model, num_labels=labels, problem_type=problem
    )
    model.save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.save_pretrained(tmp_path)
    logits = model.eval()(**tokenizer("gout", "rare", return_tensors="pt")).logits[0].detach()
    expected: Any = {
        "similarity": pytest.approx(float(logits[0])),
        "documents": [f"LABEL_{i}" for i, x in enumerate(logits) if x > 0],
        "classification": f"LABEL_{int(logits.argmax())}",
    }[kind]
    tuned = fitting.load_tuned(tmp_path, "cpu")
    assert tuned.kind == kind
    assert tuned.predict([Instance("1", "gout", "", "rare")]).values == [expected]


def test_what_a_kind_has_no_use_for_is_refused_before_training(tiny_model: Path) -> None:
    def fit(kind: str, *train: Any) -> None:
        fitting.fit(kind, tiny_model, train, None, fitting.settings_of(kind)(device="cpu"))

    with pytest.raises(UsageError, match="squad takes instances of Question, not of Instance"):
        fit("squad", Instance("1", "gout", "x"))
    with pytest.raises(BadInput, match="a number is expected as label"):
        fit("similarity", Instance("1", "gout", float("nan"), "rare"))
    with pytest.raises(BadInput, match="line 7: a sentence has 2 words and 1 tags"):
        fit("tagging", TaggedSentence(("gout", "is"), ("B-D",), "here", 7))
    with pytest.raises(UsageError, match="no text of the training split has a piece"):
        fit("tagging", TaggedSentence(("\x00",), ("B-D",), "here", 1))


def test_no_dev_instances_choose_no_epoch(tiny_model: Path) -> None:
    # Each epoch would score 0, and the first of equals is kept.
    train = [Instance("1", "gout", "x"), Instance("2", "rare", "y")]
    settings = SequenceSettings(epochs=2, device="cpu")
    tuned = fitting.fit("classification", tiny_model, train, [], settings)
    assert (tuned.counts["epoch"], tuned.counts["dev_value"]) == (2, None)


def test_a_tagger_that_lost_its_crf_is_no_tagger_without_one(
    tiny_model: Path, tagging_data: Path, tmp_path: Path
) -> None:
    sentences = load_split(tagging_data, "train").sentences
    settings = TaggingSettings(epochs=1, head="crf", device="cpu")
    fitting.fit("tagging", tiny_model, sentences, None, settings).save(tmp_path / "out", Manifest("tuned"))
    (tmp_path / "out" / "head.safetensors").unlink()
    with pytest.raises(BadInput, match=r"lacks head\.safetensors, which its manifest names"):
        fitting.load_tuned(tmp_path / "out", "cpu")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", '{"id2label": {"a": "x"}}', "the keys of id2label are not numbers"),
        ("tokenizer.json", "[]", "has no tokenizer that can be loaded"),
        ("tokenizer_config.json", "[]", "has no tokenizer that can be loaded"),
    ],
)
def test_a_file_of_another_form_is_named(
    name: str, content: str, message: str, tuned: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(tuned, folder)
    (folder / name).write_text(content, encoding="utf-8")
    with pytest.raises((BadInput, UsageError), match=message):
        fitting.load_tuned(folder, "cpu")


@pytest.mark.parametrize("kind", ["classification", "squad"])
def test_a_model_that_is_given_other_values_says_what_it_takes(kind: str, tiny_model: Path) -> None:
    train: list[Any] = classes(4)
    if kind == "squad":
        train = [Question("1", "what", "gout", (Answer("gout", 0),))]
    tuned = fitting.fit(kind, tiny_model, train, None, fitting.settings_of(kind)(device="cpu", epochs=1))
    name = type(train[0]).__name__
    for wrong, given in (([["gout"]], "not of list"), ("gout", "not of str"), (None, "in a list")):
        with pytest.raises(UsageError, match=f"{kind} takes instances of {name}, {given}"):
            tuned.predict(wrong)  # type: ignore[arg-type]


def test_a_tagger_that_is_given_bare_words_says_what_it_takes(tiny_model: Path) -> None:
    train = [TaggedSentence(("gout", "is"), ("B-D", "O"), "here", 1)]
    tuned = fitting.fit("tagging", tiny_model, train, None, settings_for("tagging", epochs=1))
    with pytest.raises(
        UsageError, match=r"takes instances of TaggedSentence, not of list \(see biosmith\.tasks\.tagged\)"
    ):
        tuned.predict([["gout"]])
