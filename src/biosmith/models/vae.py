"""A latent-variable language model of sentences in the form of OPTIMUS (Li et al., 2020): BERT encoder, Gaussian latent
vector, GPT-2 decoder.

Encoder: the pooled first token goes through one dense layer without bias to the mean and the log-variance of q(z|x).
Decoder: see `gpt2`; z enters as memory and as embedding, each by one dense layer without bias.

Shapes are in the names: N sentences, B padded sentences, L positions, T encoder tokens, S decoder tokens, D width,
Z latent size.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from biosmith.errors import UsageError
from biosmith.models.bert import BertConfig
from biosmith.models.encoder import Encoder
from biosmith.models.gpt2 import Decoder, Gpt2Config, Injected
from biosmith.models.memory_attention import PackedLayout, by_equal_lengths


@dataclass(frozen=True)
class VaeConfig:
    """Encoder, latent vector, decoder. `memory` and `embedding` say how the decoder gets the latent vector; with neither
    it is a plain language model and the encoder is left out.

    Raises:
        UsageError: the latent size is impossible.
    """

    kind: Literal["vae"] = "vae"
    latent_size: int = 32
    memory: bool = True
    embedding: bool = True
    encoder: BertConfig = field(default_factory=BertConfig)
    decoder: Gpt2Config = field(default_factory=Gpt2Config)

    def __post_init__(self) -> None:
        if self.latent_size < 1:
            raise UsageError(f"model latent_size must be at least 1, not {self.latent_size}")

    @property
    def is_conditioned(self) -> bool:
        """Whether the decoder sees the latent vector at all."""
        return self.memory or self.embedding

    @property
    def layers(self) -> int:
        """Layers of encoder and decoder together."""
        return self.decoder.layers + (self.encoder.layers if self.is_conditioned else 0)

    @property
    def width(self) -> int:
        """Width of the encoder."""
        return self.encoder.width

    @property
    def heads(self) -> int:
        """Attention heads of the encoder."""
        return self.encoder.heads

    def without_dropout(self) -> VaeConfig:
        """The same model without dropout."""
        return dataclasses.replace(
            self, encoder=self.encoder.without_dropout(), decoder=self.decoder.without_dropout()
        )


class Posterior(NamedTuple):
    """q(z|x): a Gaussian with independent dimensions; float32."""

    mean_NZ: Tensor
    log_variance_NZ: Tensor

    def sample(self, noise_NZ: Tensor) -> Tensor:
        """mean + noise * standard deviation (the reparameterisation of Kingma and Welling, 2014)."""
        return self.mean_NZ + noise_NZ * (0.5 * self.log_variance_NZ).exp()

    def divergence(self) -> Tensor:
        """KL(q(z|x) || N(0, I)) of each dimension, [N, Z], in closed form."""
        mean, log_variance = self.mean_NZ, self.log_variance_NZ
        return 0.5 * (mean.square() + log_variance.exp() - 1.0 - log_variance)


class EncoderTokens(NamedTuple):
    """Sentences as the encoder takes them, end to end: [CLS] pieces [SEP]."""

    ids_T: Tensor
    positions_T: Tensor
    cu_seqlens: Tensor
    max_seqlen: int


class DecoderTokens(NamedTuple):
    """Sentences as the decoder takes them, end to end: <BOS> pieces; labels are the pieces and <EOS>."""

    ids_S: Tensor
    positions_S: Tensor
    labels_S: Tensor
    layout: PackedLayout


class VariationalAutoencoder(nn.Module):
    """The model. `encoder` has a pooler; it is None for a decoder that is conditioned on nothing."""

    encoder: Encoder | None

    def __init__(self, config: VaeConfig) -> None:
        super().__init__()
        self.config = config
        latent, decoder, encoder = config.latent_size, config.decoder, config.encoder
        # What a latent vector adds to the decoder has the same scale for every latent size: at 768 with the decoder's own
        # scale it drowned the words of a decoder that began afresh, and the posterior collapsed.
        scale = decoder.initializer_range * min(1.0, 32 / latent) ** 0.5
        self.decoder = Decoder(decoder)
        self.encoder, self.to_latent, self.to_memory, self.to_embedding = None, None, None, None
        if config.is_conditioned:
            self.encoder = Encoder(encoder, pooler=True)
            self.to_latent = nn.Linear(encoder.width, 2 * latent, bias=False)
            nn.init.normal_(self.to_latent.weight, std=encoder.initializer_range)
        if config.memory:
            self.to_memory = nn.Linear(latent, decoder.layers * decoder.width, bias=False)
            nn.init.normal_(self.to_memory.weight, std=scale)
        if config.embedding:
            self.to_embedding = nn.Linear(latent, decoder.width, bias=False)
            nn.init.normal_(self.to_embedding.weight, std=scale)

    def encode(self, ids_BL: Tensor, attention_mask_BL: Tensor | None = None) -> Posterior:
        """q(z|x) of a padded batch; without a mask nothing is padded."""
        if self.encoder is None:
            raise UsageError("this model is conditioned on nothing: it has no encoder")
        return self._posterior(self.encoder(ids_BL, attention_mask_BL)[:, 0])

    def encode_packed(self, tokens: EncoderTokens) -> Posterior:
        """q(z|x) of sentences laid end to end."""
        if self.encoder is None:
            raise UsageError("this model is conditioned on nothing: it has no encoder")
        segments_T = torch.zeros_like(tokens.ids_T)
        if tokens.ids_T.is_cpu and not torch.compiler.is_compiling():
            hidden_TD = _by_equal_lengths(self.encoder, tokens, segments_T)
        else:
            hidden_TD = self.encoder.forward_packed(
                tokens.ids_T, tokens.positions_T, segments_T, tokens.cu_seqlens, tokens.max_seqlen
            )
        return self.posterior_of(hidden_TD, tokens.cu_seqlens)

    def posterior_of(self, hidden_TD: Tensor, cu_seqlens: Tensor) -> Posterior:
        """q(z|x) from the encoder's hidden states of packed sentences."""
        first_N = cu_seqlens[:-1].clamp(max=hidden_TD.shape[0] - 1)
        return self._posterior(hidden_TD.index_select(0, first_N))

    def _posterior(self, first_ND: Tensor) -> Posterior:
        assert self.encoder is not None
        assert self.encoder.pooler is not None
        assert self.to_latent is not None
        pooled_ND = self.encoder.pooler(first_ND.to(self.encoder.pooler.dense.weight.dtype))
        # Mean and log-variance are computed in float32 always: exp() of a 16-bit log-variance is too coarse.
        with torch.autocast(pooled_ND.device.type, enabled=False):
            both = F.linear(pooled_ND.float(), self.to_latent.weight.float())
        mean_NZ, log_variance_NZ = both.chunk(2, dim=-1)
        return Posterior(mean_NZ, log_variance_NZ)

    def inject(self, z_NZ: Tensor | None) -> Injected:
        """What the decoder gets of latent vectors; None for a decoder that is conditioned on nothing."""
        if not self.config.is_conditioned:
            return Injected()
        if z_NZ is None or z_NZ.shape[-1] != self.config.latent_size:
            found = "none" if z_NZ is None else z_NZ.shape[-1]
            raise UsageError(
                f"latent vectors have {found} dimensions, the model has {self.config.latent_size}"
            )
        memory = embedding = None
        if self.to_memory is not None:
            memory = self.to_memory(z_NZ.to(self.to_memory.weight.dtype)).chunk(
                self.config.decoder.layers, -1
            )
        if self.to_embedding is not None:
            embedding = self.to_embedding(z_NZ.to(self.to_embedding.weight.dtype))
        return Injected(memory, embedding)

    def log_likelihood(self, ids_BL: Tensor, labels_BL: Tensor, z_BZ: Tensor | None) -> Tensor:
        """log p(x|z) of each sentence, [B], in nats: the sum over its pieces and the end.

        Args:
            ids_BL: <BOS> pieces, padded on the right with anything.
            labels_BL: pieces <EOS>, -100 where padded.
            z_BZ: latent vectors.
        """
        logits = self.decoder.logits(self.decoder(ids_BL, self.inject(z_BZ)))
        losses = F.cross_entropy(
            logits.float().transpose(1, 2), labels_BL, ignore_index=-100, reduction="none"
        )
        return -losses.sum(dim=1)

    def decode_packed(self, tokens: DecoderTokens, z_NZ: Tensor | None) -> Tensor:
        """Hidden states [S, D] of packed sentences given their latent vectors."""
        return self.decoder.forward_packed(tokens.ids_S, tokens.positions_S, tokens.layout, self.inject(z_NZ))

    def first_position(self) -> int:
        """Position of the decoder's first token: the memory, where there is one, takes position 0."""
        return 1 if self.config.memory else 0


class _EqualLengths:
    """The encoder's attention on a CPU, neighbours of equal length in one call."""

    def __init__(self, cu_seqlens: Tensor) -> None:
        self.cu_seqlens = cu_seqlens

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
        """See `attention.Attend`."""
        return by_equal_lengths(query, key, value, self.cu_seqlens, dropout, causal=False)


def _by_equal_lengths(encoder: Encoder, tokens: EncoderTokens, segments_T: Tensor) -> Tensor:
    x_TD = encoder.embeddings(tokens.ids_T, tokens.positions_T, segments_T)
    attend = _EqualLengths(tokens.cu_seqlens)
    for layer in encoder.layers:
        x_TD = layer(x_TD, attend)
    return x_TD


def count_parameters(config: VaeConfig) -> int:
    """Trainable parameters, counted without allocating any."""
    with torch.device("meta"):
        model = VariationalAutoencoder(config)
    return sum(p.numel() for p in model.parameters())
