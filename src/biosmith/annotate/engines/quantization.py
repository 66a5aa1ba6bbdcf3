"""A tuned tagger in int8 for a CPU engine: calibrated on the user's text, refused where it costs too much F1.

OpenVINO: static, weights and activations, by NNCF with SmoothQuant (Xiao et al., 2023). ONNX Runtime: weights are
static, activations are scaled as they come. The classification layer keeps its precision in both: it is a
thousandth of the work, and what it says is the answer.

Where too few mentions come out as in 32 bits, OpenVINO's network of all layers gets a second one beside it, which reads
sequences with close decisions again (`cascade`), if that is faster than to spare the layers.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biosmith.annotate.engines import (
    Choice,
    Settings,
    has_fast_bfloat16,
    has_int8_dot_products,
    is_installed,
    require_engine,
)
from biosmith.annotate.engines.conversion import (
    FILES,
    Traceable,
    load_traceable,
    quiet,
    to_onnx,
    to_openvino,
    write_engine_folder,
)
from biosmith.annotate.engines.signal_stack import kept_signal_stack
from biosmith.annotate.engines.thresholds import Found, find_threshold, tokens_a_second
from biosmith.annotate.engines.torch_engine import open_torch
from biosmith.annotate.pieces import PieceCutter
from biosmith.annotate.reading import lay_out, read_words
from biosmith.annotate.sequences import Engine, PaddedBatch, Sequences, padded_batches
from biosmith.annotate.tuned import EngineFile, TunedTagger, read_tuned
from biosmith.artefact import Manifest, describe_input, folder_by_rename, require_new_folder
from biosmith.errors import BiosmithError, UsageError
from biosmith.machine import usable_cores
from biosmith.models.checkpoint import CAREFUL_FILE
from biosmith.progress import say
from biosmith.tasks import ner
from biosmith.tasks.inputs import Example
from biosmith.tasks.joining import rename_types
from biosmith.tasks.labels import read_spans
from biosmith.tasks.tagged import TaggedData, load_split
from biosmith.tasks.tagging import Tagger, check_tags
from biosmith.text import formats
from biosmith.text.document import Document, Passage

GATE = 0.3  # points of F1
CALIBRATION_BATCHES, CALIBRATION_TOKENS = 64, 512
INT4_GROUP = 32  # values of an embedding that share a scale
GAIN = 1.1  # how many times as fast a cascade has to be as its careful network alone
MEASURED_SEQUENCES = 512

ALL_LAYERS, EMBEDDING_ALONE = "all layers", "the embedding alone"
CASCADE = "all layers, close decisions again in 16 bits"
# What keeps its precision, from the fastest scheme to the most careful; patterns of the names of operations.
SCHEMES: dict[str, tuple[str, ...]] = {
    ALL_LAYERS: (".*classifier.*",),
    "all layers but what follows the activation": (
        ".*classifier.*",
        r".*feed_forward\.down.*",
        r".*[^n]\.output\.dense.*",
    ),
    EMBEDDING_ALONE: (".*",),  # ONNX Runtime would have nothing left in int8
}


@dataclass(frozen=True)
class QuantizeReport:
    """What came out.

    Attributes:
        engine, scheme: what it was made for and which layers are int8.
        before, after: entity F1 on the development set, in [0, 1], of torch in 32 bits and of the quantised model; None
            without a development set.
        equal_mentions: share of mentions there that both find alike.
        mentions: that torch finds there.
        calibrated_on: sentences.
        bytes: of the network's files.
        again: share of the development set's tokens that a cascade's careful network reads, too; None without one.
    """

    engine: str
    scheme: str
    before: float | None
    after: float | None
    equal_mentions: float | None
    mentions: int
    calibrated_on: int
    bytes: int
    again: float | None = None


def quantize(
    tuned: Path,
    out: Path,
    *,
    data: Sequence[Path] = (),
    text: Sequence[Path] = (),
    gate: float = GATE,
    equal: float = 0.0,
    cascade: bool = True,
    engine: str = "auto",
    names: Mapping[str, str] | None = None,
    embeddings: str = "int8",
    portable: bool = False,
) -> QuantizeReport:
    """Make an int8 tagger for a CPU engine; its folder is a tuned model for `annotate`.

    Args:
        tuned: a tuned tagger.
        out: the folder to make.
        data: datasets' folders, whose dev splits are the development set, or files; without any those that the
            tagger's manifest names, if they are still there. F1 is the mean of theirs.
        text: documents to calibrate on; the development set's sentences if there are none.
        gate: points of F1 that may be lost on the development set.
        equal: percent of the mentions there that must come out as in 32 bits; close decisions are made again, or layers
            keep their precision, until they do.
        cascade: whether a second network may make close decisions again; without it the folder holds one network.
        engine: "openvino" or "onnx"; "auto" is the first of them that is installed.
        names: other names for the data's types of mentions.
        embeddings: "int8", or "int4" for a smaller file (OpenVINO alone, without a second network).
        portable: for other processors than this one, too: weights keep to seven bits, for without int8 dot products sums
            of eight overflow. It is always so where this processor has none.

    Raises:
        UsageError: `out` exists, an engine or a model that cannot be used, nothing to calibrate on, or `equal` without
            a development set.
        BiosmithError: F1 falls by more than the gate or too few mentions are the same, whichever layers are spared.
    """
    require_new_folder(out)
    if gate < 0:
        raise UsageError(f"the gate is in points of F1 and not negative, not {gate}")
    if not 0 <= equal <= 100:
        raise UsageError(f"equal mentions are in percent, 0 to 100, not {equal}")
    info = read_tuned(tuned)
    if info.network is not None:
        raise UsageError(f"{tuned} is quantised already; take the folder it was made from")
    engine = _engine(engine)
    if embeddings not in ("int8", "int4") or (embeddings == "int4" and engine != "openvino"):
        raise UsageError(f"embeddings {embeddings!r} on {engine}: valid are int8, and int4 on openvino")
    vnni = has_int8_dot_products() and not portable
    make = functools.partial(MAKERS[engine], vnni=vnni)
    if embeddings == "int4":
        make = functools.partial(_make_openvino, vnni=vnni, embeddings="int4")
    development = _development(info, data, text, names or {})
    if equal and not development:
        raise UsageError("without a development set (--data) nobody knows how many mentions are the same")
    group = {"tagger": info}
    traced = load_traceable(group)
    assert traced.transform is not None
    cutter = PieceCutter(traced.transform.tokenizer.backend_tokenizer, str(tuned))
    sequences, sentences = _calibration(cutter, traced.max_length, text, development)
    judge = None if not development else _Judge(info, traced, development)
    tried, outputs = [], len(info.label_set.labels)
    found: Found[_Verdict] | None = None
    with folder_by_rename(out) as temporary:
        for scheme, spared in SCHEMES.items():
            if scheme == EMBEDDING_ALONE and engine != "openvino":
                continue
            say(f"Quantising {tuned} for {engine}: {scheme}")
            make(traced, sequences, spared, temporary / FILES[engine])
            verdict = (
                None
                if judge is None
                else judge(open_engine(engine, temporary / FILES[engine], outputs, traced.max_length))
            )
            if verdict is None or verdict.fits(gate, equal):
                break
            same = f" ({100 * verdict.equal_mentions:.2f} % of mentions the same)"
            tried.append(f"{100 * verdict.after:.2f}{same} with {scheme}")
            say(f"F1 was {100 * verdict.before:.2f} and is {tried[-1]}")
            if equal and cascade and scheme == ALL_LAYERS and engine == "openvino" and embeddings == "int8":
                say(f"Quantising {tuned} for {engine}: {CASCADE}")
                assert judge is not None
                # Half of the differences that are allowed are left to texts that differ from the development set.
                found = _add_careful(
                    traced,
                    temporary,
                    sequences,
                    outputs,
                    vnni,
                    judge,
                    lambda verdict: verdict.fits(gate, (equal + 100) / 2),
                )
                if found is not None:
                    scheme, verdict = CASCADE, found.verdict
                    break
        else:
            assert verdict is not None
            asked = f" or changes more than {100 - equal:g} % of mentions" if equal else ""
            raise BiosmithError(
                f"{tuned} loses more than {gate} points of F1{asked} on the development set in int8: "
                f"{100 * verdict.before:.2f} in 32 bits, {', '.join(tried)}; nothing was written. "
                "Calibrate on text like yours (--text), or allow more with --gate and --equal"
            )
        report = _report(engine, scheme, verdict, sentences, temporary)
        network = EngineFile(engine, FILES[engine], "int8", traced.max_length, vnni)
        if found is not None:
            report = dataclasses.replace(report, again=found.again)
            network = dataclasses.replace(network, careful=CAREFUL_FILE, threshold=found.threshold)
        write_engine_folder(
            temporary, info, traced, network, _manifest(info, report, data, text, gate, equal)
        )
    return report


def _engine(asked: str) -> str:
    if asked not in ("auto", *MAKERS):
        raise UsageError(f"engine {asked!r} cannot be quantised for; valid: auto, {', '.join(MAKERS)}")
    if asked == "auto":
        asked = next((name for name in MAKERS if is_installed(name)), "openvino")
    require_engine(asked)
    return asked


def _development(
    info: TunedTagger, data: Sequence[Path], text: Sequence[Path], names: Mapping[str, str]
) -> list[TaggedData]:
    """The development sets: given, or named in the manifest and still as they were."""
    data = list(data)
    if not data and info.manifest is not None:
        dev = ("dev", "valid")
        for item in info.manifest.inputs:
            path = Path(str(item.get("path", "")))
            if path.is_file() and any(w in path.name for w in dev) and describe_input(path) == dict(item):
                data.append(path)
                say(f"The development set is {path}, as the manifest of {info.folder} says")
    if not data:
        if not text:
            raise UsageError(
                f"there is nothing to calibrate {info.folder} on: name a development set with --data, or documents "
                "like those to annotate with --text"
            )
        say("Without a development set (--data) nobody knows what int8 costs: no gate is applied")
        return []
    development = [rename_types(load_split(folder, "dev"), names) for folder in data]
    for split in development:
        check_tags(split.sentences, info.label_set)
    return development


def _calibration(
    cutter: PieceCutter, max_length: int, text: Sequence[Path], development: Sequence[TaggedData]
) -> tuple[Sequences, int]:
    """Sequences of all lengths to calibrate on, and of how many sentences they are."""
    wanted = CALIBRATION_BATCHES * CALIBRATION_TOKENS
    documents: list[Document] = []
    characters = 0
    if text:
        for document in formats.read(list(text)):
            documents.append(document)
            characters += len(document.text)
            if characters > 6 * wanted:  # several characters a piece
                break
    else:
        for number, sentence in enumerate(s for split in development for s in split.sentences):
            words = " ".join(sentence.words)
            documents.append(Document(str(number), words, (Passage("sentence", words),)))
    words_ = read_words(documents)
    if not words_.texts:
        raise UsageError("the text to calibrate on holds no words")
    reading = lay_out(words_, cutter, max_length, max_length // 2, "window")
    return reading.sequences, len(words_.begins) - 1


def _calibration_batches(sequences: Sequences, longest: int) -> list[PaddedBatch]:
    batches = list(padded_batches(sequences, CALIBRATION_TOKENS, longest))
    chosen = np.linspace(0, len(batches) - 1, min(len(batches), CALIBRATION_BATCHES)).astype(int)
    return [batches[i] for i in chosen.tolist()]


def _make_openvino(
    traced: Traceable,
    sequences: Sequences,
    spared: Sequence[str],
    file: Path,
    *,
    vnni: bool,
    embeddings: str = "int8",
) -> None:
    import nncf
    import openvino

    model = to_openvino(traced.network)
    is_embedding_alone = spared == SCHEMES[EMBEDDING_ALONE]
    if is_embedding_alone or embeddings == "float16":
        model = _halved(model, file)
    items = [
        {"input_ids": batch.ids_BL, "attention_mask": batch.mask_BL}
        for batch in _calibration_batches(sequences, traced.max_length)
    ]
    overflow = nncf.OverflowFix.DISABLE if vnni else nncf.OverflowFix.ENABLE
    mode: dict[str, Any] = {"mode": nncf.CompressWeightsMode.INT8_ASYM}
    if embeddings == "int4":
        mode = {"mode": nncf.CompressWeightsMode.INT4_SYM, "group_size": INT4_GROUP, "all_layers": True}
    with quiet(), kept_signal_stack():
        if embeddings != "float16":
            # A scale for each row of the embedding; what is read of it is not rounded a second time below.
            model = nncf.compress_weights(
                model, ignored_scope=nncf.IgnoredScope(types=["MatMul"], validate=False), **mode
            )
        if is_embedding_alone:
            openvino.save_model(model, file, compress_to_fp16=False)
            return
        made = nncf.quantize(
            model,
            nncf.Dataset(items),
            subset_size=len(items),
            model_type=nncf.ModelType.TRANSFORMER,
            # Attention is a small part of the work on sentences, and runs as one fused kernel where it is not cut up.
            ignored_scope=nncf.IgnoredScope(
                patterns=[*spared, ".*embeddings.*"], types=["ScaledDotProductAttention"], validate=False
            ),
            advanced_parameters=nncf.AdvancedQuantizationParameters(overflow_fix=overflow),
        )
    openvino.save_model(made, file, compress_to_fp16=False)


def _halved(model: Any, file: Path) -> Any:
    """A model with its constants in float16; later those would not be halved, for NNCF forbids it.

    Args:
        model: of OpenVINO.
        file: beside which there is room for a moment.
    """
    import openvino

    halves = file.with_name("halves.xml")
    openvino.save_model(model, halves, compress_to_fp16=True)
    model = openvino.Core().read_model(halves.read_bytes(), halves.with_suffix(".bin").read_bytes())
    for part in (halves, halves.with_suffix(".bin")):
        part.unlink()
    return model


def _add_careful(
    traced: Traceable,
    folder: Path,
    sequences: Sequences,
    outputs: int,
    vnni: bool,
    judge: _Judge,
    fits: Callable[[_Verdict], bool],
) -> Found[_Verdict] | None:
    """Write the network in 16 bits beside the one in int8 if as a cascade they fit, and beat it alone by `GAIN`.

    The one in int8 is made anew with its embedding in 16 bits, too: so both read the same one, which is kept once.
    """
    import openvino

    from biosmith.annotate.engines.common_constants import leave_to, read_with

    file, first = folder / CAREFUL_FILE, folder / FILES["openvino"]
    _make_openvino(traced, sequences, SCHEMES[ALL_LAYERS], first, vnni=vnni, embeddings="float16")
    model = _halved(to_openvino(traced.network), file)
    leave_to(openvino.Core().read_model(first), model)
    openvino.save_model(model, file, compress_to_fp16=False)
    fast, careful = (
        _open_openvino(model, outputs, traced.max_length) for model in (first, read_with(first, file))
    )
    sample, _ = sequences.take(np.arange(0, len(sequences), max(1, len(sequences) // MEASURED_SEQUENCES)))
    most = 1 / GAIN - tokens_a_second(careful, sample) / tokens_a_second(fast, sample)
    found = find_threshold(fast, careful, judge, fits, most)
    if found is None:
        say(f"More than {100 * max(0.0, most):.0f} % of the tokens would be read again: too slow")
        for part in (file, file.with_suffix(".bin")):
            part.unlink()
    return found


def _make_onnx(
    traced: Traceable, sequences: Sequences, spared: Sequence[str], file: Path, *, vnni: bool
) -> None:
    """Activations are scaled batch by batch, so nothing is calibrated; only products with weights are int8."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    plain = file.with_name("float32.onnx")
    to_onnx(traced.network, plain)
    with quiet():
        graph = onnx.load(str(plain)).graph
        quantize_dynamic(
            str(plain),
            str(file),
            op_types_to_quantize=["MatMul", "Gemm"],
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=not vnni,
            nodes_to_exclude=[node.name for node in graph.node if _is_spared(node, spared)],
            extra_options={"MatMulConstBOnly": True},
        )
    plain.unlink()


def _is_spared(node: Any, patterns: Sequence[str]) -> bool:
    """Whether a node belongs to a spared module; torch writes a node's module path into its metadata."""
    scopes = " ".join(item.value for item in node.metadata_props)
    return any(re.search(pattern.strip(".*"), scopes) for pattern in patterns)


# engine -> a function that writes the int8 network
MAKERS: dict[str, Callable[..., None]] = {
    "openvino": _make_openvino,
    "onnx": _make_onnx,
}


def open_engine(engine: str, file: Path, outputs: int, longest: int) -> Engine:
    """The engine of a network that was just made, on all cores, in the fastest precision beside int8."""
    if engine == "openvino":
        return _open_openvino(file, outputs, longest)
    from biosmith.annotate.engines.onnx_engine import OnnxEngine

    return OnnxEngine(file, outputs, longest, threads=usable_cores())


def _open_openvino(model: Path | Any, outputs: int, longest: int) -> Engine:
    from biosmith.annotate.engines.openvino_engine import OpenVinoEngine

    hint = "bf16" if has_fast_bfloat16() else "f32"
    return OpenVinoEngine(model, outputs, longest, hint=hint, threads=usable_cores())


@dataclass(frozen=True)
class _Verdict:
    before: float
    after: float
    equal_mentions: float
    mentions: int

    @property
    def drop(self) -> float:
        """Points of F1 lost."""
        return 100 * (self.before - self.after)

    def fits(self, gate: float, equal: float) -> bool:
        """Whether no more points of F1 are lost and no less than a percentage of mentions is equal."""
        return self.drop <= gate and 100 * self.equal_mentions >= equal


class _Judge:
    """Scores engines on the development sets beside torch in 32 bits."""

    def __init__(self, info: TunedTagger, traced: Traceable, development: Sequence[TaggedData]) -> None:
        self.development = development
        assert traced.transform is not None
        self.transform, self.info, self.traced = traced.transform, info, traced
        settings = Settings("torch", "cpu", "float32")
        reader = open_torch({"tagger": info}, Choice("torch", ""), settings)
        self.before, self.expected = self._score(reader.engine)

    def __call__(self, engine: Engine) -> _Verdict:
        after, found = self._score(engine)
        equal = len(self.expected & found) / max(1, len(self.expected), len(found))
        return _Verdict(self.before, after, equal, len(self.expected))

    def _score(self, engine: Engine) -> tuple[float, set[tuple[int, int, int, int, str]]]:
        """Mean F1 over the sets, and all mentions: number of the set and of the sentence, begin, end, type."""
        values, mentions = [], set()
        for number, data in enumerate(self.development):
            value, found = self._score_one(engine, data)
            values.append(value)
            mentions |= {(number, *mention) for mention in found}
        return sum(values) / len(values), mentions

    def _score_one(self, engine: Engine, data: TaggedData) -> tuple[float, set[tuple[int, int, int, str]]]:
        kept: list[list[NDArray[np.float32]]] = []

        def score_once(examples: Sequence[Example]) -> list[NDArray[np.float32]]:
            # The score and the mentions are of the same sequences.
            if not kept:
                kept.append(ExampleEngine(engine)(examples))
            return kept[0]

        tagger = Tagger(
            self.transform,
            self.info.label_set,
            score_once,
            self.traced.max_length,
            self.info.stride,
            self.traced.chains[0],
        )
        report = ner.score_data(tagger, data, ner.scored_types(self.info.manifest, data))
        tagged = tagger.tag([s.words for s in data.sentences])
        mentions = {(number, *span) for number, t in enumerate(tagged) for span in read_spans(tagger.tags(t))}
        return report.conll.overall.f1, mentions


class ExampleEngine:
    """An engine in the form that `tasks.tagging.Tagger` takes."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __call__(self, examples: Sequence[Example]) -> list[NDArray[np.float32]]:
        """Scores [picks, labels] of each example."""
        if not examples:
            return []
        lengths = np.array([len(e.ids) for e in examples], np.int64)
        begins = np.append(0, np.cumsum(lengths))
        picks = np.concatenate([e.picks + a for e, a in zip(examples, begins, strict=False)])
        ids = np.concatenate([e.ids for e in examples]).astype(np.int32)
        scores = self.engine(Sequences(ids, begins, picks.astype(np.int64)))
        return np.split(scores, np.cumsum([len(e.picks) for e in examples])[:-1])


def _report(
    engine: str, scheme: str, verdict: _Verdict | None, sentences: int, folder: Path
) -> QuantizeReport:
    size = sum(p.stat().st_size for p in folder.glob("*") if p.suffix in (".bin", ".xml", ".onnx"))
    if verdict is None:
        return QuantizeReport(engine, scheme, None, None, None, 0, sentences, size)
    return QuantizeReport(
        engine,
        scheme,
        verdict.before,
        verdict.after,
        verdict.equal_mentions,
        verdict.mentions,
        sentences,
        size,
    )


def _manifest(
    info: TunedTagger,
    report: QuantizeReport,
    data: Sequence[Path],
    text: Sequence[Path],
    gate: float,
    equal: float,
) -> Manifest:
    inputs = [describe_input(path) for path in (info.folder, *data, *text)]
    config = {"task": "ner", "scheme": report.scheme, "gate": gate, "equal": equal}
    if info.manifest is not None and "marked" in info.manifest.config:
        config["marked"] = info.manifest.config["marked"]
    counts = {
        "dev_f1": report.after,
        "dev_f1_float32": report.before,
        "equal_mentions": report.equal_mentions,
    }
    if report.again is not None:
        counts["again"] = report.again
    return Manifest("tuned", config, inputs=inputs, counts=counts)
