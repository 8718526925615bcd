// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of gemm_ar: the sum over ranks of a[M, K] @ b[K, N], on every rank.
#include "ops/overlapped.h"

#include <array>
#include <tuple>

namespace tilery::ops {

// Where instances take turns: one-shot and two-shot move the same between two ranks, and one way takes
// less time than two.
static const char *formOnHost(int ranks, int64_t bytes) {
  constexpr int64_t small = 256 << 10;
  return ranks <= 2 || bytes <= small ? "one_shot" : "two_shot";
}

// Form direct needs to know the others' `out`, where it may be taken: on the host only where it is asked for.
static PeerBuffers everyonesOut(Call &call, const Matrix &out) {
  std::string wanted = call.options.text("form");
  if (wanted != "direct" && (wanted != "auto" || !hasWarps(call.device())))
    return {};
  std::array<int64_t, 2> strides = {out.rows > 1 ? out.rowStride : 0, out.columns > 1 ? out.columnStride : 0};
  return PeerBuffers({{call.name(2), memory(call.tensor(2)), strides}});
}

// What follows the tensors, the workspace and the sizes, in each form.
static auto howTiled(const Matrix &a, const Matrix &b, const Matrix &out, tilery_dtype partial,
                     const MatmulPlan &p) {
  return std::tuple(a.rowStride, a.columnStride, b.rowStride, b.columnStride, out.rowStride, out.columnStride,
                    partial, p.blockM, p.blockN, p.blockK, p.rows, p.columns, p.groupM, accumulator(a.dtype));
}

static void overlapped(Call &call, const AgreedProduct &agreed, const std::string &form, const Matrix &left,
                       const Matrix &right, const Matrix &result, tilery_dtype partial,
                       const PeerBuffers &outs) {
  int64_t m = left.rows, k = left.columns, n = right.columns, size = tilery_dtype_size(partial);
  int ranks = call.world().size(), rank = call.world().rank();
  int64_t rows = Shards(m, ranks).rows;
  bool oneShot = form == "one_shot", twoShot = form == "two_shot";
  Overlapped o(call, agreed, n, partialDepth);
  o.leaveRoomToSend(tilery_dtype_size(static_cast<tilery_dtype>(left.dtype)), partial);
  const Workspace &ws = o.memoryOf(form, {.key = dtypeName(partial),
                                          .slots = o.tiles(oneShot ? m : rows),
                                          .stageBytes = ranks * (oneShot ? m : rows) * n * size,
                                          .resultBytes = twoShot ? ranks * rows * n * size : 0});
  Memory a = memory(call.tensor(0)), b = memory(call.tensor(1)), out = memory(call.tensor(2));
  int64_t capacity = ws.stageCapacity(partial);
  auto launch = [&](const auto &arguments) {
    std::apply([&](const auto &...each) { o.launch(("gemm_ar_" + form).c_str(), {}, each...); }, arguments);
  };
  auto tiled = howTiled(left, right, result, partial, o.plan);
  if (oneShot)
    launch(std::tuple_cat(
        std::tuple(a, b, out, ws.stage(partial), ws.entered, ws.ready, ws.epochs, m, n, k, capacity), tiled));
  else if (twoShot)
    launch(std::tuple_cat(std::tuple(a, b, out, ws.stage(partial), ws.result(partial), ws.entered, ws.ready,
                                     ws.done, ws.epochs, m, n, k, rows, capacity, ws.resultCapacity(partial)),
                          tiled));
  else
    launch(std::tuple_cat(outs.everyones(0, rank + 1),
                          std::tuple(a, b, ws.stage(partial), ws.entered, ws.ready, ws.done, ws.epochs, m, n, k,
                                     rows, std::min((rank + 1) * rows, m), capacity),
                          tiled, std::tuple(ranks, o.isLinkSlower(agreed, rows * n * size))));
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
  int64_t size = tilery_dtype_size(partial);
  PeerBuffers outs = everyonesOut(call, result);
  AgreedProduct agreed = agreeOnProduct(call, partialSums(call, m, n, a.dtype, partial), left, right, &outs);
  chooseSentColumns(call, agreed);
  FormChoice choice =
      chooseProductForm(call, {"auto", "one_shot", "two_shot", "direct", "scattered", "unfused"},
                        formOnHost(call.world().size(), m * n * size), agreed, size, partialDepth);
  std::string form = possibleForm(call, choice, outs);
  if (form == "unfused")
    reduceUnfused(call, left, right, result, partial, "all_reduce");
  else if (form == "scattered")
    reduceScattered(call, left, right, result);
  else
    overlapped(call, agreed, form, left, right, result, partial, outs);
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
