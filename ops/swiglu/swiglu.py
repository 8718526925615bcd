# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""SwiGLU: silu(gate) * up, of two arrays or of the two halves of one."""

import tilery as ty
import tilery.language as tl


@ty.jit
def swiglu(gate, up, out, N, blocks, stride_g, stride_u, stride_o, BLOCK: tl.constexpr,
           WHOLE: tl.constexpr):
    """out = gate / (1 + exp(-gate)) * up, computed in float32; grid (rows x blocks,).

    Rows have N elements, are `stride_*` elements apart and are divided into `blocks` of BLOCK.
    WHOLE: N is a multiple of BLOCK, so nothing is masked. `out` may be `gate` or `up`.
    """
    row = (tl.program_id(0) // blocks).to(tl.int64)
    at = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    inside = (at < N) | WHOLE
    g = tl.load(gate + row * stride_g + at, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(up + row * stride_u + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * stride_o + at, tl.fdiv(g, 1.0 + tl.exp(-g)) * u, mask=inside)
