"""Two networks as one engine: which sequences are read again, the threshold, and folders that hold both."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import biosmith
from biosmith.annotate.engines import Settings, open_readers, quantization, thresholds
from biosmith.annotate.engines.cascade import Cascade, close_sequences
from biosmith.annotate.engines.thresholds import find_threshold
from biosmith.annotate.sequences import Engine, Scores, Sequences
from biosmith.annotate.tuned import read_tuned
from biosmith.artefact import describe_files, load_manifest
from biosmith.cli import main
from biosmith.errors import BadInput, BiosmithError
from biosmith.rejects import Rejects
from biosmith.text.document import Document

openvino = pytest.importorskip("openvino")


class Scorer:
    """An engine whose score of a token in each column depends on its id alone; notes what it reads."""

    name, reason = "scorer", "for a test"

    def __init__(self, columns: list[list[float]]) -> None:
        self.table, self.outputs = np.array(columns, np.float32), len(columns[0])
        self.read: list[list[int]] = []

    def __call__(self, sequences: Sequences) -> Scores:
        self.read += [part.tolist() for part in np.split(sequences.ids, sequences.begins[1:-1])]
        return self.table[sequences.ids[sequences.picks]]


def laid(parts: list[list[int]], unpicked: int = -1) -> Sequences:
    """Sequences of these token ids, of which all but one id are picked."""
    ids = np.array([i for part in parts for i in part], np.int32)
    begins = np.append(0, np.cumsum([len(part) for part in parts])).astype(np.int64)
    return Sequences(ids, begins, np.flatnonzero(ids != unpicked))


# Margins of the best label of the ids 0 to 3: 3, 1, 0.5, 0.
FAST = [[4.0, 1.0, 0.0], [0.0, 2.0, 3.0], [1.0, 1.5, 0.0], [2.0, 2.0, -1.0]]
CAREFUL = [[40.0, 1.0, 0.0], [0.0, 20.0, 3.0], [10.0, 1.5, 0.0], [2.0, 20.0, -1.0]]


def test_a_sequence_is_close_where_one_of_its_picks_is() -> None:
    sequences = laid([[0, 0], [0, 2], [3], [1, 1, 1], [2]])
    scores = np.array(FAST, np.float32)[sequences.ids]

    def close(threshold: float) -> list[int]:
        return close_sequences(sequences, scores, [slice(0, 3)], threshold).tolist()

    assert [close(t) for t in (0.0, 0.1, 0.5, 0.6, 1.1, 3.1)] == [
        [],
        [2],
        [2],
        [1, 2, 4],
        [1, 2, 3, 4],
        [0, 1, 2, 3, 4],
    ]


def test_a_token_that_no_head_reads_is_not_close() -> None:
    sequences = laid([[3, 0], [3], [2, 3]], unpicked=3)
    scores = np.array(FAST, np.float32)[sequences.ids[sequences.picks]]
    assert close_sequences(sequences, scores, [slice(0, 3)], 0.6).tolist() == [2]
    assert close_sequences(laid([[3], []], 3), scores[:0], [slice(0, 3)], 0.6).tolist() == []


def test_each_head_decides_among_its_own_labels() -> None:
    # 5 against 5 is close within a head only: of two heads each is sure.
    scores = np.array([[5.0, 0.0, 5.0, 0.0]], np.float32)
    one = laid([[0]])
    assert close_sequences(one, scores, [slice(0, 2), slice(2, 4)], 1.0).tolist() == []
    assert close_sequences(one, scores, [slice(0, 4)], 1.0).tolist() == [0]
    assert close_sequences(one, scores[:, [0, 2, 1, 3]], [slice(0, 2), slice(2, 4)], 1.0).tolist() == [0]


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), max_size=12),
    st.sampled_from([0.0, 0.3, 0.5, 0.9, 4.0]),
)
@settings(max_examples=100, deadline=None)
def test_company_and_order_decide_nothing(parts: list[list[int]], threshold: float) -> None:
    """A sequence gets the careful scores of all its picks or the fast ones, in its place, as it does alone."""
    fast, careful = Scorer(FAST), Scorer(CAREFUL)
    engine = Cascade(fast, careful, [slice(0, 3)], threshold)
    sequences = laid(parts, unpicked=0)
    found = engine(sequences)
    alone = [engine(laid([part], unpicked=0)) for part in parts]
    assert np.array_equal(found, np.concatenate([np.empty((0, 3), np.float32), *alone]))
    for part, scores in zip(parts, alone, strict=True):
        ids = [i for i in part if i]
        margins = [(3.0, 1.0, 0.5, 0.0)[i] for i in ids]
        expected = CAREFUL if min(margins, default=9.0) < threshold else FAST
        assert scores.tolist() == [expected[i] for i in ids]


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=12), st.data())
@settings(max_examples=100, deadline=None)
def test_sequences_that_are_taken_keep_their_tokens_and_picks(
    parts: list[list[int]], data: st.DataObject
) -> None:
    members = data.draw(st.permutations(range(len(parts))))[: data.draw(st.integers(0, len(parts)))]
    sequences = laid(parts, unpicked=0)
    taken, rows = sequences.take(np.array(members, np.int64))
    expected = laid([parts[i] for i in members], unpicked=0)
    for name in ("ids", "begins", "picks"):
        assert getattr(taken, name).tolist() == getattr(expected, name).tolist()
    assert sequences.ids[sequences.picks[rows]].tolist() == taken.ids[taken.picks].tolist()


def test_the_threshold_is_the_smallest_that_fits_and_no_sequence_is_read_twice() -> None:
    fast, careful = Scorer(FAST), Scorer(CAREFUL)
    sequences = laid([[0, 0, 0], [2], [3, 3], [1, 1], [0, 0]])

    def judge(engine: Engine) -> int:
        """How many sequences get careful scores."""
        return int((engine(sequences).max(axis=1)[[0, 3, 4, 6, 8]] >= 10).sum())

    found = find_threshold(fast, careful, judge, lambda close: close >= 2, 1.0)
    assert found == thresholds.Found(0.6, 3 / 10, 2)  # 0.5 is not below 0.5
    assert sorted(fast.read) == [[0, 0], [0, 0, 0], [1, 1], [2], [3, 3]]
    assert sorted(careful.read) == [[2], [3, 3]]
    assert find_threshold(fast, careful, judge, lambda close: close >= 2, 0.29) is None
    assert find_threshold(fast, careful, judge, lambda close: False, 0.9) is None


def test_a_network_that_fails_leaves_the_next_calls_alone() -> None:
    """As one engine does: the annotator reads the documents of a failed chunk one by one."""

    class Failing(Scorer):
        def __call__(self, sequences: Sequences) -> Scores:
            if 3 in sequences.ids:
                raise RuntimeError("boom")
            return super().__call__(sequences)

    for fast, careful in ((Scorer(FAST), Failing(CAREFUL)), (Failing(FAST), Scorer(CAREFUL))):
        engine = Cascade(fast, careful, [slice(0, 3)], 0.6)
        with pytest.raises(RuntimeError, match="boom"):
            engine(laid([[2], [3]]))
        assert engine(laid([[2], [0]])).tolist() == [CAREFUL[2], FAST[0]]


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled networks go into a folder of this module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def quantize(tuned: Path, out: Path, *, speeds: tuple[float, float], lost: float = 0.5) -> Any:
    """Quantise with engines of given speeds (careful, fast); the networks that are no cascade lose mentions."""
    pytest.importorskip("openvino")

    class Judge(quantization._Judge):
        def __call__(self, engine: Engine) -> quantization._Verdict:
            verdict = super().__call__(engine)
            is_whole = isinstance(engine, Cascade) and engine.threshold >= 0.3
            return dataclasses.replace(verdict, equal_mentions=1.0 if is_whole else 1.0 - lost)

    given_speeds = iter(speeds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantization, "_Judge", Judge)
        patch.setattr(quantization, "tokens_a_second", lambda engine, sequences: next(given_speeds))
        patch.setattr(
            "biosmith.annotate.engines.common_constants.LEAST", 1_000
        )  # bytes; this embedding is small
        training = tuned.parent / "data" / "train.tsv"
        return quantization.quantize(tuned, out, data=[training], gate=100.0, equal=90.0, engine="openvino")


@pytest.fixture(scope="module")
def folder(tagger_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger with a cascade whose threshold was found to be 0.3."""
    out = tmp_path_factory.mktemp("cascade") / "tagger"
    report = quantize(tagger_folder, out, speeds=(1.0, 100.0))
    assert (report.scheme, report.equal_mentions) == (quantization.CASCADE, 1.0)
    return out


def test_a_cascade_is_made_where_int8_alone_changes_too_many_mentions(
    folder: Path, tagger_folder: Path
) -> None:
    manifest = load_manifest(folder)
    network = read_tuned(folder).network
    assert network is not None
    assert (network.file, network.careful, network.threshold) == ("openvino.xml", "careful.xml", 0.3)
    assert manifest.config["scheme"] == quantization.CASCADE
    assert 0 <= manifest.counts["again"] < 0.9
    # Both networks are vouched for.
    assert {"careful.bin", "careful.xml", "openvino.bin", "openvino.xml"} < set(manifest.files)
    assert manifest.files == describe_files(folder)
    assert main(["trace", str(folder)]) == 0


def test_no_cascade_is_made_that_would_be_slower_than_its_careful_network(
    tagger_folder: Path, tmp_path: Path
) -> None:
    """A fast network no faster than the careful one leaves no share that could be read again."""
    with pytest.raises(BiosmithError, match="in int8"):
        quantize(tagger_folder, tmp_path / "slow", speeds=(1.0, 1.0))


def test_int8_that_keeps_enough_mentions_needs_no_second_network(tagger_folder: Path, tmp_path: Path) -> None:
    quantize(tagger_folder, tmp_path / "enough", speeds=(), lost=0.05)
    assert not list((tmp_path / "enough").glob("careful.*"))
    assert read_tuned(tmp_path / "enough").network.careful is None  # type: ignore[union-attr]


def test_a_folder_with_two_networks_opens_as_a_cascade_and_says_so(folder: Path) -> None:
    (reader,) = open_readers({"tagger": folder}, Settings(precision="float32"))
    engine = reader.engine
    assert isinstance(engine, Cascade)
    assert (engine.name, engine.threshold, engine.columns) == ("openvino", 0.3, [reader.heads[0].columns])
    assert engine.reason.endswith("; int8 with float32; sentences with close decisions again in float32")
    for part in (engine.fast, engine.careful):
        assert part.outputs == engine.outputs


def _with(folder: Path, out: Path, **changed: object) -> Path:
    """A copy of a folder with other values in its manifest's `engine`; None takes one away."""
    shutil.copytree(folder, out)
    plain = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    engine = plain["config"]["engine"] | changed
    plain["config"]["engine"] = {key: value for key, value in engine.items() if value is not None}
    (out / "manifest.json").write_text(json.dumps(plain), encoding="utf-8")
    return out


TEXTS = ["Patients with anemia were given heparin.", "Gout is rare.", "No effect of aspirin was seen."] * 5


def scores(folder: Path) -> Scores:
    nlp = biosmith.load(folder, precision="float32")
    return nlp.score(nlp.prepare([Document(str(i), text) for i, text in enumerate(TEXTS)]))[0]


def test_all_or_nothing_is_read_again_at_the_ends_of_the_threshold(
    folder: Path, tagger_folder: Path, tmp_path: Path
) -> None:
    """With any decision close, the scores are nearly those of torch; with none, those of int8 alone."""
    nlp = biosmith.load(tagger_folder, engine="torch", precision="float32")
    in_torch = nlp.score(nlp.prepare([Document(str(i), text) for i, text in enumerate(TEXTS)]))[0]
    fast = scores(_with(folder, tmp_path / "old", careful=None, threshold=None))  # as folders were before
    careful = scores(_with(folder, tmp_path / "all", threshold=1e9))
    assert 2 * np.abs(careful - in_torch).max() < np.abs(fast - in_torch).max()
    assert np.array_equal(scores(_with(folder, tmp_path / "none", threshold=1e-9)), fast)


def test_both_networks_read_one_embedding_which_the_first_file_holds(folder: Path, tmp_path: Path) -> None:
    shapes = {}
    for name in ("openvino.xml", "careful.xml"):
        model = openvino.Core().read_model(folder / name)
        shapes[name] = [
            tuple(op.get_output_shape(0))
            for op in model.get_ops()
            if op.get_type_name() == "Constant"
            and "words" in op.get_friendly_name()
            and len(op.get_output_shape(0)) == 2
        ]
        inputs = {p.get_friendly_name() for p in model.get_parameters()}
        assert (inputs > {"input_ids", "attention_mask"}) == (name == "careful.xml")
    assert len(shapes["openvino.xml"]) == 1 and not shapes["careful.xml"]
    # The careful network with another's embedding would say other things.
    broken = Path(shutil.copytree(folder, tmp_path / "broken"))
    for part in (".xml", ".bin"):
        shutil.copyfile(broken / f"careful{part}", broken / f"openvino{part}")
    with pytest.raises(BadInput, match=r"careful\.xml.* belongs to another openvino\.xml"):
        biosmith.load(broken)


def test_a_processor_without_int8_dot_products_reads_everything_with_the_careful_network(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    careful = scores(_with(folder, tmp_path / "all", threshold=1e9, vnni=True))
    monkeypatch.setattr("biosmith.annotate.engines.openvino_engine.has_int8_dot_products", lambda: False)
    monkeypatch.setattr("biosmith.annotate.engines.has_int8_dot_products", lambda: False)
    other = _with(folder, tmp_path / "vnni", vnni=True)
    (reader,) = open_readers({"tagger": other}, Settings(precision="float32"))
    assert "its second network alone, in float32" in reader.engine.reason
    assert np.array_equal(scores(other), careful)
    portable = _with(folder, tmp_path / "portable", vnni=False)
    assert isinstance(open_readers({"tagger": portable}, Settings())[0].engine, Cascade)


def test_the_same_documents_get_the_same_mentions_each_time(folder: Path) -> None:
    nlp = biosmith.load(folder)
    first, again = ([d.mentions for d in nlp.annotate(TEXTS)] for _ in range(2))
    assert first == again and any(first)


def test_annotating_with_a_cascade_loads_neither_torch_nor_transformers(folder: Path) -> None:
    program = (
        "import sys, biosmith\n"
        f"(d,) = biosmith.load({str(folder)!r}).annotate(['Patients with gout were given aspirin.'])\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_careful_network_that_is_missing_is_noticed_before_anything_is_annotated(
    folder: Path, tmp_path: Path
) -> None:
    broken = Path(shutil.copytree(folder, tmp_path / "broken"))
    (broken / "careful.xml").unlink()
    with pytest.raises(RuntimeError, match=r"careful\.xml"):
        biosmith.load(broken)


def test_a_document_that_breaks_the_careful_network_is_listed_and_the_rest_goes_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nlp = biosmith.load(_with(folder, tmp_path / "all", threshold=1e9))
    engine = nlp.readers[0].engine
    assert isinstance(engine, Cascade)
    careful = engine.careful

    def fragile(sequences: Sequences) -> Scores:
        if 9 in sequences.lengths:  # seven words between two special tokens
            raise RuntimeError("boom")
        return careful(sequences)

    monkeypatch.setattr(engine, "careful", fragile)
    rejects = Rejects()
    documents = [Document(str(i), "Gout is rare." if i != 3 else "a b c d e f g") for i in range(6)]
    done = list(nlp.annotate(documents, rejects=rejects))
    assert [d.id for d in done] == [str(i) for i in range(6) if i != 3] and all(d.mentions for d in done)
    assert rejects.items == [{"file": "annotate", "record": "3", "reason": "RuntimeError: boom"}]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"threshold": "0.3"}, r"config\.engine\.threshold: has to be a number \(found '0\.3'\)"),
        ({"threshold": True}, r"config\.engine\.threshold: has to be a number \(found True\)"),
        ({"careful": 3}, r"config\.engine\.careful: has to be a text \(found 3\)"),
        ({"file": ["openvino.xml"]}, r"config\.engine\.file: has to be a text"),
        ({"threshold": None}, r"config\.engine\.threshold: has to be above 0 .* \(found 0\.0\)"),
        ({"threshold": -1}, r"config\.engine\.threshold: has to be above 0 .* \(found -1\)"),
        ({"threshold": float("nan")}, r"config\.engine\.threshold: has to be above 0 .* \(found nan\)"),
        ({"file": None}, "is not the manifest of a tagger: .*'file'"),
        ({"slow": "x"}, "is not the manifest of a tagger: .*'slow'"),
    ],
)
def test_a_damaged_cascade_is_named_with_file_field_and_value(
    folder: Path, tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput, match=rf"manifest\.json(, |: ){said}"):
        read_tuned(_with(folder, tmp_path / "damaged", **changed))


def test_a_whole_number_is_a_threshold(folder: Path, tmp_path: Path) -> None:
    assert read_tuned(_with(folder, tmp_path / "one", threshold=1)).network.threshold == 1  # type: ignore[union-attr]
