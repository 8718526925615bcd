// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of reduce_scatter: this rank's rows of the sum over ranks.
#include "ops/collective.h"

namespace tilery::ops {

static void run(Call &call) {
  const tilery_tensor &x = call.tensor(0), &out = call.tensor(1);
  call.needSameType(0, 1);
  call.needContiguous(0);
  call.needContiguous(1);
  if (x.rank < 1 || x.rank != out.rank)
    call.fail("'x' has shape " + shapeText(x) + " and 'out' " + shapeText(out) +
              "; both need the same number of dimensions, at least 1");
  for (int dim = 1; dim < x.rank; ++dim)
    call.needDim(1, dim, x.shape[dim], "as in 'x'");
  World &world = call.world();
  int64_t row = elements(x) / std::max<int64_t>(x.shape[0], 1);
  int64_t rows = ceilDiv(x.shape[0], world.size());
  int64_t own = std::clamp<int64_t>(x.shape[0] - world.rank() * rows, 0, rows);
  call.needDim(1, 0, own, "this rank's part of the rows of 'x'");
  int64_t n = rows * row, size = tilery_dtype_size(static_cast<tilery_dtype>(x.dtype));
  FormChoice choice = chooseCollectiveForm(
      call, {"auto", "push", "pull", "copies", "flagged", "direct"}, "push", n * size, size);
  if (elements(x) == 0)
    return;
  Collective c(call, agreeOn(call, choice, {0}, elements(x), x.dtype), n, x.dtype);
  if (c.form == "direct")
    return c.launchDirect(c.everyones(0, 0), memory(out), c.ws->ready, c.ws->epochs, n, elements(x),
                          accumulator(x.dtype));
  auto partOf = [&](int rank) {
    int64_t first = std::min(rank * n, elements(x));
    return part(x, first, std::min(n, elements(x) - first));
  };
  if (c.form == "copies") {
    for (int step = 1; step < world.size(); ++step) {
      int peer = (world.rank() + step) % world.size();
      c.send(peer, partOf(peer).data, partOf(peer).bytes / size);
    }
    return c.addUp(partOf(world.rank()), memory(out), elements(out));
  }
  if (c.form == "flagged")
    return c.launch(memory(x), memory(out), c.ws->stage(TILERY_INT64), c.ws->epochs, n, elements(x),
                    c.capacity, size, accumulator(x.dtype), c.block);
  int64_t capacity = c.form == "push" ? c.capacity : c.capacity * world.size();
  c.launch(memory(x), memory(out), c.ws->stage(c.dtype), c.ws->entered, c.ws->ready, c.ws->epochs,
           n, elements(x), capacity, accumulator(x.dtype), c.block);
}

const Op &reduceScatterOp() {
  static const Op op{"reduce_scatter",
                     "out = this rank's rows of the sum of all ranks' x",
                     {"x", "out"},
                     collectiveOptions(),
                     run,
                     /*communicates=*/true};
  return op;
}

} // namespace tilery::ops
