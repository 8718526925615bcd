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
const std::vector<Forms> collectives = {
    {"all_gather", {"flagged", "push", "copies", "direct", "direct_copies"}},
    {"reduce_scatter", {"flagged", "push", "pull", "copies", "direct"}},
    {"all_reduce", {"flagged", "one_shot", "two_shot", "copies", "direct"}},
    {"all_to_all", {"flagged", "push", "copies", "direct", "direct_copies"}},
    {"broadcast", {"push", "pull", "direct", "direct_copies"}}};
// Instances of ag_gemm that send come too late beside copy engines and collectives, at every size.
const std::vector<Forms> products = {{"ag_gemm", {"copies"}},
                                     {"gemm_rs", {"overlapped"}},
                                     {"gemm_ar", {"one_shot", "two_shot", "direct"}}};

constexpr int64_t ElementBytes = 2; // bf16 throughout
constexpr int64_t Sizes[] = {1 << 10, 16 << 10, 128 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
constexpr int64_t MostWithFlags = 1 << 20; // they are twice as many bytes
constexpr int64_t MostDirect = 64 << 20;   // instances and copy engines differ by little, and only here

/// M, N and K of one rank's product: from what memory bounds to what arithmetic does, with little and with
/// much to send. B is larger than caches, as in a model with many layers.
struct Shape {
  int64_t m, n, k;
};
constexpr Shape Shapes[] = {{16, 8192, 8192},  {64, 8192, 4096},   {128, 8192, 4096},
                            {512, 8192, 4096}, {512, 8192, 8192},  {2048, 8192, 2048},
                            {2048, 4096, 8192}, {2048, 8192, 8192}};
constexpr Shape Longest{4096, 8192, 8192};

/// How much may be used.
struct Extent {
  int64_t bytes, rows, columns;
};
constexpr Extent Full{16 << 20, 4096, 8192};
constexpr Extent Small{1 << 20, 512, 4096}; // for small heaps

Shape within(const Extent &extent, const Shape &shape) {
  return {std::min(shape.m, extent.rows), std::min(shape.n, extent.columns),
          std::min(shape.k, extent.columns)};
}

std::string text(const Shape &shape) {
  return std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k);
}

Matrix columnsOf(const Memory &b, int64_t k, int64_t n) { return {b.data, TILERY_BF16, k, n, 1, k}; }

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
  int done = 0, total = 3 + count(collectives) + count(products);
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

struct Operands {
  Memory a, b, c;
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
        if (form != std::string_view("direct") || ranks <= int(PeerBuffers::MostRanks))
          collective(op, form);
    productsOf();
    return std::move(figures);
  }

private:
  void links();
  void collective(const std::string &op, const std::string &form);
  void productsOf();
  void product(const std::string &op, const std::string &form, const Operands &operands);
  double productTime(const std::string &op, const std::string &form, const Shape &shape,
                     const Operands &operands, int rounds);
  Ideal idealOf(const std::string &op, const std::string &form, const Shape &shape,
                const Operands &operands) const;

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

// Copies to all other ranks by copy engines.
void Measurement::links() {
  progress.next("links");
  World team = teamOf(world);
  static const std::vector<std::string> noNames;
  Call call("calibration", team.handle(), {}, noNames, Options::parse("calibration", nullptr, {}));
  const Workspace &ws = workspace(
      team, {.key = "links", .slots = 1, .stageBytes = 2 * extent.bytes * ranks, .buffers = 1});
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

// What more bytes need less time than was disturbed.
static Curve rising(const std::vector<std::pair<double, double>> &points) {
  Curve curve;
  double least = Never;
  for (auto at = points.rbegin(); at != points.rend(); ++at)
    curve.add(at->first, least = std::min(least, at->second));
  return curve;
}

// Elements of x and out where a part has `part`.
static std::pair<int64_t, int64_t> elementsOf(const std::string &op, int64_t part, int ranks) {
  bool scatters = op == "reduce_scatter" || op == "all_to_all";
  bool gathers = op == "all_gather" || op == "all_to_all";
  return {scatters ? part * ranks : part, gathers ? part * ranks : part};
}

// For its tensors, and for staging of as much. Collective.
static bool hasRoom(World &team, const std::string &op, int64_t part) {
  auto [in, out] = elementsOf(op, part, team.size());
  try {
    team.free(team.zeros<bfloat16>(size_t(in + 2 * out), "room"));
    return true;
  } catch (const Error &error) {
    if (error.kind() != Kind::Launch)
      throw;
    return false;
  }
}

void Measurement::collective(const std::string &op, const std::string &form) {
  progress.next(op + ", " + form);
  World team = teamOf(world);
  double perByte = sentBytes(op, form, ranks, 1);
  auto partOf = [&](int64_t sent) { return int64_t(double(sent) / perByte) / 256 * 128; };
  int64_t most = form == "flagged" ? std::min(extent.bytes, MostWithFlags)
                 : form.starts_with("direct") && hasRoom(team, op, partOf(MostDirect)) ? MostDirect
                                                                                      : extent.bytes;
  auto [mostIn, mostOut] = elementsOf(op, partOf(most), ranks);
  auto x = team.zeros<bfloat16>(size_t(mostIn), "x"), out = team.zeros<bfloat16>(size_t(mostOut), "out");
  std::vector<std::pair<double, double>> points;
  for (int64_t sent : Sizes) {
    int64_t part = std::max<int64_t>(partOf(sent), 128);
    auto [in, result] = elementsOf(op, part, ranks);
    if (sent > most)
      continue;
    MatrixTensor from(Memory{x.data(), TILERY_BF16}, in, 1), to(Memory{out.data(), TILERY_BF16}, result, 1);
    // Short calls are disturbed now and then, which only adds to what they take.
    double time = watch.microseconds([&] { callForm(team, op, form, {from, to}); }, 8, 0.15);
    points.emplace_back(sentBytes(op, form, ranks, double(part * ElementBytes)), time);
  }
  figures.curves[op + "." + form] = rising(points);
}

static void fill(World &world, const Memory &memory, int64_t count) {
  constexpr int64_t block = 1024;
  kernel("costs", "fill").launchOn(world.handle(), {.x = ceilDiv(count, block)}, memory, count, block);
}

// Whether form direct is possible with it. Collective.
static bool canOthersUse(World &world, const Memory &memory) {
  PeerBuffers buffers({{"out", memory}});
  buffers.hear(world.allGather(buffers.described(world)[0]));
  buffers.open(world);
  return buffers.problem().empty() && world.size() <= int(PeerBuffers::MostRanks);
}

// Memory is what one rank alone may lack: all ask for it before any of them goes on.
void Measurement::productsOf() {
  const int64_t counts[] = {extent.rows * extent.columns, extent.columns * extent.columns,
                            extent.rows * extent.columns};
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::string problem;
  try {
    for (int64_t count : counts)
      buffers.push_back(std::make_unique<Buffer>(tilery_world_device(world.handle()), count));
  } catch (const Error &error) {
    problem = error.what();
  }
  for (int32_t failed : world.allGather(int32_t(!problem.empty())))
    if (failed)
      throw Error(Kind::Launch, problem.empty() ? "another rank has too little memory" : problem);
  Operands operands{*buffers[0], *buffers[1], *buffers[2]};
  fill(world, operands.a, counts[0]);
  fill(world, operands.b, counts[1]);
  progress.next("long products");
  constexpr int rounds = 300; // half a second, until clocks are as low as they get
  double longest = productTime("matmul", "", Longest, operands, rounds);
  auto [m, n, k] = within(extent, Longest);
  figures.numbers["sustained"] = 2.0 * double(m) * double(n) * double(k) / longest;
  product("matmul", "", operands);
  for (const auto &[op, forms] : products)
    for (const char *form : forms)
      if (!isDirect(form) || canOthersUse(world, operands.c))
        product(op, form, operands);
}

double Measurement::productTime(const std::string &op, const std::string &form, const Shape &shape,
                                const Operands &operands, int rounds) {
  auto [m, n, k] = within(extent, shape);
  World team = teamOf(world);
  int64_t own = Shards(m, ranks).own(m, team.rank());
  MatrixTensor all(operands.a, m, k), ownRows(operands.a, own, k), product(operands.c, m, n),
      ownProduct(operands.c, own, n), columns(columnsOf(operands.b, k, n));
  const MatrixTensor &in = op == "ag_gemm" ? ownRows : all;
  const MatrixTensor &out = op == "gemm_rs" ? ownProduct : product;
  return watch.microseconds([&] { callForm(team, op, form, {in, columns, out}); }, rounds);
}

Ideal Measurement::idealOf(const std::string &op, const std::string &form, const Shape &shape,
                           const Operands &operands) const {
  auto [m, n, k] = within(extent, shape);
  Matrix left{operands.a.data, TILERY_BF16, m, k, k, 1};
  MatmulProblem problem = matmulProblem(left, columnsOf(operands.b, k, n), 1, device);
  if (form.empty())
    return {idealMatmul(figures, planMatmul(problem, device, {}), problem, device)};
  int64_t instances = std::max<int64_t>(device.processors / tilery_world_device_ranks(world.handle()), 1);
  int64_t depth = op == "ag_gemm" ? k : partialDepth;
  return idealProduct(figures, productCase(op, problem, device, ranks, instances, ElementBytes, depth),
                      form);
}

// The times themselves are kept beside the fit, for those who look at it.
void Measurement::product(const std::string &op, const std::string &form, const Operands &operands) {
  std::string name = form.empty() ? op : op + "." + form;
  progress.next(name);
  std::vector<std::pair<Ideal, double>> measured;
  for (const Shape &shape : Shapes) {
    if (shape.m > extent.rows)
      continue;
    double time = productTime(op, form, shape, operands, 5);
    if (Ideal ideal = idealOf(op, form, shape, operands); ideal.product < Never)
      measured.emplace_back(ideal, time);
    figures.numbers[name + " " + text(within(extent, shape))] = time;
  }
  figures.fits[name] = fitted(measured);
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
