// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Everything runs in teams of all ranks, whose memory goes when they end.
#include "ops/costs/measure.h"

#include "ops/costs/costs.h"
#include "ops/costs/stopwatch.h"
#include "ops/launch_options.h"
#include "ops/overlapped.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <numeric>
#include <unistd.h>

namespace tilery::ops {

namespace {

struct Forms {
  const char *op;
  std::vector<const char *> forms;
};

// What is not here is chosen by nobody but the caller.
const std::vector<Forms> collectives = {{"all_gather", {"flagged", "push", "copies"}},
                                        {"reduce_scatter", {"flagged", "push", "pull", "copies"}},
                                        {"all_reduce", {"flagged", "one_shot", "two_shot", "copies"}},
                                        {"all_to_all", {"flagged", "push", "copies"}},
                                        {"broadcast", {"push", "pull"}}};
const std::vector<Forms> products = {{"ag_gemm", {"instances", "copies"}},
                                     {"gemm_rs", {"overlapped"}},
                                     {"gemm_ar", {"one_shot", "two_shot"}}};

constexpr int64_t ElementBytes = 2; // bf16 throughout
constexpr int64_t Sizes[] = {1 << 10, 16 << 10, 128 << 10, 1 << 20, 4 << 20, 16 << 20};
constexpr int64_t MostWithFlags = 1 << 20; // they are twice as many bytes

/// M, N and K of products from short ones, which memory bounds, to long ones.
struct Shape {
  int64_t m, n, k;
};
constexpr Shape Shapes[] = {{16, 4096, 4096}, {512, 4096, 4096}, {4096, 4096, 4096}};

/// How much may be used.
struct Extent {
  int64_t bytes, rows;
};
constexpr Extent Full{16 << 20, 4096};
constexpr Extent Small{1 << 20, 512}; // for small heaps

/// One line on standard error, of rank 0.
class Progress {
public:
  explicit Progress(World &world) : shown(world.rank() == 0), rewrites(isatty(STDERR_FILENO)) {
    if (shown && !rewrites)
      std::fputs("tilery: measuring what communication costs on this machine, once\n", stderr);
  }
  ~Progress() {
    if (shown && rewrites)
      std::fputs("\r\033[K", stderr);
  }
  void next(const std::string &what) {
    ++done;
    if (shown && rewrites)
      std::fprintf(stderr, "\r\033[Ktilery: measuring what communication costs, once: %d of %d, %s", done,
                   total, what.c_str());
  }

private:
  static int count(const std::vector<Forms> &table) {
    return std::accumulate(table.begin(), table.end(), 0,
                           [](int sum, const Forms &op) { return sum + int(op.forms.size()); });
  }
  bool shown, rewrites;
  int done = 0, total = 2 + count(collectives) + count(products);
};

/// All ranks again, with memory that ends with it.
World teamOf(World &world) {
  std::vector<int32_t> ranks(size_t(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  tilery_world *team = nullptr;
  check(tilery_team_create(world.handle(), ranks.data(), int32_t(ranks.size()), "calibration", &team));
  return World(team, World::Owns::World);
}

/// Memory of the device for a matrix.
class Buffer {
public:
  Buffer(int32_t device, int64_t count) : device(device), bytes(size_t(count * ElementBytes)) {
    check(tilery_device_allocate(device, bytes, &data));
  }
  ~Buffer() { tilery_device_release(device, data, bytes); }
  Buffer(const Buffer &) = delete;
  operator Memory() const { return {data, TILERY_BF16, int64_t(bytes)}; }

private:
  int32_t device;
  size_t bytes;
  void *data = nullptr;
};

class Measurement {
public:
  Measurement(World &world, Extent extent)
      : world(world), extent(extent), ranks(world.size()), watch(world), progress(world) {
    check(tilery_device_describe(tilery_world_device(world.handle()), &device));
  }

  Calibration run() {
    links();
    for (const auto &[op, forms] : collectives)
      for (const char *form : forms)
        collective(op, form);
    productsOf();
    return std::move(figures);
  }

private:
  void links();
  void collective(const std::string &op, const std::string &form);
  void productsOf();
  void product(const std::string &op, const std::string &form, const Buffer &a, const Buffer &b,
               const Buffer &c);

  World &world;
  Extent extent;
  int ranks;
  tilery_device_properties device{};
  Stopwatch watch;
  Progress progress;
  Calibration figures;
};

} // namespace

static void callForm(World &world, const std::string &op, const std::string &form,
                     std::initializer_list<tilery_tensor> tensors) {
  std::string options = form.empty() ? "{}" : "{\"form\": \"" + form + "\"}";
  call(op, world.handle(), tensors.begin(), int(tensors.size()), options.c_str());
}

// Launches, the launch that meets the other ranks, and copies to all of them by copy engines.
void Measurement::links() {
  progress.next("links");
  World team = teamOf(world);
  static const std::vector<std::string> noNames;
  Call call("calibration", team.handle(), {}, noNames, Options::parse("calibration", nullptr, {}));
  const Workspace &ws = workspace(
      team, {.key = "links", .slots = 1, .stageBytes = 2 * extent.bytes * ranks, .buffers = 1});
  figures.numbers["launch"] = watch.microseconds([&] { watch.launchNothing(); });
  figures.numbers["meet"] = watch.microseconds([&] { Copies(call, ws).open(); });
  for (int64_t bytes : Sizes) {
    int64_t part = bytes / (ranks - 1) / 16 * 16;
    if (bytes > extent.bytes)
      continue;
    auto *source = static_cast<const char *>(ws.stage(TILERY_INT8).data) + ranks * extent.bytes;
    double time = watch.microseconds([&] {
      Copies copies(call, ws);
      for (int step = 1; step < ranks; ++step)
        copies.add((team.rank() + step) % ranks, source, team.rank() * part, part, team.rank());
      copies.open();
      kernel("costs", "await_copies")
          .launch(team, {.options = launchOptions(device, 1), .transfers = copies.list()}, ws.ready,
                  ws.epochs, ranks);
    });
    figures.curves["link.copies"].add(double(part * (ranks - 1)), time);
  }
}

// Elements of x and out where a part has `part`.
static std::pair<int64_t, int64_t> elementsOf(const std::string &op, int64_t part, int ranks) {
  bool scatters = op == "reduce_scatter" || op == "all_to_all";
  bool gathers = op == "all_gather" || op == "all_to_all";
  return {scatters ? part * ranks : part, gathers ? part * ranks : part};
}

void Measurement::collective(const std::string &op, const std::string &form) {
  progress.next(op + ", " + form);
  World team = teamOf(world);
  double perByte = sentBytes(op, form, ranks, 1);
  int64_t most = form == "flagged" ? std::min(extent.bytes, MostWithFlags) : extent.bytes;
  auto partOf = [&](int64_t sent) { return int64_t(double(sent) / perByte) / 256 * 128; };
  auto [mostIn, mostOut] = elementsOf(op, partOf(most), ranks);
  auto x = team.zeros<bfloat16>(size_t(mostIn), "x"), out = team.zeros<bfloat16>(size_t(mostOut), "out");
  for (int64_t sent : Sizes) {
    int64_t part = std::max<int64_t>(partOf(sent), 128);
    auto [in, result] = elementsOf(op, part, ranks);
    if (sent > most)
      continue;
    MatrixTensor from(Memory{x.data(), TILERY_BF16}, in, 1), to(Memory{out.data(), TILERY_BF16}, result, 1);
    double time = watch.microseconds([&] { callForm(team, op, form, {from, to}); });
    figures.curves[op + "." + form].add(sentBytes(op, form, ranks, double(part * ElementBytes)), time);
  }
}

static void fill(World &world, const Buffer &buffer, int64_t count) {
  constexpr int64_t block = 1024;
  kernel("costs", "fill").launchOn(world.handle(), {.x = ceilDiv(count, block)}, Memory(buffer), count, block);
}

// Memory is what one rank alone may lack: all ask for it before any of them goes on.
void Measurement::productsOf() {
  constexpr int64_t most = 4096 * 4096;
  std::unique_ptr<Buffer> buffers[3];
  std::string problem;
  try {
    for (auto &buffer : buffers)
      buffer = std::make_unique<Buffer>(tilery_world_device(world.handle()), most);
  } catch (const Error &error) {
    problem = error.what();
  }
  for (int32_t failed : world.allGather(int32_t(!problem.empty())))
    if (failed)
      throw Error(Kind::Launch, problem.empty() ? "another rank has too little memory" : problem);
  auto &[a, b, c] = buffers;
  fill(world, *a, most);
  fill(world, *b, most);
  product("matmul", "", *a, *b, *c);
  for (const auto &[op, forms] : products)
    for (const char *form : forms)
      product(op, form, *a, *b, *c);
}

void Measurement::product(const std::string &op, const std::string &form, const Buffer &a,
                          const Buffer &b, const Buffer &c) {
  progress.next(form.empty() ? op : op + ", " + form);
  World team = teamOf(world);
  int64_t share = std::max<int64_t>(device.processors / tilery_world_device_ranks(team.handle()), 1);
  std::vector<std::pair<double, double>> points;
  for (auto [m, n, k] : Shapes) {
    if (m > extent.rows)
      continue;
    int64_t own = Shards(m, ranks).own(m, team.rank());
    Matrix left{Memory(a).data, TILERY_BF16, m, k, k, 1}, right{Memory(b).data, TILERY_BF16, k, n, 1, k};
    MatrixTensor all(left), columns(right), ownRows(Memory(a), own, k), product(Memory(c), m, n),
        ownProduct(Memory(c), own, n);
    const MatrixTensor &in = op == "ag_gemm" ? ownRows : all;
    const MatrixTensor &out = op == "gemm_rs" ? ownProduct : product;
    double time = watch.microseconds([&] { callForm(team, op, form, {in, columns, out}); });
    MatmulProblem problem = matmulProblem(left, right, 1, device);
    double modelled =
        form.empty() ? expectedMicroseconds(planMatmul(problem, device, {}), problem, device)
                     : modelledMicroseconds(figures,
                                            productCase(op, problem, device, ranks, share, ElementBytes,
                                                        op == "ag_gemm" ? k : partialDepth),
                                            form);
    points.emplace_back(modelled, time);
  }
  figures.lines[form.empty() ? op : op + "." + form] = fitted(points);
}

Calibration measureCosts(World &world) {
  if (tilery_world_device(world.handle()) == 0 || world.size() == 1)
    throw Error(Kind::Launch, "calibration measures what goes between several ranks on devices; this world "
                              "has " +
                                  std::to_string(world.size()) + " on " +
                                  (tilery_world_device(world.handle()) ? "a device" : "the host"));
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  auto finished = [&](Calibration figures) {
    figures.numbers["ranks"] = world.size();
    figures.numbers["seconds"] = std::chrono::duration<double>(Clock::now() - start).count();
    return figures;
  };
  try {
    Calibration figures = finished(Measurement(world, Full).run());
    check(tilery_calibration_store(world.handle(), figures.text().c_str()));
    return figures;
  } catch (const Error &error) {
    if (error.kind() != Kind::Launch)
      throw;
  }
  return finished(Measurement(world, Small).run());
}

} // namespace tilery::ops
