// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of gemm_ar: the sum over ranks of a[M, K] @ b[K, N], on every rank.
#include "ops/overlapped.h"

namespace tilery::ops {

static void run(Call &call) {
  const tilery_tensor &a = call.tensor(0), &b = call.tensor(1), &out = call.tensor(2);
  for (size_t i = 0; i < 3; ++i)
    call.needRank(i, 2);
  call.needType(0, {TILERY_FP32, TILERY_FP16, TILERY_BF16, TILERY_INT8});
  call.needSameType(0, 1);
  int64_t m = a.shape[0], k = a.shape[1], n = b.shape[1];
  call.needDim(1, 0, k, "K of 'a'");
  call.needDim(2, 0, m, "M of 'a'");
  call.needDim(2, 1, n, "N of 'b'");
  if (isFloat(a.dtype) != isFloat(out.dtype))
    call.fail(std::string("'out' is ") + dtypeName(out.dtype) + ", but the product of " +
              dtypeName(a.dtype) + " is " + dtypeName(accumulator(a.dtype)));
  if (m == 0 || n == 0)
    return;
  tilery_dtype partial = accumulator(a.dtype);
  auto result = static_cast<tilery_dtype>(out.dtype);
  Overlapped o(call, m, n, k, a.dtype, partial, n, out.dtype, n);
  const Workspace &ws = *o.ws;
  const Schedule &s = o.schedule;
  o.launch(memory(a), memory(b), memory(out), ws.stage(partial), ws.result(result), ws.entered,
           ws.ready, ws.done, ws.seen, ws.epochs, m, n, k, o.shards.rows, o.shards.chunkRows,
           ws.stageCapacity(partial), ws.resultCapacity(result), stride(a, 0), stride(a, 1),
           stride(b, 0), stride(b, 1), stride(out, 0), stride(out, 1), s.chunks, s.comm, s.first,
           s.blockM, s.blockN, s.blockK, partial);
}

const Op &gemmArOp() {
  static const Op op{"gemm_ar",
                     "out = the sum of all ranks' a @ b, on every rank",
                     {"a", "b", "out"},
                     scheduleOptions(),
                     run,
                     /*communicates=*/true};
  return op;
}

} // namespace tilery::ops
