"""Relations between a tagger's mentions, and classes of documents, by models tuned for them."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

import biosmith
from biosmith.annotate.annotator import Counts
from biosmith.annotate.relations import RelationStep, is_negative
from biosmith.artefact import MANIFEST, Manifest
from biosmith.errors import BadInput, UsageError
from biosmith.models.checkpoint import WEIGHTS
from biosmith.tasks.data_files import NEGATIVES
from biosmith.tasks.fitting import fit
from biosmith.tasks.instances import Entity, Instance
from biosmith.tasks.relations import present
from biosmith.tasks.settings import RelationSettings, SequenceSettings
from biosmith.text.document import Argument, Document, Mention, Passage, Relation

CAUSES = ("{b} does not cause {a} in mice .", "Patients with {a} were given {b} .")
DISEASES, DRUGS = ("gout", "anemia", "colitis"), ("aspirin", "heparin", "ibuprofen")


def relation_instances() -> list[Instance]:
    made = []
    for disease in DISEASES:
        for drug in DRUGS:
            for frame, label in zip(CAUSES, ("false", "treats"), strict=True):
                text = frame.format(a=disease, b=drug)
                a, b = text.index(disease), text.index(drug)
                entities = (Entity(b, b + len(drug), "CHEMICAL"), Entity(a, a + len(disease), "DISEASE"))
                made.append(Instance("", text, label, entities=entities))
    return made


@pytest.fixture(scope="module")
def relation_folder(tagger_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tells "were given" from "does not cause"."""
    folder = tmp_path_factory.mktemp("relations") / "treats"
    settings = RelationSettings(learning_rate=5e-3, batch_size=6, epochs=12, max_length=64, keep="last")
    model = tagger_folder.parent / "model"
    fit("relation", model, relation_instances(), None, settings).save(folder, Manifest("tuned"))
    return folder


@pytest.fixture(scope="module")
def class_folder(tagger_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tells texts about mice from texts about patients."""
    folder = tmp_path_factory.mktemp("classes") / "subject"
    texts = [f.format(a=a, b=b) for f in CAUSES for a in DISEASES for b in DRUGS]
    made = [Instance("", t, "patients" if "given" in t else "mice") for t in texts]
    settings = SequenceSettings(learning_rate=5e-3, batch_size=6, epochs=12, max_length=64, keep="last")
    model = tagger_folder.parent / "model"
    fit("classification", model, made, None, settings).save(folder, Manifest("tuned"))
    return folder


TEXT = "Patients with gout were given heparin . Aspirin does not cause anemia in mice ."


def test_a_relation_model_reads_the_mentions_that_a_tagger_finds(
    tagger_folder: Path, relation_folder: Path
) -> None:
    nlp = biosmith.load([tagger_folder, relation_folder], pairs=("Chemical", "Disease"))
    (found,) = nlp.annotate([Document("1", TEXT, (Passage("abstract", TEXT),))])
    names = {m.id: m.text for m in found.mentions}
    assert len(names) == len(found.mentions) == 4
    # The second sentence says what is not so, and no pair crosses a sentence.
    told = [(r.type, *(names[a.target] for a in r.arguments)) for r in found.relations]
    assert told == [("treats", "heparin", "gout")]
    assert all(r.score is not None and 0.5 < r.score <= 1 for r in found.relations)
    assert nlp.counts.relations == 1


def test_relations_may_be_between_mentions_that_documents_bring(relation_folder: Path) -> None:
    text = "Patients with gout were given heparin ."
    mentions = (Mention(14, 18, "gout", "Disease", id="T7"), Mention(30, 37, "heparin", "Drug"))
    given = Document("1", text, (), mentions)
    # The model knows drugs as CHEMICAL.
    nlp = biosmith.load(relation_folder, keep=True, pairs=("Drug=CHEMICAL", "Disease"))
    (found,) = nlp.annotate([given])
    assert [[a.target for a in r.arguments] for r in found.relations] == [["T1", "T7"]]
    with pytest.raises(UsageError, match="add a tagger's folder"):
        biosmith.load(relation_folder)


def test_pairs_that_nothing_can_answer_are_refused(tagger_folder: Path, relation_folder: Path) -> None:
    with pytest.raises(
        UsageError, match="no tagger finds mentions of type 'Chemicl'; valid: Chemical, Disease"
    ):
        biosmith.load([tagger_folder, relation_folder], pairs=("Chemicl", "Disease"))
    with pytest.raises(UsageError, match="no model is one"):
        biosmith.load(tagger_folder, pairs=("Chemical", "Disease"))


def test_types_are_shown_to_a_relation_model_as_it_learnt_them(tagger_folder: Path, tmp_path: Path) -> None:
    # @CHEMICAL$ and @Chemical$ are other pieces in a cased vocabulary: a model that learnt one has never seen the other.
    learnt = [
        replace(i, entities=tuple(e._replace(type=e.type.capitalize()) for e in i.entities))
        for i in relation_instances()
    ]
    settings = RelationSettings(batch_size=6, epochs=1, max_length=64, keep="last")
    model = tagger_folder.parent / "model"
    fit("relation", model, learnt, None, settings).save(tmp_path / "treats", Manifest("tuned"))
    mentions = (Mention(14, 18, "gout", "DISEASE"), Mention(30, 37, "heparin", "Chemical"))
    document = Document("1", "Patients with gout were given heparin .", (), mentions)
    step = RelationStep("treats", tmp_path / "treats")
    (pair,) = step._pairs(0, document, Counts())
    shown = present(step._instance(document, pair), settings).text
    assert shown == "Patients with @Disease$ were given @Chemical$ ."
    assert shown in {present(instance, settings).text for instance in learnt}
    # Types that it has never seen together are a slip, of which the relations would not tell.
    with pytest.raises(UsageError, match="no pairs of DRUG and Disease; valid: Chemical and Disease"):
        RelationStep("treats", tmp_path / "treats", ("Chemical=DRUG", "Disease"))
    manifest = tmp_path / "treats" / MANIFEST
    written = json.loads(manifest.read_text(encoding="utf-8"))
    written["config"]["pairs"] = ["Chemical"]
    manifest.write_text(json.dumps(written), encoding="utf-8")
    with pytest.raises(BadInput, match=r"config\.pairs"):
        RelationStep("treats", tmp_path / "treats")


def test_a_list_of_names_is_not_asked_about_pair_by_pair_and_counted(relation_folder: Path) -> None:
    words = [f"gout{i}" for i in range(40)]
    text = " ".join(words)
    types = ["Disease", "Chemical"] * 20
    places = [(text.index(w), text.index(w) + len(w)) for w in words]
    mentions = tuple(Mention(a, b, text[a:b], type) for (a, b), type in zip(places, types, strict=True))
    counts = Counts()
    (done,) = RelationStep("r", relation_folder)([Document("1", text, (), mentions)], counts)
    assert not done.relations
    assert counts.unpaired == 20 * 20


def test_a_label_that_says_no_relation_makes_none_however_it_is_written(
    tagger_folder: Path, tmp_path: Path
) -> None:
    # `evaluate` counts these labels as none, too.
    assert all(is_negative(label) for label in (*NEGATIVES, "No-Relation", "N/A", "NONE", "DDI-false"))
    assert not any(
        is_negative(label) for label in ("treats", "CPR:4", "1", "DDI-effect", "Negative_Correlation")
    )
    made = [replace(i, label="no relation" if i.label == "false" else i.label) for i in relation_instances()]
    settings = RelationSettings(learning_rate=5e-3, batch_size=6, epochs=12, max_length=64, keep="last")
    model = tagger_folder.parent / "model"
    fit("relation", model, made, None, settings).save(tmp_path / "treats", Manifest("tuned"))
    nlp = biosmith.load([tagger_folder, tmp_path / "treats"], pairs=("Chemical", "Disease"))
    (found,) = nlp.annotate(TEXT)
    assert [r.type for r in found.relations] == ["treats"]


def test_without_pairs_only_those_are_asked_about_that_the_training_data_has(relation_folder: Path) -> None:
    # Of two drugs, or of a gene, the model learnt nothing; whatever it said of them would be made up.
    text = "Patients with gout were given heparin , aspirin and BRCA1 ."
    names = (("gout", "Disease"), ("heparin", "Chemical"), ("aspirin", "Chemical"), ("BRCA1", "Gene"))
    mentions = tuple(Mention(text.index(n), text.index(n) + len(n), n, type) for n, type in names)
    pairs = list(RelationStep("r", relation_folder)._pairs(0, Document("1", text, (), mentions), Counts()))
    assert [(p.first, p.second) for p in pairs] == [(0, 1), (0, 2)]


@pytest.mark.parametrize("learnt", [frozenset(), {("A", "B")}, {("A", "A"), ("B", "B")}])
@pytest.mark.parametrize("types", [None, ("A", "A"), ("A", "B"), ("B", "A"), ("A", "absent")])
def test_pairs_are_counted_as_they_are_made(
    types: tuple[str, str] | None, learnt: frozenset[tuple[str, str]]
) -> None:
    step = object.__new__(RelationStep)
    step.types, step.learnt, step.known_as, step.spelt = types, learnt, {}, {}
    places = [(0, 1), (2, 3), (0, 1), (2, 3), (2, 3), (2, 3)]
    found = [Mention(a, b, "x", "AABBBA"[i]) for i, (a, b) in enumerate(places)]
    text = "x x x x"
    assert len(list(step._pairs(0, Document("1", text, (), tuple(found)), Counts()))) == step._count_pairs(
        found
    )


@pytest.mark.parametrize("types", [None, ("Gene", "Disease"), ("Gene", "Drug")])
def test_a_sentence_of_thousands_of_names_is_passed_over_at_once(types: tuple[str, str] | None) -> None:
    step = object.__new__(RelationStep)
    step.types, step.learnt = types, frozenset()
    names = 20_000
    mentions = tuple(Mention(2 * i, 2 * i + 1, "x", "Gene" if i % 2 else "Disease") for i in range(names))
    counts, began = Counts(), time.process_time()
    assert not list(step._pairs(0, Document("1", "x " * names, (), mentions), counts))
    expected = {None: names * (names - 1) // 2, ("Gene", "Disease"): (names // 2) ** 2}
    assert counts.unpaired == expected.get(types, 0)
    assert time.process_time() - began < 10


def test_classes_are_written_into_the_document(class_folder: Path) -> None:
    texts = ["Patients with colitis were given aspirin .", "Heparin does not cause gout in mice ."]
    nlp = biosmith.load(class_folder)
    found = list(nlp.annotate(Document(str(i), t, infons={"year": "2020"}) for i, t in enumerate(texts)))
    assert [d.infons["subject"] for d in found] == ["patients", "mice"]
    assert all(0.5 < float(d.infons["subject (score)"]) <= 1 for d in found)
    assert found[0].infons["year"] == "2020"


def test_a_classifier_alone_takes_no_mentions_away(class_folder: Path, tagger_folder: Path) -> None:
    # Mentions that no tagger finds anew are replaced by nothing: a classifier over a gold corpus would have emptied it.
    text = "Patients with gout were given heparin ."
    mentions = (Mention(14, 18, "gout", "Disease", id="T1"), Mention(30, 37, "heparin", "Chemical", id="T2"))
    relations = (Relation("treats", (Argument("Arg1", "T2"), Argument("Arg2", "T1"))),)
    given = Document("1", text, (), mentions, relations)
    (found,) = biosmith.load(class_folder).annotate(given)
    assert (found.mentions, found.relations) == (mentions, relations)
    # A tagger's own take their place, as ever.
    (found,) = biosmith.load([class_folder, tagger_folder]).annotate(given)
    assert all(m.id == "" for m in found.mentions) and not found.relations


def test_every_model_reads_plain_characters_where_that_is_asked_for(
    relation_folder: Path, class_folder: Path
) -> None:
    plain = "Patients with gout were given heparin ."
    variant = "Pati&#101;nts\u00a0with g&#111;ut w&#101;re giv&#101;n hepari&#110; ."
    found = []
    for text, names in ((plain, ("gout", "heparin")), (variant, ("g&#111;ut", "hepari&#110;"))):
        places = [(text.index(name), text.index(name) + len(name)) for name in names]
        mentions = tuple(
            Mention(a, b, text[a:b], type)
            for (a, b), type in zip(places, ("Disease", "Chemical"), strict=True)
        )
        given = Document("1", text, (Passage("abstract", text),), mentions)
        nlp = biosmith.load([relation_folder, class_folder], keep=True, normalise=True)
        found += nlp.annotate(given)
    assert [m.text for m in found[1].mentions] == ["g&#111;ut", "hepari&#110;"]  # the text stays as it is
    assert found[1].infons == found[0].infons and found[0].infons["subject"] == "patients"
    (score,), (same,) = ([r.score for r in document.relations] for document in found)
    assert score == same


def test_a_hugging_face_model_of_one_number_is_no_classifier(class_folder: Path, tmp_path: Path) -> None:
    # transformers takes a head of one output for a regression, whether problem_type says so or not; the softmax of one
    # number is 1 for every text.
    folder = tmp_path / "similarity"
    shutil.copytree(class_folder, folder)
    (folder / MANIFEST).unlink()
    written = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    written |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    written.pop("problem_type", None)
    (folder / "config.json").write_text(json.dumps(written), encoding="utf-8")
    tensors = load_file(folder / WEIGHTS)
    for name in ("classifier.weight", "classifier.bias"):
        tensors[name] = tensors[name][:1].clone()
    save_file(tensors, folder / WEIGHTS)
    with pytest.raises(UsageError, match="tuned for similarity"):
        biosmith.load(folder)


def test_a_long_document_is_classified_window_by_window(class_folder: Path) -> None:
    # 62 pieces fit; the many sentences say "mice", so their windows outvote the others.
    text = "Heparin does not cause gout in mice. " * 20 + "Patients with colitis were given aspirin."
    nlp = biosmith.load(class_folder)
    (found,) = nlp.annotate([Document("1", text)])
    assert found.infons["subject"] == "mice"
    assert nlp.counts.windows > 2 and nlp.counts.truncated == 0
    cut = biosmith.load(class_folder, on_long="truncate")
    list(cut.annotate([Document("1", text)]))
    assert cut.counts.truncated == 1


@pytest.mark.parametrize("joint", [" , ", "@"])
def test_a_sentence_longer_than_a_classifier_reads_is_read_to_its_end(class_folder: Path, joint: str) -> None:
    # One sentence (with "@" not even a blank in it), of which the model reads 62 pieces at once; only its end says
    # "mice", so read in part it would be of patients.
    nlp = biosmith.load(class_folder)
    text = joint.join(["gout"] * 20 + ["mice"] * 400)
    (found,) = nlp.annotate([Document("1", text)])
    assert found.infons["subject"] == "mice"
    assert nlp.counts.windows > 6 and nlp.counts.truncated == 0
    refusing = biosmith.load(class_folder, on_long="error")
    assert list(refusing.annotate([Document("1", text)])) == [] and refusing.counts.failed == 1


def test_models_of_other_tasks_are_refused(tagger_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "similarity"
    made = [Instance(str(i), "gout", float(i % 5), pair="anemia") for i in range(8)]
    settings = SequenceSettings(batch_size=4, epochs=1, max_length=32, keep="last")
    fit("similarity", tagger_folder.parent / "model", made, None, settings).save(folder, Manifest("tuned"))
    with pytest.raises(UsageError, match="tuned for similarity, which annotates nothing; valid: tagging"):
        biosmith.load([tagger_folder, folder])
