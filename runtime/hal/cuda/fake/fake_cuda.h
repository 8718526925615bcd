// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// A libcuda for tests on machines without a GPU: memory is the host's, launches are recorded, and
// a few kernels known by name really run. Symbols are found with dlsym or ctypes. The machine has two
// devices; CUDA_VISIBLE_DEVICES chooses, and FAKE_CUDA_LACKS takes features away.
#pragma once

#include <stdint.h>

extern "C" {

/// One launch, as the driver's caller described it.
struct fake_cuda_launch {
  const char *kernel;
  uint32_t grid[3], threads, shared_bytes, cluster[3];
  void *stream;
  /// Bytes of all parameters, one after the other, each in its own size.
  const unsigned char *parameters;
  int32_t parameter_bytes;
};

/// Names of the calls since the last reset, separated by spaces.
const char *fake_cuda_calls(void);
void fake_cuda_reset(void);
/// The next call of `symbol` ("cuMemAlloc_v2") gives `result`.
void fake_cuda_fail(const char *symbol, int result);
int32_t fake_cuda_launch_count(void);
fake_cuda_launch fake_cuda_launch_at(int32_t index);
/// Makes this stream look as if its work never ended.
void fake_cuda_busy(void *stream);
/// Makes a stream look as if it were captured: 1: in a recording of its own, more: in that one.
void fake_cuda_capture(void *stream, int capturing);
}
