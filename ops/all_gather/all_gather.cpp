// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of all_gather: the ranks' rows, in rank order.
#include "ops/collective.h"

namespace tilery::ops {

// Straight to the peers' `out`.
static void runDirect(Collective &c, int64_t n, int64_t total) {
  const tilery_tensor &x = c.call.tensor(0), &out = c.call.tensor(1);
  World &world = c.call.world();
  if (c.form == "direct")
    return c.launchDirect(c.others(0), memory(x), c.ws->ready, c.ws->epochs, n, total);
  int64_t first = world.rank() * n;
  for (int step = 1; step < world.size(); ++step)
    c.sendDirect((world.rank() + step) % world.size(), x.data, elements(x), first);
  c.takeOwn(memory(x), part(out, std::min(first, total), elements(x)), elements(x), 0, world.size());
}

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
  int64_t row = elements(out) / std::max<int64_t>(out.shape[0], 1);
  int64_t rows = ceilDiv(out.shape[0], world.size());
  int64_t own = std::clamp<int64_t>(out.shape[0] - world.rank() * rows, 0, rows);
  call.needDim(0, 0, own, "this rank's part of the rows of 'out'");
  if (elements(out) == 0)
    return;
  int64_t n = rows * row, size = tilery_dtype_size(static_cast<tilery_dtype>(x.dtype));
  FormChoice choice = chooseCollectiveForm(
      call, {"auto", "push", "pull", "copies", "flagged", "direct", "direct_copies"}, "push", n * size, size);
  Collective c(call, agreeOn(call, choice, {1}, elements(out), x.dtype), n, x.dtype);
  if (c.direct())
    return runDirect(c, n, elements(out));
  if (c.form == "copies") {
    for (int step = 1; step < world.size(); ++step)
      c.send((world.rank() + step) % world.size(), x.data, elements(x));
    return c.collect(memory(x), memory(out), n, elements(out));
  }
  if (c.form == "flagged")
    return c.launch(memory(x), memory(out), c.ws->stage(TILERY_INT64), c.ws->epochs, n,
                    elements(out), c.capacity, size, c.block);
  int64_t capacity = c.form == "push" ? c.capacity : c.capacity * world.size();
  c.launch(memory(x), memory(out), c.ws->stage(c.dtype), c.ws->entered, c.ws->ready, c.ws->epochs,
           n, elements(out), capacity, c.block);
}

const Op &allGatherOp() {
  static const Op op{"all_gather",
                     "out = every rank's rows, in rank order",
                     {"x", "out"},
                     collectiveOptions(),
                     run,
                     /*communicates=*/true};
  return op;
}

} // namespace tilery::ops
