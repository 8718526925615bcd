// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of gemm_rs: this rank's part of the sum over ranks of a[M, K] @ b[K, N].
#include "ops/overlapped.h"

namespace tilery::ops {

/// The same memory, with its two dimensions exchanged when `transposed`.
static Matrix matrix(const tilery_tensor &x, bool transposed) {
  return {x.data,
          x.dtype,
          x.shape[transposed],
          x.shape[!transposed],
          stride(x, transposed),
          stride(x, !transposed)};
}

static void run(Call &call) {
  for (size_t i = 0; i < 3; ++i)
    call.needRank(i, 2);
  call.needType(0, {TILERY_FP32, TILERY_FP16, TILERY_BF16, TILERY_INT8});
  call.needSameType(0, 1);
  call.needDim(1, 0, call.tensor(0).shape[1], "K of 'a'");
  int64_t dim = call.options.integer("scatter_dim");
  if (dim != 0 && dim != 1)
    call.fail("option 'scatter_dim' is " + std::to_string(dim) + ", needs 0 or 1");
  // Columns of a @ b are rows of b^T @ a^T.
  bool columns = dim == 1;
  const tilery_tensor &left = call.tensor(columns), &right = call.tensor(!columns),
                      &result = call.tensor(2);
  Matrix a = matrix(left, columns), b = matrix(right, columns), out = matrix(result, columns);
  int64_t m = a.rows, k = a.columns, n = b.columns;
  World &world = call.world();
  Shards shards(m, world.size());
  call.needDim(2, int(dim), shards.own(m, world.rank()), "this rank's part");
  call.needDim(2, int(1 - dim), n, "as in the product");
  if (isFloat(a.dtype) != isFloat(out.dtype))
    call.fail(std::string("'out' is ") + dtypeName(out.dtype) + ", but the product of " +
              dtypeName(a.dtype) + " is " + dtypeName(accumulator(a.dtype)));
  if (m == 0 || n == 0)
    return;
  tilery_dtype partial = partialType(call, out.dtype, a.dtype);
  // K may differ from rank to rank; tiles and what is staged may not.
  AgreedProduct agreed = agreeOnProduct(call, partialSums(call, m, n, a.dtype, partial), a, b);
  chooseSentColumns(call, agreed);
  std::string form = chooseProductForm(call, {"auto", "overlapped", "unfused"}, "overlapped", agreed,
                                       tilery_dtype_size(partial), partialDepth)
                         .form;
  if (form == "unfused")
    return reduceUnfused(call, a, b, out, partial, "reduce_scatter");
  Overlapped o(call, agreed, n, partialDepth);
  o.leaveRoomToSend(tilery_dtype_size(static_cast<tilery_dtype>(a.dtype)), partial);
  const MatmulPlan &p = o.plan;
  bool shared = shards.rows < p.rows;
  int64_t tiles = o.tiles(shared ? m : shards.rows);
  bool mixed = o.isLinkSlower(agreed, shards.rows * n * tilery_dtype_size(partial));
  const Workspace &ws =
      o.memoryOf(shared ? "shared" : "",
                 {.key = dtypeName(partial),
                  .slots = tiles,
                  .stageBytes = world.size() * shards.rows * n * tilery_dtype_size(partial)});
  o.launch("gemm_rs", {}, memory(left), memory(right), memory(result), ws.stage(partial),
           ws.entered, ws.ready, ws.epochs, m, n, k, shards.rows, shards.own(m, world.rank()),
           ws.stageCapacity(partial), a.rowStride, a.columnStride, b.rowStride, b.columnStride, out.rowStride,
           out.columnStride, int64_t(world.size()), mixed, shared, partial, p.blockM, p.blockN, p.blockK, p.rows, p.columns,
           p.groupM, accumulator(a.dtype));
}

const Op &gemmRsOp() {
  static const Op op{
      "gemm_rs",
      "out = this rank's part of the sum of all ranks' a @ b",
      {"a", "b", "out"},
      overlappedOptions({{"form", "\"auto\""}, {"scatter_dim", "0"}, {"partials", "\"out\""}}),
      run,
      /*communicates=*/true};
  return op;
}

} // namespace tilery::ops
