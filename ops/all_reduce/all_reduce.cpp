// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of all_reduce (sum).
#include "ops/collective.h"

namespace tilery::ops {

// One-shot sends all of x to everyone, two-shot each rank its share, and then the sums. Where instances
// take turns the second exchange costs more than it saves below this many bytes.
static const char *formOnHost(int64_t bytes) {
  constexpr int64_t oneShot = 64 << 10;
  return bytes <= oneShot ? "one_shot" : "two_shot";
}

// Every rank adds up its share and copies the sums to the others. What is sent is not written in
// the same exchange, so that `out` may be `x`.
static void byCopies(Call &call, const Agreed &agreed, int64_t n) {
  const tilery_tensor &x = call.tensor(0), &out = call.tensor(1);
  World &world = call.world();
  int ranks = world.size(), rank = world.rank();
  int64_t shard = ceilDiv(n, ranks), size = tilery_dtype_size(static_cast<tilery_dtype>(x.dtype));
  auto shareOf = [&](const tilery_tensor &tensor, int owner) {
    int64_t first = std::min(owner * shard, n);
    return part(tensor, first, std::min(shard, n - first));
  };
  auto send = [&](Collective &c, int peer, const Memory &share) {
    c.send(peer, share.data, share.bytes / size);
  };
  Memory own = shareOf(out, rank);
  Collective sums(call, agreed, shard, x.dtype), all(call, agreed, shard, x.dtype);
  for (int step = 1; step < ranks; ++step) {
    int peer = (rank + step) % ranks;
    send(sums, peer, shareOf(x, peer));
    send(all, peer, own);
  }
  sums.addUp(shareOf(x, rank), own, own.bytes / size);
  all.collect(own, memory(out), shard, n);
}

static void run(Call &call) {
  const tilery_tensor &x = call.tensor(0), &out = call.tensor(1);
  call.needSameType(0, 1);
  call.needContiguous(0);
  call.needContiguous(1);
  call.needRank(1, x.rank);
  for (int dim = 0; dim < x.rank; ++dim)
    call.needDim(1, dim, x.shape[dim], "as in 'x'");
  auto dtype = static_cast<tilery_dtype>(x.dtype);
  int64_t n = elements(x), size = tilery_dtype_size(dtype);
  FormChoice choice =
      chooseCollectiveForm(call, {"auto", "one_shot", "two_shot", "copies", "flagged", "direct"},
                           formOnHost(n * size), n * size, size);
  if (n == 0)
    return;
  Agreed agreed = agreeOn(call, choice, {0, 1}, n, x.dtype);
  if (agreed.form == "copies")
    return byCopies(call, agreed, n);
  bool shards = agreed.form == "two_shot" || agreed.form == "direct";
  Collective c(call, agreed, shards ? ceilDiv(n, call.world().size()) : n, x.dtype);
  const Workspace &ws = *c.ws;
  if (c.form == "direct")
    c.launchDirect(std::tuple_cat(c.everyones(0, 0), c.others(1)), ws.ready, ws.epochs, n, accumulator(dtype));
  else if (c.form == "flagged")
    c.launch(memory(x), memory(out), ws.stage(TILERY_INT64), ws.epochs, n, c.capacity, size,
             accumulator(dtype), c.block);
  else if (c.form == "one_shot")
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
                     collectiveOptions(),
                     run,
                     /*communicates=*/true};
  return op;
}

} // namespace tilery::ops
