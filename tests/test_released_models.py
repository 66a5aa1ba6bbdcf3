"""The models in `models/`: small enough for the repository, as their manifests say, and working."""

from __future__ import annotations

from pathlib import Path

import pytest

import biosmith
from biosmith.annotate.released import DEFAULT
from biosmith.lineage import NAMED, RECORDED, SOUND, trace_origin

MODELS = Path(__file__).resolve().parents[1] / "models"
FOLDERS = sorted(folder for folder in MODELS.glob("*") if folder.is_dir())
pytestmark = pytest.mark.skipif(not FOLDERS, reason="the models lie in the checkout, not in the package")


def test_they_fit_the_repository() -> None:
    sizes = [file.stat().st_size for file in MODELS.rglob("*") if file.is_file()]
    assert max(sizes) < 45e6 and sum(sizes) < 120e6


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_file_is_the_one_that_the_manifest_names_and_a_card_is_there(folder: Path) -> None:
    top, *below = trace_origin(folder).walk()
    assert top.state == SOUND, top.problems
    assert {origin.state for origin in below} <= {RECORDED, NAMED}
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\n") and "license: apache-2.0" in card


def test_the_default_tagger_finds_diseases_chemicals_and_genes() -> None:
    pytest.importorskip("openvino")
    text = "Cisplatin caused acute kidney injury in carriers of the BRCA1 gene who had breast cancer."
    document = biosmith.Document.build("1", [biosmith.Passage("abstract", text)])
    (document,) = biosmith.load(MODELS / DEFAULT).annotate([document])
    found = {(m.text, m.type) for m in document.mentions}
    assert {("Cisplatin", "Chemical"), ("breast cancer", "Disease")} <= found
    assert any("BRCA1" in mention and type == "Gene" for mention, type in found)


def test_the_encoder_fills_a_masked_word() -> None:
    """Read by transformers, which is what users of other tools do."""
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    folder = MODELS / "biosmith-base-small"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
    batch = tokenizer("Patients with type 2 [MASK] were treated with metformin.", return_tensors="pt")
    with torch.inference_mode():
        logits = model(**batch).logits[0]
    place = (batch["input_ids"][0] == tokenizer.mask_token_id).nonzero()[0, 0]
    assert tokenizer.convert_ids_to_tokens(int(logits[place].argmax())) == "diabetes"
