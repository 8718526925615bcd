# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""torch: tensors as arguments, its current stream, its ranks, and our operators as its own:
those of one rank by `register_ops`, collectives, products that communicate and parallel layers as
functions and classes of this module (docs/torch.md).

torch is imported only by what the user calls for it; the rest looks whether it is there.
"""

from __future__ import annotations

import importlib
import sys

from tilery import _capi
from tilery.arguments import ArrayArgument, checked
from tilery.errors import Error, LaunchError

_state = {"registered": False, "first": None}
# What the modules beside this one give, which import torch.
_GIVEN = {
    "torch_groups": ("team",),
    "torch_collectives": ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast",
                          "sum_gradients", "shard"),
    "torch_products": ("all_gather_matmul", "matmul_reduce_scatter", "matmul_all_reduce",
                       "replicated_matmul"),
    "torch_layers": ("ColumnParallelLinear", "RowParallelLinear"),
}


def argument(name: str, value) -> ArrayArgument:
    """A torch tensor as a kernel argument."""
    from tilery.language import dtypes as dt

    kind = getattr(value.device, "type", str(value.device).partition(":")[0])
    if kind not in ("cpu", "cuda"):
        raise LaunchError(f"argument '{name}' is on device '{kind}', which kernels cannot use")
    device = _number(name, value) if kind == "cuda" else 0
    try:
        element = dt.from_any(value.dtype)
    except Exception:
        raise LaunchError(f"argument '{name}' has element type {value.dtype}, which kernels do "
                          "not know") from None
    if hasattr(value, "is_neg") and value.is_neg():
        raise LaunchError(f"argument '{name}' is a view whose elements torch negates when it reads them (as "
                          "those of x.conj().imag are), while kernels see memory; pass its resolve_neg()")
    strides = [step * value.element_size() for step in value.stride()]
    return checked(name, value.data_ptr(), tuple(value.shape), strides, element, True, value,
                   device)


def _number(name: str, value) -> int:
    """Our number of the tensor's device; makes further launches find it quickly."""
    try:
        first = _first_device()
    except Error as error:
        raise LaunchError(f"argument '{name}' is on device '{value.device}', which tilery cannot "
                          f"use: {error}") from None
    from tilery import devices
    devices.device_of(name, value.data_ptr(), value.shape)
    register()
    index = getattr(value.device, "index", None)
    return first + (index if isinstance(index, int) else 0)


def _first_device() -> int:
    from tilery import devices

    if _state["first"] is None:
        _state["first"] = devices.number("cuda")
    return _state["first"]


def register() -> None:
    """Tells the launch path what torch's tensors are, and whose stream counts."""
    torch = sys.modules.get("torch")
    if _state["registered"] or torch is None or not hasattr(torch, "Tensor"):
        return
    from tilery.language import dtypes as dt

    codes = {}
    for element in dt.ALL[:-1]:
        found = getattr(torch, "bool" if element.is_bool() else element._numpy_name, None)
        if isinstance(found, torch.dtype):
            codes[found] = dt.CODES[element.name]
    current = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    _capi.launcher().register_tensors((torch.Tensor, torch.nn.Parameter), codes, current,
                                      _first_device())
    _state["registered"] = True


def current_stream(device: int) -> int:
    """The handle of torch's current stream on our device of that number; 0: the default one."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda") or not torch.cuda.is_initialized():
        return 0
    return torch.cuda.current_stream(device - _first_device()).cuda_stream


def initialised_ranks() -> dict | None:
    """{"rank", "size"} of an initialised torch.distributed, else None; never imports torch."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return {"rank": distributed.get_rank(), "size": distributed.get_world_size()}


def register_ops() -> dict:
    """Our operators as torch's: `torch.ops.tilery.matmul` and so on, in torch.compile too.

    Returns them by name. Call it once, before torch.compile sees them.

    Example: `register_ops(); torch.ops.tilery.softmax(x)`.
    """
    from tilery.interop.torch_ops import define
    return define()


def __getattr__(name: str):
    module = next((module for module, names in _GIVEN.items() if name in names), None)
    if module is None:
        raise AttributeError(f"tilery.interop.torch has no '{name}'")
    value = globals()[name] = getattr(importlib.import_module(f"tilery.interop.{module}"), name)
    return value


def __dir__():
    return sorted({*globals(), *(name for names in _GIVEN.values() for name in names)})
