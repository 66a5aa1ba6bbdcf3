"""A small latent-variable model as a folder, its weights drawn so wide that latent vectors matter."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from biosmith.models.vae import VariationalAutoencoder
from biosmith.models.vae_folder import LoadedVae, load_vae, save_vae
from biosmith.pretraining.elbo_run import settle
from biosmith.pretraining.sentences import READING, WRITING, SentenceStore
from pretraining.vae_checks import make_store, tiny_recipe


@pytest.fixture(scope="session")
def vae_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generate")
    sentences = make_store(folder, documents=4)
    store = SentenceStore.open(sentences)
    config = settle(tiny_recipe(), store, None, None, torch.device("cpu")).model.without_dropout()
    config = dataclasses.replace(
        config,
        encoder=dataclasses.replace(config.encoder, initializer_range=0.3),
        decoder=dataclasses.replace(config.decoder, initializer_range=0.3),
    )
    torch.manual_seed(1)
    save_vae(
        folder / "vae",
        VariationalAutoencoder(config),
        encoder_vocabulary=sentences / READING,
        decoder_vocabulary=sentences / WRITING,
        more={"length": 20},
    )
    return folder / "vae"


@pytest.fixture(scope="session")
def vae(vae_folder: Path) -> LoadedVae:
    return load_vae(vae_folder)
