"""Replaced-token detection (Clark et al., 2020, ELECTRA, section 2): what a micro-batch costs generator and discriminator.

Shapes: T tokens, M masked-token slots of a micro-batch, V vocabulary, E width of the embeddings.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from biosmith.errors import UsageError
from biosmith.models.electra import ElectraModel, replace_tokens
from biosmith.models.encoder import Encoder
from biosmith.models.fused import VOCABULARY_MULTIPLE, encode
from biosmith.models.heads import activate
from biosmith.pretraining.batches import IGNORE

# What the sums are, in their order; the last three are counted and have no gradient.
SUMS = (
    "masked_language",
    "pairs",
    "adversarial",
    "replaced_tokens",
    "replaced",
    "replaced_found",
    "originals_found",
)


class ReplacedTokenSums(nn.Module):
    """Sums over a micro-batch, float32 [7], see `SUMS`: the generator's loss over hidden tokens, the discriminator's
    over all real tokens, how many tokens were replaced, and how many of those and of the others were told rightly.

    One packed forward pass of the generator, samples for its hidden tokens, one of the discriminator. A sample is an
    integer, so nothing of the discriminator's loss reaches the generator but what goes through the shared embeddings.
    Samples are drawn from torch's generator, which the step seeds by (seed, step, micro-batch): a resumed run draws the
    same.

    Args:
        model: generator and discriminator.
        temperature: of the samples.
        compute: see `step.LossSums`.
        fused: use the fused layer, which knows no dropout; None does so on a CUDA device in "bfloat16" where the model
            has no dropout.

    Raises:
        UsageError: the fused layer cannot be used.
    """

    adversarial: None = None
    size = len(SUMS)

    def __init__(
        self,
        model: ElectraModel,
        temperature: float = 1.0,
        compute: str = "float32",
        fused: bool | None = None,
    ) -> None:
        super().__init__()
        self.model, self.temperature, self.compute = model, temperature, compute
        self._of_generator = _Packed(model.generator.encoder)
        self._of_discriminator = _Packed(model.discriminator.encoder)
        plain = model.config == model.config.without_dropout()
        if fused and not plain:
            raise UsageError("the fused layer knows no dropout")
        on_gpu = next(model.parameters()).is_cuda
        self.fused = on_gpu and plain and compute == "bfloat16" if fused is None else fused

    def forward(
        self,
        input_ids_T: Tensor,
        position_ids_T: Tensor,
        token_type_ids_T: Tensor,
        cu_seqlens: Tensor,
        max_seqlen: int,
        masked_positions_M: Tensor,
        labels_M: Tensor,
        next_sentence_labels_N: Tensor,
    ) -> Tensor:
        """See the class."""
        places = (position_ids_T, token_type_ids_T, cu_seqlens, max_seqlen)
        with torch.autocast(
            input_ids_T.device.type, dtype=torch.bfloat16, enabled=self.compute == "mixed" and not self.fused
        ):
            logits_MV = self._generator(input_ids_T, *places, masked_positions_M)
            sampled_M = sample(logits_MV.detach(), self.temperature)
            corrupted_T, is_replaced_T = replace_tokens(input_ids_T, masked_positions_M, labels_M, sampled_M)
            logits_T = self._discriminator(corrupted_T, *places)
        masked_language = F.cross_entropy(logits_MV.float(), labels_M, ignore_index=IGNORE, reduction="sum")
        # The unused tail of a batch is padding, and nothing else is.
        is_real_T = input_ids_T != self.model.config.pad_id
        losses_T = F.binary_cross_entropy_with_logits(
            logits_T.float(), is_replaced_T.float(), reduction="none"
        )
        replaced_tokens = torch.where(is_real_T, losses_T, 0.0).sum()
        says_replaced_T = logits_T > 0
        counted = [
            (is_replaced_T & is_real_T).sum(),
            (is_replaced_T & is_real_T & says_replaced_T).sum(),
            (~is_replaced_T & is_real_T & ~says_replaced_T).sum(),
        ]
        nothing = torch.zeros_like(replaced_tokens)
        return torch.stack(
            [masked_language, nothing, nothing, replaced_tokens, *(count.float() for count in counted)]
        )

    def _hidden(self, called: _Packed, *packed: Any) -> Tensor:
        """Hidden states [T, D] of one of the encoders."""
        if self.fused:
            kind = torch.bfloat16 if self.compute == "bfloat16" else torch.float32
            return encode(called.encoder, *packed, dtype=kind)
        if self.compute == "bfloat16":
            # Parameters are cast, gradients come back in float32.
            cast = {name: parameter.to(torch.bfloat16) for name, parameter in called.named_parameters()}
            hidden_TD: Tensor = torch.func.functional_call(called, cast, packed)
        else:
            hidden_TD = called(*packed)
        return hidden_TD

    def _generator(self, *arguments: Any) -> Tensor:
        """Logits [M, V] of the hidden tokens."""
        *packed, masked_positions_M = arguments
        model = self.model.generator
        masked_MD = self._hidden(self._of_generator, *packed).index_select(0, masked_positions_M)
        head, words_VE = model.masked_language_head, model.encoder.embeddings.words.weight
        assert isinstance(words_VE, Tensor)
        kind = masked_MD.dtype
        hidden_ME = activate(
            F.linear(masked_MD, head.dense.weight.to(kind), head.dense.bias.to(kind)), head.activation
        )
        hidden_ME = head.norm(hidden_ME.to(head.norm.weight.dtype)).to(kind)
        assert head.bias is not None
        if not self.fused:
            return F.linear(hidden_ME, words_VE.to(kind), head.bias.to(kind))
        # Matrix products are slow where a side is no multiple of 8; the padding's logits are minus infinity.
        padding = -words_VE.shape[0] % VOCABULARY_MULTIPLE
        words = F.pad(words_VE.to(kind), (0, 0, 0, padding))
        return F.linear(hidden_ME, words, F.pad(head.bias.to(kind), (0, padding), value=-torch.inf))

    def _discriminator(self, *packed: Any) -> Tensor:
        """Logits [T] of all tokens."""
        model = self.model.discriminator
        hidden_TD = self._hidden(self._of_discriminator, *packed)
        head = model.replaced_token_head
        inner_TD = F.linear(
            hidden_TD, head.dense.weight.to(hidden_TD.dtype), head.dense.bias.to(hidden_TD.dtype)
        )
        # The last product is a vector for each token: in float32 it costs nothing.
        return head.prediction(activate(inner_TD, head.activation).to(head.prediction.weight.dtype)).squeeze(
            -1
        )


class _Packed(nn.Module):
    """An encoder whose call is its `forward_packed`."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, *arguments: Any) -> Tensor:
        return self.encoder.forward_packed(*arguments)


@torch.no_grad()
def sample(logits_MV: Tensor, temperature: float = 1.0) -> Tensor:
    """One id [M] for each row, drawn from softmax(logits / temperature): the largest logit after Gumbel noise has been
    added, as the original code draws."""
    noise_MV = torch.rand(logits_MV.shape, device=logits_MV.device, dtype=torch.float32)
    # The uniform numbers begin at 0, whose logarithm has no end.
    gumbel_MV = -torch.log(-torch.log(noise_MV.clamp(min=1e-30)))
    return (logits_MV.float() / temperature + gumbel_MV).argmax(dim=-1)
