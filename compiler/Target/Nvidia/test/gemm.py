# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
# RUN: %tilery compile %s -f gemm -s "*bf16:16, *bf16:16, *bf16:16, i32, i32:16, i32, i32:16, i32:16, i32:16, 128, 128, 64" -O num_warps=8 -t sm_90a -e ptx | FileCheck %s --check-prefix=HOPPER
# RUN: %tilery compile %s -f gemm -s "*bf16:16, *bf16:16, *bf16:16, i32, i32:16, i32, i32:16, i32:16, i32:16, 128, 128, 64" -O num_warps=8 -t sm_80 -e ptx | FileCheck %s --check-prefix=AMPERE
# RUN: %tilery compile %s -f gemm -s "*bf16:16, *bf16:16, *bf16:16, i32, i32:16, i32, i32:16, i32:16, i32:16, 128, 128, 64" -O num_warps=8 -t sm_89 -e ptx | FileCheck %s --check-prefix=AMPERE
import tilery as ty
import tilery.language as tl


# Three tensor maps by value, fetched at once, four more warps than asked for, barriers that copies see.
# HOPPER: .param .align 64 .b8 gemm_param_9[128]
# HOPPER: .param .align 64 .b8 gemm_param_10[128]
# HOPPER: .param .align 64 .b8 gemm_param_11[128]
# HOPPER: .reqntid 384
# HOPPER-COUNT-3: prefetch.tensormap
# HOPPER: mbarrier.init.shared::cta.b64
# HOPPER: fence.mbarrier_init.release.cluster
# HOPPER: fence.proxy.async.shared::cta
# HOPPER: bar.sync
# Nothing in the roles waits for all of the block or orders all memory.
# HOPPER-NOT: membar
# HOPPER-NOT: mma.sync
# HOPPER-NOT: bar.sync {{.*}}0;
# HOPPER-DAG: setmaxnreg.dec.sync.aligned.u32 24
# HOPPER-DAG: setmaxnreg.inc.sync.aligned.u32 240
# HOPPER-DAG: mbarrier.arrive.expect_tx.shared::cta.b64 {{.*}}, 32768;
# HOPPER-DAG: cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
# HOPPER-DAG: mbarrier.try_wait.parity.shared::cta.b64
# HOPPER-DAG: wgmma.fence.sync.aligned
# HOPPER-DAG: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
# HOPPER-DAG: wgmma.commit_group.sync.aligned
# HOPPER-DAG: wgmma.wait_group.sync.aligned 1
# HOPPER-DAG: wgmma.wait_group.sync.aligned 0
# HOPPER-DAG: mbarrier.arrive.shared::cta.b64
# HOPPER-NOT: st.global
# HOPPER: ret;

# Without these engines threads start the copies themselves, 16 bytes at a time where the mask is the same
# for them, and one barrier an iteration says that all have come. Here the mask is cut off at any K along
# rows of the left operand, so that these are loaded as they are.
# AMPERE-NOT: {{wgmma|mbarrier|cp.async.bulk|setmaxnreg}}
# AMPERE: .reqntid 256
# AMPERE-NOT: {{wgmma|mbarrier|cp.async.bulk|setmaxnreg}}
# AMPERE-DAG: cp.async.cg.shared.global [{{.*}}], [{{.*}}], 16, {{.*}};
# AMPERE-DAG: cp.async.commit_group;
# AMPERE-DAG: cp.async.wait_group 1;
# AMPERE-DAG: bar.sync 0;
# AMPERE-DAG: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
# AMPERE-DAG: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
# AMPERE: ret;
@ty.jit
def gemm(a, b, c, M, N, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * sa + rk[None, :],
                    mask=(m[:, None] < M) & (rk[None, :] < K), other=0.0)
        y = tl.load(b + rk[:, None] * sb + n[None, :],
                    mask=(rk[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * sc + n[None, :], acc.to(tl.bfloat16),
             mask=(m[:, None] < M) & (n[None, :] < N))
