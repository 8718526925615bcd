# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""What the programs of ranks share: values, parts, comparison."""

import torch
import torch.distributed as dist

import tilery as ty

# Relative to the largest value: half a unit of the type for the result and for each operand that was
# rounded before. float32 products on GPUs multiply in TF32, whose unit is 2^-10.
UNIT = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7, torch.float32: 2.0**-10}


def ranks() -> tuple[int, int]:
    return dist.get_rank(), dist.get_world_size()


def random(seed: int, *shape, dtype=torch.float32, device="cpu", scale: float = 1.0):
    """The same on all ranks for one seed."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * scale).to(dtype).to(device)


def own(x, dim: int = 0):
    """This rank's part: ceil(extent / ranks) until nothing is left."""
    rank, size = ranks()
    rows = -(-x.shape[dim] // size)
    begin = min(rank * rows, x.shape[dim])
    return x.narrow(dim, begin, min(rows, x.shape[dim] - begin))


def leaf(x, device="cpu"):
    return x.detach().to(device).requires_grad_()


def close(actual, expected, dtype=None, roundings: float = 1, name: str = ""):
    """Within `roundings` units of `dtype`, relative to the largest expected value."""
    dtype = dtype or actual.dtype
    unit = 2.0**-20 if dtype == torch.float32 and actual.device.type == "cpu" else UNIT[dtype]
    assert actual.shape == expected.shape, (name, actual.shape, expected.shape)
    bound = roundings * unit * max(float(expected.detach().abs().max()), 1e-3) if expected.numel() else 0
    error = (actual.detach().cpu().double() - expected.detach().cpu().double()).abs()
    assert not error.numel() or float(error.max()) <= bound, (name, float(error.max()), bound)


def refused(function, *arguments, **options) -> str:
    """The text of the LaunchError."""
    try:
        function(*arguments, **options)
    except ty.Error as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("nothing was refused")
