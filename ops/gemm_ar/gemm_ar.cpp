// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of gemm_ar: the sum over ranks of a[M, K] @ b[K, N], on every rank.
#include "ops/overlapped.h"

namespace tilery::ops {

// Both forms move the same between two ranks, and one way takes less time than two.
static bool chooseOneShot(const Call &call, int ranks, int64_t bytes) {
  constexpr int64_t small = 256 << 10;
  int form = call.options.choice("form", {"auto", "one_shot", "two_shot"});
  return form == 0 ? ranks <= 2 || bytes <= small : form == 1;
}

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
  Overlapped o(call, {a.data, a.dtype, m, k, stride(a, 0), stride(a, 1)},
               {b.data, b.dtype, k, n, stride(b, 0), stride(b, 1)}, partialDepth);
  const MatmulPlan &p = o.plan;
  tilery_dtype partial = partialType(call, out.dtype, a.dtype);
  int ranks = call.world().size();
  int64_t rows = Shards(m, ranks).rows, size = tilery_dtype_size(partial);
  bool oneShot = chooseOneShot(call, ranks, m * n * size);
  const Workspace &ws = o.agree(
      oneShot ? "one_shot" : "two_shot",
      {.key = dtypeName(partial),
       .slots = o.tiles(oneShot ? m : rows),
       .stageBytes = ranks * (oneShot ? m : rows) * n * size,
       .resultBytes = oneShot ? 0 : ranks * rows * n * size},
      {{"M", m},
       {"N", n},
       {"the element type", a.dtype},
       {"the type of partial sums", partial},
       {"rows of a tile", p.rows},
       {"columns of a tile", p.columns}});
  if (oneShot)
    o.launch("gemm_ar_one_shot", o.instances, memory(a), memory(b), memory(out), ws.stage(partial),
             ws.entered, ws.ready, ws.epochs, m, n, k, ws.stageCapacity(partial), stride(a, 0),
             stride(a, 1), stride(b, 0), stride(b, 1), stride(out, 0), stride(out, 1), partial,
             p.blockM, p.blockN, p.blockK, p.rows, p.columns, p.groupM, accumulator(a.dtype));
  else
    o.launch("gemm_ar_two_shot", o.instances, memory(a), memory(b), memory(out), ws.stage(partial),
             ws.result(partial), ws.entered, ws.ready, ws.done, ws.epochs, m, n, k, rows,
             ws.stageCapacity(partial), ws.resultCapacity(partial), stride(a, 0), stride(a, 1),
             stride(b, 0), stride(b, 1), stride(out, 0), stride(out, 1), partial, p.blockM,
             p.blockN, p.blockK, p.rows, p.columns, p.groupM, accumulator(a.dtype));
}

const Op &gemmArOp() {
  static const Op op{"gemm_ar",
                     "out = the sum of all ranks' a @ b, on every rank",
                     {"a", "b", "out"},
                     overlappedOptions({{"form", "\"auto\""}, {"partials", "\"out\""}}),
                     run,
                     /*communicates=*/true};
  return op;
}

} // namespace tilery::ops
