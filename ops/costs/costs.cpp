// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The formulas. Collectives are read off measured curves. Of products the matmul planner says what the
// tiles take and the curves what bytes take; how much of both a form needs was fitted to a few measured
// products.
#include "ops/costs/costs.h"

#include "ops/op.h"

#include <algorithm>
#include <cmath>

namespace tilery::ops {

// All to all in one step, or shares of a sum and then the sums, each 1 / ranks of the bytes.
double sentBytes(const std::string &op, const std::string &form, int ranks, double bytes) {
  bool twoSteps = op == "all_reduce" && form != "one_shot" && form != "flagged";
  return (twoSteps ? 2 * bytes / ranks : bytes) * (ranks - 1);
}

double collectiveMicroseconds(const Calibration &figures, const std::string &op,
                              const std::string &form, int ranks, int64_t bytes, int64_t size) {
  bool packs = size == 2 || size == 4; // words with flags have 4 bytes of data
  const Curve *curve = figures.curve(op + "." + form);
  if (!curve || (form == "flagged" && !packs))
    return Never;
  return curve->at(sentBytes(op, form, ranks, double(bytes)));
}

double collectiveMicroseconds(const Calibration &figures, const std::string &op, int ranks,
                              int64_t bytes, int64_t size) {
  double least = Never;
  for (auto at = figures.curves.lower_bound(op + "."); at != figures.curves.end(); ++at) {
    if (!at->first.starts_with(op + "."))
      break;
    std::string form = at->first.substr(op.size() + 1);
    least = std::min(least, collectiveMicroseconds(figures, op, form, ranks, bytes, size));
  }
  return least;
}

static double elementBytes(const MatmulProblem &problem) {
  return double(tilery_dtype_size(static_cast<tilery_dtype>(problem.dtype)));
}

ProductCase productCase(const std::string &op, const MatmulProblem &problem,
                        const tilery_device_properties &device, int ranks, int64_t instances,
                        int64_t sumSize, int64_t depth) {
  MatmulProblem asPlanned = problem;
  asPlanned.k = depth;
  return {op, problem, device, ranks, instances, sumSize, planMatmul(asPlanned, device, {.parts = 1})};
}

double idealMatmul(const Calibration &figures, const MatmulPlan &plan, const MatmulProblem &problem,
                   const tilery_device_properties &device) {
  return expectedMicroseconds(plan, problem, device, figures.number("sustained"));
}

static int64_t rowsOfRank(const ProductCase &p) { return ceilDiv(p.problem.m, p.ranks); }

static int64_t tilesOf(const ProductCase &p) {
  return ceilDiv(p.problem.m, p.plan.rows) * ceilDiv(p.problem.n, p.plan.columns);
}

static int64_t rounds(const ProductCase &p) { return ceilDiv(tilesOf(p), p.instances); }

// Tiles of own rows alone begin at once, if there are any.
static bool beginsEarly(const ProductCase &p) {
  return rowsOfRank(p) >= p.plan.rows && rounds(p) > 1;
}

// Of rows that come rank by rank, each rank's need all of B, which memory brings again for them, and then
// memory and arithmetic hold each other up.
static double productOfBlocks(const Calibration &figures, const ProductCase &p) {
  double product = idealMatmul(figures, p.plan, p.problem, p.device);
  if (!beginsEarly(p))
    return product;
  MatmulProblem block = p.problem;
  block.m = rowsOfRank(p);
  return std::hypot(product, p.ranks * memoryMicroseconds(block, p.device));
}

static double gatheredBytes(const ProductCase &p) {
  return double(rowsOfRank(p) * (p.ranks - 1)) * double(p.problem.k) * elementBytes(p.problem);
}

// Own rows come first, then as many steps of the others' as there are rounds of tiles left, each of which
// begins when its rows are there. A call with copies takes the time of the smallest ones besides: streams
// part before its tiles, and join behind them.
static double gathered(const Calibration &figures, const ProductCase &p, const Curve &arrival) {
  double product = productOfBlocks(figures, p), bytes = gatheredBytes(p);
  double own = beginsEarly(p) ? double(rowsOfRank(p)) / double(p.problem.m) : 0;
  int64_t steps = beginsEarly(p)
                      ? std::max<int64_t>(std::llround(double(rounds(p)) * (1 - own)), 1)
                      : 1;
  double time = arrival.at(0) + product * own;
  for (int64_t step = 1; step <= steps; ++step) {
    double there = arrival.at(bytes * double(step) / double(steps));
    time = std::max(time, there) + product * (1 - own) / double(steps);
  }
  return time;
}

static bool hasTwoSteps(const std::string &form) { return form == "two_shot" || form == "direct"; }

// Of partial sums: all of them to each of the others; or each rank's share to it, and in two steps the sum
// of the own share to the others.
static double summedBytes(const ProductCase &p, const std::string &form) {
  int64_t rows = form == "one_shot" ? p.problem.m : rowsOfRank(p) * (hasTwoSteps(form) ? 2 : 1);
  return double(rows * p.problem.n * p.sumSize * (p.ranks - 1));
}

// Who sends leaves out a tile, which costs a round unless the last one has places left, and should not take
// longer for its shares than for that. As few as bring the others' rows while the own ones are computed.
Senders bestSenders(double product, int64_t tiles, int64_t instances, int ranks, double bytes) {
  constexpr double bytesOfOne = 12e3, begin = 5; // a microsecond; microseconds
  int64_t remote = tiles - tiles / ranks, rounds = ceilDiv(tiles, instances);
  double round = product / double(rounds);
  Senders best{1, Never};
  for (int64_t count = 1; count <= std::clamp<int64_t>(instances / 2, 1, 64); count *= 2) {
    double arrived = begin + bytes / std::min(double(count) * bytesOfOne, bytesOfLink);
    double time = std::max({round * double(ceilDiv(tiles + count, instances)),
                            arrived + round * double(ceilDiv(remote, instances)),
                            arrived + round * double(rounds - 1)});
    if (time < best.microseconds * 0.99)
      best = {count, time};
  }
  return best;
}

// Tiles are of one rank's rows each, unless there are few. Where memory bounds them they take up to a quarter
// longer than in `matmul`: none is cut into parts, so fewer instances ask for B.
static double productOfSums(const Calibration &figures, const ProductCase &p, const std::string &form) {
  MatmulProblem tiled = p.problem;
  MatmulPlan plan = p.plan;
  if (hasTwoSteps(form) || (form == "overlapped" && rowsOfRank(p) >= plan.rows))
    tiled.m = p.ranks * ceilDiv(rowsOfRank(p), plan.rows) * plan.rows;
  plan.whole = ceilDiv(tiled.m, plan.rows) * ceilDiv(tiled.n, plan.columns);
  double product = idealMatmul(figures, plan, tiled, p.device);
  double memory = memoryMicroseconds(p.problem, p.device);
  return product + memory * memory / product / 4;
}

Ideal idealProduct(const Calibration &figures, const ProductCase &p, const std::string &form) {
  const Curve *link = figures.curve("all_gather.push"), *copies = figures.curve("link.copies");
  if (!link || !copies)
    return {Never, 0};
  if (p.op != "ag_gemm")
    return {productOfSums(figures, p, form), summedBytes(p, form) / link->rate()};
  if (rowsOfRank(p) * (p.ranks - 1) >= p.problem.m) // a rank has no rows, and no `a` that bulk copies bring
    return {Never, 0};
  if (form == "copies")
    return {gathered(figures, p, *copies), 0};
  double product = productOfBlocks(figures, p);
  return {bestSenders(product, tilesOf(p), p.instances, p.ranks, gatheredBytes(p)).microseconds, 0};
}

// The operators `matmul`, which may cut tiles into parts, and a collective, one after the other.
static double unfused(const Calibration &figures, const ProductCase &p) {
  const Fit *fit = figures.fit("matmul");
  MatmulPlan plan = planMatmul(p.problem, p.device, {});
  double product = (fit ? *fit : Fit{}).at({idealMatmul(figures, plan, p.problem, p.device)});
  if (p.ranks == 1)
    return product;
  auto size = int64_t(elementBytes(p.problem));
  auto reduced = [&](const char *op, int64_t rows) {
    return collectiveMicroseconds(figures, op, p.ranks, rows * p.problem.n * p.sumSize, p.sumSize);
  };
  if (p.op == "ag_gemm")
    return product + collectiveMicroseconds(figures, "all_gather", p.ranks,
                                            rowsOfRank(p) * p.problem.k * size, size);
  return product + (p.op == "gemm_rs" ? reduced("reduce_scatter", rowsOfRank(p))
                                      : reduced("all_reduce", p.problem.m));
}

// gemm_rs, and all_gather of what it leaves on each rank.
static double scattered(const Calibration &figures, const ProductCase &p) {
  ProductCase rows = p;
  rows.op = "gemm_rs";
  return productMicroseconds(figures, rows, "overlapped") +
         collectiveMicroseconds(figures, "all_gather", p.ranks, rowsOfRank(p) * p.problem.n * p.sumSize, p.sumSize);
}

double productMicroseconds(const Calibration &figures, const ProductCase &p,
                           const std::string &form) {
  if (form == "unfused")
    return unfused(figures, p);
  if (form == "scattered")
    return scattered(figures, p);
  const Fit *fit = figures.fit(p.op + "." + form);
  if (!fit)
    return Never;
  // What competes with sending for the memory system is less certain than one thing after the other, by so
  // much of the time (two H200s, 42 shapes).
  double doubt = p.op == "ag_gemm" ? 1 : 1.05;
  return doubt * fit->at(idealProduct(figures, p, form));
}

} // namespace tilery::ops
