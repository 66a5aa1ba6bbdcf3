"""Many clients at once: what a service answers, how fast, and whether its memory stays flat.

    python benchmarks/service.py --model TUNED [--clients 200] [--seconds 60]

Starts `biosmith serve` on a free port of this machine and lets clients ask it as fast as it answers, each with texts of
its own that carry a number. Every answer must be of its own text, hold the mentions that the model finds there when
nobody else is asking, and be 200, or 503 with Retry-After. The load ends by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import httpx
import numpy as np

import biosmith
from biosmith.text.document import Document, Passage

RESULT = Path(__file__).parent / "results" / "service.json"
SENTENCES = (
    "Gout is rare.",
    "Patients with anemia were given heparin.",
    "No effect of aspirin on colitis was seen in mice.",
    "Mutations of the BRCA1 gene predispose to familial breast cancer.",
    "We studied ataxia telangiectasia and ibuprofen.",
)
MEMORY_EVERY_SECONDS = 1.0


class Load:
    """What clients send, and what became of it."""

    def __init__(self, url: str, expected: dict[str, list[list[object]]], ends: float) -> None:
        self.url, self.expected, self.ends = url, expected, ends
        self.statuses: Counter[str] = Counter()
        self.seconds: list[float] = []
        self.mixed_up = self.without_retry_after = self.sent = 0

    async def client(self, number: int) -> None:
        generator = random.Random(number)
        limits = httpx.Limits(max_connections=1)
        async with httpx.AsyncClient(base_url=self.url, timeout=120, limits=limits) as http:
            asked = 0
            while time.monotonic() < self.ends:
                asked += 1
                chosen = generator.choices(SENTENCES, k=generator.randint(1, 8))
                documents = [{"id": f"{number}-{asked}-{i}", "text": s} for i, s in enumerate(chosen)]
                began = time.monotonic()
                self.sent += 1
                try:
                    answer = await http.post("/v1/annotate", json={"documents": documents})
                except httpx.HTTPError as error:
                    self.statuses[type(error).__name__] += 1
                    continue
                self.statuses[str(answer.status_code)] += 1
                if answer.status_code == 200:
                    self.seconds.append(time.monotonic() - began)
                    self.mixed_up += not self.is_right(documents, answer.json())
                elif answer.status_code == 503:
                    self.without_retry_after += "retry-after" not in answer.headers
                    await asyncio.sleep(generator.uniform(0.5, 1.5))

    def is_right(self, documents: list[dict[str, str]], answer: dict[str, list[dict[str, object]]]) -> bool:
        given = answer["documents"]
        return len(given) == len(documents) and all(
            a["id"] == d["id"] and a["text"] == d["text"] and spans(a["mentions"]) == self.expected[d["text"]]
            for a, d in zip(given, documents, strict=True)
        )


def spans(mentions: object) -> list[list[object]]:
    assert isinstance(mentions, list)
    return [[m["start"], m["end"], m["type"]] for m in mentions]


def resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


async def run(load: Load, clients: int, pid: int) -> list[float]:
    memory: list[float] = []

    async def watch() -> None:
        while True:
            memory.append(resident_mib(pid))
            await asyncio.sleep(MEMORY_EVERY_SECONDS)

    watcher = asyncio.create_task(watch())
    await asyncio.gather(*(load.client(number) for number in range(clients)))
    watcher.cancel()
    return memory


def start(model: Path) -> tuple[subprocess.Popen[str], str]:
    call = [sys.executable, "-m", "biosmith", "serve", "--model", str(model), "--port", "0"]
    service = subprocess.Popen(call, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert service.stderr is not None
    for line in service.stderr:
        if found := re.search(r"http://[^ ]+/", line):
            return service, found[0]
    sys.exit("the service did not start")


def wait_until_well(url: str) -> None:
    for _ in range(300):
        try:
            if httpx.get(f"{url}health").status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.2)
    sys.exit("the service does not answer")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    nlp = biosmith.load(arguments.model)
    alone = [next(iter(nlp.annotate([Document("", s, (Passage("paragraph", s),))]))) for s in SENTENCES]
    expected = {d.text: [[m.start, m.end, m.type] for m in d.mentions] for d in alone}
    service, url = start(arguments.model)
    try:
        wait_until_well(url)
        load = Load(url, expected, time.monotonic() + arguments.seconds)
        began = time.monotonic()
        memory = asyncio.run(run(load, arguments.clients, service.pid))
        lasted = time.monotonic() - began
        is_well = httpx.get(f"{url}health", timeout=30).status_code == 200
    finally:
        service.terminate()
        service.wait(timeout=30)
    answered = load.statuses["200"]
    # The first third is for caches and pools to fill.
    settled = memory[len(memory) // 3 :] or [0.0]
    slope = float(np.polyfit(np.arange(len(settled)), settled, 1)[0]) if len(settled) > 2 else 0.0
    result = {
        "clients": arguments.clients,
        "seconds": round(lasted, 1),
        "requests": load.sent,
        "statuses": dict(load.statuses),
        "mixed_up": load.mixed_up,
        "lost": load.sent - sum(load.statuses.values()),
        "503_without_retry_after": load.without_retry_after,
        "requests_per_second": round(answered / lasted, 1),
        "latency_seconds": {f"p{q}": round(float(np.percentile(load.seconds, q)), 3) for q in (50, 95, 99)},
        "memory_mib": {"first": round(memory[0]), "peak": round(max(memory)), "last": round(memory[-1])},
        "memory_slope_mib_a_minute": round(slope * 60 / MEMORY_EVERY_SECONDS, 2),
        "well_afterwards": is_well,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))
    bad = set(load.statuses) - {"200", "503"}
    sys.exit(1 if bad or load.mixed_up or result["lost"] or load.without_retry_after or not is_well else 0)


if __name__ == "__main__":
    main()
