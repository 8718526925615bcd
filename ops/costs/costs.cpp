// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The formulas. Collectives are read off measured curves. Of products the matmul planner says what the
// tiles take, the curves when bytes arrive, and a line for each form, fitted to a few measured products,
// corrects both for what the form does besides.
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

ProductCase productCase(const std::string &op, const MatmulProblem &problem,
                        const tilery_device_properties &device, int ranks, int64_t instances,
                        int64_t sumSize, int64_t depth) {
  MatmulProblem asPlanned = problem;
  asPlanned.k = depth;
  ProductCase product{op, problem, device, ranks, instances, sumSize, {}, 0};
  product.plan = planMatmul(asPlanned, device, {.parts = 1});
  product.microseconds = expectedMicroseconds(product.plan, problem, device);
  return product;
}

static int64_t rowsOfRank(const ProductCase &p) { return ceilDiv(p.problem.m, p.ranks); }

static int64_t rounds(const ProductCase &p) {
  int64_t tiles = ceilDiv(p.problem.m, p.plan.rows) * ceilDiv(p.problem.n, p.plan.columns);
  return ceilDiv(tiles, std::max<int64_t>(p.instances, 1));
}

// Own rows come first. As many steps of the others' as there are rounds of tiles left, each of which
// begins when its rows are there; in a single round all tiles begin at once.
static double gathered(const ProductCase &p, double product, double begin, const Curve &arrival) {
  double rank = double(rowsOfRank(p)), m = double(p.problem.m);
  double own = rounds(p) == 1 ? 0 : rank / m;
  int64_t steps = std::max<int64_t>(std::llround(double(rounds(p)) * (1 - own)), 1);
  double rowBytes = double(p.problem.k * tilery_dtype_size(static_cast<tilery_dtype>(p.problem.dtype)));
  double bytes = rank * rowBytes * (p.ranks - 1), time = begin + product * own;
  for (int64_t step = 1; step <= steps; ++step) {
    double there = arrival.at(bytes * double(step) / double(steps));
    time = std::max(time, there) + product * (1 - own) / double(steps);
  }
  return time;
}

static double agGemm(const Calibration &figures, const ProductCase &p, const std::string &form) {
  const Curve *arrival = figures.curve(form == "copies" ? "link.copies" : "all_gather.push");
  if (!arrival)
    return Never;
  if (form == "copies") // behind the launch that meets the other ranks
    return gathered(p, p.microseconds, figures.number("meet"), *arrival);
  double senders = double(std::max<int64_t>(p.instances / 8, 1)), all = double(p.instances);
  return gathered(p, p.microseconds * all / std::max(all - senders, 1.0), 0, *arrival);
}

// The way of a signal: what a launch that meets the others takes beyond an empty one.
static double signalWay(const Calibration &figures) {
  return std::max(figures.number("meet") - figures.number("launch"), 0.0);
}

// Parts leave while the next tiles are computed, and the last ones arrive a signal later.
static double gemmRs(const Calibration &figures, const ProductCase &p) {
  const Curve *link = figures.curve("all_gather.push");
  if (!link)
    return Never;
  double sent = double(rowsOfRank(p) * p.problem.n * p.sumSize * (p.ranks - 1));
  return std::max(p.microseconds, sent / link->rate()) + signalWay(figures);
}

// One-shot: in each round an instance sends its tile and waits for the others'. Two-shot: as gemm_rs, but
// the sums go out behind the own tiles, when nothing is left to compute.
static double gemmAr(const Calibration &figures, const ProductCase &p, const std::string &form) {
  const Curve *link = figures.curve("all_gather.push");
  if (!link)
    return Never;
  double others = p.ranks - 1, way = signalWay(figures);
  double row = double(p.problem.n * p.sumSize);
  if (form == "one_shot")
    return p.microseconds + double(rounds(p)) * way +
           double(p.problem.m) * row * others / link->rate();
  double share = double(rowsOfRank(p)) * row * others / link->rate();
  return std::max(p.microseconds, share) + 2 * way + share;
}

double modelledMicroseconds(const Calibration &figures, const ProductCase &p,
                            const std::string &form) {
  if (p.op == "ag_gemm")
    return agGemm(figures, p, form);
  return p.op == "gemm_rs" ? gemmRs(figures, p) : gemmAr(figures, p, form);
}

// The operators `matmul`, which may cut tiles into parts, and a collective, one after the other.
static double unfused(const Calibration &figures, const ProductCase &p) {
  const Line *line = figures.line("matmul");
  MatmulPlan plan = planMatmul(p.problem, p.device, {});
  double product = (line ? *line : Line{}).at(expectedMicroseconds(plan, p.problem, p.device));
  if (p.ranks == 1)
    return product;
  int64_t size = tilery_dtype_size(static_cast<tilery_dtype>(p.problem.dtype));
  auto reduced = [&](const char *op, int64_t rows) {
    return collectiveMicroseconds(figures, op, p.ranks, rows * p.problem.n * p.sumSize, p.sumSize);
  };
  if (p.op == "ag_gemm")
    return product + collectiveMicroseconds(figures, "all_gather", p.ranks,
                                            rowsOfRank(p) * p.problem.k * size, size);
  return product + (p.op == "gemm_rs" ? reduced("reduce_scatter", rowsOfRank(p))
                                      : reduced("all_reduce", p.problem.m));
}

double productMicroseconds(const Calibration &figures, const ProductCase &p,
                           const std::string &form) {
  if (form == "unfused")
    return unfused(figures, p);
  const Line *line = figures.line(p.op + "." + form);
  return line ? line->at(modelledMicroseconds(figures, p, form)) : Never;
}

} // namespace tilery::ops
