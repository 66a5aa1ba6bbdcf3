"""The README.md of an exported model: what it is, how to load it, and what made it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor

from biosmith.artefact import Manifest

if TYPE_CHECKING:
    from biosmith.models.bert import BertConfig

_TASKS = {
    "BertForPreTraining": ("fill-mask", "AutoModelForMaskedLM"),
    "BertForMaskedLM": ("fill-mask", "AutoModelForMaskedLM"),
    "BertForTokenClassification": ("token-classification", "AutoModelForTokenClassification"),
    "BertForSequenceClassification": ("text-classification", "AutoModelForSequenceClassification"),
    "BertForQuestionAnswering": ("question-answering", "AutoModelForQuestionAnswering"),
}


def model_card(
    name: str, config: BertConfig, architecture: str, manifest: Manifest, tensors: Mapping[str, Tensor]
) -> str:
    """A model card in Markdown with the metadata that the Hugging Face hub reads."""
    task, loader = _TASKS.get(architecture, ("feature-extraction", "AutoModel"))
    parameters = sum(tensor.numel() for tensor in tensors.values() if tensor.is_floating_point())
    rows = {
        "Architecture": architecture,
        "Parameters": f"{parameters:,}",
        "Layers x width x heads": f"{config.layers} x {config.width} x {config.heads}",
        "Feed-forward width": f"{config.feed_forward:,}",
        "Longest input": f"{config.positions:,} tokens",
        "Vocabulary": f"{config.vocabulary_size:,} pieces",
        "Activation": config.activation,
    }
    table = "\n".join(f"| {key} | {value} |" for key, value in rows.items())
    inputs = "\n".join(f"- {item.get('kind')}: {_shown(item)}" for item in manifest.inputs)
    recipe = json.dumps(dict(manifest.config), indent=2, ensure_ascii=False, default=str)
    made = f"\n## Made by\n\n```json\n{recipe}\n```\n" if manifest.config else ""
    return f"""---
language: en
library_name: transformers
pipeline_tag: {task}
tags:
- biomedical
- biosmith
- bert
---
# {name}

A BERT encoder written by biosmith; `manifest.json` beside this file names what made it and from what.

| | |
|---|---|
{table}

## Use

```python
from transformers import AutoTokenizer, {loader}

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = {loader}.from_pretrained("{name}")
```

or, faster:

```python
import biosmith

vectors = biosmith.encoder("{name}").embed(["EGFR mutations in lung cancer"])
```

## Made from

{inputs or "- nothing recorded"}
{made}"""


def _shown(item: Mapping[str, object]) -> str:
    digest = item.get("digest")
    name = str(item.get("path", "")).rstrip("/").rpartition("/")[2]
    return f"{name} (sha256 {str(digest)[:12]})" if digest else name
