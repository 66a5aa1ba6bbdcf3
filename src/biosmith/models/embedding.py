"""Texts to vectors with any BERT- or ModernBERT-shaped Hugging Face folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from biosmith.errors import UsageError, shorten
from biosmith.models.checkpoint import load_encoder
from biosmith.models.encoder import Encoder
from biosmith.models.packed import PackedSequences
from biosmith.models.saving import check_vocabulary
from biosmith.surrogates import replace_surrogates

TOKENS_A_BATCH = 16_384


class TextEncoder:
    """An encoder and its tokenizer; made by `biosmith.encoder(folder)`."""

    def __init__(self, model: Encoder, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(model.config.positions)

    @property
    def width(self) -> int:
        """Length of a vector."""
        return self.model.config.width

    @torch.inference_mode()
    def embed(self, texts: Sequence[str], *, tokens_a_batch: int = TOKENS_A_BATCH) -> NDArray[np.float32]:
        """Vectors [texts, width]: the mean of the last hidden states over the real tokens of each text.

        [CLS] and [SEP] count as tokens. A text longer than the model's positions is cut there. Lone surrogates, which
        are no text, are read as U+FFFD. The order of the texts and their company in a batch change nothing but
        rounding: batches are packed by length.

        Args:
            texts: any number; an empty text gives the mean of its special tokens.
            tokens_a_batch: how many tokens run through the model at once.

        Raises:
            UsageError: `texts` is a single text, or one of them is none.
        """
        if isinstance(texts, str):
            raise UsageError("embed takes a list of texts, not a single one: embed([text])")
        for place, text in enumerate(texts):
            if not isinstance(text, str):
                raise UsageError(f"embed takes a list of texts, but texts[{place}] is {shorten(text)}")
        ids = [
            encoding.ids for encoding in self.tokenizer.encode_batch_fast([*map(replace_surrogates, texts)])
        ]
        vectors = np.empty((len(ids), self.width), dtype=np.float32)
        order = np.argsort([len(i) for i in ids], kind="stable")[::-1]
        begin = 0
        while begin < len(order):
            end, room = begin, tokens_a_batch
            while end < len(order) and (end == begin or len(ids[order[end]]) <= room):
                room -= len(ids[order[end]])
                end += 1
            chosen = order[begin:end]
            packed = PackedSequences.of([ids[i] for i in chosen], device=self._device)
            vectors[chosen] = self._mean(packed).float().cpu().numpy()
            begin = end
        return vectors

    @property
    def _device(self) -> torch.device:
        return self.model.embeddings.words.weight.device

    def _mean(self, packed: PackedSequences) -> Tensor:
        """Mean hidden state [N, D] of each sequence."""
        hidden_TD = self.model.forward_packed(*packed.arguments)
        lengths_N = packed.cu_seqlens.diff()
        sequence_T = torch.repeat_interleave(torch.arange(len(lengths_N), device=hidden_TD.device), lengths_N)
        sums_ND = hidden_TD.new_zeros(len(lengths_N), hidden_TD.shape[1]).index_add_(0, sequence_T, hidden_TD)
        return sums_ND / lengths_N.clamp(min=1)[:, None]


def encoder(
    folder: str | Path, *, device: str | torch.device | None = None, dtype: torch.dtype | None = None
) -> TextEncoder:
    """Load a BERT- or ModernBERT-shaped Hugging Face folder for `.embed`.

    >>> vectors = encoder("models/bioformer-8l").embed(["EGFR mutations in lung cancer"])  # doctest: +SKIP

    Args:
        folder: holds `config.json`, safetensors and `tokenizer.json`.
        device: None is the CUDA device if there is one.
        dtype: None is float32 on a CPU, bfloat16 on a CUDA device (the packed attention kernel wants 16 bits).

    Raises:
        UsageError, BadInput: as `biosmith.models.load_encoder`; or there is no `tokenizer.json`.
    """
    folder = Path(folder)
    chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    model, _ = load_encoder(
        folder, dtype=dtype or (torch.bfloat16 if chosen.type == "cuda" else torch.float32)
    )
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise UsageError(
            f"{folder} has no tokenizer.json; save its tokenizer with transformers.AutoTokenizer first"
        )
    check_vocabulary(folder, model.config.vocabulary_size)
    return TextEncoder(model.to(chosen), Tokenizer.from_file(str(file)))
