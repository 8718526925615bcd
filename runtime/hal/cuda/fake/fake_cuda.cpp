// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The functions of the fake libcuda but for code (fake_code.cpp) and memory (fake_memory.cpp).
#include "runtime/hal/cuda/fake/fake_state.h"

#include <cstdlib>
#include <atomic>
#include <cstring>
#include <sstream>

using namespace fake;

State &fake::state() {
  static State all;
  return all;
}

// As the driver's: which of the machine's devices this process sees.
const std::vector<int> &fake::visibleDevices() {
  static const std::vector<int> list = [] {
    std::vector<int> found;
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    for (std::stringstream words(text ? text : "0,1"); words.good();) {
      std::string word;
      std::getline(words, word, ',');
      if (!word.empty())
        found.push_back(std::stoi(word));
    }
    return found;
  }();
  return list;
}

bool fake::lacks(const char *feature) {
  const char *text = getenv("FAKE_CUDA_LACKS");
  return text && strstr(text, feature);
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

FAKE(cuInit, (unsigned), )
FAKE(cuDriverGetVersion, (int *version), *version = 12040;)
FAKE(cuDeviceGetCount, (int *count), *count = int(visibleDevices().size());)
FAKE(cuDeviceGetName, (char *name, int bytes, Device device),
     snprintf(name, size_t(bytes), "Fake GPU %d", visibleDevices()[size_t(device)]);)
FAKE(cuDeviceTotalMem_v2, (size_t * bytes, Device), *bytes = MemoryBytes;)
FAKE(cuDevicePrimaryCtxRetain, (Handle * context, Device device), *context = &state().contexts[device];)
FAKE(cuCtxSynchronize, (), )
FAKE(cuStreamCreate, (Handle * stream, unsigned), *stream = new Stream;)
FAKE(cuStreamDestroy_v2, (Handle stream), delete static_cast<Stream *>(stream);)
FAKE(cuStreamSynchronize, (Handle stream),
     if (stream && static_cast<Stream *>(stream)->capturing) return CaptureUnsupported;)
FAKE(cuStreamQuery, (Handle stream), return state().busy == stream ? NotReady : Success;)
FAKE(cuStreamGetCaptureInfo_v2,
     (Handle stream, int *status, uint64_t *number, Handle *, const Handle **, size_t *),
     *number = uint64_t(stream ? static_cast<Stream *>(stream)->capturing : 0);
     *status = *number != 0;)
FAKE(cuStreamBeginCapture_v2, (Handle stream, int), fake_cuda_capture(stream, true);)
FAKE(cuStreamEndCapture, (Handle stream, Handle *graph), fake_cuda_capture(stream, false);
     *graph = new char;)
FAKE(cuGraphInstantiateWithFlags, (Handle * recording, Handle, unsigned long long), *recording = new char;)
FAKE(cuGraphDestroy, (Handle graph), delete static_cast<char *>(graph);)
FAKE(cuGraphLaunch, (Handle, Handle), )
FAKE(cuGraphExecDestroy, (Handle recording), delete static_cast<char *>(recording);)
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
  case VirtualMemory: *value = !lacks("vmm"); break;
  default: *value = 1;
  }
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
  static_cast<Stream *>(stream)->capturing = capturing > 1 ? capturing : capturing ? ++number : 0;
}
}
