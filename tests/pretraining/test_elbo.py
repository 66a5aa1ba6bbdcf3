"""The objective of latent-variable models, its schedule, its batches; the bugs of the original code have a test each."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from biosmith.errors import BiosmithError, UsageError
from biosmith.models.vae import VariationalAutoencoder
from biosmith.models.vae_scoring import score_sentences
from biosmith.pretraining.elbo import ElboSums, ElboTrainer, counted_divergence
from biosmith.pretraining.elbo_config import EvidenceLowerBound, VaeRecipe, apply_vae_overrides
from biosmith.pretraining.elbo_run import settle
from biosmith.pretraining.loading import as_tensors
from biosmith.pretraining.sentence_batches import IGNORE, SentenceBatchMaker, split_documents
from biosmith.pretraining.sentences import READING, WRITING, SentenceRules, SentenceStore, build_sentences
from pretraining.vae_checks import make_store, tiny_recipe, write_corpus, write_tokenizer


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SentenceStore:
    return SentenceStore.open(make_store(tmp_path_factory.mktemp("vae")))


@pytest.fixture(scope="module")
def recipe(store: SentenceStore) -> VaeRecipe:
    return settle(tiny_recipe(), store, None, None, torch.device("cpu"))


def maker_of(
    store: SentenceStore, recipe: VaeRecipe, *, trim: bool = True, seed: int | None = 3
) -> SentenceBatchMaker:
    training, _ = split_documents(store, recipe.evaluation.documents, recipe.seed)
    tokens = recipe.batch.micro_batch_tokens or 0
    return SentenceBatchMaker(store, training, tokens, recipe.batch.length, seed=seed, trim=trim)


def plain(recipe: VaeRecipe) -> VaeRecipe:
    return dataclasses.replace(recipe, model=recipe.model.without_dropout())


# The schedule of beta.


def test_beta_ends_at_its_highest_and_stays_there() -> None:
    # The original jumps to 1.0 once the list of its schedule is used up, whatever the beta of the run.
    objective = EvidenceLowerBound(beta=0.5, cycles=10, ratio_zero=0.5, ratio_increase=0.25)
    assert objective.beta_at(999, 1000) == 0.5
    assert [objective.beta_at(step, 1000) for step in (1000, 1001, 10**9)] == [0.5] * 3


def test_each_of_ten_cycles_is_zero_then_rises_then_stays() -> None:
    objective = EvidenceLowerBound(beta=0.5, cycles=10, ratio_zero=0.5, ratio_increase=0.25)
    for cycle in range(10):
        values = [objective.beta_at(100 * cycle + step, 1000) for step in range(100)]
        assert values[:51] == [0.0] * 51
        assert values[50:76] == pytest.approx(np.linspace(0, 0.5, 26))
        assert values[75:] == [0.5] * 25


def test_beta_zero_is_an_autoencoder_throughout() -> None:
    objective = EvidenceLowerBound(beta=0.0)
    assert {objective.beta_at(step, 70) for step in range(80)} == {0.0}


@pytest.mark.parametrize(
    "bad", ["beta=1.5", "free_bits=-1", "objective.ratio_zero=0.9", "objective.cycles=0"]
)
def test_impossible_objectives_are_refused_by_name(bad: str) -> None:
    with pytest.raises(UsageError, match=r"objective\."):
        apply_vae_overrides(tiny_recipe(), [bad])


# Free bits.


def test_the_hard_threshold_leaves_out_what_is_at_or_below_it_and_has_no_floor() -> None:
    # Dimensions 0.2 and 0.5 are left out, 0.8 counts whole: not max(KL, 0.5), which would be 0.5 + 0.5 + 0.8.
    kl = torch.tensor([[0.2, 0.5, 0.8]], requires_grad=True)
    counted = counted_divergence(kl, 0.5, "threshold")
    assert counted.item() == pytest.approx(0.8)
    counted.sum().backward()
    assert kl.grad is not None
    assert kl.grad.tolist() == [[0.0, 0.0, 1.0]]
    assert counted_divergence(kl, 0.5, "floor").item() == pytest.approx(1.8)


def test_free_bits_are_off_while_beta_is_zero(store: SentenceStore, recipe: VaeRecipe) -> None:
    trainer = ElboTrainer(VariationalAutoencoder(recipe.model), recipe, "float32")
    batch = as_tensors(maker_of(store, recipe).make(0, 0))  # type: ignore[arg-type]
    assert trainer.arguments(batch, 0.0)[-1].item() == 0.0
    assert trainer.arguments(batch, 0.05)[-1].item() == pytest.approx(recipe.objective.free_bits)


# The loss.


def test_the_loss_is_the_sum_over_tokens_and_the_mean_over_sentences(
    store: SentenceStore, recipe: VaeRecipe
) -> None:
    # Beside each sentence on its own, padded, by other code; the noise is given, and dropout is off.
    torch.manual_seed(0)
    model = VariationalAutoencoder(plain(recipe).model)
    made = maker_of(store, recipe).make(0, 1)
    batch = as_tensors(made)  # type: ignore[arg-type]
    trainer = ElboTrainer(model, plain(recipe), "float32")
    arguments = trainer.arguments(batch, 0.4)
    noise = arguments[-3]
    objective, reconstruction, divergence = ElboSums(model, recipe.objective)(*arguments).tolist()
    expected = expected_kl = expected_counted = 0.0
    for number in range(made.counts.sentences):
        read = made.ids_T[made.read_cu[number] : made.read_cu[number + 1]]
        span = slice(made.written_cu[number], made.written_cu[number + 1])
        posterior = model.encode(torch.from_numpy(read)[None])
        z = posterior.sample(noise[number : number + 1])
        ids, labels = torch.from_numpy(made.ids_S[span])[None], torch.from_numpy(made.labels_S[span])[None]
        expected -= model.log_likelihood(ids, labels, z).item()
        kl = posterior.divergence()
        expected_kl += kl.sum().item()
        expected_counted += kl[kl > recipe.objective.free_bits].sum().item()
    assert reconstruction == pytest.approx(expected, rel=1e-5)
    assert divergence == pytest.approx(expected_kl, rel=1e-4)
    assert objective == pytest.approx(expected + 0.4 * expected_counted, rel=1e-5)


def test_the_unused_rest_of_a_fixed_shape_changes_nothing(store: SentenceStore, recipe: VaeRecipe) -> None:
    # A GPU takes micro-batches of one shape, whose rest is padding in slots of its own.
    torch.manual_seed(0)
    model = VariationalAutoencoder(plain(recipe).model)
    trainer = ElboTrainer(model, plain(recipe), "float32")
    found = []
    for trim in (True, False):
        batch = as_tensors(maker_of(store, recipe, trim=trim).make(0, 0))  # type: ignore[arg-type]
        arguments = list(trainer.arguments(batch, 0.4))
        arguments[-3] = torch.ones_like(arguments[-3])  # the noise has the shape of all slots
        found.append(ElboSums(model, recipe.objective)(*arguments))
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("compute", ["float32", "bfloat16"])
def test_fused_layers_and_loss_give_the_same_sums_and_gradients(
    store: SentenceStore, recipe: VaeRecipe, compute: str
) -> None:
    # What a GPU runs, by the plain code that the fused operators have for a CPU.
    torch.manual_seed(0)
    model = VariationalAutoencoder(plain(recipe).model)
    trainer = ElboTrainer(model, plain(recipe), "float32")
    arguments = trainer.arguments(as_tensors(maker_of(store, recipe).make(0, 0)), 0.4)  # type: ignore[arg-type]
    found = []
    for fused, precision in ((False, "float32"), (True, compute)):
        model.zero_grad()
        sums = ElboSums(model, recipe.objective, precision, fused=fused)(*arguments)
        sums[0].backward()
        found.append((sums.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]))
    exact = compute == "float32"
    torch.testing.assert_close(
        found[1][0], found[0][0], rtol=1e-4 if exact else 2e-2, atol=1e-3 if exact else 0.5
    )
    assert len(found[1][1]) == len(found[0][1])
    for one, other in zip(found[1][1], found[0][1], strict=True):
        assert one.dtype == torch.float32
        assert (one - other).norm() <= (1e-3 if exact else 0.1) * other.norm() + 1e-4


def test_every_parameter_gets_a_gradient_and_is_trained(store: SentenceStore, recipe: VaeRecipe) -> None:
    # A successor of the original left the layer to the latent vector out of its optimizer.
    model = VariationalAutoencoder(recipe.model)
    trainer = ElboTrainer(model, recipe, "float32")
    batch = as_tensors(maker_of(store, recipe).make(0, 0))  # type: ignore[arg-type]
    for beta in (0.0, 0.5):
        model.zero_grad()
        trainer.sums(*trainer.arguments(batch, beta))[0].backward()
        without = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
        assert without == []
    owned = {id(p) for o in trainer.optimizers for group in o.param_groups for p in group["params"]}
    assert owned == {id(p) for p in model.parameters()}


def test_micro_batches_add_up_to_the_gradient_of_the_whole(store: SentenceStore, recipe: VaeRecipe) -> None:
    # The mean is over all sentences of an update, however they are cut; a plain language model has no noise.
    bare = dataclasses.replace(plain(recipe).model, memory=False, embedding=False)
    optimizer = dataclasses.replace(recipe.optimizer, clip_norm=0.0, epsilon=1.0)
    base = dataclasses.replace(recipe, model=bare, optimizer=optimizer)
    torch.manual_seed(0)
    model = VariationalAutoencoder(base.model)
    batches = [as_tensors(maker_of(store, base).make(0, i)) for i in range(3)]  # type: ignore[arg-type]
    total = sum(b.counts.sentences for b in batches)
    trainer = ElboTrainer(model, base, "float32")
    whole = sum(trainer.sums(*trainer.arguments(b, 0.0))[0] for b in batches) / total
    whole.backward()
    weight = model.decoder.norm.weight
    assert weight.grad is not None
    expected = weight.grad.clone()
    model.zero_grad()
    before = weight.detach().clone()
    trainer.step(0, batches)
    moved = (before - weight.detach()) / optimizer.learning_rate
    # Adam's first step with an epsilon of 1: gradient / (|gradient| + 1).
    torch.testing.assert_close(moved, expected / (expected.abs() + 1.0), rtol=1e-3, atol=1e-4)


# Batches.


def test_an_epoch_has_every_sentence_once_and_no_batch_is_padded(
    store: SentenceStore, recipe: VaeRecipe
) -> None:
    maker = maker_of(store, recipe)
    seen: list[tuple[int, ...]] = []
    for index in range(len(maker.plan(0))):
        made = maker.make(0, index)
        assert len(made.ids_S) <= maker.tokens
        assert not (made.ids_S == store.special(WRITING).pad).any()
        lengths = np.diff(made.written_cu)
        assert (np.diff(lengths) >= 0).all()  # sorted by length
        for start, end in zip(made.written_cu[:-1], made.written_cu[1:], strict=True):
            assert made.ids_S[start] == store.special(WRITING).begin
            assert made.labels_S[end - 1] == store.special(WRITING).end
            assert made.ids_S[start + 1 : end].tolist() == made.labels_S[start : end - 1].tolist()
            seen.append(tuple(made.labels_S[start : end - 1]))
        for start, end in zip(made.read_cu[:-1], made.read_cu[1:], strict=True):
            assert made.ids_T[start] == store.special(READING).begin
            assert made.ids_T[end - 1] == store.special(READING).end
    assert sorted(seen) == sorted(tuple(store.pieces_of(WRITING, int(n))) for n in maker.members)


def test_fixed_shapes_are_fixed_and_their_slots_tile_them(store: SentenceStore, recipe: VaeRecipe) -> None:
    maker = maker_of(store, recipe, trim=False)
    shapes = set()
    for index in range(len(maker.plan(0))):
        made = maker.make(0, index)
        shapes.add((len(made.ids_T), len(made.ids_S), len(made.real_N), len(made.read_cu)))
        for cu, ids in ((made.read_cu, made.ids_T), (made.written_cu, made.ids_S)):
            assert cu[0] == 0
            assert cu[-1] == len(ids)
            assert (np.diff(cu) >= 0).all()
            assert np.diff(cu).max() <= made.max_seqlen
        assert (made.labels_S[made.counts.tokens :] == IGNORE).all()
    assert len(shapes) == 1


def test_another_epoch_has_another_order_and_a_seed_the_same(store: SentenceStore, recipe: VaeRecipe) -> None:
    one, same = maker_of(store, recipe), maker_of(store, recipe)
    assert one.make(0, 0).ids_S.tolist() == same.make(0, 0).ids_S.tolist()
    assert one.make(0, 0).ids_S.tolist() != one.make(1, 0).ids_S.tolist()


def test_held_out_documents_share_no_sentence_with_training(store: SentenceStore) -> None:
    training, held_out = split_documents(store, 4, seed=1)
    assert len(training) + len(held_out) == len(store)
    assert not set(store.documents[training]) & set(store.documents[held_out])
    assert len(set(store.documents[held_out].tolist())) == 4


def test_a_micro_batch_that_holds_no_sentence_is_refused(store: SentenceStore) -> None:
    with pytest.raises(UsageError, match=r"micro_batch_tokens 8 holds no sentence of batch\.length 32"):
        SentenceBatchMaker(store, np.arange(5), 8, 32)


# Sentences.


def test_empty_and_over_long_sentences_are_counted_by_reason(tmp_path: Path) -> None:
    long = "The tumor " + "binds the gene " * 20 + "."
    folder = make_store(
        tmp_path, documents=3, extra=(long, "The cell.", "The " + "kinase-" * 12 + "gene binds.")
    )
    filtered = SentenceStore.open(folder).manifest.counts["filtered"]
    assert filtered == {"too many words": 1, "fewer than 3 words": 1}


def test_a_decoder_vocabulary_without_roles_gets_those_of_optimus(store: SentenceStore) -> None:
    # GPT-2 has one token for everything: a decoder could not know where a sentence ends.
    known = store.vocabulary(WRITING)
    assert len({known["pad"], known["begin"], known["end"]}) == 3
    assert known["size"] == 22 + 3
    assert store.special(READING).pad == 0  # [PAD], [CLS], [SEP] stay what they are
    assert (store.special(READING).begin, store.special(READING).end) == (2, 3)


def test_sentences_that_no_rule_keeps_are_an_error(tmp_path: Path) -> None:
    from biosmith.pretraining.sentences import SentenceRules, build_sentences
    from pretraining.vae_checks import write_corpus, write_tokenizer

    corpus, words = write_corpus(tmp_path / "corpus", 2), write_tokenizer(tmp_path / "words")
    with pytest.raises(BiosmithError, match="no sentence that the rules keep"):
        build_sentences(
            corpus, words, words, tmp_path / "out", rules=SentenceRules(most_words=2, least_words=1)
        )
    assert not (tmp_path / "out").exists()


# Scores.


def test_scores_do_not_depend_on_the_company_of_a_sentence(store: SentenceStore, recipe: VaeRecipe) -> None:
    # The original encodes padding in its bound, and divides by full batches: its averages change with the batch.
    model = VariationalAutoencoder(recipe.model)
    read = [[2, *store.pieces_of(READING, n), 3] for n in range(9)]
    written = [store.pieces_of(WRITING, n) for n in range(9)]
    together = score_sentences(model, read, written, samples=3)
    assert together.sentences == 9
    assert together.tokens == sum(len(ids) + 1 for ids in written)
    alone = [score_sentences(model, [r], [w], samples=1) for r, w in zip(read, written, strict=True)]
    assert together.kl == pytest.approx(np.mean([one.kl for one in alone]), rel=1e-4)
    assert together.negative_elbo >= together.negative_log_likelihood - 0.5
    assert np.isfinite([v for v in together.as_dict().values() if v is not None]).all()


def test_the_first_sentences_are_those_of_the_whole_store(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus", documents=10, sentences=6)
    vocabulary = write_tokenizer(tmp_path / "vocabulary", more=("The",))
    whole, some = tmp_path / "whole", tmp_path / "some"
    assert build_sentences(corpus, vocabulary, vocabulary, whole).sentences == 60
    built = build_sentences(corpus, vocabulary, vocabulary, some, most=20)
    assert (built.sentences, built.documents) == (20, 4)  # 6 sentences a document: two of the fourth
    one, other = SentenceStore.open(whole), SentenceStore.open(some)
    for number in range(20):
        assert one.pieces_of(READING, number) == other.pieces_of(READING, number)
    assert len(other.pieces[WRITING]) == other.ends[WRITING][-1]


@pytest.mark.parametrize(
    ("rules", "most", "says"),
    [
        ({"most_pieces": 0}, None, "most_pieces must be at least 1, not 0"),
        ({"least_words": 9, "most_words": 8}, None, "least_words 9 is more than most_words 8"),
        ({}, 0, "most must be at least 1, not 0"),
    ],
)
def test_rules_that_keep_nothing_are_refused(
    tmp_path: Path, rules: dict[str, int], most: int | None, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        build_sentences(
            tmp_path, tmp_path, tmp_path, tmp_path / "out", rules=SentenceRules(**rules), most=most
        )
