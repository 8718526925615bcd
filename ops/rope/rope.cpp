// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of rope: q and optionally k [batch, heads, tokens, head], tables [positions, head / 2].
#include "ops/kernels.h"
#include "ops/launch_options.h"
#include "ops/registry.h"

#include <variant>

namespace tilery::ops {

namespace {

enum Position : size_t { Q, QOut, Cos, Sin, K, KOut, Positions };

using Maybe = std::variant<std::nullptr_t, Memory>;

/// Strides of batch, heads and tokens; 0 for what is left out.
struct Steps {
  int64_t batch = 0, heads = 0, tokens = 0;
};

} // namespace

// An input and its output; a rotation in place reads a pair before it is written, elsewhere another
// instance could have written it.
static void checkRotated(const Call &call, size_t in, size_t out) {
  const tilery_tensor &q = call.tensor(Q), &x = call.tensor(in), &y = call.tensor(out);
  for (size_t i : {in, out}) {
    call.needRank(i, 4);
    call.needType(i, {TILERY_FP32, TILERY_FP16, TILERY_BF16});
    call.needInnerContiguous(i);
    call.needDim(i, 0, q.shape[0], "batch of 'q'");
    call.needDim(i, 1, x.shape[1], in == Q ? "heads of 'q'" : "heads of 'k'");
    call.needDim(i, 2, q.shape[2], "tokens of 'q'");
    call.needDim(i, 3, q.shape[3], "head dimension of 'q'");
  }
  for (int dim = 0; dim < 3 && x.data == y.data; ++dim)
    if (x.shape[dim] > 1 && stride(x, dim) != stride(y, dim))
      call.fail("'" + call.name(out) + "' is at the address of '" + call.name(in) +
                "' but has other strides");
}

constexpr int64_t mostHalf = 1 << 20; // elements of a tile

static void checkTables(const Call &call) {
  const tilery_tensor &q = call.tensor(Q);
  if (q.shape[3] % 2)
    call.fail("the head dimension of 'q' is " + std::to_string(q.shape[3]) +
              "; pairs need an even one");
  if (q.shape[3] > 2 * mostHalf)
    call.fail("the head dimension of 'q' is " + std::to_string(q.shape[3]) + ", at most " +
              std::to_string(2 * mostHalf) + " is possible");
  for (size_t i : {Cos, Sin}) {
    call.needRank(i, 2);
    call.needType(i, {TILERY_FP32, TILERY_FP16, TILERY_BF16});
    call.needInnerContiguous(i);
    call.needDim(i, 1, q.shape[3] / 2, "half the head dimension of 'q'");
  }
  call.needDim(Sin, 0, call.tensor(Cos).shape[0], "positions of 'cos'");
  if (!call.has(Positions) && call.tensor(Cos).shape[0] < q.shape[2])
    call.fail("'cos' has " + std::to_string(call.tensor(Cos).shape[0]) + " positions for " +
              std::to_string(q.shape[2]) + " tokens; pass 'positions' or longer tables");
}

// One position a token, for all sequences or for each.
static Steps checkPositions(const Call &call) {
  if (!call.has(Positions))
    return {};
  const tilery_tensor &q = call.tensor(Q), &positions = call.tensor(Positions);
  call.needType(Positions, {TILERY_INT32, TILERY_INT64});
  if (positions.rank == 1) {
    call.needDim(Positions, 0, q.shape[2], "tokens of 'q'");
    return {0, 0, stride(positions, 0)};
  }
  call.needRank(Positions, 2);
  call.needDim(Positions, 0, q.shape[0], "batch of 'q'");
  call.needDim(Positions, 1, q.shape[2], "tokens of 'q'");
  return {stride(positions, 0), 0, stride(positions, 1)};
}

static Maybe optional(const Call &call, size_t at) {
  return call.has(at) ? Maybe(memory(call.tensor(at))) : Maybe(nullptr);
}

static Steps stepsOf(const Call &call, size_t at) {
  if (!call.has(at))
    return {};
  const tilery_tensor &x = call.tensor(at);
  return {stride(x, 0), stride(x, 1), stride(x, 2)};
}

static void run(Call &call) {
  call.needRank(Q, 4);
  checkRotated(call, Q, QOut);
  checkTables(call);
  if (call.has(K) != call.has(KOut))
    call.fail("'k' and 'k_out' come together");
  if (call.has(K))
    checkRotated(call, K, KOut);
  Steps place = checkPositions(call);
  if (elements(call.tensor(Q)) == 0 && (!call.has(K) || elements(call.tensor(K)) == 0))
    return;
  const tilery_tensor &q = call.tensor(Q);
  int64_t heads = q.shape[1], kHeads = call.has(K) ? call.tensor(K).shape[1] : 0;
  // The tables are read once for all heads of a tile; 8192 elements keep memory busy.
  int64_t half = q.shape[3] / 2, blockD = blockFor(half, 8, mostHalf), rows = 4096 / blockD;
  int64_t blockT = blockFor(q.shape[2], 1, 8);
  int64_t blockH = blockFor(std::max(heads, kHeads), 1, std::max<int64_t>(rows / blockT, 1));
  Launch how{.x = ceilDiv(q.shape[2], blockT),
             .y = ceilDiv(heads, blockH) + ceilDiv(kHeads, blockH),
             .z = q.shape[0],
             .options = launchOptions(call.device(), 4)};
  Steps in = stepsOf(call, Q), out = stepsOf(call, QOut), kIn = stepsOf(call, K),
        kOut = stepsOf(call, KOut);
  auto launch = [&](const auto &k, const auto &rotated, const auto &positions) {
    kernel("rope", "rope")
        .launchOn(call.worldOrNull(), how, memory(q), memory(call.tensor(QOut)), k, rotated,
                  memory(call.tensor(Cos)), memory(call.tensor(Sin)), positions, call.tensor(Cos).shape[0],
                  q.shape[2], heads, kHeads, half, in.batch, in.heads, in.tokens, out.batch, out.heads, out.tokens,
                  kIn.batch, kIn.heads, kIn.tokens, kOut.batch, kOut.heads, kOut.tokens,
                  stride(call.tensor(Cos), 0), stride(call.tensor(Sin), 0), place.batch,
                  place.tokens, call.options.flag("interleaved"), blockH, blockT, blockD);
  };
  std::visit(launch, optional(call, K), optional(call, KOut), optional(call, Positions));
}

const Op &ropeOp() {
  static const Op op{"rope",
                     "rotary position embedding of q, and of k in the same launch",
                     {"q", "q_out", "cos", "sin", "k?", "k_out?", "positions?"},
                     {{"interleaved", "false"}},
                     run};
  return op;
}

} // namespace tilery::ops
