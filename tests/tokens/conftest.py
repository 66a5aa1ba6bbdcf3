"""A small corpus folder and vocabularies learned from it, made once."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from biosmith.artefact import Manifest, describe_files
from biosmith.text.document import Document, Passage
from biosmith.text.formats.parquet import ParquetWriter
from biosmith.tokens.from_corpus import VocabularySettings, train_vocabulary
from biosmith.tokens.schemes import Kind, Scheme

MakeCorpus = Callable[..., Path]
MakeDocuments = Callable[..., list[Document]]

SENTENCES = (
    "Interleukin-6 (IL-6) inhibited TNF-α in naïve ♀ mice (n = 12).",
    "Acetyltransferase activity rose by 3.2 ± 0.4 µM at 37 °C.",
    "Patients with lymphoma received lidocaine, naloxone or clonidine.",
    "The 5′-UTR of RecA binds Ca²⁺ → H₂O₂ release; p ≤ 0.05.",
    "We studied hypertension, nephropathy and diabetes in 1,024 adults.",
    "Oropharyngeal cardiomyocyte promoters responded to chloramphenicol.",
    "NF‑κB levels fell.However, DNA damage did not change.",
    "Lithium and insulin were given i.v. to ♂ rats for 5–10 days.",
)
WORDS = [
    "gene",
    "protein",
    "kinase",
    "receptor",
    "tumour",
    "cell",
    "patient",
    "dose",
    "response",
    "trial",
    "risk",
    "therapy",
    "brain",
    "liver",
    "renal",
    "acute",
]


@pytest.fixture(scope="session")
def make_documents() -> MakeDocuments:
    """A function from a number and a seed to documents with a title and an abstract: words in many combinations."""
    return _make_documents


def _make_documents(count: int, seed: int = 0) -> list[Document]:
    generator = random.Random(seed)
    documents = []
    for number in range(count):
        extra = " ".join(
            generator.choice(WORDS) + generator.choice(["", "s", "-like", "ase", "oma", "osis"])
            for _ in range(12)
        )
        abstract = " ".join([*generator.choices(SENTENCES, k=4), f"In {generator.choice(WORDS)}s, {extra}."])
        passages = [Passage("title", f"Study {number} of {extra[:30]}"), Passage("abstract", abstract)]
        documents.append(Document.build(f"PMID{number}", passages))
    return documents


@pytest.fixture(scope="session")
def make_corpus(tmp_path_factory: pytest.TempPathFactory) -> MakeCorpus:
    """A function from documents to a corpus folder of several shards and row groups."""

    def make(documents: Sequence[Document], shards: int = 2, groups: int = 3) -> Path:
        folder = tmp_path_factory.mktemp("corpus")
        size = max(1, -(-len(documents) // (shards * groups)))
        pieces = [documents[first : first + size] for first in range(0, len(documents), size)]
        for shard in range(shards):
            with ParquetWriter(folder / f"part-{shard:05d}.parquet") as writer:
                for piece in pieces[shard * groups : (shard + 1) * groups]:
                    for document in piece:
                        writer.write(document)
                    writer._flush()
        Manifest("corpus", files=describe_files(folder), counts={"documents": len(documents)}).save(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def corpus(make_corpus: MakeCorpus) -> Path:
    """60 documents in two shards of three row groups each."""
    return make_corpus(_make_documents(60))


@pytest.fixture(scope="session")
def vocabularies(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One cased vocabulary of each kind, an uncased WordPiece and an uncased byte-level one, learned from `corpus`."""
    folder = tmp_path_factory.mktemp("vocabularies")
    kinds: dict[str, tuple[Kind, bool]] = {
        "wordpiece": ("wordpiece", True),
        "uncased": ("wordpiece", False),
        "sentencepiece": ("sentencepiece", True),
        "bpe": ("bpe", True),
        "uncased-bpe": ("bpe", False),
    }
    for name, (kind, cased) in kinds.items():
        train_vocabulary(corpus, folder / name, VocabularySettings(Scheme(kind, cased=cased), size=1200))
    return {name: folder / name for name in kinds}
