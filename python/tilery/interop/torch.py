# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""torch tensors as arguments, and an initialised torch.distributed as a source of ranks."""

from __future__ import annotations

import sys

from tilery.arguments import ArrayArgument, checked
from tilery.errors import LaunchError


def argument(name: str, value) -> ArrayArgument:
    """A torch CPU tensor as a kernel argument."""
    from tilery.language import dtypes as dt

    device = getattr(value.device, "type", str(value.device))
    if device != "cpu":
        raise LaunchError(f"argument '{name}' is on device '{device}', the kernel runs on the CPU")
    try:
        element = dt.from_any(value.dtype)
    except Exception:
        raise LaunchError(f"argument '{name}' has element type {value.dtype}, which kernels do "
                          "not know") from None
    strides = [step * value.element_size() for step in value.stride()]
    return checked(name, value.data_ptr(), tuple(value.shape), strides, element, True, value)


def initialised_ranks() -> dict | None:
    """{"rank", "size"} of an initialised torch.distributed, else None; never imports torch."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return {"rank": distributed.get_rank(), "size": distributed.get_world_size()}
