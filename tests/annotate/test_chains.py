"""Relations between a tagger's mentions, and classes of documents, by models tuned for them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import biosmith
from biosmith.annotate.annotator import Counts
from biosmith.annotate.relations import RelationStep
from biosmith.artefact import Manifest
from biosmith.errors import UsageError
from biosmith.tasks.fitting import fit
from biosmith.tasks.instances import Entity, Instance
from biosmith.tasks.settings import RelationSettings, SequenceSettings
from biosmith.text.document import Document, Mention, Passage

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


def test_a_list_of_names_is_not_asked_about_pair_by_pair_and_counted(relation_folder: Path) -> None:
    words = [f"gout{i}" for i in range(30)]
    text = " ".join(words)
    mentions = tuple(Mention(text.index(w), text.index(w) + len(w), w, "Disease") for w in words)
    counts = Counts()
    (done,) = RelationStep("r", relation_folder)([Document("1", text, (), mentions)], counts)
    assert not done.relations
    assert counts.unpaired == 30 * 29 // 2


@pytest.mark.parametrize("types", [None, ("A", "A"), ("A", "B"), ("B", "A"), ("A", "absent")])
def test_pairs_are_counted_as_they_are_made(types: tuple[str, str] | None) -> None:
    step = object.__new__(RelationStep)
    step.types = types
    places = [(0, 1), (2, 3), (0, 1), (2, 3), (2, 3), (2, 3)]
    found = [Mention(a, b, "x", "AABBBA"[i]) for i, (a, b) in enumerate(places)]
    text = "x x x x"
    assert len(list(step._pairs(0, Document("1", text, (), tuple(found)), Counts()))) == step._count_pairs(
        found
    )


@pytest.mark.parametrize("types", [None, ("Gene", "Disease"), ("Gene", "Drug")])
def test_a_sentence_of_thousands_of_names_is_passed_over_at_once(types: tuple[str, str] | None) -> None:
    step = object.__new__(RelationStep)
    step.types = types
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
