// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of gemm_rs: this rank's part of the sum over ranks of a[M, K] @ b[K, N].
#include "ops/overlapped.h"

namespace tilery::ops {

/// The same memory with its two dimensions exchanged.
struct Transposable {
  Transposable(const tilery_tensor &tensor, bool transposed)
      : data(memory(tensor)), shape{tensor.shape[transposed], tensor.shape[!transposed]},
        strides{stride(tensor, transposed), stride(tensor, !transposed)} {}
  Memory data;
  int64_t shape[2], strides[2];
};

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
  Transposable a(call.tensor(columns), columns), b(call.tensor(!columns), columns),
      out(call.tensor(2), columns);
  int64_t m = a.shape[0], k = a.shape[1], n = b.shape[1];
  int32_t dtype = call.tensor(0).dtype, outType = call.tensor(2).dtype;
  World &world = call.world();
  Shards rows(m, world.size(), Schedule());
  call.needDim(2, int(dim), rows.own(m, world.rank()), "this rank's part");
  call.needDim(2, int(1 - dim), n, "as in the product");
  if (isFloat(dtype) != isFloat(outType))
    call.fail(std::string("'out' is ") + dtypeName(outType) + ", but the product of " +
              dtypeName(dtype) + " is " + dtypeName(accumulator(dtype)));
  if (m == 0 || n == 0)
    return;
  tilery_dtype partial = accumulator(dtype);
  Overlapped o(call, m, n, k, dtype, partial, n);
  const Workspace &ws = *o.ws;
  const Schedule &s = o.schedule;
  o.launch(a.data, b.data, out.data, ws.stage(partial), ws.entered, ws.ready, ws.seen, ws.epochs, m,
           n, k, o.shards.rows, o.shards.chunkRows, ws.stageCapacity(partial), a.strides[0],
           a.strides[1], b.strides[0], b.strides[1], out.strides[0], out.strides[1], s.chunks,
           s.comm, s.first, s.blockM, s.blockN, s.blockK, partial);
}

const Op &gemmRsOp() {
  static const Op op = [] {
    Op made{"gemm_rs",
            "out = this rank's part of the sum of all ranks' a @ b",
            {"a", "b", "out"},
            scheduleOptions(),
            run,
            /*communicates=*/true};
    made.options.emplace_back("scatter_dim", "0");
    return made;
  }();
  return op;
}

} // namespace tilery::ops
