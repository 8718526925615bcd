// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Agreement, workspace and schedule of a collective.
#include "ops/collective.h"

#include "ops/costs/costs.h"

#include <algorithm>
#include <bit>

namespace tilery::ops {

std::vector<std::pair<std::string, std::string>> collectiveOptions(bool byCopies) {
  std::vector<std::pair<std::string, std::string>> options = {{"form", "\"auto\""},
                                                              {"instances", "0"}};
  if (byCopies)
    options.emplace_back("chunks", "0");
  return options;
}

FormChoice chooseCollectiveForm(Call &call, const std::vector<std::string> &forms, const char *onHost,
                                int64_t bytes, int64_t size) {
  constexpr int64_t direct = 1 << 20; // on the host, where a meeting of ranks costs more than a copy of less
  int ranks = call.world().size();
  auto best = [&](bool peersBuffers) {
    const char *rule = peersBuffers && bytes >= direct ? "direct" : onHost;
    return chooseForm(call, forms, rule, {bytes, size, peersBuffers}, [&](const Calibration &figures, const std::string &form) {
      return isDirect(form) && !peersBuffers
                 ? Never
                 : collectiveMicroseconds(figures, call.op, form, ranks, bytes, size);
    });
  };
  return chooseWithDirect(call, forms, best);
}

namespace {
/// Program instances, and what each has at once.
struct Sharing {
  int64_t instances, block, warps;
  int64_t registers = 0; ///< that a thread may have
};
} // namespace

// Instances with warps: as many as keep a link busy, of 8 warps that have 16 KiB under way (64
// bytes a thread), fewer for messages that are less and where they would not all be `resident`;
// powers of two, since each number has a workspace. Where data has flags, nothing but the number of
// bytes takes time, and more instances share them. Without warps instances run one after the other.
static Sharing chooseSharing(Call &call, int64_t wanted, int64_t resident, bool flagged, int64_t n,
                             int64_t size) {
  constexpr int64_t atOnce = 16 << 10, ofWarp = 2 << 10;
  int64_t most = std::min<int64_t>(int64_t(std::bit_floor(uint64_t(resident))), 64);
  if (!hasWarps(call.device()))
    return {std::max<int64_t>(wanted, 1), blockFor(n, 16, 1024), 0};
  int64_t least = flagged ? 2 << 10 : 8 << 10;
  int64_t instances = wanted ? wanted : blockFor(ceilDiv(n * size, least), 1, most);
  int64_t each = ceilDiv(n, instances);
  return {instances, blockFor(each, 64, (flagged ? atOnce / 4 : atOnce) / size),
          blockFor(ceilDiv(each * size, flagged ? ofWarp / 4 : ofWarp), 1, 8)};
}

// Straight to and from peers, whose memory is far: more under way. `n` elements go to each peer or come from
// each; small messages are shared by many, so that all of them is under way at once. One instance is resident
// on a processor and may have all its registers: with fewer, loads would wait for each other.
// Instances beside copy engines have less to do, and few of them may poll (Lowering::pauseAfter).
static Sharing chooseDirectSharing(Call &call, int64_t wanted, int64_t resident, bool byCopies, int64_t n,
                                   int64_t size) {
  constexpr int64_t least = 8 << 10, large = 4 << 20, besideCopies = 16, warps = 16, registers = 128;
  int64_t atOnce = (call.world().size() <= 4 ? 32 : 16) << 10; // of each rank, where they are added
  if (!hasWarps(call.device()))
    return {std::max<int64_t>(wanted, 1), blockFor(n, 16, 1024), 0};
  int64_t fit = std::min<int64_t>(int64_t(std::bit_floor(uint64_t(resident))), n * size < large ? 64 : 128);
  if (byCopies)
    fit = std::min(fit, besideCopies);
  int64_t instances = wanted ? wanted : blockFor(ceilDiv(n * size, least), 1, fit);
  return {instances, blockFor(ceilDiv(n, instances), 64, atOnce / size), warps, registers};
}

static int64_t roundedUp(int64_t n) { return ceilDiv(std::max<int64_t>(n, 1), 64) * 64; }

Agreed agreeOn(Call &call, const FormChoice &choice, const std::vector<size_t> &tensors, int64_t total,
               int32_t dtype, int64_t root) {
  Agreed agreed = {.form = choice.form,
                   .instances = call.options.natural("instances", 0),
                   .chunks = call.options.has("chunks") ? call.options.natural("chunks", 0) : 0,
                   .resident = call.residentShare(),
                   .buffers = isDirect(choice.form) ? buffersOf(call, tensors) : PeerBuffers()};
  std::vector<int64_t> least =
      call.agree({{"the number of elements", total},
                  agreedType("the element type", dtype),
                  {"option 'instances'", agreed.instances},
                  {"option 'chunks'", agreed.chunks},
                  agreedText("option 'form'", choice.form + choice.otherwise),
                  {"option 'root'", root}},
                 {agreed.resident}, &agreed.buffers);
  agreed.resident = least[0];
  agreed.form = possibleForm(call, choice, agreed.buffers);
  return agreed;
}

Collective::Collective(Call &call, const Agreed &agreed, int64_t n, int32_t dtype)
    : call(call), form(agreed.form), dtype(static_cast<tilery_dtype>(dtype)), buffers(agreed.buffers) {
  int64_t size = tilery_dtype_size(this->dtype);
  bool byCopies = form == "copies", flagged = form == "flagged";
  if (flagged && size != 2 && size != 4)
    call.fail(std::string("form 'flagged' takes elements of 2 or 4 bytes, not ") +
              dtypeName(dtype) + "; leave 'form' at auto");
  if (byCopies)
    chunks = agreed.chunks ? agreed.chunks : chooseChunks(n * size);
  int64_t wanted = agreed.instances, resident = agreed.resident;
  Sharing sharing = direct() ? chooseDirectSharing(call, wanted, resident, form == "direct_copies", n, size)
                             : chooseSharing(call, wanted, resident, flagged, n, size);
  instances = sharing.instances;
  block = sharing.block;
  tail = std::min<int64_t>(block, 1024);
  options = launchOptions(call.device(), sharing.warps, 3, sharing.registers);
  chunk = roundedUp(ceilDiv(n, chunks)); // parts begin where wide accesses may
  key = call.op + "_" + form + " x" + std::to_string(instances);
  // With flags: a word of 8 bytes for 4.
  int64_t bytes = direct() ? 0 : call.world().size() * roundedUp(n) * size * (flagged ? 2 : 1);
  ws = &workspace(call.world(), {.key = key,
                                 .instances = instances,
                                 .slots = byCopies ? chunks : instances,
                                 .stageBytes = bytes,
                                 .buffers = byCopies || direct() ? 1 : 2,
                                 .resultBytes = form == "two_shot" ? bytes : 0});
  capacity = ws->stageCapacity(flagged ? TILERY_INT64 : this->dtype) / call.world().size();
  copies.emplace(call, *ws);
}

void Collective::send(int peer, const void *source, int64_t count) {
  int64_t size = tilery_dtype_size(dtype), rank = call.world().rank();
  for (int64_t i = 0; i < chunks; ++i) {
    int64_t begin = std::min(i * chunk, count), end = std::min(begin + chunk, count);
    copies->add(peer, static_cast<const char *>(source) + begin * size,
                (rank * capacity + begin) * size, (end - begin) * size, rank * chunks + i);
  }
}

void Collective::sendDirect(int peer, const void *source, int64_t count, int64_t first) {
  int64_t size = tilery_dtype_size(dtype);
  copies->addDirect(peer, source, buffers.at(peer, 0) + first * size, count * size, call.world().rank());
}

void Collective::takeOwn(const Memory &own, const Memory &target, int64_t n, int64_t first,
                         int64_t senders) {
  guarded([&] { copies->open(); });
  launchKernel(peersKernel("take_own"), copies->list(), own, target, ws->ready, ws->epochs, n, first,
               senders, block, tail);
}

void Collective::collect(const Memory &own, const Memory &out, int64_t n, int64_t total) {
  guarded([&] { copies->open(); });
  launchKernel(sharedKernel("collect"), copies->list(), own, out, ws->stage(dtype), ws->ready,
               ws->epochs, n, total, chunk, chunks, capacity, block);
}

void Collective::addUp(const Memory &own, const Memory &out, int64_t n) {
  guarded([&] { copies->open(); });
  launchKernel(sharedKernel("add_arrivals"), copies->list(), own, out, ws->stage(dtype), ws->ready,
               ws->epochs, n, chunk, chunks, capacity, accumulator(dtype), block);
}

} // namespace tilery::ops
