// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of ag_gemm: c[M, N] = all_gather(a) @ b, optionally with the gathered A.
#include "ops/overlapped.h"

namespace tilery::ops {

static void run(Call &call) {
  const tilery_tensor &a = call.tensor(0), &b = call.tensor(1), &c = call.tensor(2);
  for (size_t i = 0; i < 3; ++i)
    call.needRank(i, 2);
  call.needType(0, {TILERY_FP32, TILERY_FP16, TILERY_BF16, TILERY_INT8});
  call.needSameType(0, 1);
  call.needContiguous(0);
  int64_t m = c.shape[0], n = b.shape[1], k = b.shape[0];
  World &world = call.world();
  Shards rows(m, world.size(), Schedule());
  call.needDim(0, 1, k, "K of 'b'");
  call.needDim(0, 0, rows.own(m, world.rank()), "this rank's part of the rows of 'c'");
  call.needDim(2, 1, n, "N of 'b'");
  if (isFloat(a.dtype) != isFloat(c.dtype))
    call.fail(std::string("'c' is ") + dtypeName(c.dtype) + ", but the product of " +
              dtypeName(a.dtype) + " is " + dtypeName(accumulator(a.dtype)));
  if (call.has(3)) {
    call.needSameType(0, 3);
    call.needContiguous(3);
    call.needRank(3, 2);
    call.needDim(3, 0, m, "M of 'c'");
    call.needDim(3, 1, k, "K of 'b'");
  }
  if (m == 0)
    return;
  auto dtype = static_cast<tilery_dtype>(a.dtype);
  Overlapped o(call, m, n, k, a.dtype, dtype, std::max<int64_t>(k, 1));
  const Workspace &ws = *o.ws;
  const Schedule &s = o.schedule;
  auto launch = [&](const auto &gathered) {
    o.launch(memory(a), memory(b), memory(c), gathered, ws.stage(dtype), ws.entered, ws.ready,
             ws.epochs, m, n, k, o.shards.rows, o.shards.chunkRows, ws.stageCapacity(dtype),
             stride(b, 0), stride(b, 1), stride(c, 0), stride(c, 1), s.chunks, s.comm, s.blockM,
             s.blockN, s.blockK, accumulator(dtype));
  };
  if (call.has(3))
    launch(memory(call.tensor(3)));
  else
    launch(nullptr);
}

const Op &agGemmOp() {
  static const Op op{"ag_gemm",
                     "c = all_gather(a) @ b, tiles start as chunks of a arrive",
                     {"a", "b", "c", "gathered?"},
                     scheduleOptions(),
                     run,
                     /*communicates=*/true};
  return op;
}

} // namespace tilery::ops
