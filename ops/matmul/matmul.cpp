// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of matmul: c[M, N] = a[M, K] @ b[K, N], any strides.
#include "ops/kernels.h"
#include "ops/registry.h"
#include "ops/schedule.h"

namespace tilery::ops {

static void run(Call &call) {
  const tilery_tensor &a = call.tensor(0), &b = call.tensor(1), &c = call.tensor(2);
  for (size_t i = 0; i < 3; ++i)
    call.needRank(i, 2);
  call.needType(0, {TILERY_FP32, TILERY_FP16, TILERY_BF16, TILERY_FP64, TILERY_INT8});
  call.needSameType(0, 1);
  int64_t m = a.shape[0], k = a.shape[1], n = b.shape[1];
  call.needDim(1, 0, k, "K of 'a'");
  call.needDim(2, 0, m, "M of 'a'");
  call.needDim(2, 1, n, "N of 'b'");
  if (isFloat(a.dtype) != isFloat(c.dtype))
    call.fail(std::string("'c' is ") + dtypeName(c.dtype) + ", but the product of " +
              dtypeName(a.dtype) + " is " + dtypeName(accumulator(a.dtype)));
  Schedule s = chooseSchedule(call, {m, n, k, a.dtype, 1});
  int64_t tiles = ceilDiv(m, s.blockM) * ceilDiv(n, s.blockN);
  kernel("matmul", "matmul")
      .launchOn(call.worldOrNull(), {tiles}, memory(a), memory(b), memory(c), m, n, k, stride(a, 0),
                stride(a, 1), stride(b, 0), stride(b, 1), stride(c, 0), stride(c, 1), s.blockM,
                s.blockN, s.blockK, s.groupM, accumulator(a.dtype));
}

const Op &matmulOp() {
  static const Op op{"matmul", "c = a @ b on one rank", {"a", "b", "c"}, scheduleOptions(), run};
  return op;
}

} // namespace tilery::ops
