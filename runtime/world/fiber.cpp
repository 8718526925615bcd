// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Context switches by Boost.Context, announced to the sanitizers when compiled with them.
#include "runtime/world/fiber.h"

#include "runtime/base/error.h"

#include <cstring>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace tilery::rt {

using namespace boost::context::detail;

// More than a page: compiled kernels do not probe the stack below a large frame.
static constexpr size_t GuardBytes = 64 * 1024;

StackPool::~StackPool() {
  for (FiberStack stack : idle)
    munmap(stack.bottom - GuardBytes, stack.bytes + GuardBytes);
}

FiberStack StackPool::take() {
  if (!idle.empty()) {
    FiberStack stack = idle.back();
    idle.pop_back();
    return stack;
  }
  size_t bytes = FiberStackBytes + GuardBytes;
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED)
    raise(TILERY_LAUNCH_ERROR,
          "cannot get a stack of {} bytes for a program instance: {}\nhint: launch fewer program "
          "instances at a time, or raise vm.max_map_count",
          bytes, std::strerror(errno));
  mprotect(memory, GuardBytes, PROT_NONE);
  return {static_cast<char *>(memory) + GuardBytes, FiberStackBytes};
}

void StackPool::give(FiberStack stack) {
  if (stack.bottom)
    idle.push_back(stack);
}

void Fiber::prepare(FiberStack given) {
  stack = given;
#if defined(__SANITIZE_ADDRESS__)
  // An abandoned fiber leaves its frames poisoned.
  __asan_unpoison_memory_region(stack.bottom, stack.bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  shadow = __tsan_create_fiber(0);
#endif
  own = make_fcontext(stack.bottom + stack.bytes, stack.bytes, &Fiber::start);
}

FiberStack Fiber::retire() {
#if defined(__SANITIZE_THREAD__)
  if (shadow)
    __tsan_destroy_fiber(shadow);
  shadow = nullptr;
#endif
  return std::exchange(stack, FiberStack());
}

void Fiber::resume() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&callerShadow, stack.bottom, stack.bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  callerShadow = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(shadow, 0);
#endif
  own = jump_fcontext(own, this).fctx;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(callerShadow, nullptr, nullptr);
#endif
}

// Both are inlined: a function that switched the thread sanitizer's fiber and then returned would
// be popped from the wrong shadow stack.
[[gnu::always_inline]] inline void Fiber::enter() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(shadow, &callerBottom, &callerBytes);
#endif
}

[[gnu::always_inline]] inline void Fiber::leave([[maybe_unused]] bool last) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(last ? nullptr : &shadow, callerBottom, callerBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(callerShadow, 0);
#endif
}

void Fiber::suspend() {
  leave(false);
  caller = jump_fcontext(caller, nullptr).fctx;
  enter();
}

void Fiber::start(transfer_t transfer) {
  auto *self = static_cast<Fiber *>(transfer.data);
  self->caller = transfer.fctx;
#if defined(__SANITIZE_ADDRESS__)
  self->shadow = nullptr;
#endif
  self->enter();
  self->body();
  self->leave(true);
  jump_fcontext(self->caller, nullptr);
}

} // namespace tilery::rt
