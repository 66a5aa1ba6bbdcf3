"""Replaced-token detection against its definition; masks as ELECTRA's code draws them; runs, exports, resumption."""

from __future__ import annotations

import copy
import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor

from biosmith.errors import BiosmithError, UsageError
from biosmith.models.bert import BertConfig, PretrainingModel
from biosmith.models.electra import ElectraConfig, ElectraModel, replace_tokens
from biosmith.models.saving import save_model
from biosmith.pretraining import exporting
from biosmith.pretraining.batches import IGNORE, Batch, BatchMaker, DataRules
from biosmith.pretraining.config import (
    AdamW,
    Evaluation,
    Linear,
    MaskedLanguageModel,
    NextSentencePrediction,
    Recipe,
    ReplacedTokenDetection,
)
from biosmith.pretraining.config import Batch as BatchConfig
from biosmith.pretraining.electra_run import generator_folder, make_electra
from biosmith.pretraining.evaluation import evaluate
from biosmith.pretraining.exporting import export_run
from biosmith.pretraining.loading import as_tensors
from biosmith.pretraining.masking import MaskingRules
from biosmith.pretraining.metrics import read_metrics
from biosmith.pretraining.preparing import make_batch_makers, make_evaluation_maker, settle
from biosmith.pretraining.replaced_tokens import SUMS, ReplacedTokenSums, sample
from biosmith.pretraining.run import pretrain
from biosmith.pretraining.sentence_order import OrderRules
from biosmith.pretraining.step import Trainer, read_window
from biosmith.tokens.store import TokenStore
from pretraining.checks import sequences_of
from pretraining.conftest import write_random_store
from pretraining.test_run import INLINE, losses, wait_for_step

CONFIG = ElectraConfig(
    vocabulary_size=1000,
    embedding_width=24,
    layers=2,
    width=32,
    heads=4,
    feed_forward=64,
    positions=128,
    dropout=0.0,
    attention_dropout=0.0,
    initializer_range=0.2,
)
GENERATOR = replace(CONFIG, width=16, heads=2, feed_forward=32, layers=1)
DRAWN = MaskingRules(0.15, "token", (0.85, 0.0, 0.15), draw="with_replacement")
RULES = DataRules(
    seed=3,
    micro_tokens=1024,
    length=128,
    next_sentence=False,
    order=OrderRules(None, 0.9, "middle"),
    masking=DRAWN,
    short_probability=0.05,
)
DETECTION = ReplacedTokenDetection(generator_width=0.5, generator_layers=0.5)
RECIPE = Recipe(
    name="tiny-electra",
    paper="none",
    model=CONFIG,
    objectives=(
        MaskedLanguageModel(unit="token", replace=(0.85, 0.0, 0.15), draw="with_replacement"),
        DETECTION,
    ),
    optimizer=AdamW(learning_rate=1e-3),
    schedule=Linear(warmup=0.1, mode="multiplies"),
    batch=BatchConfig(
        tokens=1024,
        length=128,
        micro_batch_tokens=512,
        short_sequence_probability=0.05,
        second_segment_probability=0.9,
    ),
    steps=6,
    evaluation=Evaluation(every=4, documents=10),
    checkpoint_every=2,
    log_every=1,
)


def make_model(config: ElectraConfig = CONFIG) -> ElectraModel:
    torch.manual_seed(0)
    rates = {"dropout": config.dropout, "attention_dropout": config.attention_dropout}
    return ElectraModel(config, replace(GENERATOR, **rates))


@pytest.fixture(scope="module")
def batch(abstracts: TokenStore) -> Batch:
    return BatchMaker(abstracts, RULES).make(0, 3)


def by_definition(model: ElectraModel, batch: Batch, seed: int) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Gradients of the two mean losses by parameter, written down from section 2 of the paper: sequence after sequence,
    unpacked, with two copies of the embeddings, whose gradients are added at the end.

    Returns:
        The gradients under the names of `ElectraModel`, and both means.
    """
    generator = copy.deepcopy(model.generator)
    discriminator = copy.deepcopy(model.discriminator)
    assert generator.encoder.embeddings is not discriminator.encoder.embeddings
    sequences = list(sequences_of(batch))
    logits = []
    for sequence in sequences:
        ids, types = (torch.tensor(part.astype(np.int64))[None] for part in (sequence.ids, sequence.segments))
        logits.append(generator(ids, None, types).masked_language_MV[0][torch.tensor(sequence.hidden)])
    hidden = torch.tensor(np.concatenate([s.targets[s.hidden] for s in sequences]).astype(np.int64))
    masked = -torch.cat(logits).log_softmax(-1)[torch.arange(len(hidden)), hidden].mean()
    torch.manual_seed(seed)
    sampled = sample(torch.cat(logits).detach()).numpy()
    each, begin = [], 0
    for sequence in sequences:
        corrupted = sequence.targets.astype(np.int64)  # the text as it was, kept tokens included
        count = int(sequence.hidden.sum())
        corrupted[sequence.hidden] = sampled[begin : begin + count]
        begin += count
        is_replaced = torch.tensor(corrupted != sequence.targets)
        types = torch.tensor(sequence.segments.astype(np.int64))[None]
        chance = torch.sigmoid(discriminator(torch.tensor(corrupted)[None], None, types)[0].double())
        each.append(-torch.where(is_replaced, chance.log(), (1 - chance).log()))
    replaced = torch.cat(each).mean()  # over all tokens, special ones too
    (masked + 50 * replaced).backward()
    found: dict[str, Tensor] = {}
    for prefix, network in (("generator.", generator), ("discriminator.", discriminator)):
        for name, parameter in network.named_parameters():
            shared = name.startswith("encoder.embeddings.")
            name = ("discriminator." if shared else prefix) + name
            assert parameter.grad is not None
            found[name] = found.get(name, torch.zeros(())) + parameter.grad
    return found, masked.detach(), replaced.detach()


def test_losses_and_gradients_are_those_of_the_definition(batch: Batch) -> None:
    model = make_model()
    expected, masked, replaced = by_definition(model, batch, seed=5)
    trainer = Trainer(model, RECIPE, "float32")
    torch.manual_seed(5)
    sums = trainer.loss_sums(*trainer.arguments(as_tensors(batch)))
    means = sums / torch.tensor([batch.counts.hidden, 1, 1, *[batch.counts.tokens] * 4])
    assert means[0].item() == pytest.approx(masked.item(), rel=1e-5)
    assert means[3].item() == pytest.approx(replaced.item(), rel=1e-5)
    (means[0] + 50 * means[3]).backward()
    assert {name for name, _ in model.named_parameters()} == set(expected)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-4, atol=1e-5, msg=name)


def test_nothing_of_the_discriminators_loss_reaches_the_generator_but_through_the_embeddings(
    batch: Batch,
) -> None:
    # Clark et al. (2020), section 2: the discriminator's loss is not propagated through the generator.
    gradients = []
    for number in (0, 3):
        model = make_model()
        torch.manual_seed(5)
        sums = ReplacedTokenSums(model)(*Trainer(model, RECIPE, "float32").arguments(as_tensors(batch)))
        sums[number].backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    of_masked, of_replaced = gradients
    for name in of_masked:
        own = name.startswith("generator.")
        if ".embeddings." not in name:
            untouched = of_replaced[name] if own else of_masked[name]
            assert untouched is None or not untouched.any(), name
        if name.endswith(".weight") and "norm" not in name:
            assert (of_masked if own else of_replaced)[name].any(), name
    words = "discriminator.encoder.embeddings.words.weight"
    assert of_masked[words].abs().sum() > 0 and of_replaced[words].abs().sum() > 0


def test_the_weights_are_1_and_50_of_means_over_hidden_and_over_all_tokens(abstracts: TokenStore) -> None:
    maker = BatchMaker(abstracts, RULES)
    batches = [as_tensors(maker.make(0, index)) for index in range(2)]
    trainer = Trainer(make_model(), RECIPE, "float32")
    trainer.step(0, batches)
    window, counts = read_window(trainer.window.tolist())
    assert (window.predicted, window.tokens) == (counts.hidden, counts.tokens)
    assert 0.05 * window.tokens < window.replaced <= counts.hidden
    assert window.replaced_found <= window.replaced
    assert window.originals_found <= window.tokens - window.replaced
    # The norm of the gradient of the whole step, from its definition.
    model = make_model()
    arguments = [Trainer(model, RECIPE, "float32").arguments(b) for b in batches]
    from biosmith.randomness import derive_key

    total = torch.zeros(())
    for place, one in enumerate(arguments):
        torch.manual_seed(derive_key(RECIPE.seed, "dropout", 0, place))
        sums = ReplacedTokenSums(model)(*one)
        total = total + sums[0] / counts.hidden + 50 * sums[3] / counts.tokens
    total.backward()
    norm = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm()
    assert window.gradient_norm == pytest.approx(norm.item(), rel=1e-4)


def test_padding_counts_in_no_loss(abstracts: TokenStore) -> None:
    # A GPU gets batches of constant size, a CPU the real part only. At temperature 0 the samples are the same.
    maker = BatchMaker(abstracts, RULES)
    batch = as_tensors(maker.make(0, len(maker.plan(0)) - 1))
    assert batch.counts.tokens < RULES.micro_tokens - 100
    model = make_model()
    sums = ReplacedTokenSums(model, temperature=1e-9)
    cut = sums(*Trainer(model, RECIPE, "float32").arguments(batch))
    t = batch.tensors
    names = ("input_ids_T", "position_ids_T", "token_type_ids_T", "cu_seqlens")
    rest = ("masked_positions_M", "labels_M", "next_sentence_labels_N")
    whole = sums(*(t[n] for n in names), batch.max_seqlen, *(t[n] for n in rest))
    assert torch.allclose(whole, cut, rtol=1e-5)
    assert whole[SUMS.index("replaced") :].tolist() == cut[SUMS.index("replaced") :].tolist()


def test_a_sample_that_hits_the_original_is_no_replacement() -> None:
    # Positions 1 and 3 were hidden, as [MASK] (4) and kept (8); the third slot has no content.
    ids = torch.tensor([2, 4, 7, 8, 3])
    corrupted, is_replaced = replace_tokens(
        ids, torch.tensor([1, 3, 2]), torch.tensor([6, 8, IGNORE]), torch.tensor([6, 9, 99])
    )
    assert corrupted.tolist() == [2, 6, 7, 9, 3]
    assert is_replaced.tolist() == [False, False, False, True, False]


def test_samples_follow_the_softmax_and_the_temperature() -> None:
    # Gumbel-max: argmax(logits + Gumbel noise) is a draw from softmax(logits). Chi-square, 3 degrees, p = 0.001.
    logits = torch.tensor([1.0, 0.0, -1.0, 2.0])
    for temperature in (1.0, 2.0):
        torch.manual_seed(7)
        drawn = torch.bincount(sample(logits.expand(40_000, 4), temperature), minlength=4).double()
        wanted = 40_000 * (logits.double() / temperature).softmax(0)
        assert ((drawn - wanted) ** 2 / wanted).sum() < 16.27


def test_masks_are_drawn_with_replacement_as_in_the_original_code(abstracts: TokenStore) -> None:
    # google-research/electra, pretrain_helpers.py: round(0.15 n) draws over the places that are not special, n with
    # special tokens; [MASK] with chance 0.85 in each draw, else the token stays; no random tokens.
    maker = BatchMaker(abstracts, replace(RULES, micro_tokens=16_384))
    hidden = masked = 0
    expected_hidden = expected_masked = variance = 0.0
    for index in range(12):
        batch = maker.make(0, index)
        assert batch.counts.random == 0 and batch.counts.overflow == 0
        for sequence in sequences_of(batch):
            places = int((~np.isin(sequence.targets, (2, 3))).sum())
            draws = max(1, round(0.15 * len(sequence.ids)))
            assert 1 <= sequence.hidden.sum() <= draws
            assert not sequence.hidden[np.isin(sequence.targets, (2, 3))].any()
            changed = sequence.ids[sequence.hidden] != sequence.targets[sequence.hidden]
            assert (sequence.ids[sequence.hidden][changed] == 4).all()
            missed = (1 - 1 / places) ** draws
            expected_hidden += places * (1 - missed)
            expected_masked += places * (1 - (1 - 0.85 / places) ** draws)
            variance += places * missed * (1 - missed)
        hidden, masked = hidden + batch.counts.hidden, masked + batch.counts.masked
    # Draws without a second look hit fewer places than drawn: 13.9 %, not 15. Four standard deviations.
    assert hidden > 10_000 and abs(hidden - expected_hidden) < 4 * variance**0.5
    assert abs(masked - expected_masked) < 4 * expected_masked**0.5
    assert 0.130 < hidden / (sum(maker.make(0, i).counts.maskable for i in range(12))) < 0.145


def test_masks_of_a_sequence_do_not_depend_on_its_batch(abstracts: TokenStore) -> None:
    maker = BatchMaker(abstracts, RULES)
    again = BatchMaker(abstracts, RULES)
    again.make(1, 0)
    assert np.array_equal(maker.make(0, 2).input_ids_T, again.make(0, 2).input_ids_T)
    assert not np.array_equal(maker.make(0, 2).labels_M, again.make(1, 2).labels_M)


def test_masks_with_replacement_need_single_tokens_and_no_random_ones() -> None:
    with pytest.raises(UsageError, match="they need unit token"):
        MaskingRules(unit="word", replace=(0.85, 0.0, 0.15), draw="with_replacement")
    with pytest.raises(UsageError, match="no random ones"):
        MaskingRules(unit="token", draw="with_replacement")


@pytest.mark.parametrize("compute", ["mixed", "bfloat16"])
def test_16_bit_arithmetic_gives_nearly_the_same_losses(batch: Batch, compute: str) -> None:
    model = make_model()
    arguments = Trainer(model, RECIPE, "float32").arguments(as_tensors(batch))
    full = ReplacedTokenSums(model, 1e-9)(*arguments)
    low = ReplacedTokenSums(model, 1e-9, compute)(*arguments)
    # The most likely token of some places changes with the rounding.
    assert low.dtype == torch.float32
    assert torch.allclose(low[[0, 3]], full[[0, 3]], rtol=2e-2)
    low[[0, 3]].sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())


def test_the_fused_layer_gives_the_same_sums_and_gradients(batch: Batch) -> None:
    model = make_model()
    arguments = Trainer(model, RECIPE, "float32").arguments(as_tensors(batch))
    results = []
    for fused in (False, True):
        model.zero_grad()
        torch.manual_seed(1)
        sums = ReplacedTokenSums(model, 1e-9, fused=fused)(*arguments)
        sums[[0, 3]].sum().backward()
        results.append((sums.detach(), torch.cat([p.grad.flatten() for p in model.parameters()])))
    assert torch.allclose(results[0][0], results[1][0], rtol=1e-5)
    assert torch.allclose(results[0][1], results[1][1], rtol=1e-3, atol=1e-3)


def test_activation_checkpointing_changes_nothing_in_either_network(batch: Batch) -> None:
    results = []
    for on in (False, True):
        trainer = Trainer(make_model(replace(CONFIG, dropout=0.1)), RECIPE, "float32", recompute_layers=on)
        trainer.step(0, [as_tensors(batch)])
        results.append([p.detach().clone() for p in trainer.model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_held_out_losses_do_not_depend_on_what_was_drawn_before(abstracts: TokenStore) -> None:
    maker = BatchMaker(abstracts, RULES)
    trainer = Trainer(make_model(), RECIPE, "float32")
    one = evaluate(trainer, maker, 2_000)
    torch.rand(17)
    other = evaluate(trainer, maker, 2_000)
    assert one == other and one.replaced_tokens is not None
    assert one.total(RECIPE) == pytest.approx(one.masked_language + 50 * one.replaced_tokens)


def test_a_discriminator_is_evaluated_under_the_masks_it_is_trained_with(abstracts: TokenStore) -> None:
    # Other masks (random tokens, fewer kept ones) make more replacements than it has learned to expect.
    recipe = settle(RECIPE, abstracts, torch.device("cpu"))
    training = make_batch_makers(recipe, abstracts)[-1]
    held_out = make_evaluation_maker(recipe, abstracts, training)
    assert held_out is not None and held_out.rules.masking == training.rules.masking
    assert held_out.rules.masking.draw == "with_replacement"


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rtd") / "tokens"
    write_random_store(folder, [20 + 7 * (i % 30) for i in range(120)], seed=3)
    return folder


@pytest.fixture(scope="module")
def run(tokens: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rtd") / "run"
    outcome = pretrain(RECIPE, tokens, folder, settings=INLINE)
    assert outcome.steps == 6
    return folder


def test_a_run_logs_what_the_discriminator_tells(run: Path) -> None:
    line = read_metrics(run)[-1]
    assert line["loss"] == pytest.approx(line["mlm_loss"] + 50 * line["rtd_loss"])
    assert line["eval_loss"] == pytest.approx(line["eval_mlm_loss"] + 50 * line["eval_rtd_loss"])
    assert 0 < line["replaced_share"] < 0.16
    assert 0 <= line["replaced_accuracy"] <= 1 and 0 <= line["eval_replaced_accuracy"] <= 1
    assert "nsp_loss" not in line and line["random_share"] == 0
    saved = load_file(run / "checkpoints" / "step-6" / "model.safetensors")
    assert not any(name.startswith("generator.encoder.embeddings") for name in saved)


def test_a_run_goes_on_from_an_earlier_checkpoint_to_the_last_bit(
    run: Path, tokens: Path, tmp_path: Path
) -> None:
    # Samples, masks and dropout are drawn by (seed, step, micro-batch), so nothing but the step is remembered.
    whole = replace(RECIPE, model=replace(CONFIG, dropout=0.1), keep_checkpoints=0)
    pretrain(whole, tokens, tmp_path / "whole", settings=INLINE)
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    for step in (4, 6):
        shutil.rmtree(tmp_path / "cut" / "checkpoints" / f"step-{step}")
    torch.rand(5)
    pretrain(whole, tokens, tmp_path / "cut", resume=True, settings=INLINE)
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")
    for name in ("model.safetensors", "optimizer.safetensors"):
        one, other = ((tmp_path / f / "checkpoints/step-6" / name).read_bytes() for f in ("cut", "whole"))
        assert one == other


SCRIPT = """
import sys, pathlib
sys.path.insert(0, {tests!r})
from pretraining.test_replaced_tokens import RECIPE, INLINE, pretrain, replace
pretrain(replace(RECIPE, steps=12), pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), resume=True, settings=INLINE)
"""


@pytest.mark.slow
def test_killed_and_resumed_a_run_gives_the_same_losses_to_the_last_bit(tokens: Path, tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    recipe = replace(RECIPE, steps=12)
    pretrain(recipe, tokens, tmp_path / "whole", settings=INLINE)
    command = [
        sys.executable,
        "-c",
        SCRIPT.format(tests=str(Path(__file__).parents[1])),
        str(tokens),
        str(tmp_path / "killed"),
    ]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    wait_for_step(tmp_path / "killed", 5, process)
    process.kill()
    process.wait()
    pretrain(recipe, tokens, tmp_path / "killed", resume=True, settings=INLINE)
    assert losses(tmp_path / "killed") == losses(tmp_path / "whole")


def test_both_networks_are_exported_with_equal_logits(run: Path, tmp_path: Path) -> None:
    vocabulary = tmp_path / "vocabulary"
    write_vocabulary(vocabulary)
    made = export_run_with(run, tmp_path / "model", vocabulary)
    assert made.architecture == "ElectraForPreTraining" and made.generator == tmp_path / "model-generator"
    discriminator = transformers.AutoModelForPreTraining.from_pretrained(made.model).eval()
    generator = transformers.AutoModelForMaskedLM.from_pretrained(made.generator).eval()
    config = json.loads((made.generator / "config.json").read_text())
    assert (config["hidden_size"], config["embedding_size"], config["num_hidden_layers"]) == (16, 24, 1)
    ours = make_electra(RECIPE, made.model).eval()
    ids = torch.arange(5, 45)[None]
    with torch.inference_mode():
        torch.testing.assert_close(
            ours.discriminator(ids), discriminator(input_ids=ids).logits, rtol=0, atol=1e-5
        )
        torch.testing.assert_close(
            ours.generator(ids).masked_language_MV, generator(input_ids=ids).logits, rtol=0, atol=1e-5
        )
    saved = load_file(run / "checkpoints" / "step-6" / "model.safetensors")
    for name, parameter in ours.named_parameters():
        assert torch.equal(parameter, saved[name]), name


def write_vocabulary(folder: Path) -> None:
    """Any tokenizer of 1,000 pieces."""
    folder.mkdir()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(995))]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")


def export_run_with(run: Path, out: Path, vocabulary: Path):  # type: ignore[no-untyped-def]
    """Export with a vocabulary whose digest the random store does not know."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "_find_tokenizer", lambda run, given: vocabulary)
        return export_run(run, out)


def test_an_export_that_fails_leaves_no_generator_by_itself(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a disk that is full after the first of two: the one that is left would refuse the next try.
    write_vocabulary(tmp_path / "vocabulary")

    def fail(folder: Path, model: object, **options: object) -> Path:
        if folder.name == "model":
            raise OSError(errno.ENOSPC, "No space left on device", str(folder))
        return save_model(folder, model, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(exporting, "save_model", fail)
    with pytest.raises(OSError, match="No space left"):
        export_run_with(run, tmp_path / "model", tmp_path / "vocabulary")
    assert [path.name for path in tmp_path.iterdir()] == ["vocabulary"]
    monkeypatch.undo()
    assert export_run_with(run, tmp_path / "model", tmp_path / "vocabulary").generator is not None


def test_a_discriminator_without_a_generator_beside_it_gets_a_fresh_one(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_vocabulary(tmp_path / "vocabulary")
    made = export_run_with(run, tmp_path / "model", tmp_path / "vocabulary")
    other = replace(RECIPE, objectives=(RECIPE.objectives[0], replace(DETECTION, generator_width=0.25)))
    with pytest.raises(
        UsageError, match=r"has width 16, but the recipe's generator has 8; set .*generator_width"
    ):
        make_electra(other, made.model)
    with pytest.raises(UsageError, match=r"is the generator of .*; name the discriminator"):
        make_electra(RECIPE, made.generator)
    shutil.rmtree(generator_folder(made.model))
    capsys.readouterr()
    model = make_electra(other, made.model)
    assert "There is no model-generator beside" in capsys.readouterr().err
    assert model.generator.encoder.embeddings is model.discriminator.encoder.embeddings
    with pytest.raises(UsageError, match="exists already"):
        export_run_with(run, tmp_path / "model", tmp_path / "vocabulary")


def test_a_discriminator_starts_from_the_encoder_of_a_bert(tokens: Path, tmp_path: Path) -> None:
    """Its layers and embeddings are taken over, a run goes on from them, and its head and generator are fresh."""
    write_vocabulary(tmp_path / "vocabulary")
    torch.manual_seed(3)
    config = BertConfig(vocabulary_size=1_000, layers=2, width=32, heads=2, feed_forward=64, positions=128)
    bert = PretrainingModel(config)
    save_model(tmp_path / "bert", bert, tokenizer_from=tmp_path / "vocabulary")
    recipe = replace(RECIPE, model=ElectraConfig.like(config))
    assert recipe.model.embedding_width == 32 and recipe.model.positions == 128
    model = make_electra(recipe, tmp_path / "bert")
    own = model.discriminator.encoder.state_dict()
    theirs = bert.encoder.state_dict()
    assert set(theirs) - set(own) == {"pooler.dense.weight", "pooler.dense.bias"}
    for name, tensor in own.items():
        assert torch.equal(tensor, theirs[name]), name
    assert model.generator.encoder.embeddings is model.discriminator.encoder.embeddings


def test_a_model_of_another_vocabulary_is_refused_before_the_first_step(
    run: Path, tokens: Path, tmp_path: Path
) -> None:
    write_vocabulary(tmp_path / "vocabulary")
    made = export_run_with(run, tmp_path / "model", tmp_path / "vocabulary")
    with pytest.raises(BiosmithError, match="vocabulary"):
        pretrain(RECIPE, tokens, tmp_path / "run", init=made.model, settings=INLINE)


def test_objectives_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="needs an electra model, not bert"):
        replace(RECIPE, model=BertConfig())
    with pytest.raises(UsageError, match="stands beside masked_language_model"):
        replace(RECIPE, objectives=(DETECTION,))
    with pytest.raises(UsageError, match=r"and nothing else; the recipe has .*next_sentence_prediction"):
        replace(RECIPE, objectives=(*RECIPE.objectives, NextSentencePrediction()))
    with pytest.raises(UsageError, match="temperature of samples must be above 0"):
        replace(RECIPE, objectives=(RECIPE.objectives[0], replace(DETECTION, temperature=0.0)))
