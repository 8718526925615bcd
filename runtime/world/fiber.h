// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Fibers that are never unwound: compiled kernels have no unwind tables, so a fiber that fails
// is simply not resumed and its stack is used again.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <vector>

namespace tilery::rt {

/// A stack with a guard range below it.
struct FiberStack {
  char *bottom = nullptr;
  size_t bytes = 0;
};

/// Address space only; pages are taken when a kernel touches them.
inline constexpr size_t FiberStackBytes = 1024 * 1024;

/// One a thread; keeps stacks for the next launch.
class StackPool {
public:
  StackPool() = default;
  StackPool(const StackPool &) = delete;
  ~StackPool();
  FiberStack take();
  void give(FiberStack stack);

private:
  std::vector<FiberStack> idle;
};

class Fiber {
public:
  virtual ~Fiber() = default;
  Fiber() = default;
  Fiber(const Fiber &) = delete;

  /// Prepares `body` to run on `stack` at the first resume.
  void prepare(FiberStack stack);
  /// Takes the stack away, finished or not.
  FiberStack retire();
  /// Runs until the fiber suspends or its body returns; by the scheduler.
  void resume();
  /// Back to the scheduler; by the fiber itself.
  void suspend();

protected:
  virtual void body() = 0;

private:
  static void start(boost::context::detail::transfer_t transfer);
  void enter();
  void leave(bool last);

  boost::context::detail::fcontext_t own = nullptr;
  boost::context::detail::fcontext_t caller = nullptr;
  FiberStack stack;
  // For the sanitizers, which keep a shadow of each stack.
  void *shadow = nullptr;
  void *callerShadow = nullptr;
  const void *callerBottom = nullptr;
  size_t callerBytes = 0;
};

} // namespace tilery::rt
