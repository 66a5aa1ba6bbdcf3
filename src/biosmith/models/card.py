"""The README.md of an exported model: what it is, how to load it, and what made it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from biosmith.artefact import Manifest

if TYPE_CHECKING:
    from biosmith.models.families import ModelConfig

# By the end of the architecture's name.
_TASKS = {
    "ElectraForPreTraining": ("feature-extraction", "AutoModelForPreTraining"),
    "ForPreTraining": ("fill-mask", "AutoModelForMaskedLM"),
    "ForMaskedLM": ("fill-mask", "AutoModelForMaskedLM"),
    "ForTokenClassification": ("token-classification", "AutoModelForTokenClassification"),
    "ForSequenceClassification": ("text-classification", "AutoModelForSequenceClassification"),
    "ForQuestionAnswering": ("question-answering", "AutoModelForQuestionAnswering"),
}
_TITLES = {
    "bert": "BERT",
    "modernbert": "ModernBERT",
    "megatron-bert": "Megatron BERT",
    "electra": "ELECTRA",
    "albert": "ALBERT",
}


def model_card(name: str, architecture: str, config: ModelConfig, manifest: Manifest) -> str:
    """A model card in Markdown with the metadata that the Hugging Face hub reads.

    Args:
        name: of the model.
        architecture: class name in transformers.
        config: of the encoder.
        manifest: what made it; numbers among its counts are shown.
    """
    tasks = [task for end, task in _TASKS.items() if architecture.endswith(end)]
    task, loader = tasks[0] if tasks else ("feature-extraction", "AutoModel")
    rows = {
        "architecture": architecture,
        "layers x width x heads": f"{config.layers} x {config.width} x {config.heads}",
        "longest input, tokens": f"{config.positions:,}",
        "activation": config.activation,
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
- {config.kind}
---
# {name}

A {_TITLES[config.kind]} encoder written by biosmith; `manifest.json` beside this file names what made it and from what.

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
