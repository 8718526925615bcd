// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Host side of matmul: c = activation(a @ b * scale_a * scale_b + bias) + residual, any strides,
// with or without batches.
#include "ops/kernels.h"
#include "ops/launch_options.h"
#include "ops/matmul/plan.h"
#include "ops/partials.h"
#include "ops/registry.h"

#include <array>
#include <optional>

namespace tilery::ops {

namespace {

enum Tensor : size_t { A, B, C, Bias, Residual, ScaleA, ScaleB };

int64_t extent(const tilery_tensor &x, int fromEnd) { return x.shape[x.rank - fromEnd]; }

/// Strides in elements of [batches, rows, columns].
std::array<int64_t, 3> steps(const tilery_tensor &x) {
  return {x.rank == 3 && x.shape[0] > 1 ? stride(x, 0) : 0, stride(x, x.rank - 2),
          stride(x, x.rank - 1)};
}

void checkMatrices(const Call &call) {
  const tilery_tensor &a = call.tensor(A);
  int rank = a.rank == 3 ? 3 : 2;
  for (size_t i : {A, B, C})
    call.needRank(i, rank);
  call.needType(A, {TILERY_FP32, TILERY_FP16, TILERY_BF16, TILERY_FP64, TILERY_INT8, TILERY_FP8E4NV,
                    TILERY_FP8E5});
  call.needSameType(A, B);
  int first = rank - 2;
  if (rank == 3)
    for (size_t i : {B, C})
      call.needDim(i, 0, a.shape[0], "batches of 'a'");
  call.needDim(B, first, extent(a, 1), "K of 'a'");
  call.needDim(C, first, extent(a, 2), "M of 'a'");
  call.needDim(C, first + 1, extent(call.tensor(B), 1), "N of 'b'");
}

void checkScale(const Call &call, size_t scale, int64_t extent, const char *what) {
  call.needRank(scale, 1);
  call.needType(scale, {TILERY_FP32});
  call.needContiguous(scale);
  if (call.tensor(scale).shape[0] != 1)
    call.needDim(scale, 0, extent, what);
}

void checkFollowing(const Call &call) {
  const tilery_tensor &a = call.tensor(A), &b = call.tensor(B), &c = call.tensor(C);
  if (call.has(Bias)) {
    call.needRank(Bias, 1);
    call.needDim(Bias, 0, extent(b, 1), "N of 'b'");
    call.needContiguous(Bias);
  }
  if (call.has(Residual)) {
    call.needRank(Residual, a.rank);
    for (int dim = 0; dim < a.rank; ++dim)
      call.needDim(Residual, dim, c.shape[dim], "that of 'c'");
  }
  if (call.has(ScaleA) != call.has(ScaleB))
    call.fail("'scale_a' and 'scale_b' come together");
  if (call.has(ScaleA)) {
    checkScale(call, ScaleA, extent(a, 2), "1 or M of 'a'");
    checkScale(call, ScaleB, extent(b, 1), "1 or N of 'b'");
  }
  int32_t result = call.has(ScaleA) ? TILERY_FP32 : accumulator(a.dtype);
  for (size_t i : {C, Bias, Residual})
    if (call.has(i) && isFloat(result) != isFloat(call.tensor(i).dtype))
      call.fail("'" + call.name(i) + "' is " + dtypeName(call.tensor(i).dtype) +
                ", but the product of " + dtypeName(a.dtype) + " is " + dtypeName(result));
  if (!isFloat(result) && call.options.text("activation") != "none")
    call.fail("an activation needs floats, but the product of " + std::string(dtypeName(a.dtype)) +
              " is " + dtypeName(result) + "; pass 'scale_a' and 'scale_b'");
}

Matrix matrix(const tilery_tensor &x) {
  auto [batch, row, column] = steps(x);
  return {x.data, x.dtype, extent(x, 2), extent(x, 1), row, column, batch};
}

MatmulPlan plan(const Call &call) {
  const tilery_tensor &a = call.tensor(A), &b = call.tensor(B);
  tilery_device_properties device = call.device();
  MatmulProblem problem =
      matmulProblem(matrix(a), matrix(b), a.rank == 3 ? a.shape[0] : 1, device);
  MatmulPlan chosen = planMatmul(problem, device, matmulChoice(call));
  checkColumns(call, chosen);
  return chosen;
}

// Parts of tiles, and a counter for each tile that is cut.
Partials partialsOf(Call &call, const MatmulPlan &plan, int64_t tiles) {
  if (plan.parts == 1)
    return {};
  if (tiles > mostCombined)
    call.fail("option 'parts' is " + std::to_string(plan.parts) + " for " + std::to_string(tiles) +
              " tiles, possible for " + std::to_string(mostCombined) + " at most");
  return partialsFor(call, tiles, plan.parts * tiles * plan.rows * plan.columns,
                     accumulator(call.tensor(A).dtype));
}

void run(Call &call) {
  checkMatrices(call);
  checkFollowing(call);
  const tilery_tensor &a = call.tensor(A), &b = call.tensor(B), &c = call.tensor(C);
  static const std::vector<std::string> activations = {"none", "relu", "silu", "gelu", "gelu_tanh"};
  const std::string &activation =
      activations[size_t(call.options.choice("activation", activations))];
  MatmulPlan p = plan(call);
  int64_t batches = a.rank == 3 ? a.shape[0] : 1;
  int64_t tiles = ceilDiv(extent(a, 2), p.rows) * ceilDiv(extent(b, 1), p.columns) * batches;
  Partials parts = partialsOf(call, p, tiles - p.whole);
  auto optional = [&](size_t at) {
    return call.has(at) ? std::optional(memory(call.tensor(at))) : std::nullopt;
  };
  auto scaleStep = [&](size_t at) { return int64_t(call.has(at) && call.tensor(at).shape[0] > 1); };
  std::array<int64_t, 3> sa = steps(a), sb = steps(b), sc = steps(c), sr{};
  if (call.has(Residual))
    sr = steps(call.tensor(Residual));
  Launch how{.x = p.instances, .options = launchOptions(call.device(), p.warps, p.stages)};
  kernel("matmul", "matmul")
      .launchOn(call.worldOrNull(), how, memory(a), memory(b), memory(c), optional(Bias),
                optional(Residual), optional(ScaleA), optional(ScaleB), parts.values,
                parts.arrived, extent(a, 2), extent(b, 1), extent(a, 1), batches, sa[0], sa[1],
                sa[2], sb[0], sb[1], sb[2], sc[0], sc[1], sc[2], sr[0], sr[1], sr[2],
                scaleStep(ScaleA), scaleStep(ScaleB), p.whole, p.parts, p.partSteps, p.blockM, p.blockN,
                p.blockK, p.rows, p.columns, p.groupM, accumulator(a.dtype), a.rank == 3,
                p.parts > 1, call.has(Bias), call.has(Residual), call.has(ScaleA),
                Text{activation});
}

} // namespace

const Op &matmulOp() {
  static const Op op{"matmul",
                     "c = activation(a @ b * scale_a * scale_b + bias) + residual on one rank",
                     {"a", "b", "c", "bias?", "residual?", "scale_a?", "scale_b?"},
                     {{"activation", "\"none\""},
                      {"block_m", "0"},
                      {"block_n", "0"},
                      {"block_k", "0"},
                      {"columns", "0"},
                      {"parts", "0"}},
                     run};
  return op;
}

} // namespace tilery::ops
