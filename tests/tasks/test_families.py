"""ELECTRA and ALBERT through the fast encoder: the heads that their classes in transformers have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from biosmith.artefact import Manifest
from biosmith.models.encoder import Encoder
from biosmith.tasks import fitting
from biosmith.tasks.folders import readable_positions
from biosmith.tasks.layers import depth_of
from biosmith.tasks.tagged import load_split
from tasks.conftest import write_tiny_model
from tasks.test_fitting import SEQUENCES, right, settings_for


@pytest.fixture(scope="module", params=["Electra", "Albert"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of a family with narrow embeddings, as transformers saves it."""
    import transformers

    folder = tmp_path_factory.mktemp(request.param)
    write_tiny_model(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    values = {"hidden_size": 32, "embedding_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    values |= {"intermediate_size": 64, "max_position_embeddings": 64, "vocab_size": len(tokenizer)}
    torch.manual_seed(0)
    config = getattr(transformers, f"{request.param}Config")(**values)
    getattr(transformers, f"{request.param}Model")(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["yesno", "relation", "tagging"])
def test_the_folder_of_a_tuned_model_has_equal_logits_in_transformers(
    kind: str, model: Path, tagging_data: Path, tmp_path: Path
) -> None:
    import transformers

    instances: Any = SEQUENCES[kind](24) if kind in SEQUENCES else load_split(tagging_data, "train").sentences
    changes = {"learning_rate": 5e-3} if kind in SEQUENCES else {}
    tuned = fitting.fit(kind, model, instances, None, settings_for(kind, **changes))
    values = tuned.predict(instances).values
    if kind in SEQUENCES:
        assert right(kind, instances, values) > 0.7
    tuned.save(tmp_path / "out", Manifest("tuned"))
    loaded = fitting.load_tuned(tmp_path / "out", "cpu")
    assert isinstance(loaded.network.encoder, Encoder)
    assert loaded.predict(instances).values == values
    ending = "SequenceClassification" if kind in SEQUENCES else "TokenClassification"
    theirs, report = getattr(transformers, f"AutoModelFor{ending}").from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert type(theirs).__name__ == f"{model.name.rstrip('0123456789')}For{ending}"
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    if kind not in SEQUENCES:
        return
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    ours = tuned.scores(tuned.examples(instances[:6]).examples)
    for instance, scores in zip(instances[:6], ours, strict=True):
        if kind == "relation":
            continue  # the text is rewritten for the model
        with torch.inference_mode():
            inputs = tokenizer(instance.text, text_pair=instance.pair, return_tensors="pt")
            logits = theirs.eval()(**inputs).logits[0]
        torch.testing.assert_close(torch.from_numpy(scores), logits, atol=1e-4, rtol=0)


def test_the_projection_of_narrow_embeddings_learns_as_slowly_as_they_do() -> None:
    # transformers calls it embeddings_project in ELECTRA, and embedding_hidden_mapping_in in ALBERT.
    for name in (
        "encoder.projection.weight",
        "encoder.embeddings.words.weight",
        "electra.embeddings_project.bias",
    ):
        assert depth_of(name) == 0
    assert depth_of("encoder.layers.0.attention.qkv.weight") == 1


@pytest.mark.parametrize(
    ("family", "readable"), [("Bert", 40), ("DistilBert", 40), ("Roberta", 38), ("MPNet", 38), ("Luke", 38)]
)
def test_a_model_reads_as_many_tokens_as_its_table_has_places_for(family: str, readable: int) -> None:
    # The tables of RoBERTa and its kind begin behind the padding position (1), whatever they are called.
    import transformers

    values = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    if family == "DistilBert":
        values = {"dim": 8, "n_layers": 1, "n_heads": 1, "hidden_dim": 8}
    values |= {"vocab_size": 20, "max_position_embeddings": 40, "pad_token_id": 1}
    config = getattr(transformers, f"{family}Config")(**values)
    model = getattr(transformers, f"{family}Model")(config).eval()
    assert readable_positions(model) == readable
    ids = torch.full((1, readable), 5)
    with torch.inference_mode():
        assert torch.isfinite(model(input_ids=ids, attention_mask=torch.ones_like(ids))[0]).all()
        if family in ("Roberta", "MPNet"):
            with pytest.raises((IndexError, RuntimeError)):
                longer = torch.full((1, readable + 1), 5)
                model(input_ids=longer, attention_mask=torch.ones_like(longer))


def test_a_latent_variable_model_is_refused_with_the_name_of_its_encoder(tmp_path: Path) -> None:
    from biosmith.errors import UsageError
    from biosmith.tasks.network import open_encoder

    (tmp_path / "vae").mkdir()
    (tmp_path / "vae" / "config.json").write_text('{"model_type": "biosmith_vae"}', encoding="utf-8")
    with pytest.raises(UsageError, match=r"latent-variable model; take its encoder, .*vae.encoder"):
        open_encoder(tmp_path / "vae")
