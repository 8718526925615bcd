# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
# Tiles that are loaded behind a loop of products: the producer asks the L2 cache for them when it begins a tile.
# RUN: %tilery compile %s -f added -s "*bf16:16, *bf16:16, *bf16:16, *bf16:16, i32, i32:16, i32, i32:16, i32:16, i32:16, i32:16, True, False, False, 128, 256, 64" -O num_warps=8 -t sm_90a -e ptx | FileCheck %s --check-prefix=ADDED
# RUN: %tilery compile %s -f added -s "*bf16:16, *bf16:16, *bf16:16, *bf16:16, i32, i32:16, i32, i32:16, i32:16, i32:16, i32:16, False, False, False, 128, 256, 64" -O num_warps=8 -t sm_90a -e ptx | FileCheck %s --check-prefix=NONE
# RUN: %tilery compile %s -f added -s "*bf16:16, *bf16:16, *bf16:16, *bf16:16, i32, i32:16, i32, i32:16, i32:16, i32:16, i32:16, True, True, False, 128, 256, 64" -O num_warps=8 -t sm_90a -e ptx | FileCheck %s --check-prefix=NONE
# RUN: %tilery compile %s -f added -s "*bf16:16, *bf16:16, *bf16:16, *bf16:16, i32, i32:16, i32, i32:16, i32:16, i32:16, i32:16, True, False, True, 128, 256, 64" -O num_warps=8 -t sm_90a -e ptx | FileCheck %s --check-prefix=NONE
# RUN: %tilery compile %s -f added -s "*bf16:16, *bf16:16, *bf16:16, *bf16:16, i32, i32:16, i32, i32:16, i32:16, i32:16, i32, True, False, False, 128, 256, 64" -O num_warps=8 -t sm_90a -e ptx | FileCheck %s --check-prefix=NONE
# RUN: %tilery compile %s -f added -s "*bf16:16, *bf16:16, *bf16:16, *i8:16, i32, i32:16, i32, i32:16, i32:16, i32:16, i32:16, True, False, False, 64, 64, 64" -O num_warps=4 -t sm_90a -e ptx | FileCheck %s --check-prefix=NONE
import tilery as ty
import tilery.language as tl


# A panel of 64 columns each, before the first copy of the tile, and nothing waited for in between.
# ADDED: .param .align 64 .b8 added_param_14[128]
# ADDED: ret;
# ADDED-NOT: mbarrier.try_wait
# ADDED-COUNT-4: cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd{{[0-9]+}}, {%r{{[0-9]+}}, %r{{[0-9]+}}}];
# ADDED-NOT: prefetch
# ADDED: mbarrier.try_wait
# ADDED: cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier

# Without such a load; where its mask says more than where the array ends; where its address is not
# known before the products; where rows are not aligned for tensor maps; where it is small.
# NONE-NOT: cp.async.bulk.prefetch
# NONE: cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier
# NONE-NOT: cp.async.bulk.prefetch
@ty.jit
def added(a, b, c, r, M, N, K, sa, sb, sc, sr, ADD: tl.constexpr, ODD: tl.constexpr,
          LATE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tiles_n = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * tiles_n, tl.num_programs(0)):
        m = tile // tiles_n * BM + tl.arange(0, BM)
        n = tile % tiles_n * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            rk = k + tl.arange(0, BK)
            x = tl.load(a + m[:, None] * sa + rk[None, :], mask=(m[:, None] < M) & (rk[None, :] < K),
                        other=0.0)
            y = tl.load(b + rk[:, None] * sb + n[None, :], mask=(rk[:, None] < K) & (n[None, :] < N),
                        other=0.0)
            acc = tl.dot(x, y, acc)
        inside = (m[:, None] < M) & (n[None, :] < N)
        if ADD:
            wanted = inside
            if ODD:
                wanted = wanted & (m[:, None] % 2 == 1)
            first = r
            if LATE:
                first += tl.sum(tl.sum(acc, axis=1), axis=0).to(tl.int32) * sr
            acc += tl.load(first + m[:, None] * sr + n[None, :], mask=wanted, other=0.0)
        tl.store(c + m[:, None] * sc + n[None, :], acc.to(tl.bfloat16), mask=inside)
