// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// A cost model over a small table of tiles. A product takes the longest of three times: that of the
// memory for all operands; that of the instance with the most steps, each of which takes the longer of
// its arithmetic and its copies; and that of all arithmetic at the rate that the device's power allows.
#include "ops/matmul/plan.h"

#include "ops/launch_options.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <initializer_list>

namespace tilery::ops {

namespace {
/// A tile, and the arithmetic that an instance of it reaches, of HalfOperations.
struct Candidate {
  int64_t blockM, blockN, columns, warps, stages;
  double efficiency;
};

constexpr std::array<Candidate, 17> candidates = {{{128, 256, 256, 8, 4, 1.08},
                                                   {128, 256, 224, 8, 4, 1.07},
                                                   {128, 256, 192, 8, 4, 1.06},
                                                   {128, 256, 160, 8, 4, 1.03},
                                                   {256, 128, 128, 8, 4, 1.07},
                                                   {128, 128, 128, 4, 6, 1.01},
                                                   {128, 128, 112, 4, 6, 0.98},
                                                   {128, 128, 96, 4, 6, 0.95},
                                                   {128, 128, 80, 4, 6, 0.90},
                                                   {128, 128, 64, 4, 6, 0.81},
                                                   {64, 256, 256, 4, 6, 1.00},
                                                   {64, 256, 192, 4, 6, 1.02},
                                                   {64, 256, 160, 4, 8, 1.01},
                                                   {64, 128, 128, 4, 10, 1.04},
                                                   {64, 128, 112, 4, 10, 0.84},
                                                   {64, 128, 96, 4, 10, 0.75},
                                                   {64, 64, 64, 4, 12, 0.64}}};
constexpr int64_t MostParts = 8;

// One processor of an H200; bytes and operations a microsecond. Fitted to 1217 measurements of 55 shapes
// (bf16, every tile and up to three parts, as bench/gpu_gemm.py --tune has them), the efficiencies of tiles of
// 128 x 128 and more then set by those at full clock, since all are alike where power sets it: of these
// measurements the tile chosen is 0.9 % slower than the best one on average, 11 % at worst.
constexpr double BytesFromMemory = 3.9e6 / 132; // all of them at once
constexpr double BytesOfOne = 145e3;            // from the cache, which reads once what several ask for
constexpr double BytesOfParts = 80e3;           // written by one and read by another
constexpr double HalfOperations = 6.2e6;        // twice as many of 8 bits
constexpr double SustainedOperations = 5.5e6;   // of the same, all of them at once
constexpr double StartMicroseconds = 2.2;
constexpr double RoundMicroseconds = 0.5; // a tile's results are written before its next tile
constexpr double MeetMicroseconds = 3.7;  // a part is seen by the last one
} // namespace

/// When one dimension goes on for 16 bytes at least and the others start at such places.
static bool streams(const Matrix &x, bool depthFastest) {
  int64_t bytes = tilery_dtype_size(static_cast<tilery_dtype>(x.dtype));
  bool rowsRun = x.columnStride == 1 && x.rowStride * bytes % 16 == 0;
  bool columnsRun = x.rowStride == 1 && x.columnStride * bytes % 16 == 0;
  bool runs =
      depthFastest ? rowsRun || (bytes == 2 && columnsRun) : columnsRun || (bytes == 2 && rowsRun);
  return runs && x.batchStride * bytes % 16 == 0 && std::bit_cast<uintptr_t>(x.data) % 16 == 0;
}

MatmulProblem matmulProblem(const Matrix &a, const Matrix &b, int64_t batches,
                            const tilery_device_properties &device) {
  constexpr int64_t rings = 200 << 10; // room for those of the largest tiles
  constexpr int64_t panel = 64;        // that contiguous columns are copied in
  bool isSmall = tilery_dtype_size(static_cast<tilery_dtype>(a.dtype)) <= 2;
  MatmulProblem problem{a.rows, b.columns, a.columns, batches, a.dtype};
  problem.streams = device.shared_bytes >= rings && isSmall && streams(a, true) && streams(b, false);
  if (b.columnStride == 1)
    problem.columnUnit = panel;
  return problem;
}

MatmulChoice matmulChoice(const Call &call) {
  constexpr int64_t most = 4096; // no tile is larger, nor is any depth cut into more parts
  auto number = [&](const char *name, bool power) {
    int64_t value = call.options.has(name) ? call.options.integer(name) : 0;
    if (value < 0 || value > most || (power && (value & (value - 1))))
      call.fail("option '" + std::string(name) + "' is " + std::to_string(value) + ", needs " +
                (power ? "a power of two" : "1 or more") + ", at most " + std::to_string(most) + " (0 chooses)");
    return value;
  };
  return {number("block_m", true), number("block_n", true), number("block_k", true),
          number("columns", false), number("parts", false)};
}

static double bytesOf(int32_t dtype) {
  return double(tilery_dtype_size(static_cast<tilery_dtype>(dtype)));
}

static int64_t tilesOf(const MatmulPlan &plan, const MatmulProblem &problem) {
  return ceilDiv(problem.m, plan.rows) * ceilDiv(problem.n, plan.columns) * problem.batches;
}

// Whole rounds are made of whole tiles; parts are for what is left.
static void deal(MatmulPlan &plan, const MatmulProblem &problem, int64_t processors) {
  int64_t tiles = tilesOf(plan, problem);
  plan.whole = plan.parts == 1 ? tiles : tiles / processors * processors;
  plan.partSteps = ceilDiv(ceilDiv(problem.k, plan.blockK), plan.parts);
  plan.instances = std::min(plan.whole + (tiles - plan.whole) * plan.parts, processors);
}

double memoryMicroseconds(const MatmulProblem &problem, const tilery_device_properties &device) {
  double m = double(problem.m), n = double(problem.n);
  double bytes = double(problem.batches) *
                 ((m + n) * double(problem.k) * bytesOf(problem.dtype) + m * n * 2);
  return bytes / (BytesFromMemory * double(device.processors));
}

// What takes nearly as long as the longest delays it: a sum of powers instead of the greatest.
static double longest(std::initializer_list<double> times) {
  constexpr double power = 6;
  double sum = 0;
  for (double time : times)
    sum += std::pow(time, power);
  return std::pow(sum, 1 / power);
}

double expectedMicroseconds(const MatmulPlan &plan, const MatmulProblem &problem,
                            const tilery_device_properties &device, double sustained) {
  int64_t processors = device.processors;
  double bytes = bytesOf(problem.dtype), narrow = 2 / bytes;
  if (sustained == 0)
    sustained = SustainedOperations * double(processors);
  int64_t wholeRounds = ceilDiv(plan.whole, processors);
  int64_t partRounds = ceilDiv((tilesOf(plan, problem) - plan.whole) * plan.parts, processors);
  int64_t rounds = wholeRounds + partRounds;
  double steps = double(wholeRounds * ceilDiv(problem.k, plan.blockK) + partRounds * plan.partSteps);
  double operations = 2.0 * double(plan.blockM * plan.columns * plan.blockK);
  double copied = double((plan.rows + plan.columns) * plan.blockK) * bytes;
  double step = std::max(operations / (HalfOperations * narrow * plan.efficiency), copied / BytesOfOne);
  double all = 2.0 * double(tilesOf(plan, problem) * plan.rows * plan.columns * problem.k);
  double handing = 0;
  if (plan.parts > 1) // each writes a part, the last reads all
    handing = MeetMicroseconds + double(plan.rows * plan.columns * 4 * (1 + plan.parts)) / BytesOfParts;
  return StartMicroseconds + RoundMicroseconds * double(rounds - 1) + handing +
         longest({memoryMicroseconds(problem, device), steps * step, all / (sustained * narrow)});
}

// Instances whose operands come by loads or by copies of threads: of moderate size, so that registers
// and shared memory hold some steps. Rows of 128 bytes are read whole; the largest tiles leave room for
// one instance, which then looks further ahead where there is memory for it.
static MatmulPlan planPlain(const MatmulProblem &problem, const tilery_device_properties &device) {
  bool fast = hasWarps(device), wide = bytesOf(problem.dtype) >= 4;
  int64_t most = !fast || wide ? 64 : 128, least = fast ? 16 : 1;
  MatmulPlan plan;
  plan.blockM = blockFor(problem.m, least, most); // rows that do not exist need not be computed
  plan.blockN = blockFor(problem.n, 16, most);
  int64_t bytes = int64_t(bytesOf(problem.dtype));
  plan.blockK = blockFor(problem.k, 16, !fast || bytes == 1 ? 128 : wide ? 32 : 64);
  bool isLarge = plan.blockM * plan.blockN >= 128 * 128;
  plan.warps = isLarge ? 8 : 4;
  int64_t step = (plan.blockM + plan.blockN) * plan.blockK * bytes;
  if (isLarge && device.shared_bytes >= 4 * step + 4096)
    plan.stages = 4;
  return plan;
}

static MatmulPlan planStreams(const MatmulProblem &problem, const tilery_device_properties &device,
                              const MatmulChoice &wanted) {
  auto isWanted = [](int64_t choice, int64_t value) { return choice == 0 || choice == value; };
  MatmulPlan best;
  for (const Candidate &candidate : candidates) {
    bool wasted = (candidate.blockM > 64 && candidate.blockM >= 2 * problem.m) ||
                  candidate.columns % problem.columnUnit != 0;
    if (wasted || !isWanted(wanted.blockM, candidate.blockM) ||
        !isWanted(wanted.blockN, candidate.blockN) || !isWanted(wanted.columns, candidate.columns))
      continue;
    MatmulPlan plan;
    plan.blockM = candidate.blockM;
    plan.blockN = candidate.blockN;
    plan.blockK = 128 / int64_t(bytesOf(problem.dtype));
    plan.rows = candidate.blockM == 64 ? blockFor(problem.m, 8, 64) : candidate.blockM;
    plan.columns = candidate.columns;
    plan.warps = candidate.warps;
    plan.stages = candidate.stages;
    plan.efficiency = candidate.efficiency;
    for (plan.parts = 1; plan.parts <= MostParts; ++plan.parts) {
      if (!isWanted(wanted.parts, plan.parts))
        continue;
      deal(plan, problem, device.processors);
      // Parts of one tile that run after each other would bring operands from memory again.
      int64_t cut = tilesOf(plan, problem) - plan.whole;
      if (plan.parts > 1 && (cut == 0 || (cut * plan.parts > device.processors && !wanted.parts)))
        break;
      plan.microseconds = expectedMicroseconds(plan, problem, device);
      if (best.microseconds == 0 || plan.microseconds < best.microseconds)
        best = plan;
    }
  }
  return best;
}

MatmulPlan planMatmul(const MatmulProblem &problem, const tilery_device_properties &device,
                      const MatmulChoice &wanted) {
  MatmulPlan plan;
  if (problem.streams)
    plan = planStreams(problem, device, wanted);
  bool known = plan.microseconds > 0;
  if (known && wanted.blockK == 0)
    return plan;
  if (!known) {
    plan = planPlain(problem, device);
    plan.blockM = wanted.blockM ? wanted.blockM : plan.blockM;
    plan.blockN = wanted.blockN ? wanted.blockN : plan.blockN;
    plan.rows = plan.blockM;
    plan.columns = wanted.columns ? wanted.columns : plan.blockN;
    plan.parts = wanted.parts ? wanted.parts : 1;
  }
  plan.blockK = wanted.blockK ? wanted.blockK : plan.blockK;
  deal(plan, problem, known ? device.processors : tilesOf(plan, problem) * plan.parts + 1);
  return plan;
}

void checkColumns(const Call &call, const MatmulPlan &plan) {
  if (plan.columns > plan.blockN)
    call.fail("option 'columns' is " + std::to_string(plan.columns) + ", more than 'block_n', " +
              std::to_string(plan.blockN));
}

} // namespace tilery::ops
