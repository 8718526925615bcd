// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// How a matrix product is cut into tiles and dealt out to program instances.
#pragma once

#include "ops/op.h"

namespace tilery::ops {

struct MatmulProblem {
  int64_t m = 0, n = 0, k = 0, batches = 1;
  int32_t dtype = TILERY_FP32;
  /// Both operands can be brought by bulk copies into shared memory, which feeds matrix units.
  bool streams = false;
  /// Columns of a tile are a multiple of so many.
  int64_t columnUnit = 16;
};

/// Two dimensions of memory; strides in elements.
struct Matrix {
  const void *data = nullptr;
  int32_t dtype = TILERY_FP32;
  int64_t rows = 0, columns = 0, rowStride = 0, columnStride = 0;
  int64_t batchStride = 0;
};

/// a @ b on `device`.
MatmulProblem matmulProblem(const Matrix &a, const Matrix &b, int64_t batches,
                            const tilery_device_properties &device);

struct MatmulPlan {
  int64_t blockM = 64, blockN = 64, blockK = 64; ///< powers of two
  int64_t rows = 64, columns = 64;               ///< of a tile, at most blockM and blockN
  int64_t groupM = 8;
  int64_t warps = 4, stages = 3;
  int64_t instances = 1;
  int64_t whole = 0;                ///< tiles that are made whole, the first ones
  int64_t parts = 1, partSteps = 0; ///< that the steps of each other tile are made in
  double efficiency = 0.25;         ///< of the arithmetic that a processor can do
  double microseconds = 0;          ///< what the model expects, of tiles that it knows
};

/// What a caller has chosen; 0 leaves it to the model.
struct MatmulChoice {
  int64_t blockM = 0, blockN = 0, blockK = 0, columns = 0, parts = 0;
};
/// From the options of these names.
MatmulChoice matmulChoice(const Call &call);

MatmulPlan planMatmul(const MatmulProblem &problem, const tilery_device_properties &device,
                      const MatmulChoice &wanted);

/// What the model expects `plan` to take for `problem`, whose K may be another than it was made for.
/// `sustained`: operations on 16 bits a microsecond that power allows all processors for long; 0 takes those
/// of an H200.
double expectedMicroseconds(const MatmulPlan &plan, const MatmulProblem &problem,
                            const tilery_device_properties &device, double sustained = 0);

/// What memory takes at least for the operands and the result.
double memoryMicroseconds(const MatmulProblem &problem, const tilery_device_properties &device);

/// A LaunchError when the caller's choices do not go together.
void checkColumns(const Call &call, const MatmulPlan &plan);

} // namespace tilery::ops
