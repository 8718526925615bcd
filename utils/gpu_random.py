#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Random programs on a GPU against the CPU: num_stages 1-4, num_warps 1-8 and block sizes by the seed.

Prints the seed and the program of each disagreement, and a summary as JSON. Seeds give the same
programs everywhere: `--seed 17 --count 1` repeats number 17.

  utils/gpu_random.py --count 1000 --seconds 1500 --json out.json   on a machine with a GPU
  utils/gpu_random.py --backend cpu                                 the CPU against the interpreter
  utils/gpu_random.py --backend sm_90a                              compiles, and assembles with ptxas
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from multiprocessing.connection import wait
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python/tests")]

STAGES, WARPS = (1, 2, 3, 4), (1, 2, 4, 8)
# Of one tile; beyond it a kernel spills for minutes of compile time, whatever is computed.
MOST_ELEMENTS_A_THREAD = 128


def configurations(program, choices, count: int) -> list[dict]:
    """Different options of launches that leave a thread a bearable part of the tiles."""
    fitting = [dict(num_stages=stages, num_warps=warps) for stages in STAGES for warps in WARPS
               if program.largest <= 32 * warps * MOST_ELEMENTS_A_THREAD]
    choices.random.shuffle(fitting)
    return fitting[:count]


# --- where a program runs -----------------------------------------------------------------------------


def on_host(program, interpret: bool, **options):
    import tilery as ty
    from kernel_text import make

    arrays = program.arguments()
    with ty.interpret(interpret):
        program.launch(make(program.source), arrays, **options)
    return arrays


def staged(array):
    """A NumPy array on the device."""
    import tilery as ty
    from tilery.language import dtypes
    return ty.zeros(array.shape, dtypes.from_any(array.dtype), device="cuda").copy_from(array)


def as_torch(array):
    import numpy as np
    import torch

    bits = array.view(np.int16) if array.dtype.name == "bfloat16" else array
    tensor = torch.from_numpy(bits.copy()).cuda()
    return tensor.view(torch.bfloat16) if array.dtype.name == "bfloat16" else tensor


def torch_values(tensor, like):
    import torch

    bits = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
    return bits.cpu().numpy().view(like.dtype)


def on_device(program, kernel, kind: str, options: dict):
    import tilery as ty

    host = program.arguments()
    arrays = [as_torch(a) if kind == "torch" else staged(a) for a in host]
    with ty.interpret(False):
        program.launch(kernel, arrays, **options)
        ty.synchronize()
    return [torch_values(a, h) if kind == "torch" else a.numpy() for a, h in zip(arrays, host)]


def assembled(program, kernel, target: str, options: dict) -> str:
    """Compiles for a GPU that need not be there; what ptxas does not like, "" when all is well."""
    import tilery as ty

    with ty.interpret(False):
        ptx = kernel.warmup(*program.arguments(), program.n, 3, ROWS=program.rows, COLS=program.cols,
                            target=target, **options)["ptx"]
    ptxas = shutil.which("ptxas", path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")
    if not ptxas:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        run = subprocess.run([ptxas, "-arch", target, str(source), "-o", str(Path(folder) / "cubin")],
                             capture_output=True, text=True)
    return run.stderr.strip() if run.returncode else ""


def one_program(seed: int, arguments) -> dict:
    """What happened to the program of a seed: how often it ran, and what was wrong."""
    from kernel_text import make
    from programs import LARGE, SMALL, Choices, make_program

    choices = Choices(seed)
    program = make_program(choices, SMALL if arguments.sizes == "small" else LARGE, arguments.steps)
    result = {"seed": seed, "runs": 0, "wrong": []}
    try:
        if arguments.backend == "cpu":
            expected = on_host(program, True)
            chosen = [{}]
        else:
            expected = on_host(program, False) if arguments.backend == "cuda" else None
            chosen = configurations(program, choices, arguments.configurations)
    except Exception:
        result["wrong"].append(report(program, {}, "reference", traceback.format_exc(limit=-2)))
        return result
    kernel = make(program.source)
    for options in chosen:
        if arguments.check_bounds:
            options["check_bounds"] = True
        result["runs"] += 1
        try:
            if expected is None:
                kind, what = "assembler", assembled(program, kernel, arguments.backend, options)
            else:
                actual = on_host(program, False, **options) if arguments.backend == "cpu" else \
                    on_device(program, kernel, arguments.arrays, options)
                kind, what = "disagreement", program.compare(actual, expected)
        except Exception:
            kind, what = "error", traceback.format_exc(limit=-2)
        if what:
            result["wrong"].append(report(program, options, kind, what))
            if "device is lost" in what:
                result["lost"] = True
                break
    return result


def report(program, options: dict, kind: str, what: str) -> dict:
    return {"kind": kind, "options": options, "what": what, "program": repr(program)}


# --- processes ------------------------------------------------------------------------------------------


def serve(connection, arguments, errors: str) -> None:
    """A worker: programs of the seeds that come, until the pipe ends or the device is lost. What the
    process says when it is aborted goes to the file `errors`."""
    os.dup2(os.open(errors, os.O_WRONLY | os.O_APPEND), 2)
    faulthandler.enable()
    os.environ.setdefault("TILERY_TIMEOUT_S", "20")
    while True:
        try:
            seed = connection.recv()
        except EOFError:
            return
        result = one_program(seed, arguments)
        connection.send(result)
        if result.get("lost"):
            return


class Worker:
    def __init__(self, context, arguments):
        self.connection, theirs = context.Pipe()
        self.errors = tempfile.NamedTemporaryFile(prefix="gpu_random_")
        self.process = context.Process(target=serve, args=(theirs, arguments, self.errors.name),
                                       daemon=True)
        self.process.start()
        theirs.close()
        self.seed, self.since = None, 0.0

    def give(self, seed: int) -> None:
        self.seed, self.since = seed, time.monotonic()
        self.connection.send(seed)

    def take(self) -> dict | None:
        """The result; None when the process has ended without one."""
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            return None

    def last_words(self) -> str:
        return Path(self.errors.name).read_text(errors="replace")[-2000:]

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


class Campaign:
    def __init__(self, arguments):
        self.arguments = arguments
        self.context = multiprocessing.get_context("spawn")
        self.seeds = iter(range(arguments.seed, arguments.seed + arguments.count))
        self.workers: list[Worker] = []
        self.begin = time.monotonic()
        self.summary = {"backend": arguments.backend, "first_seed": arguments.seed, "programs": 0,
                        "runs": 0, "wrong": []}

    def next_seed(self) -> int | None:
        late = self.arguments.seconds and time.monotonic() - self.begin > self.arguments.seconds
        return None if late else next(self.seeds, None)

    def start(self) -> None:
        seed = self.next_seed()
        if seed is not None:
            self.workers.append(Worker(self.context, self.arguments))
            self.workers[-1].give(seed)

    def drop(self, worker: Worker) -> None:
        worker.end()
        self.workers.remove(worker)

    def note(self, result: dict) -> None:
        self.summary["programs"] += 1
        self.summary["runs"] += result["runs"]
        for wrong in result["wrong"]:
            wrong = {"seed": result["seed"], **wrong}
            self.summary["wrong"].append(wrong)
            print(f"seed {wrong['seed']} {wrong['options']}: {wrong['kind']}: {wrong['what']}\n"
                  f"{wrong.get('program', '')}\n", flush=True)

    def lose(self, worker: Worker, why: str) -> None:
        """A worker that ended or hangs; its seed is to blame."""
        self.note({"seed": worker.seed, "runs": 0,
                   "wrong": [{"kind": "process", "options": {}, "what": why}]})
        self.drop(worker)
        self.start()

    def finished(self, worker: Worker) -> None:
        result = worker.take()
        if result is None:
            worker.process.join()
            return self.lose(worker, f"the process ended with {worker.process.exitcode}\n"
                                     + worker.last_words())
        self.note(result)
        seed = None if result.get("lost") else self.next_seed()
        if seed is None:
            self.drop(worker)
            if result.get("lost"):
                self.start()
        else:
            worker.give(seed)

    def run(self) -> dict:
        for _ in range(self.arguments.jobs):
            self.start()
        while self.workers:
            ready = wait([worker.connection for worker in self.workers], timeout=1)
            for worker in [w for w in self.workers if w.connection in ready]:
                self.finished(worker)
            for worker in list(self.workers):
                if time.monotonic() - worker.since > self.arguments.limit:
                    self.lose(worker, f"no end after {self.arguments.limit:.0f} s")
        self.summary["seconds"] = round(time.monotonic() - self.begin, 1)
        return self.summary


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="cuda", help="cuda, cpu, or a GPU to compile for only")
    parser.add_argument("--count", type=int, default=100, help="programs")
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--seconds", type=float, default=0, help="start no program later; 0: no limit")
    parser.add_argument("--limit", type=float, default=180, help="seconds of one program")
    parser.add_argument("--configurations", type=int, default=4, help="of launches for each program")
    parser.add_argument("--sizes", choices=["small", "large"], default="large", help="of tiles")
    parser.add_argument("--check-bounds", action="store_true", help="check every access, too")
    parser.add_argument("--steps", type=int, default=8, help="of a program at most")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count(), 32), help="processes")
    parser.add_argument("--arrays", choices=["numpy", "torch"], default="numpy",
                        help="what the device's arguments are")
    parser.add_argument("--json", help="file for the summary")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    summary = Campaign(arguments).run()
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(summary, indent=1))
    kinds: dict[str, int] = {}
    for wrong in summary["wrong"]:
        kinds[wrong["kind"]] = kinds.get(wrong["kind"], 0) + 1
    print(json.dumps({**{k: v for k, v in summary.items() if k != "wrong"}, "wrong": kinds}))
    return bool(summary["wrong"]) or summary["programs"] == 0


if __name__ == "__main__":
    sys.exit(main())
