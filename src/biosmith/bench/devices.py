"""Jobs over devices: in this process for one device, in a worker process each for several.

A worker lives as long as the run, so that the start of a process and the loading of libraries and data are paid once.
A job that fails is told and the others go on; a worker that dies takes only its job with it and is replaced.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field

from biosmith.bench.jobs import Job, run_job
from biosmith.errors import BiosmithError, UsageError
from biosmith.processes import end_with_parent

Done = Callable[[Job, str], None]  # told of each job, with what went wrong or ""


def find_devices(wanted: str) -> list[str]:
    """Devices by their names: "auto" is every CUDA device or else the CPU; several are separated by commas.

    Raises:
        UsageError: a name is no device, or this machine has none of it.
    """
    import torch

    from biosmith.tasks.training import choose_device

    cards = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    if wanted == "auto":
        return cards or ["cpu"]
    if wanted == "cuda" and cards:
        return cards
    devices = [name.strip() for name in wanted.split(",") if name.strip()]
    for name in devices:
        choose_device(name)
    if not devices or len(set(devices)) < len(devices):
        raise UsageError(
            f"device {wanted!r} names no device, or one twice; valid: auto, cpu, cuda, cuda:0,cuda:1"
        )
    return devices


def run_jobs(jobs: Sequence[Job], devices: Sequence[str], done: Done) -> None:
    """Do jobs that have no record yet; `done` is told of each, one call at a time.

    A device that is named several times has as many workers.
    """
    waiting = [job for job in jobs if not job.record.is_file()]
    if len(devices) == 1:
        for job in waiting:
            done(job, _attempt(job, devices[0], 1))
        return
    _run_in_workers(waiting, devices, done)


def _attempt(job: Job, device: str, at_once: int) -> str:
    """Do a job; what went wrong, or ""."""
    try:
        run_job(job, device, at_once)
    except BiosmithError as error:
        return str(error)
    except Exception as error:  # a run of hours must outlive whatever one dataset or model brings
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = str(error).strip().splitlines()
        return f"{type(error).__name__}: {text[0] if text else ''} ({place.name}, line {place.lineno})"
    return ""


def _run_in_workers(jobs: Sequence[Job], devices: Sequence[str], done: Done) -> None:
    shared = _Shared(done)
    for job in jobs:
        shared.tasks.put(job)
    threads = [
        threading.Thread(target=_serve, args=(device, devices.count(device), shared), daemon=True)
        for device in devices
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)
    except BaseException:
        # What is under way has its checkpoint; to wait for it would be to ignore the interrupt.
        shared.stop.set()
        for process in list(shared.processes):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)
        for thread in threads:
            thread.join()
        raise


@dataclass
class _Shared:
    """What the threads share, each of which has a worker process."""

    done: Done
    tasks: queue.SimpleQueue[Job] = field(default_factory=queue.SimpleQueue)
    told: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)
    processes: set[int] = field(default_factory=set)

    def worker(self) -> ProcessPoolExecutor:
        """A new worker process."""
        pool = ProcessPoolExecutor(
            1, mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker
        )
        self.processes.add(pool.submit(os.getpid).result())
        return pool


def _start_worker() -> None:
    """A worker leaves interrupts from the keyboard to its parent, and ends when that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def _serve(device: str, at_once: int, shared: _Shared) -> None:
    worker: ProcessPoolExecutor | None = None
    try:
        while not shared.stop.is_set():
            try:
                job = shared.tasks.get_nowait()
            except queue.Empty:
                return
            try:
                worker = worker or shared.worker()
                problem = worker.submit(_attempt, job, device, at_once).result()
            except BrokenProcessPool:
                if shared.stop.is_set():
                    return
                problem, worker = f"the worker of {device} died (not enough memory?)", None
            with shared.told:
                shared.done(job, problem)
    finally:
        if worker is not None:
            worker.shutdown(wait=not shared.stop.is_set(), cancel_futures=True)
