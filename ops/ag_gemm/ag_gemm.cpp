// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of ag_gemm: c[M, N] = all_gather(a) @ b, optionally with the gathered A.
#include "ops/overlapped.h"

namespace tilery::ops {

static void checkTensors(Call &call) {
  const tilery_tensor &a = call.tensor(0), &b = call.tensor(1), &c = call.tensor(2);
  for (size_t i = 0; i < 3; ++i)
    call.needRank(i, 2);
  call.needType(0, {TILERY_FP32, TILERY_FP16, TILERY_BF16, TILERY_INT8});
  call.needSameType(0, 1);
  call.needContiguous(0);
  int64_t m = c.shape[0], k = b.shape[0];
  World &world = call.world();
  call.needDim(0, 1, k, "K of 'b'");
  call.needDim(0, 0, Shards(m, world.size()).own(m, world.rank()),
               "this rank's part of the rows of 'c'");
  call.needDim(2, 1, b.shape[1], "N of 'b'");
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
}

namespace {
/// Who sends, and in how many pieces.
struct Sending {
  int64_t chunks, comm;
};
} // namespace

// A chunk is worth its signal from about 1 MiB on; instances that send do not compute.
static Sending chooseSending(Call &call, const Overlapped &o, int64_t rowsPerRank, int64_t rowBytes) {
  constexpr int64_t chunkBytes = 1 << 20, mostChunks = 16;
  auto chosen = [&](const char *name, int64_t otherwise) {
    int64_t value = call.options.integer(name);
    if (value < 0)
      call.fail("option '" + std::string(name) + "' is " + std::to_string(value) +
                ", needs 1 or more (0 chooses)");
    return value ? value : otherwise;
  };
  int64_t bytes = rowsPerRank * rowBytes;
  bool fast = hasWarps(o.device);
  int64_t pieces = fast ? bytes / chunkBytes : rowsPerRank / 64;
  Sending s{chosen("chunks", std::clamp<int64_t>(pieces, 1, fast ? mostChunks : 4)),
            chosen("comm", fast ? std::max<int64_t>(o.instances / 8, 1) : 1)};
  if (s.comm >= o.instances && o.instances > 1)
    call.fail("option 'comm' is " + std::to_string(s.comm) + " of " + std::to_string(o.instances) +
              " instances, which leaves none to compute");
  return s;
}

static void run(Call &call) {
  checkTensors(call);
  const tilery_tensor &a = call.tensor(0), &b = call.tensor(1), &c = call.tensor(2);
  int64_t m = c.shape[0], n = b.shape[1], k = b.shape[0];
  if (m == 0)
    return;
  int ranks = call.world().size();
  int64_t rows = Shards(m, ranks).rows;
  auto dtype = static_cast<tilery_dtype>(a.dtype);
  // The operand is the staged A, which is aligned.
  Matrix staged{nullptr, a.dtype, m, k, k, 1};
  Matrix right{b.data, b.dtype, k, n, stride(b, 0), stride(b, 1)};
  Overlapped o(call, staged, right, k);
  if (o.instances == 1)
    o.instances = 2; // one sends, one computes
  Sending s = chooseSending(call, o, rows, k * tilery_dtype_size(dtype));
  // N may differ from rank to rank; what is staged may not.
  const Workspace &ws =
      o.agree("chunks=" + std::to_string(s.chunks) + " comm=" + std::to_string(s.comm),
              {.key = dtypeName(dtype),
               .slots = s.chunks,
               .stageBytes = ranks * rows * std::max<int64_t>(k, 1) * tilery_dtype_size(dtype)},
              {{"M", m},
               {"K", k},
               {"the element type", dtype},
               {"option 'chunks'", s.chunks},
               {"option 'comm'", s.comm}});
  const MatmulPlan &p = o.plan;
  auto launch = [&](const auto &gathered) {
    o.launch("ag_gemm", o.instances, memory(a), memory(b), memory(c), gathered, ws.stage(dtype),
             ws.entered, ws.ready, ws.epochs, m, n, k, rows, ceilDiv(rows, s.chunks),
             ws.stageCapacity(dtype), stride(b, 0), stride(b, 1), stride(c, 0), stride(c, 1),
             s.chunks, s.comm, p.blockM, p.blockN, p.blockK, p.rows, p.columns, p.groupM,
             accumulator(dtype));
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
                     overlappedOptions({{"chunks", "0"}, {"comm", "0"}}),
                     run,
                     /*communicates=*/true};
  return op;
}

} // namespace tilery::ops
