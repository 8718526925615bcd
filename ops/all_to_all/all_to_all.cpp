// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of all_to_all with equal blocks.
#include "ops/collective.h"

namespace tilery::ops {

// Straight to the peers' `out`.
static void runDirect(Collective &c, int64_t n) {
  const tilery_tensor &x = c.call.tensor(0), &out = c.call.tensor(1);
  int rank = c.call.world().rank(), ranks = c.call.world().size();
  if (c.form == "direct")
    return c.launchDirect(c.others(0), memory(x), c.ws->ready, c.ws->epochs, n);
  for (int step = 1; step < ranks; ++step) {
    int peer = (rank + step) % ranks;
    c.sendDirect(peer, part(x, peer * n, n).data, n, rank * n);
  }
  c.takeOwn(part(x, rank * n, n), part(out, rank * n, n), n, 0, ranks);
}

static void run(Call &call) {
  const tilery_tensor &x = call.tensor(0), &out = call.tensor(1);
  call.needSameType(0, 1);
  call.needContiguous(0);
  call.needContiguous(1);
  call.needRank(1, x.rank);
  for (int dim = 0; dim < x.rank; ++dim)
    call.needDim(1, dim, x.shape[dim], "as in 'x'");
  World &world = call.world();
  if (x.rank < 1 || x.shape[0] % world.size())
    call.fail("'x' has shape " + shapeText(x) + ", whose first dimension must be a multiple of " +
              std::to_string(world.size()) + " (ranks)");
  int64_t n = elements(x) / world.size(),
          size = tilery_dtype_size(static_cast<tilery_dtype>(x.dtype));
  FormChoice choice = chooseCollectiveForm(
      call, {"auto", "push", "pull", "copies", "flagged", "direct", "direct_copies"}, "push", n * size, size);
  if (elements(x) == 0)
    return;
  Collective c(call, agreeOn(call, choice, {1}, elements(x), x.dtype), n, x.dtype);
  if (c.direct())
    return runDirect(c, n);
  if (c.form == "copies") {
    for (int step = 1; step < world.size(); ++step) {
      int peer = (world.rank() + step) % world.size();
      c.send(peer, part(x, peer * n, n).data, n);
    }
    return c.collect(part(x, world.rank() * n, n), memory(out), n, elements(x));
  }
  if (c.form == "flagged")
    return c.launch(memory(x), memory(out), c.ws->stage(TILERY_INT64), c.ws->epochs, n, c.capacity, size,
                    c.block);
  c.launch(memory(x), memory(out), c.ws->stage(c.dtype), c.ws->entered, c.ws->ready, c.ws->epochs,
           n, c.capacity, c.block);
}

const Op &allToAllOp() {
  static const Op op{"all_to_all",
                     "block p of rank r's x becomes block r of rank p's out",
                     {"x", "out"},
                     collectiveOptions(),
                     run,
                     /*communicates=*/true};
  return op;
}

} // namespace tilery::ops
