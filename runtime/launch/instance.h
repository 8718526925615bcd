// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// One program instance while it runs, and the launch it belongs to.
#pragma once

#include "runtime/base/error.h"
#include "runtime/launch/kernel_image.h"
#include "runtime/launch/transfer_plan.h"
#include "runtime/world/task.h"
#include "runtime/world/world.h"

#include <csetjmp>
#include <memory>
#include <optional>

namespace tilery::rt {

struct LaunchContext {
  World *world = nullptr;
  const KernelImage &image;
  const uint64_t *arguments = nullptr;
  int32_t grid[3] = {1, 1, 1};
  double timeoutSeconds = 0;
  Transfers transfers = {};
  /// Remote accesses are delayed.
  bool routed = false;
  bool traced = false;
  uint32_t traceName = 0;
  /// Time in which instances ran, transfers included.
  int64_t runningNs = 0;
  /// The first failure of an instance.
  std::optional<Error> error = {};
  /// What instances waited for when the world failed.
  std::string waits = {};
  /// Null unless the world has a seed.
  std::shared_ptr<const std::string> kernelName = {};
  /// Where a failing instance goes that runs without a fiber.
  jmp_buf escape = {};

  bool seeded() const { return world && world->domain->scheduler != nullptr; }
  int rank() const { return world ? world->rank() : 0; }
  /// The rank's number in the whole world, which schedulers and delayed writes count by.
  int seat() const { return world ? world->seat() : 0; }
  std::string rankText() const { return world ? world->rankText() : "rank 0"; }
  int size() const { return world ? world->size() : 1; }
  /// Where `site` is, or null.
  const SourceSite *site(int32_t index) const;
  /// The same in the timeline; 0 when it is not known.
  uint32_t tracePlace(int32_t index) const;
};

/// Memory at least as large as asked, aligned to 64 bytes, kept for the next launch.
class Scratch {
public:
  Scratch() = default;
  Scratch(const Scratch &) = delete;
  ~Scratch() { std::free(memory); }
  void *atLeast(int64_t bytes);

private:
  void *memory = nullptr;
  int64_t capacity = 0;
};

class Instance final : public Task {
public:
  /// Makes it instance `index` of the launch, x fastest.
  void begin(LaunchContext &context, int64_t index);

  std::string report() const override;
  int64_t number() const override { return index; }

  /// Until the predicate holds. Acquire.
  void wait(const Predicate &predicate, int32_t site, bool barrier = false);
  void yield(int32_t site);
  /// Lets a seeded schedule run something else.
  void switchPoint();
  /// Never returns: the instance is not resumed and the launch fails with launch->error.
  [[noreturn]] void abandon();
  /// Records an error at `site`, with the place in front and the instance behind.
  void setError(const Error &error, int32_t site);

  void body() override;
  /// The same, on the caller's stack.
  void runPlain();

  /// Delayed remote writes; made at the first one.
  WriteQueue *writeQueue();
  bool delaysTo(int rank) const { return launch->routed && rank != launch->rank(); }

  tilery_instance abi = {};
  LaunchContext *launch = nullptr;
  int64_t index = 0;
  uint32_t row = 1;
  bool onFiber = false;
  WriteQueue *writes = nullptr;
  Scratch scratch;

private:
  void pause();
  std::string place(int32_t site) const;
  void beginTiming();
  void endTiming();
  void traceWait(int64_t beginNs);

  bool waitsInBarrier = false;
  int32_t waitSite = -1;
  int32_t yieldSite = -2;
  int64_t startNs = 0;
  int64_t runSinceNs = 0;
};

inline Instance &instanceOf(tilery_instance *self) { return *static_cast<Instance *>(self->launch); }

/// The functions that compiled kernels call.
const tilery_device_api *deviceApi();

} // namespace tilery::rt
