"""The OpenVINO engine: one stream a core, batches handed out as streams come free. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino

from biosmith.annotate.engines import (
    Choice,
    Reader,
    Settings,
    has_fast_bfloat16,
    has_int8_dot_products,
    stacked_heads,
)
from biosmith.annotate.engines.cache import cache_folder
from biosmith.annotate.engines.cascade import Cascade
from biosmith.annotate.engines.common_constants import read_with
from biosmith.annotate.engines.signal_stack import kept_signal_stack
from biosmith.annotate.pieces import PieceCutter
from biosmith.annotate.sequences import Engine, PaddedBatch, Scores, Sequences, padded_batches
from biosmith.annotate.tuned import TunedTagger
from biosmith.machine import usable_cores

BUDGET = 1024  # tokens of a batch: what a core's cache holds
# Kernels that a stream keeps. Full batches have some twenty shapes of fifteen kernels each; the last batch of a call may
# have any of hundreds, and at OpenVINO's own 5,000 a service would grow by 2 MB with each until it holds all.
KERNELS = 512

HINTS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}


class OpenVinoEngine:
    """See `Engine`."""

    name = "openvino"

    def __init__(
        self,
        model: Path | Any,
        outputs: int,
        longest: int,
        *,
        hint: str,
        threads: int,
        reason: str = "",
        kept: bool = False,
        budget: int = BUDGET,
        kernels: int = KERNELS,
    ) -> None:
        core = openvino.Core()
        self.outputs, self.longest, self.reason, self.budget = outputs, longest, reason, budget
        options = {
            "NUM_STREAMS": threads,
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": hint,
            "CPU_RUNTIME_CACHE_CAPACITY": kernels,
        }
        if kept:  # what it compiles to, for the next time
            core.set_property({"CACHE_DIR": str(cache_folder() / "compiled")})
        self._core, self._model, self._options, self._streams = core, model, options, threads
        self._queue = self._new_queue()

    def _new_queue(self) -> Any:
        with kept_signal_stack():
            compiled = self._core.compile_model(self._model, "CPU", self._options)
            queue = openvino.AsyncInferQueue(compiled, self._streams)
        queue.set_callback(_keep)
        return queue

    def __call__(self, sequences: Sequences) -> Scores:
        """See `Engine`."""
        scores = np.empty((len(sequences.picks), self.outputs), np.float32)
        try:
            for batch in padded_batches(sequences, self.budget, self.longest):
                inputs = {"input_ids": batch.ids_BL, "attention_mask": batch.mask_BL}
                self._queue.start_async(inputs, (scores, batch))
            self._queue.wait_all()
        except Exception:
            # The old one would raise the same again, whatever it is given, and so may the stream that the batch failed in.
            self._queue = self._new_queue()
            raise
        return scores


def _keep(request: Any, given: tuple[Scores, PaddedBatch]) -> None:
    scores, batch = given
    logits = request.get_output_tensor(0).data
    scores[batch.rows] = logits.reshape(-1, logits.shape[-1])[batch.places]


def open_openvino(group: dict[str, TunedTagger], choice: Choice, settings: Settings) -> Reader:
    """A reader whose engine is OpenVINO; a cascade where the folder holds a careful network, too.

    A processor without int8 dot products, on which the first network would be off and slow, takes the careful one alone.
    """
    first = next(iter(group.values()))
    network = first.network
    assert network is not None
    precision = settings.precision
    if precision == "auto":
        precision = "bfloat16" if has_fast_bfloat16() else "float32"
    heads = stacked_heads(group)
    beside = "" if network.precision == "float32" else f"{network.precision} with "
    reason = f"{choice.reason}; {beside}{precision}"

    def open_model(model: Path | Any, reason: str, **less: int) -> OpenVinoEngine:
        return OpenVinoEngine(
            model,
            heads[-1].columns.stop,
            network.max_length,
            hint=HINTS[precision],
            threads=settings.threads or usable_cores(),
            reason=reason,
            kept=True,
            **less,
        )

    file = first.folder / network.file
    engine: Engine
    if network.careful is None:
        engine = open_model(file, reason)
    else:
        careful = read_with(file, first.folder / network.careful)
        if network.vnni and not has_int8_dot_products():
            reason = f"{choice.reason}; its second network alone, in {precision}, for this processor has no int8 dot products"
            engine = open_model(careful, reason)
        else:
            reason = f"{reason}; sentences with close decisions again in {precision}"
            columns = [head.columns for head in heads]
            engine = Cascade(
                open_model(file, reason),
                open_model(careful, reason, budget=BUDGET // 2, kernels=KERNELS // 4),
                columns,
                network.threshold,
                reason=reason,
            )
    stride = max(tagger.stride for tagger in group.values())
    return Reader(PieceCutter.load(first.folder), engine, heads, network.max_length, stride)
