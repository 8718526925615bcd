// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The functions of the fake libcuda but for code (fake_code.cpp).
#include "runtime/hal/cuda/fake/fake_state.h"

#include <cstdlib>
#include <atomic>
#include <cstring>
#include <sys/mman.h>

using namespace fake;

State &fake::state() {
  static State all;
  return all;
}

int fake::called(const char *symbol) {
  State &s = state();
  std::lock_guard lock(s.mutex);
  s.calls += (s.calls.empty() ? "" : " ") + std::string(symbol);
  auto failure = s.failures.find(symbol);
  if (failure == s.failures.end())
    return 0;
  int result = failure->second;
  s.failures.erase(failure);
  return result;
}

// Zeros of large memory cost nothing: the tests allocate more than there may be.
static void fill(Address to, unsigned char byte, size_t bytes) {
  constexpr size_t Page = 4096, Large = size_t(1) << 26;
  Address begin = (to + Page - 1) / Page * Page, end = (to + bytes) / Page * Page;
  if (byte == 0 && bytes > Large) {
    madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
    memset(reinterpret_cast<void *>(to), 0, begin - to);
    memset(reinterpret_cast<void *>(end), 0, to + bytes - end);
    return;
  }
  memset(reinterpret_cast<void *>(to), byte, bytes);
}

#define FAKE(symbol, parameters, ...)                                                             \
  extern "C" int symbol parameters {                                                              \
    if (int failure = called(#symbol))                                                            \
      return failure;                                                                             \
    __VA_ARGS__                                                                                   \
    return Success;                                                                               \
  }

FAKE(cuInit, (unsigned), )
FAKE(cuDriverGetVersion, (int *version), *version = 12040;)
FAKE(cuDeviceGetCount, (int *count), *count = DeviceCount;)
FAKE(cuDeviceGetName, (char *name, int bytes, Device device),
     snprintf(name, size_t(bytes), "Fake GPU %d", device);)
FAKE(cuDeviceTotalMem_v2, (size_t * bytes, Device), *bytes = MemoryBytes;)
FAKE(cuDevicePrimaryCtxRetain, (Handle * context, Device device), *context = &state().contexts[device];)
FAKE(cuCtxSynchronize, (), )
FAKE(cuMemFree_v2, (Address memory), return release(memory);)
FAKE(cuMemAlloc_v2, (Address * memory, size_t bytes), return allocate(memory, bytes);)
FAKE(cuMemAllocManaged, (Address * memory, size_t bytes, unsigned),
     return allocate(memory, bytes);)
FAKE(cuMemHostAlloc, (void **memory, size_t bytes, unsigned), *memory = malloc(bytes);)
FAKE(cuMemcpyAsync, (Address to, Address from, size_t bytes, Handle),
     memmove(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);)
FAKE(cuMemsetD8Async, (Address to, unsigned char byte, size_t bytes, Handle),
     fill(to, byte, bytes);)
FAKE(cuStreamCreate, (Handle * stream, unsigned), *stream = new Stream;)
FAKE(cuStreamDestroy_v2, (Handle stream), delete static_cast<Stream *>(stream);)
FAKE(cuStreamSynchronize, (Handle stream),
     if (stream && static_cast<Stream *>(stream)->capturing) return CaptureUnsupported;)
FAKE(cuStreamQuery, (Handle stream), return state().busy == stream ? NotReady : Success;)
FAKE(cuStreamGetCaptureInfo_v2,
     (Handle stream, int *status, uint64_t *number, Handle *, const Handle **, size_t *),
     *number = uint64_t(stream ? static_cast<Stream *>(stream)->capturing : 0);
     *status = *number != 0;)
FAKE(cuStreamWaitEvent, (Handle, Handle, unsigned), )
FAKE(cuThreadExchangeStreamCaptureMode, (int *mode), std::swap(*mode, captureMode());)
FAKE(cuEventCreate, (Handle * event, unsigned), *event = new double(0);)
FAKE(cuEventDestroy_v2, (Handle event), delete static_cast<double *>(event);)
FAKE(cuEventRecord, (Handle event, Handle), *static_cast<double *>(event) = ++state().clock;)
FAKE(cuEventElapsedTime, (float *elapsed, Handle begin, Handle end),
     *elapsed = float(*static_cast<double *>(end) - *static_cast<double *>(begin));)

// Asked for all the time: not among the recorded calls.
extern "C" int cuCtxGetCurrent(Handle *context) {
  *context = currentContext();
  return Success;
}
extern "C" int cuCtxSetCurrent(Handle context) {
  currentContext() = context;
  return Success;
}

extern "C" int cuGetErrorName(int result, const char **name) {
  switch (result) {
  case InvalidValue: *name = "CUDA_ERROR_INVALID_VALUE"; return Success;
  case OutOfMemory: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return Success;
  case InvalidPtx: *name = "CUDA_ERROR_INVALID_PTX"; return Success;
  case UnsupportedPtxVersion: *name = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"; return Success;
  case FirstLaunchFailure: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return Success;
  default: *name = "CUDA_ERROR_UNKNOWN"; return Success;
  }
}
extern "C" int cuGetErrorString(int, const char **text) {
  *text = "fake";
  return Success;
}

extern "C" int cuDeviceGetAttribute(int *value, int which, Device) {
  switch (which) {
  case MultiprocessorCount: *value = 132; break;
  case ComputeCapabilityMajor: *value = 9; break;
  case ComputeCapabilityMinor: *value = 0; break;
  case MaxSharedBytesPerBlock: *value = 232448; break;
  default: *value = 1;
  }
  return Success;
}

int fake::allocate(Address *memory, size_t bytes) {
  if (bytes > MemoryBytes)
    return OutOfMemory;
  // As the driver: zero is not promised, alignment to 256 is, and more to that of its large pages.
  // Pages come when they are touched.
  constexpr size_t LargePage = 2 << 20;
  size_t alignment = bytes < LargePage ? 256 : LargePage;
  auto *block = static_cast<char *>(malloc(bytes + alignment));
  if (!block)
    return OutOfMemory;
  Address at = (reinterpret_cast<Address>(block) + alignment - 1) / alignment * alignment;
  State &s = state();
  std::lock_guard lock(s.mutex);
  int device = int(static_cast<char *>(currentContext()) - s.contexts);
  s.allocations[at] = {block, bytes, device};
  *memory = at;
  return Success;
}

int fake::release(Address memory) {
  State &s = state();
  std::lock_guard lock(s.mutex);
  auto found = s.allocations.find(memory);
  if (found == s.allocations.end())
    return InvalidValue;
  free(found->second.block);
  s.allocations.erase(found);
  return Success;
}

extern "C" int cuPointerGetAttribute(void *data, int which, Address memory) {
  State &s = state();
  std::lock_guard lock(s.mutex);
  auto after = s.allocations.upper_bound(memory);
  if (after == s.allocations.begin())
    return InvalidValue;
  auto &[begin, allocation] = *std::prev(after);
  if (memory >= begin + allocation.bytes)
    return InvalidValue;
  if (which == IsManaged)
    *static_cast<unsigned *>(data) = 0;
  else
    *static_cast<int *>(data) = which == MemoryType ? int(MemoryTypeDevice) : allocation.device;
  return Success;
}

extern "C" int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address,
                                      const uint64_t *extents, const uint64_t *strides,
                                      const uint32_t *box, const uint32_t *, int, int swizzle,
                                      int, int) {
  if (int failure = called("cuTensorMapEncodeTiled"))
    return failure;
  // Readable by tests: address, type and swizzle, extents, strides, box.
  uint64_t words[16] = {reinterpret_cast<uint64_t>(address), uint64_t(type) << 32 | uint64_t(swizzle)};
  for (uint32_t i = 0; i < rank; ++i) {
    words[2 + i] = extents[i];
    words[12] |= i < 4 ? uint64_t(box[i]) << (16 * i) : 0;
  }
  for (uint32_t i = 0; i + 1 < rank; ++i)
    words[7 + i] = strides[i];
  memcpy(map, words, sizeof words);
  return Success;
}

extern "C" {
const char *fake_cuda_calls(void) { return state().calls.c_str(); }
void fake_cuda_reset(void) {
  State &s = state();
  std::lock_guard lock(s.mutex);
  s.calls.clear();
  s.failures.clear();
  s.launches.clear();
  s.busy = &s.clock;
}
void fake_cuda_fail(const char *symbol, int result) { state().failures[symbol] = result; }
void fake_cuda_busy(void *stream) { state().busy = stream; }
void fake_cuda_capture(void *stream, int capturing) {
  static std::atomic<int> number = 0;
  static_cast<Stream *>(stream)->capturing = capturing ? ++number : 0;
}
}
