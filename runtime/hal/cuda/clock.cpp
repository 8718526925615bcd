// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// A device's clock beside the host's: a kernel answers requests of the host with the time that it
// reads, so that each answer was read between the host's times around it.
#include "runtime/hal/cuda/devices.h"

#include "runtime/base/clock.h"

#include <thread>

namespace tilery::rt::hal::cuda {

namespace {
/// Between the host and the kernel, which reads `request` and writes the rest.
struct ClockCell {
  uint64_t request, time, answer;
};
struct Clock {
  LoadedKernel *kernel = nullptr;
  ClockCell *cell = nullptr;
};
} // namespace

// It ends by itself when the host does not ask for 0.2 s.
static constexpr const char *clockText = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry tilery_clock(.param .u64 cell, .param .u64 first, .param .u64 end)
{
  .reg .pred %p<4>;
  .reg .b64 %rd<10>;
  ld.param.u64 %rd1, [cell];
  ld.param.u64 %rd2, [first];
  ld.param.u64 %rd3, [end];
next:
  mov.u64 %rd4, %globaltimer;
await:
  ld.volatile.global.u64 %rd5, [%rd1];
  setp.ge.u64 %p1, %rd5, %rd2;
  @%p1 bra answer;
  mov.u64 %rd6, %globaltimer;
  sub.u64 %rd7, %rd6, %rd4;
  setp.gt.u64 %p2, %rd7, 200000000;
  @%p2 bra done;
  bra await;
answer:
  mov.u64 %rd8, %globaltimer;
  st.volatile.global.u64 [%rd1+8], %rd8;
  membar.sys;
  st.volatile.global.u64 [%rd1+16], %rd2;
  add.u64 %rd2, %rd2, 1;
  setp.lt.u64 %p3, %rd2, %rd3;
  @%p3 bra next;
done:
  ret;
}
)";

/// False when the kernel has not answered by then.
static bool ask(ClockCell &cell, uint64_t number, ClockReading &best, int64_t until) {
  int64_t before = nowNs();
  __atomic_store_n(&cell.request, number, __ATOMIC_RELEASE);
  // acquire: pairs with the kernel's fence between the time and the answer.
  while (__atomic_load_n(&cell.answer, __ATOMIC_ACQUIRE) < number)
    if (nowNs() > until)
      return false;
  int64_t after = nowNs(), error = (after - before + 1) / 2;
  if (best.errorNs < 0 || error < best.errorNs)
    best = {int64_t(__atomic_load_n(&cell.time, __ATOMIC_RELAXED)), before + (after - before) / 2,
            error};
  return true;
}

ClockReading CudaDriver::readClock(int device) {
  static std::mutex mutex;
  static std::map<int, Clock> &clocks = *new std::map<int, Clock>;
  constexpr uint64_t Requests = 64;
  constexpr int64_t Patience = 2'000'000'000;
  std::lock_guard lock(mutex);
  Clock &clock = clocks[device];
  if (!clock.kernel) {
    clock.cell = static_cast<ClockCell *>(allocateHost(sizeof(ClockCell), device));
    clock.kernel = load(device, clockText, "tilery_clock", {1, 0, {1, 1, 1}});
  }
  Handle stream = opened(device).stream;
  uint64_t first = clock.cell->request + 1, end = first + Requests;
  void *parameters[] = {&clock.cell, &first, &end};
  launch({clock.kernel, {1, 1, 1}, parameters, stream});
  ClockReading best;
  for (uint64_t number = first; number < end; ++number)
    if (!ask(*clock.cell, number, best, nowNs() + Patience))
      return {};
  synchronize(device, stream);
  return best;
}

} // namespace tilery::rt::hal::cuda
