// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of gemm_ar: the sum over ranks of a[M, K] @ b[K, N], on every rank.
#include "ops/collective.h"
#include "ops/overlapped.h"

namespace tilery::ops {

// Where instances take turns: one-shot and two-shot move the same between two ranks, and one way takes
// less time than two.
static const char *formOnHost(int ranks, int64_t bytes) {
  constexpr int64_t small = 256 << 10;
  return ranks <= 2 || bytes <= small ? "one_shot" : "two_shot";
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
  Matrix left{a.data, a.dtype, m, k, stride(a, 0), stride(a, 1)},
      right{b.data, b.dtype, k, n, stride(b, 0), stride(b, 1)},
      result{out.data, out.dtype, m, n, stride(out, 0), stride(out, 1)};
  tilery_dtype partial = partialType(call, out.dtype, a.dtype);
  int ranks = call.world().size();
  int64_t rows = Shards(m, ranks).rows, size = tilery_dtype_size(partial);
  AgreedProduct agreed = agreeOnProduct(call, partialSums(call, m, n, a.dtype, partial), left, right);
  std::string form = chooseProductForm(call, {"auto", "one_shot", "two_shot", "scattered", "unfused"},
                                       formOnHost(ranks, m * n * size), agreed, size, partialDepth);
  if (form == "unfused")
    return reduceUnfused(call, left, right, result, partial, "all_reduce");
  if (form == "scattered")
    return reduceScattered(call, left, right, result);
  bool oneShot = form == "one_shot";
  Overlapped o(call, agreed, n, partialDepth);
  o.leaveRoomToSend(tilery_dtype_size(static_cast<tilery_dtype>(a.dtype)), partial);
  const MatmulPlan &p = o.plan;
  const Workspace &ws = o.memoryOf(form, {.key = dtypeName(partial),
                                          .slots = o.tiles(oneShot ? m : rows),
                                          .stageBytes = ranks * (oneShot ? m : rows) * n * size,
                                          .resultBytes = oneShot ? 0 : ranks * rows * n * size});
  if (oneShot)
    o.launch("gemm_ar_one_shot", {}, memory(a), memory(b), memory(out), ws.stage(partial),
             ws.entered, ws.ready, ws.epochs, m, n, k, ws.stageCapacity(partial), stride(a, 0),
             stride(a, 1), stride(b, 0), stride(b, 1), stride(out, 0), stride(out, 1), partial,
             p.blockM, p.blockN, p.blockK, p.rows, p.columns, p.groupM, accumulator(a.dtype));
  else
    o.launch("gemm_ar_two_shot", {}, memory(a), memory(b), memory(out), ws.stage(partial),
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
