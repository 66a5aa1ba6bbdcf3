"""The ONNX Runtime engine: one thread a batch, as many batches at a time as there are cores. Imports no torch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime

from biosmith.annotate.engines import Choice, Reader, Settings, stacked_heads
from biosmith.annotate.pieces import PieceCutter
from biosmith.annotate.sequences import PaddedBatch, Scores, Sequences, padded_batches
from biosmith.annotate.tuned import TunedTagger
from biosmith.machine import usable_cores

BUDGET = 1024  # tokens of a batch: what a core's cache holds


class OnnxEngine:
    """See `Engine`."""

    name = "onnx"

    def __init__(self, file: Path, outputs: int, longest: int, *, threads: int, reason: str = "") -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self.outputs, self.longest, self.reason, self.threads = outputs, longest, reason, threads

    def __call__(self, sequences: Sequences) -> Scores:
        """See `Engine`."""
        scores = np.empty((len(sequences.picks), self.outputs), np.float32)

        def run(batch: PaddedBatch) -> None:
            inputs = {"input_ids": batch.ids_BL, "attention_mask": batch.mask_BL}
            logits = self.session.run(None, inputs)[0]
            scores[batch.rows] = logits.reshape(-1, self.outputs)[batch.places]

        batches = padded_batches(sequences, BUDGET, self.longest)
        if self.threads == 1:
            for batch in batches:
                run(batch)
            return scores
        with ThreadPoolExecutor(self.threads) as pool:
            for _ in pool.map(run, batches):
                pass
        return scores


def open_onnx(group: dict[str, TunedTagger], choice: Choice, settings: Settings) -> Reader:
    """A reader whose engine is ONNX Runtime."""
    first = next(iter(group.values()))
    assert first.network is not None
    heads = stacked_heads(group)
    engine = OnnxEngine(
        first.folder / first.network.file,
        heads[-1].columns.stop,
        first.network.max_length,
        threads=settings.threads or usable_cores(),
        reason=f"{choice.reason}; {first.network.precision}",
    )
    stride = max(tagger.stride for tagger in group.values())
    return Reader(PieceCutter.load(first.folder), engine, heads, first.network.max_length, stride)
