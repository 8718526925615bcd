// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of broadcast.
#include "ops/collective.h"

namespace tilery::ops {

static void run(Call &call) {
  const tilery_tensor &x = call.tensor(0), &out = call.tensor(1);
  call.needSameType(0, 1);
  call.needContiguous(0);
  call.needContiguous(1);
  World &world = call.world();
  int64_t root = call.options.integer("root"), n = elements(out);
  int64_t size = tilery_dtype_size(static_cast<tilery_dtype>(out.dtype));
  std::string form = chooseCollectiveForm(call, {"auto", "push", "pull"}, "push", n * size, size);
  if (root < 0 || root >= world.size())
    call.fail("option 'root' is " + std::to_string(root) + "; there are ranks 0 to " +
              std::to_string(world.size() - 1));
  if (world.rank() == root && elements(x) != n)
    call.fail("'x' has shape " + shapeText(x) + " on the root and 'out' " + shapeText(out));
  if (n == 0)
    return;
  Collective c(call, form, n, n, out.dtype, root);
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
