// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of ag_gemm: c[M, N] = all_gather(a) @ b, optionally with the gathered A.
#include "ops/overlapped.h"

#include <bit>
#include <optional>

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
/// One call: c[M, N] = all_gather(a) @ b, M rows in shards of `rows`.
struct AgGemm {
  explicit AgGemm(Call &call)
      : call(call), a(call.tensor(0)), b(call.tensor(1)), c(call.tensor(2)), m(c.shape[0]),
        n(b.shape[1]), k(b.shape[0]), ranks(call.world().size()), rank(call.world().rank()),
        rows(Shards(m, ranks).rows), dtype(static_cast<tilery_dtype>(a.dtype)),
        rowBytes(k * tilery_dtype_size(dtype)) {}

  void run();

private:
  void unfused();
  void overlapped(const AgreedProduct &agreed, bool byCopies);
  AgreedValues values() const;
  int64_t chooseChunks(bool fast, bool byCopies) const;
  int64_t bestComm(const Overlapped &o) const;
  int64_t chooseComm(const Overlapped &o) const;
  /// Own rows that are read in staging, as others' are: those before `head` and from `tail` on.
  struct Border {
    int64_t head, tail;
  };
  bool isInPlace() const;
  Border border(int64_t tileRows) const;
  void addCopies(Copies &copies, int64_t chunks, int64_t tileRows) const;
  const Workspace &gatheredRows();

  Call &call;
  const tilery_tensor &a, &b, &c;
  const int64_t m, n, k;
  const int ranks, rank;
  const int64_t rows;
  const tilery_dtype dtype;
  const int64_t rowBytes;
};
} // namespace

// Instances that send begin to compute later; while copy engines bring the rows all of them compute; gathered
// first, the product has its own tiles and parts. Without warps, instances run in turn anyway.
void AgGemm::run() {
  // The operand is the staged A, which is aligned.
  Matrix staged{nullptr, a.dtype, m, k, k, 1};
  Matrix right{b.data, b.dtype, k, n, stride(b, 0), stride(b, 1)};
  AgreedProduct agreed = agreeOnProduct(call, values(), staged, right);
  std::string form = chooseProductForm(call, {"auto", "instances", "copies", "unfused"}, "instances",
                                       agreed, tilery_dtype_size(dtype), k)
                         .form;
  if (form == "unfused")
    unfused();
  else
    overlapped(agreed, form == "copies");
}

// A chunk is worth its signal from about 1 MiB on, where a copy engine sends it, which takes 5 us for that
// (H200), from 4 MiB on. Powers of two, since each number has a workspace.
int64_t AgGemm::chooseChunks(bool fast, bool byCopies) const {
  int64_t chunkBytes = byCopies ? 4 << 20 : 1 << 20, most = fast && !byCopies ? 16 : 4;
  auto pieces = uint64_t(std::max<int64_t>(fast ? rows * rowBytes / chunkBytes : rows / 64, 1));
  return call.options.natural("chunks", std::min<int64_t>(int64_t(std::bit_floor(pieces)), most));
}

int64_t AgGemm::bestComm(const Overlapped &o) const {
  double bytes = double((ranks - 1) * rows * rowBytes);
  return bestSenders(o.plan.microseconds, o.tiles(m), o.instances, ranks, bytes).count;
}

int64_t AgGemm::chooseComm(const Overlapped &o) const {
  int64_t comm = call.options.natural("comm", hasWarps(o.device) ? bestComm(o) : 1);
  if (comm >= o.instances && o.instances > 1)
    call.fail("option 'comm' is " + std::to_string(comm) + " of " + std::to_string(o.instances) +
              " instances, which leaves none to compute");
  return comm;
}

// N may differ from rank to rank; what is staged may not.
AgreedValues AgGemm::values() const {
  return {{"M", m},
          {"K", k},
          agreedType("the element type", dtype),
          {"option 'chunks'", call.options.natural("chunks", 0)},
          {"option 'comm'", call.options.natural("comm", 0)}};
}

const Workspace &AgGemm::gatheredRows() {
  return workspace(
      call.world(),
      {.key = "ag_gemm unfused", .stageBytes = m * std::max<int64_t>(rowBytes, 1), .buffers = 1});
}

void AgGemm::unfused() {
  std::optional<MatrixTensor> kept;
  if (ranks > 1)
    kept.emplace(gatheredRows().stage(dtype), m, k);
  tilery_tensor all = call.has(3) ? call.tensor(3) : kept ? tilery_tensor(*kept) : a;
  if (all.data != a.data)
    callOp("all_gather", call, {a, all});
  callOp("matmul", call, {all, b, c}, tileOptions(call));
}

// Without rows there is no `a` to describe to bulk copies, and they need aligned ones.
bool AgGemm::isInPlace() const {
  constexpr uintptr_t alignment = 16;
  return a.shape[0] > 0 && std::bit_cast<uintptr_t>(a.data) % alignment == 0;
}

// Tiles count from row 0 of all ranks, so the first and the last one with own rows may have others'.
AgGemm::Border AgGemm::border(int64_t tileRows) const {
  int64_t own = a.shape[0], first = rank * rows, end = first + own;
  if (!isInPlace())
    return {own, 0};
  int64_t tail = end == m ? own : end / tileRows * tileRows - first;
  return {std::min(ceilDiv(first, tileRows) * tileRows - first, own), std::max<int64_t>(tail, 0)};
}

void AgGemm::addCopies(Copies &copies, int64_t chunks, int64_t tileRows) const {
  int64_t chunkRows = ceilDiv(rows, chunks), own = a.shape[0];
  auto [head, tail] = border(tileRows);
  auto *source = static_cast<const char *>(a.data);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    int64_t chunkBegin = std::min(chunk * chunkRows, own);
    int64_t chunkEnd = std::min(chunkBegin + chunkRows, own);
    auto add = [&](int peer, int64_t begin, int64_t end) {
      copies.add(peer, source + begin * rowBytes, (rank * rows + begin) * rowBytes,
                 (end - begin) * rowBytes, rank * chunks + chunk);
    };
    if (chunkBegin < head || chunkEnd > tail)
      add(rank, chunkBegin < head ? chunkBegin : std::max(chunkBegin, tail),
          chunkEnd > tail ? chunkEnd : std::min(chunkEnd, head));
    for (int step = 1; step < ranks; ++step)
      add((rank + step) % ranks, chunkBegin, chunkEnd);
  }
}

void AgGemm::overlapped(const AgreedProduct &agreed, bool byCopies) {
  Overlapped o(call, agreed, n, k);
  if (o.instances == 1 && !byCopies)
    o.instances = 2; // one sends, one computes
  int64_t chunks = chooseChunks(hasWarps(o.device), byCopies), comm = byCopies ? 0 : chooseComm(o);
  const Workspace &ws =
      o.memoryOf("chunks=" + std::to_string(chunks) + (byCopies ? " copies" : ""),
                 {.key = dtypeName(dtype),
                  .slots = chunks,
                  .stageBytes = ranks * rows * std::max<int64_t>(rowBytes, 1),
                  .buffers = byCopies ? 1 : 2});
  const MatmulPlan &p = o.plan;
  Copies copies(call, ws);
  if (byCopies) {
    addCopies(copies, chunks, p.rows);
    o.guarded([&] { copies.open(); });
  }
  auto launch = [&](const auto &gathered) {
    o.launch("ag_gemm", copies.list(), memory(a), memory(b), memory(c), gathered, ws.stage(dtype),
             ws.stage(dtype), ws.entered, ws.ready, ws.epochs, a.shape[0], m, n, k, rows, ceilDiv(rows, chunks),
             ws.stageCapacity(dtype), stride(b, 0), stride(b, 1), stride(c, 0), stride(c, 1),
             isInPlace(), chunks, comm, p.blockM, p.blockN, p.blockK, p.rows, p.columns, p.groupM,
             accumulator(dtype));
  };
  if (call.has(3))
    launch(memory(call.tensor(3)));
  else
    launch(nullptr);
}

static void run(Call &call) {
  checkTensors(call);
  if (call.tensor(2).shape[0] == 0)
    return;
  AgGemm(call).run();
}

const Op &agGemmOp() {
  static const Op op{"ag_gemm",
                     "c = all_gather(a) @ b, tiles start as chunks of a arrive",
                     {"a", "b", "c", "gathered?"},
                     overlappedOptions({{"form", "\"auto\""}, {"chunks", "0"}, {"comm", "0"}}),
                     run,
                     /*communicates=*/true};
  return op;
}

} // namespace tilery::ops
