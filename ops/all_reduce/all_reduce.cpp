// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of all_reduce (sum).
#include "ops/collective.h"

namespace tilery::ops {

// Below this many bytes the second exchange of two-shot costs more than the data it saves.
static constexpr int64_t kOneShotBytes = 64 << 10;

static void run(Call &call) {
  const tilery_tensor &x = call.tensor(0), &out = call.tensor(1);
  call.needSameType(0, 1);
  call.needContiguous(0);
  call.needContiguous(1);
  call.needRank(1, x.rank);
  for (int dim = 0; dim < x.rank; ++dim)
    call.needDim(1, dim, x.shape[dim], "as in 'x'");
  int choice = call.options.choice("form", {"auto", "one_shot", "two_shot"});
  World &world = call.world();
  int64_t n = elements(x);
  if (n == 0)
    return;
  auto dtype = static_cast<tilery_dtype>(x.dtype);
  bool oneShot = choice == 1 || (choice == 0 && n * tilery_dtype_size(dtype) <= kOneShotBytes);
  int64_t shard = oneShot ? n : ceilDiv(n, world.size());
  Collective c(call, oneShot ? "one_shot" : "two_shot", shard, n, x.dtype);
  const Workspace &ws = *c.ws;
  if (oneShot)
    c.launch(memory(x), memory(out), ws.stage(dtype), ws.entered, ws.ready, ws.epochs, n,
             c.capacity, accumulator(dtype), c.block);
  else
    c.launch(memory(x), memory(out), ws.stage(dtype), ws.result(dtype), ws.entered, ws.ready,
             ws.done, ws.epochs, n, c.capacity, accumulator(dtype), c.block);
}

const Op &allReduceOp() {
  static const Op op{"all_reduce",
                     "out = the sum of all ranks' x, the same bits on every rank",
                     {"x", "out"},
                     collectiveOptions("auto"),
                     run,
                     /*communicates=*/true};
  return op;
}

} // namespace tilery::ops
