# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Operators in which ranks meet stay in the program's order under torch.compile.

Their graphs may differ between ranks (a factor that is 1 on one of them), and a compiler that is free to
move operators that do not depend on each other would then do so differently on each rank.
"""

from __future__ import annotations

import sys

from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

ORDERED = _EffectType.ORDERED


def keep_order(operator) -> None:
    """Gives a custom operator the effect `ORDERED`: torch's graphs pass a token from each such operator
    to the next, forwards and backwards."""
    _register_effectful_op(operator._opoverload, ORDERED)


def order_in_inductor(operator) -> None:
    """Call it while a graph is traced. inductor's lowering of tokens notes which operator follows which
    by names that its scheduler does not look up (pytorch/pytorch#189209); this one notes it by those that
    it does. Nothing is done in a process that has not loaded inductor, which takes more than a second."""
    lowering = sys.modules.get("torch._inductor.lowering")
    overload = operator._opoverload
    if lowering is None or overload in lowering.lowerings:
        return
    plain = lowering.fallback_handler(overload)

    def follow(*args, **kwargs):
        graph = lowering.V.graph
        begin, before = len(graph.operations), graph.effectful_ops.get(ORDERED)
        result = plain(*args, **kwargs)
        for made in graph.operations[begin:] if before else ():
            graph.additional_buffer_deps[made.get_operation_name()].add(before.get_name())
        return result

    lowering.register_lowering(overload, type_promotion_kind=None)(follow)
