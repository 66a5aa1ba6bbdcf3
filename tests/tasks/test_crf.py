"""The CRF against brute force, and the layouts that it and the LSTM rest on."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from biosmith.tasks import crf
from biosmith.tasks.batches import Batch, pack
from biosmith.tasks.crf import LinearChain
from biosmith.tasks.inputs import Example
from biosmith.tasks.layout import BiLSTM, Layout


def chain(labels: int, seed: int = 0) -> LinearChain:
    torch.manual_seed(seed)
    made = LinearChain(labels)
    for parameter in made.parameters():
        nn.init.normal_(parameter)
    return made


@torch.no_grad()
def score_by_hand(chain: LinearChain, scores: torch.Tensor, path: tuple[int, ...]) -> float:
    total = float(chain.begins_K[path[0]] + chain.ends_K[path[-1]])
    total += sum(float(scores[i, label]) for i, label in enumerate(path))
    return total + sum(float(chain.steps_KK[a, b]) for a, b in itertools.pairwise(path))


def layout(lengths: list[int], longest: int) -> Layout:
    segments = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    return Layout.of(segments, len(lengths), longest)


@pytest.mark.parametrize("most_pairwise", [0, 12])
@pytest.mark.parametrize("lengths", [[1], [2], [3, 1, 5], [4, 0, 2]])
def test_the_loss_is_minus_the_log_probability_over_all_paths(
    lengths: list[int], most_pairwise: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crf, "MOST_PAIRWISE", most_pairwise)
    model = chain(3)
    torch.manual_seed(1)
    scores = torch.randn(sum(lengths), 3)
    target = torch.randint(3, (sum(lengths),))
    losses = []
    at = 0
    for n in lengths:
        mine, path = scores[at : at + n], tuple(target[at : at + n].tolist())
        at += n
        if n:
            all_scores = [score_by_hand(model, mine, p) for p in itertools.product(range(3), repeat=n)]
            losses.append(
                float(torch.logsumexp(torch.tensor(all_scores), 0)) - score_by_hand(model, mine, path)
            )
    # An empty sentence has no probability and counts nowhere.
    got = model.loss(scores, target, layout(lengths, max(lengths) + 2)).item()
    assert got == pytest.approx(float(np.mean(losses)), abs=1e-4)


def test_the_gradient_is_that_of_the_sum_over_all_paths() -> None:
    model = chain(2)
    scores = torch.randn(4, 2, requires_grad=True)
    target = torch.tensor([0, 1, 1, 0])
    model.loss(scores, target, layout([4], 4)).backward()
    # The derivative by a score is the marginal probability of that label, less 1 at the right one.
    paths = list(itertools.product(range(2), repeat=4))
    weights = torch.softmax(torch.tensor([score_by_hand(model, scores.detach(), p) for p in paths]), 0)
    marginals = torch.zeros(4, 2)
    for path, weight in zip(paths, weights, strict=True):
        for i, label in enumerate(path):
            marginals[i, label] += weight
    marginals[torch.arange(4), target] -= 1
    torch.testing.assert_close(scores.grad, marginals, atol=1e-4, rtol=0)


def batch_of(lengths: list[int]) -> Batch:
    examples = []
    for i, n in enumerate(lengths):
        words = np.arange(n, dtype=np.int32)
        examples.append(Example(np.full(n + 2, i, np.int32), words + 1, np.zeros(n, np.int64), i, words))
    return pack(examples, np.arange(len(lengths)))


def test_padding_picks_belong_to_no_sentence() -> None:
    batch = batch_of([3, 2])
    more = Batch(
        **{
            **batch.tensors(),
            "picks_K": torch.cat([batch.picks_K, torch.zeros(4, dtype=torch.long)]),
            "target": torch.cat([batch.target, torch.full((4,), -100)]),
        },
        longest=8,
        members=batch.members,
    )
    model, scores = chain(3), torch.randn(9, 3)
    plain = model.loss(scores[:5], batch.target, Layout.of_picks(batch))
    padded = model.loss(scores, more.target, Layout.of_picks(more))
    torch.testing.assert_close(plain, padded)


def test_the_lstm_reads_each_sequence_as_torch_does_alone() -> None:
    torch.manual_seed(0)
    ours = BiLSTM(8)
    theirs = nn.LSTM(8, 4, batch_first=True, bidirectional=True)
    for name, value in ours.forwards.named_parameters():
        getattr(theirs, name).data.copy_(value.data)
    for name, value in ours.backwards.named_parameters():
        getattr(theirs, f"{name}_reverse").data.copy_(value.data)
    lengths = [3, 5, 1]
    rows = torch.randn(sum(lengths), 8)
    expected = torch.cat([theirs(part[None])[0][0] for part in rows.split(lengths)])
    torch.testing.assert_close(ours(rows, layout(lengths, 7)), expected)
