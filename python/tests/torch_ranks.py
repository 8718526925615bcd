# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Processes that are the ranks of torch.distributed and run programs (torch_*programs.py) on demand, so
that torch is imported once a rank and not once a test."""

import multiprocessing
import os
import time
import traceback
from multiprocessing.connection import wait

LIMIT_S = 150
AFTER_FAILURE_S = 3


def serve(rank: int, size: int, device: str, meeting: str, connection) -> None:
    """A rank: runs what comes until None does. `device` is "cpu" or "cuda"."""
    os.environ.update(TILERY_TIMEOUT_S="30", TILERY_INTERPRET="0", CUDA_DEVICE_MAX_CONNECTIONS="32")
    import torch
    import torch_group_programs
    import torch_programs
    import torch_training
    torch.set_num_threads(1)
    backend = "gloo"
    if device == "cuda":
        gpus = torch.cuda.device_count()
        torch.cuda.set_device(rank % gpus)
        backend = "cpu:gloo,cuda:nccl" if gpus >= size else "gloo"  # NCCL shares no GPU
        os.environ["TILERY_SHARE_DEVICE"] = str(int(gpus < size))
    torch.distributed.init_process_group(backend, init_method=f"file://{meeting}", rank=rank,
                                         world_size=size)
    programs = {**vars(torch_programs), **vars(torch_group_programs), **vars(torch_training)}
    while (work := connection.recv()) is not None:
        name, options = work
        try:
            connection.send((True, programs[name](device, **options)))
        except BaseException:
            connection.send((False, traceback.format_exc()))
    import tilery as ty
    ty.finalize()
    torch.distributed.destroy_process_group()


class Ranks:
    """`size` processes; after a failure others take their place."""

    def __init__(self, size: int, device: str, folder):
        self.size, self.device, self.folder, self.started = size, device, folder, 0
        self.processes, self.connections = [], []

    def __call__(self, program: str, **options) -> list:
        """What the program returned on each rank; fails with the traceback of a rank that failed."""
        if not self.processes:
            self.start()
        for connection in self.connections:
            connection.send((program, options))
        answers = self.answers()
        failures = [f"rank {rank} of {self.size} on {self.device}:\n{answers[rank][1]}"
                    for rank in sorted(answers) if not answers[rank][0]]
        if failures:
            self.stop(kill=True)
            raise AssertionError("\n".join(failures))
        return [answers[rank][1] for rank in range(self.size)]

    def answers(self) -> dict:
        """By rank: whether it went well, and what came of it. After a failure the others, which may
        wait for that rank, have little time left."""
        found, deadline = {}, time.monotonic() + LIMIT_S
        while len(found) < self.size:
            waiting = {self.connections[rank]: rank for rank in range(self.size) if rank not in found}
            ready = wait(waiting, max(0.0, deadline - time.monotonic()))
            if not ready:
                found.update((rank, (False, "no answer in time")) for rank in waiting.values())
            for connection in ready:
                found[waiting[connection]] = self.answer(waiting[connection])
            if not all(right for right, _ in found.values()):
                deadline = min(deadline, time.monotonic() + AFTER_FAILURE_S)
        return found

    def answer(self, rank: int):
        try:
            return self.connections[rank].recv()
        except EOFError:
            self.processes[rank].join(5)
            return False, f"the process ended with status {self.processes[rank].exitcode}"

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.started += 1
        meeting = str(self.folder / f"meeting {self.device} {self.size} {self.started}").replace(" ", "_")
        for rank in range(self.size):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, daemon=True,
                                      args=(rank, self.size, self.device, meeting, theirs))
            process.start()
            theirs.close()
            self.processes.append(process)
            self.connections.append(ours)

    def stop(self, kill: bool = False) -> None:
        for process, connection in zip(self.processes, self.connections):
            if kill:
                process.kill()
            else:
                connection.send(None)
        for process in self.processes:
            process.join(30)
            if process.is_alive():
                process.kill()
        self.processes, self.connections = [], []
