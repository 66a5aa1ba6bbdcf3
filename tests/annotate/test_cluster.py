"""The same work on a Ray cluster."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from biosmith.annotate import cluster
from biosmith.annotate.cluster import _in_order
from biosmith.annotate.files import annotate_files
from biosmith.annotate.units import Chunk
from biosmith.annotate.work import Outcome
from biosmith.errors import BiosmithError, UsageError
from biosmith.text.document import Document


def row(outcome: Outcome) -> dict[str, object]:
    return {"unit": outcome.unit, "number": outcome.number, "outcome": pickle.dumps(outcome)}


@pytest.mark.parametrize("seed", range(5))
def test_outcomes_in_any_order_and_twice_are_taken_once_and_in_order(seed: int) -> None:
    # Ray does the work of a lost machine again, and some of it may have arrived before.
    outcomes = [Outcome(unit, n, n == 3, 10) for unit in (0, 2, 5) for n in range(4)]
    rows = [row(o) for o in [*outcomes, *outcomes[3:8]]]
    random.Random(seed).shuffle(rows)
    taken = [(o.unit, o.number) for o in _in_order(rows, [(0, 0), (2, 0), (5, 0)])]
    assert taken == [(unit, n) for unit in (0, 2, 5) for n in range(4)]


def test_units_that_were_begun_go_on_at_their_next_chunk() -> None:
    rows = [row(Outcome(4, 2, False, 10)), row(Outcome(4, 3, True, 0))]
    assert [o.number for o in _in_order(rows, [(4, 2)])] == [2, 3]


def test_a_chunk_that_never_comes_is_an_error() -> None:
    rows = [row(Outcome(0, 0, False, 10)), row(Outcome(0, 2, True, 0))]
    with pytest.raises(BiosmithError, match="lost chunk 1 of unit 0"):
        list(_in_order(rows, [(0, 0)]))


class Killed(BaseException):
    """Ends a worker like SIGKILL: nothing that it had begun is ended."""


class Remote:
    """A method of an actor, called here."""

    def __init__(self, method: Callable[..., object]) -> None:
        self.remote = method


class Attempts:
    def __init__(self) -> None:
        counts = cluster._Attempts()
        self.begin, self.end = Remote(counts.begin), Remote(counts.end)


def test_only_documents_that_were_under_way_when_their_process_was_killed_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = pytest.importorskip("ray")

    def annotate(nlp: object, chunk: Chunk, encoding: str) -> Outcome:
        if any(d.text == "deadly" for d in chunk.documents):
            raise Killed
        outcome = Outcome.of(chunk)
        outcome.counts.documents = len(chunk.documents)
        return outcome

    monkeypatch.setattr(ray, "get", lambda value: value)
    monkeypatch.setattr(cluster, "annotate_chunk", annotate)
    worker = object.__new__(cluster._Worker)
    worker.nlp, worker.encoding, worker.attempts = None, "jsonl", Attempts()  # type: ignore[assignment]
    documents = [Document(str(i), "deadly" if i in (3, 5) else "harmless") for i in range(8)]
    batch = {"chunk": [pickle.dumps(Chunk(0, 0, documents, []))]}
    kills = 0
    while True:  # Ray does a chunk again whose actor was killed
        try:
            outcome = pickle.loads(worker(batch)["outcome"][0])
            break
        except Killed:
            kills += 1
    assert [f["record"] for f in outcome.failures] == ["3", "5"]
    assert (outcome.counts.documents, outcome.counts.failed, outcome.read) == (6, 2, 8)
    assert kills == 3 * cluster.TRIES


@pytest.mark.slow
def test_two_nodes_give_what_this_process_gives_though_workers_are_killed(
    tagger_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    texts = ["Patients with anemia were given heparin. Gout is rare. " * (i % 5) for i in range(600)]
    (tmp_path / "in").mkdir()
    for part in range(2):
        records = [{"id": f"{part}-{i}", "text": text} for i, text in enumerate(texts)]
        lines = [json.dumps(r) + "\n" for r in records]
        lines.insert(100, "{broken\n")
        (tmp_path / "in" / f"{part}.jsonl").write_text("".join(lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    here, there = Path("here.jsonl"), Path("there.jsonl")
    first = annotate_files([Path("in")], [tagger_folder], here)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1)
        killer = threading.Thread(target=kill_a_worker, daemon=True)
        killer.start()
        report = annotate_files([Path("in")], [tagger_folder], there, cluster=cluster.address)
        killer.join(timeout=1)
        assert not killer.is_alive(), "no worker was found to kill"
    finally:
        cluster.shutdown()
    assert there.read_bytes() == here.read_bytes()
    listed = [Path(f"{name}.jsonl.rejects.jsonl").read_text(encoding="utf-8") for name in ("here", "there")]
    assert listed[0] == listed[1]
    timed = {"documents_per_second", "tokens_per_second"}
    assert {k: v for k, v in report.as_dict().items() if k not in timed} == {
        k: v for k, v in first.as_dict().items() if k not in timed
    }


def kill_a_worker() -> None:
    """The first process that annotates; Ray names them so."""
    while True:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                name = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if b"MapBatches(_Worker)" in name:
                os.kill(int(folder.name), signal.SIGKILL)
                return
        time.sleep(0.02)


@pytest.mark.slow
def test_no_cluster_at_the_address_is_a_wrong_call(tagger_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    (tmp_path / "in.jsonl").write_text('{"id": "1", "text": "Gout."}\n', encoding="utf-8")
    with pytest.raises(UsageError, match="no Ray cluster at 'nowhere'"):
        annotate_files([tmp_path / "in.jsonl"], [tagger_folder], tmp_path / "out.jsonl", cluster="nowhere")


def test_an_address_where_nothing_listens_is_refused_at_once(tmp_path: Path) -> None:
    """Ray itself would try to reach it for minutes."""
    import socket

    from biosmith.annotate.cluster import _require_listening

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        _require_listening(f"127.0.0.1:{port}")
        _require_listening(f"ray://127.0.0.1:{port}")
    for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}", "127.0.0.1:99999"):
        with pytest.raises(UsageError, match="no Ray cluster at"):
            _require_listening(address)
    _require_listening("auto")
