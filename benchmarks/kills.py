"""`kill -9` at random moments over a long run: is the output that of an undisturbed one?

    python benchmarks/kills.py --model TUNED [--documents 20000] [--workers 2] [--kills 20] [--cluster]

Writes documents, annotates them once without disturbance, then again with `--resume`, killing the command at random
moments until it has been killed as often as asked, and compares the outputs byte by byte. With `--cluster` the work
runs on a local Ray cluster of two nodes, and what is killed is one of its workers, again and again, under one command.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

RESULT = Path(__file__).parent / "results"
SENTENCES = (
    "Gout is rare.",
    "Patients with anemia were given heparin.",
    "No effect of aspirin on colitis was seen in mice.",
    "We studied breast cancer, ataxia telangiectasia and ibuprofen.",
)


def write_documents(path: Path, count: int) -> None:
    generator = random.Random(0)
    with path.open("w", encoding="utf-8") as stream:
        for i in range(count):
            text = " ".join(generator.choices(SENTENCES, k=generator.randint(1, 8)))
            stream.write(json.dumps({"id": str(i), "text": text}) + "\n")


def command(source: Path, model: Path, out: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "biosmith", "annotate", str(source), "--model", str(model)),
        *("--out", str(out), "--json", *more),
    ]


def digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def run_to_the_end(call: list[str]) -> tuple[float, dict[str, object]]:
    began = time.monotonic()
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(call)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return time.monotonic() - began, json.loads(done.stdout)


def kill_the_command(
    call: list[str], kills: int, longest: float, generator: random.Random, check: Callable[[], bool]
) -> tuple[int, int, dict[str, object]]:
    """Kill it at a random moment, again and again, then let it end; what ends before its kill is checked and begun anew.

    Returns:
        kills, outputs that were checked on the way, and the last report.
    """
    killed = ended = 0
    while killed < kills:
        run = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            run.wait(timeout=generator.uniform(0, longest))
            if run.returncode or not check():
                sys.exit(f"a run between two kills ended with {run.returncode} and another output")
            ended += 1
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGKILL)
            run.wait()
            killed += 1
            print(f"killed {killed} times", file=sys.stderr)
    return killed, ended, run_to_the_end(call)[1]


def kill_workers(
    call: list[str], kills: int, pause: float, generator: random.Random
) -> tuple[int, dict[str, object]]:
    """One command, whose annotating workers on the cluster are killed under it."""
    run = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    killed = 0
    while run.poll() is None and killed < kills:
        time.sleep(generator.uniform(0.2, pause))
        if victims := annotating_workers():
            os.kill(generator.choice(victims), signal.SIGKILL)
            killed += 1
            print(f"killed {killed} workers", file=sys.stderr)
    printed, complaints = run.communicate()
    if run.returncode:
        sys.exit(f"the command ended with {run.returncode}:\n{complaints[-2000:]}")
    return killed, json.loads(printed)


def annotating_workers() -> list[int]:
    """Ray names the processes of its actors after what they do."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if b"MapBatches(_Worker)" in name:
            found.append(int(folder.name))
    return found


def start_cluster() -> object:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    return cluster


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", default="jsonl")
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        source = folder / "in.jsonl"
        whole, out = folder / f"whole.{arguments.format}", folder / f"out.{arguments.format}"
        write_documents(source, arguments.documents)
        workers = ("--workers", str(arguments.workers))
        seconds, undisturbed = run_to_the_end(command(source, arguments.model, whole, *workers))
        write_documents(folder / "few.jsonl", 10)
        start, _ = run_to_the_end(
            command(folder / "few.jsonl", arguments.model, folder / "few.out.jsonl", *workers)
        )
        print(f"undisturbed: {seconds:.0f} s, of which {start:.0f} s to start", file=sys.stderr)
        ended = 0
        if arguments.cluster:
            cluster = start_cluster()
            call = command(source, arguments.model, out, "--cluster", cluster.address)  # type: ignore[attr-defined]
            killed, disturbed = kill_workers(call, arguments.kills, 10.0, generator)
        else:
            call = command(source, arguments.model, out, *workers, "--resume")

            def check() -> bool:
                same = digest(whole) == digest(out)
                for made in folder.glob("out.*"):
                    made.unlink()
                return same

            # A start takes its time, and each kill should find some work done since the one before.
            longest = start + 2 * (seconds - start) / max(1, arguments.kills)
            killed, ended, disturbed = kill_the_command(call, arguments.kills, longest, generator, check)
        same = digest(whole) == digest(out)
        ids = (
            [json.loads(line)["id"] for line in out.open(encoding="utf-8")]
            if out.suffix == ".jsonl"
            else None
        )
    result = {
        "documents": arguments.documents,
        "workers": arguments.workers,
        "cluster": arguments.cluster,
        "kills": killed,
        "runs_finished_between_kills": ended,
        "seconds_undisturbed": round(seconds, 1),
        "output_equal": same,
        "each_document_once": None if ids is None else ids == [str(i) for i in range(arguments.documents)],
        "counts_equal": all(
            undisturbed[k] == disturbed[k] for k in ("documents", "mentions", "failed", "windows")
        ),
    }
    RESULT.mkdir(exist_ok=True)
    name = "kills_cluster.json" if arguments.cluster else "kills.json"
    (RESULT / name).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))
    sys.exit(0 if same and killed == arguments.kills else 1)


if __name__ == "__main__":
    main()
