// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the hosts of ag_gemm, gemm_rs and gemm_ar share: tiles, instances, workspace, launch.
#pragma once

#include "ops/copies.h"
#include "ops/costs/choose.h"
#include "ops/costs/costs.h"
#include "ops/direct_form.h"
#include "ops/kernels.h"
#include "ops/launch_options.h"
#include "ops/matmul/plan.h"
#include "ops/registry.h"
#include "ops/workspace.h"

namespace tilery::ops {

/// The rows of `m` that one rank owns: as many on each, until none are left.
struct Shards {
  int64_t rows;
  Shards(int64_t m, int ranks) : rows(ceilDiv(m, ranks)) {}
  int64_t own(int64_t m, int rank) const {
    return std::min(rows, std::max<int64_t>(0, m - rank * rows));
  }
};

/// What ranks agree on that add up products of M x N, and the tiles that they share.
AgreedValues partialSums(Call &call, int64_t m, int64_t n, int32_t operand, tilery_dtype partial);
/// What this rank multiplies, as far as all ranks can: operands that bulk copies bring, processors, and
/// instances that are resident. N and K are those of the rank that has most.
struct AgreedProduct {
  MatmulProblem problem;
  tilery_device_properties device;
  int64_t instances = 1;
};
/// Collective, before each form of an operator: all ranks agree on these values and on their options. They
/// hear of each other's `buffers`, which direct forms use.
AgreedProduct agreeOnProduct(Call &call, AgreedValues values, const Matrix &a, const Matrix &b,
                             PeerBuffers *buffers = nullptr);

/// Option 'form', one of `forms`, or the one that takes the least; of one rank, the product alone.
FormChoice chooseProductForm(Call &call, const std::vector<std::string> &forms, const char *onHost,
                             const AgreedProduct &agreed, int64_t sumSize, int64_t depth);

/// Tiles of products of which ranks hold parts of K are chosen for this K: they must be the same on all
/// ranks, and K need not.
constexpr int64_t partialDepth = 4096;

/// Tiles that go to others have columns in multiples of 64, so that they leave by bulk copies of 128 bytes,
/// unless the caller has chosen other ones.
void chooseSentColumns(const Call &call, AgreedProduct &agreed);

/// The type that partial sums travel in, by option 'partials': that of the result, as if a reduction
/// followed the product, or that of the accumulator.
tilery_dtype partialType(const Call &call, int32_t result, int32_t operand);

/// A product whose tiles program instances that are all resident share, while they communicate.
class Overlapped {
public:
  /// This rank's product has N columns; `depth` is the K to choose tiles for. Where N is the same on
  /// all ranks, so is the plan.
  Overlapped(Call &call, const AgreedProduct &agreed, int64_t n, int64_t depth);

  /// Collective: the workspace of one variant of the kernel, which all ranks launch.
  Workspace &memoryOf(const std::string &variant, WorkspaceNeed need);

  /// Tiles of a product of `rows` rows.
  int64_t tiles(int64_t rows) const {
    return ceilDiv(rows, plan.rows) * ceilDiv(columns, plan.columns);
  }

  /// Launches ops/<op>/<op>.py's `function`, beside `transfers`; a failure makes the workspace
  /// unusable.
  template <typename... Args>
  void launch(const char *function, std::span<const tilery_transfer> transfers,
              const Args &...args) {
    Launch how{.x = instances,
               .options = launchOptions(device, plan.warps, plan.stages),
               .transfers = transfers};
    guarded([&] { kernel(call.op, function).launchOn(call.worldOrNull(), how, args...); });
  }
  /// A launch that goes before.
  template <typename Action> void guarded(Action action) {
    try {
      action();
    } catch (...) {
      discardWorkspace(call.world(), key);
      throw;
    }
  }

  /// Whether one rank's rows of the product, `bytes` of them, take longer on their way to it than to compute;
  /// alike on all ranks.
  bool isLinkSlower(const AgreedProduct &agreed, int64_t bytes) const;

  /// Gives steps that are copied ahead up for a whole tile of partial sums that waits for its way to a peer:
  /// the link is slower than the product, and tiles come from all processors at once.
  void leaveRoomToSend(int64_t operandSize, tilery_dtype partial);

  Call &call;
  tilery_device_properties device; ///< as far as all ranks have it
  MatmulPlan plan;
  int64_t instances; ///< that can be resident on each rank

private:
  int64_t columns;
  std::string key;
};

/// A tensor of two dimensions as operators take it, with shape and strides of its own.
class MatrixTensor {
public:
  explicit MatrixTensor(const Matrix &matrix)
      : shape{matrix.rows, matrix.columns}, steps{matrix.rowStride, matrix.columnStride},
        data(const_cast<void *>(matrix.data)), dtype(matrix.dtype) {}
  /// Contiguous, [rows, columns].
  MatrixTensor(const Memory &memory, int64_t rows, int64_t columns)
      : shape{rows, columns}, steps{columns, 1}, data(const_cast<void *>(memory.data)),
        dtype(memory.dtype) {}
  operator tilery_tensor() const {
    return {data, shape, steps, 2, dtype, 0, TILERY_DEVICE_BY_ADDRESS};
  }

private:
  int64_t shape[2], steps[2];
  void *data;
  int32_t dtype;
};

/// out = this rank's part of the sum of all a @ b: the product, in memory of its own where `out` is
/// not a whole contiguous matrix of type `partial`, and then the operator `reduction`.
void reduceUnfused(Call &call, const Matrix &a, const Matrix &b, const Matrix &out,
                   tilery_dtype partial, const char *reduction);
/// out = the sum of all a @ b: own rows of it by `gemm_rs`, overlapped, and then all of them by `all_gather`.
void reduceScattered(Call &call, const Matrix &a, const Matrix &b, const Matrix &out);
/// Options of the tiles as `matmul` has them, for a product that is not overlapped.
std::string tileOptions(const Call &call);
/// Another operator, as a part of this one.
void callOp(const char *name, Call &call, std::initializer_list<tilery_tensor> tensors,
            const std::string &options = "{}");

/// Options of the tiles, with the operator's own.
std::vector<std::pair<std::string, std::string>>
overlappedOptions(std::vector<std::pair<std::string, std::string>> own);

} // namespace tilery::ops
