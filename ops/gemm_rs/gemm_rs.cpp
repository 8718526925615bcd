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

static Matrix rowsOf(const Matrix &x, int64_t first, int64_t count) {
  int64_t size = tilery_dtype_size(static_cast<tilery_dtype>(x.dtype));
  Matrix part = x;
  part.data = static_cast<const char *>(x.data) + first * x.rowStride * size;
  part.rows = count;
  return part;
}

// The product of one owner's rows after the other; copy engines bring each to its owner beside the next one. The
// own rows come last, and their kernel adds what has arrived.
static void byCopies(Call &call, AgreedProduct agreed, const Matrix &a, const Matrix &b, const Matrix &out,
                     tilery_dtype partial) {
  World &world = call.world();
  int ranks = world.size(), rank = world.rank();
  int64_t m = a.rows, n = b.columns, rowBytes = n * tilery_dtype_size(partial);
  Shards shards(m, ranks);
  int64_t rows = agreed.problem.m = shards.rows, own = shards.own(m, rank);
  Overlapped o(call, agreed, n, a.columns);
  int64_t chunks = std::min(chooseChunks(rows * rowBytes), rows), chunkRows = ceilDiv(rows, chunks);
  const Workspace &ws = o.memoryOf("copies", {.key = dtypeName(partial),
                                              .slots = chunks,
                                              .stageBytes = ranks * rows * rowBytes,
                                              .buffers = 1,
                                              .resultBytes = m * rowBytes});
  Copies copies(call, ws);
  for (int step = 1; step < ranks; ++step) {
    int owner = (rank + step) % ranks;
    int64_t first = std::min(owner * rows, m), count = shards.own(m, owner);
    auto *product = static_cast<const char *>(ws.result(partial).data) + first * rowBytes;
    if (count > 0)
      callOp("matmul", call,
             {MatrixTensor(rowsOf(a, first, count)), MatrixTensor(b),
              MatrixTensor(Memory{product, partial}, count, n)},
             tileOptions(call));
    if (step == 1)
      o.guarded([&] { copies.open(); });
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      int64_t begin = std::min(chunk * chunkRows, count), end = std::min(begin + chunkRows, count);
      copies.add(owner, product + begin * rowBytes, (rank * rows + begin) * rowBytes, (end - begin) * rowBytes,
                 rank * chunks + chunk);
    }
    o.guarded([&] { copies.start(); });
  }
  const MatmulPlan &p = o.plan;
  Matrix mine = rowsOf(a, std::min(rank * rows, m), own);
  if (own > 0)
    o.launch("gemm_rs_arriving", {}, Memory{mine.data, static_cast<tilery_dtype>(a.dtype)},
             Memory{b.data, static_cast<tilery_dtype>(b.dtype)},
             Memory{out.data, static_cast<tilery_dtype>(out.dtype)}, ws.stage(partial), ws.ready, ws.epochs, own,
             n, a.columns, rows * n, chunkRows, chunks, a.rowStride, a.columnStride, b.rowStride, b.columnStride,
             out.rowStride, out.columnStride, partial, p.blockM, p.blockN, p.blockK, p.rows, p.columns, p.groupM,
             accumulator(a.dtype));
  copies.finish();
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
  std::string form = chooseProductForm(call, {"auto", "overlapped", "copies", "unfused"}, "overlapped", agreed,
                                       tilery_dtype_size(partial), partialDepth);
  if (form == "unfused")
    return reduceUnfused(call, a, b, out, partial, "reduce_scatter");
  if (form == "copies")
    return byCopies(call, agreed, a, b, out, partial);
  Overlapped o(call, agreed, n, partialDepth);
  o.leaveRoomToSend(tilery_dtype_size(static_cast<tilery_dtype>(a.dtype)), partial);
  const MatmulPlan &p = o.plan;
  bool shared = shards.rows < p.rows;
  int64_t tiles = o.tiles(shared ? m : shards.rows);
  const Workspace &ws =
      o.memoryOf(shared ? "shared" : "",
                 {.key = dtypeName(partial),
                  .slots = tiles,
                  .stageBytes = world.size() * shards.rows * n * tilery_dtype_size(partial)});
  o.launch("gemm_rs", {}, memory(left), memory(right), memory(result), ws.stage(partial),
           ws.entered, ws.ready, ws.epochs, m, n, k, shards.rows, shards.own(m, world.rank()),
           ws.stageCapacity(partial), a.rowStride, a.columnStride, b.rowStride, b.columnStride, out.rowStride,
           out.columnStride, shared, partial, p.blockM, p.blockN, p.blockK, p.rows, p.columns,
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
