"""The README.md of an exported model: what it is, how to load it, and what made it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from biosmith.artefact import Manifest

_TASKS = {
    "BertForPreTraining": ("fill-mask", "AutoModelForMaskedLM"),
    "BertForMaskedLM": ("fill-mask", "AutoModelForMaskedLM"),
    "BertForTokenClassification": ("token-classification", "AutoModelForTokenClassification"),
    "BertForSequenceClassification": ("text-classification", "AutoModelForSequenceClassification"),
    "BertForQuestionAnswering": ("question-answering", "AutoModelForQuestionAnswering"),
}


def model_card(name: str, raw: Mapping[str, Any], manifest: Manifest) -> str:
    """A model card in Markdown with the metadata that the Hugging Face hub reads.

    Args:
        name: of the model.
        raw: its config.json.
        manifest: what made it; numbers among its counts are shown.
    """
    architecture = (raw.get("architectures") or ["BertModel"])[0]
    task, loader = _TASKS.get(architecture, ("feature-extraction", "AutoModel"))
    rows = {
        "architecture": architecture,
        "layers x width x heads": f"{raw['num_hidden_layers']} x {raw['hidden_size']} x {raw['num_attention_heads']}",
        "longest input, tokens": f"{raw['max_position_embeddings']:,}",
        "activation": raw["hidden_act"],
    }
    rows |= {
        key.replace("_", " "): f"{v:,}" for key, v in manifest.counts.items() if isinstance(v, int | float)
    }
    table = "\n".join(f"| {key} | {value} |" for key, value in rows.items())
    inputs = "\n".join(f"- {item.get('kind')}: {_shown(item)}" for item in manifest.inputs)
    settings = {key: value for key, value in manifest.config.items() if key != "citations"}
    shown = json.dumps(settings, indent=2, ensure_ascii=False, default=str)
    made = f"\n## Settings\n\n```json\n{shown}\n```\n" if settings else ""
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
