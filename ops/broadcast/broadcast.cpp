// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of broadcast.
#include "ops/collective.h"

namespace tilery::ops {

// Straight to the peers' `out`. On other ranks than the root, nothing of `x` is read.
static void runDirect(Collective &c, int64_t n, int64_t root) {
  const tilery_tensor &x = c.call.tensor(0), &out = c.call.tensor(1);
  int rank = c.call.world().rank(), ranks = c.call.world().size();
  if (c.form == "direct")
    return c.launchDirect(c.others(0), memory(x), c.ws->ready, c.ws->epochs, root, n);
  bool sends = rank == root;
  for (int step = 1; step < ranks && sends; ++step)
    c.sendDirect((rank + step) % ranks, x.data, n, 0);
  c.takeOwn(sends ? memory(x) : part(out, 0, 0), part(out, 0, sends ? n : 0), sends ? n : 0, root, 1);
}

static void run(Call &call) {
  const tilery_tensor &x = call.tensor(0), &out = call.tensor(1);
  call.needSameType(0, 1);
  call.needContiguous(0);
  call.needContiguous(1);
  World &world = call.world();
  int64_t root = call.options.integer("root"), n = elements(out);
  int64_t size = tilery_dtype_size(static_cast<tilery_dtype>(out.dtype));
  FormChoice choice = chooseCollectiveForm(call, {"auto", "push", "pull", "direct", "direct_copies"},
                                           "push", n * size, size);
  if (root < 0 || root >= world.size())
    call.fail("option 'root' is " + std::to_string(root) + "; there are ranks 0 to " +
              std::to_string(world.size() - 1));
  if (world.rank() == root && elements(x) != n)
    call.fail("'x' has shape " + shapeText(x) + " on the root and 'out' " + shapeText(out));
  if (n == 0)
    return;
  Collective c(call, agreeOn(call, choice, {1}, n, out.dtype, root), n, out.dtype);
  if (c.direct())
    return runDirect(c, n, root);
  c.launch(memory(x), memory(out), c.ws->stage(c.dtype), c.ws->entered, c.ws->ready, c.ws->epochs,
           root, n, c.ws->stageCapacity(c.dtype), c.block);
}

const Op &broadcastOp() {
  static const Op op = [] {
    Op made{"broadcast",
            "out = x of rank `root`",
            {"x", "out"},
            collectiveOptions(/*byCopies=*/false),
            run,
            /*communicates=*/true};
    made.options.emplace_back("root", "0");
    return made;
  }();
  return op;
}

} // namespace tilery::ops
