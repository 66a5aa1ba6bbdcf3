"""The loss of every task is the same for a batch as it is and for one padded to a shape that a CUDA graph takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from biosmith.tasks.answer_network import new_answer_network
from biosmith.tasks.answers import make_windows
from biosmith.tasks.batches import pack
from biosmith.tasks.fit_sequences import DTYPES
from biosmith.tasks.graphs import is_capturable, padded, shape_of
from biosmith.tasks.inputs import Example, InputTransform
from biosmith.tasks.instances import Answer, Instance, Question
from biosmith.tasks.sequence_network import form_of, new_sequence_network
from biosmith.tasks.settings import AnswerSettings, RelationSettings, SequenceSettings
from biosmith.tasks.texts import relation_examples, text_examples, with_target

TEXTS = ("@GENE$ is rare in @DRUG$", "patients with @GENE$ were given @DRUG$ in mice", "@GENE$ or @DRUG$")


def sequences(settings: Any, target: Any, transform: InputTransform) -> list[Example]:
    instances = [Instance(str(i), text, "") for i, text in enumerate(TEXTS)]
    if isinstance(settings, RelationSettings):
        made = relation_examples(instances, transform, 64, settings)
    else:
        made = text_examples(instances, transform, 64)
    answers: dict[str, Any] = {
        "class": [0, 1, 1],
        "classes": [[1, 0], [0, 0], [1, 1]],
        "number": [0.5, 2.0, 4.0],
    }
    return [
        with_target(example, np.asarray(answer), DTYPES[target], settings.features)
        for example, answer in zip(made.examples, answers[target], strict=True)
    ]


@pytest.mark.parametrize(
    ("settings", "target"),
    [
        (SequenceSettings(), "class"),
        (SequenceSettings(features="cls", head="mlp"), "classes"),
        (SequenceSettings(features="mean"), "class"),
        (SequenceSettings(), "number"),
        (RelationSettings(features="mentions"), "class"),
        (RelationSettings(features="mentions", pooling="mean"), "class"),
    ],
)
def test_padding_changes_no_loss_and_no_gradient_of_a_sequence_task(
    settings: Any, target: Any, tiny_model: Path
) -> None:
    torch.manual_seed(0)
    outputs = ["score"] if target == "number" else ["a", "b"]
    network = new_sequence_network(tiny_model, outputs, form_of(settings, target), 0.0).eval()
    assert is_capturable(network)
    check(network, sequences(settings, target, InputTransform(tiny_model)))


def test_padding_changes_no_loss_of_answers(tiny_model: Path) -> None:
    context = "patients with gout were given aspirin"
    questions = [
        Question("1", "rare", context, (Answer("aspirin", context.index("aspirin")),)),
        Question("2", "does gout cause", "no effect was seen"),
    ]
    transform = InputTransform(tiny_model)
    made = make_windows(questions, transform, 64, AnswerSettings(), training=True)
    network = new_answer_network(tiny_model, 0.0).eval()
    assert is_capturable(network)
    check(network, [w.example for w in made.windows])


def check(network: Any, examples: list[Example]) -> None:
    batch = pack(examples, np.arange(len(examples)))
    more = padded(batch, shape_of(batch, batch_size=5))
    assert len(more.input_ids_T) >= len(batch.input_ids_T)
    assert len(more.cu_seqlens) > len(batch.cu_seqlens)
    results = []
    for one in (batch, more):
        network.zero_grad()
        loss = network.loss(one)
        loss.backward()
        gradients = [p.grad.clone() for p in network.parameters() if p.grad is not None]
        results.append((loss.detach(), gradients))
    torch.testing.assert_close(results[0][0], results[1][0])
    for plain, other in zip(results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(plain, other, atol=1e-6, rtol=1e-4)
