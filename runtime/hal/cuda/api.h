// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA driver's interface that is used, declared here: libcuda is opened at run
// time and no header of the vendor is needed to build. Numbers are those of the driver's stable
// binary interface (CUDA 12.0 and later).
#pragma once

#include "runtime/base/error.h"
#include "runtime/hal/cuda/memory_types.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tilery::rt::hal::cuda {

using Result = int;
using Device = int;
using Address = uint64_t; // CUdeviceptr
using Handle = void *;    // of contexts, modules, functions, streams, events

inline Address addressOf(const void *pointer) { return reinterpret_cast<Address>(pointer); }

enum : Result {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  InvalidContext = 201,
  InvalidPtx = 218,
  UnsupportedPtxVersion = 222,
  NotReady = 600,
  FirstLaunchFailure = 700, // an illegal address; up to 719 the context is lost
  PeerAccessAlreadyEnabled = 704,
  LastLaunchFailure = 719,
  NotPermitted = 800,
  NotSupported = 801,
};

enum DeviceAttribute {
  MultiprocessorCount = 16,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  ConcurrentManagedAccess = 89,
  MaxSharedBytesPerBlock = 97,
  VirtualMemory = 102,
  FileDescriptorHandles = 103,
  ClusterLaunch = 120,
};
enum PeerAttribute { NativeAtomics = 3 };
enum PointerAttribute { MemoryType = 2, BufferId = 7, IsManaged = 8, DeviceOrdinal = 9, BlockId = 20 };
inline constexpr unsigned MemoryTypeDevice = 2;
enum FunctionAttribute { MaxDynamicSharedBytes = 8, NonPortableClusterAllowed = 14 };
enum JitOption {
  InfoLog = 3,
  InfoLogBytes = 4,
  ErrorLog = 5,
  ErrorLogBytes = 6,
  LogVerbose = 12,
};
inline constexpr unsigned StreamNonBlocking = 1, EventDisableTiming = 2;
inline constexpr unsigned MemAttachGlobal = 1;
inline constexpr unsigned HostPortable = 1, HostMapped = 2;
inline constexpr int CaptureModeRelaxed = 2;

struct LaunchAttribute {
  uint32_t id;
  uint32_t pad;
  union {
    uint32_t cluster[3];
    char bytes[64];
  };
};
inline constexpr uint32_t AttributeClusterDimension = 4;
static_assert(sizeof(LaunchAttribute) == 72);

struct LaunchConfig {
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t sharedBytes;
  Handle stream;
  LaunchAttribute *attributes;
  uint32_t attributeCount;
};
static_assert(sizeof(LaunchConfig) == 56);

// name, symbol, parameters
#define TILERY_CUDA_CALLS(CALL)                                                                   \
  CALL(init, cuInit, (unsigned))                                                                  \
  CALL(driverGetVersion, cuDriverGetVersion, (int *))                                             \
  CALL(getErrorName, cuGetErrorName, (Result, const char **))                                     \
  CALL(getErrorString, cuGetErrorString, (Result, const char **))                                 \
  CALL(deviceGetCount, cuDeviceGetCount, (int *))                                                 \
  CALL(deviceGetName, cuDeviceGetName, (char *, int, Device))                                     \
  CALL(deviceTotalMem, cuDeviceTotalMem_v2, (size_t *, Device))                                   \
  CALL(deviceGetAttribute, cuDeviceGetAttribute, (int *, int, Device))                            \
  CALL(primaryContextRetain, cuDevicePrimaryCtxRetain, (Handle *, Device))                        \
  CALL(contextGetCurrent, cuCtxGetCurrent, (Handle *))                                            \
  CALL(contextSetCurrent, cuCtxSetCurrent, (Handle))                                              \
  CALL(contextSynchronize, cuCtxSynchronize, ())                                                  \
  CALL(memAlloc, cuMemAlloc_v2, (Address *, size_t))                                              \
  CALL(memFree, cuMemFree_v2, (Address))                                                          \
  CALL(memGetAddressRange, cuMemGetAddressRange_v2, (Address *, size_t *, Address))               \
  CALL(memRetainHandle, cuMemRetainAllocationHandle, (uint64_t *, void *))                        \
  CALL(memAllocManaged, cuMemAllocManaged, (Address *, size_t, unsigned))                         \
  CALL(deviceGetUuid, cuDeviceGetUuid_v2, (Uuid *, Device))                                       \
  CALL(deviceCanAccessPeer, cuDeviceCanAccessPeer, (int *, Device, Device))                       \
  CALL(deviceGetPeerAttribute, cuDeviceGetP2PAttribute, (int *, int, Device, Device))             \
  CALL(contextEnablePeerAccess, cuCtxEnablePeerAccess, (Handle, unsigned))                        \
  CALL(memGetGranularity, cuMemGetAllocationGranularity,                                          \
       (size_t *, const MemoryProperties *, int))                                                 \
  CALL(memCreate, cuMemCreate, (uint64_t *, size_t, const MemoryProperties *, uint64_t))          \
  CALL(memHandleRelease, cuMemRelease, (uint64_t))                                                \
  CALL(memAddressReserve, cuMemAddressReserve, (Address *, size_t, size_t, Address, uint64_t))    \
  CALL(memAddressFree, cuMemAddressFree, (Address, size_t))                                       \
  CALL(memMap, cuMemMap, (Address, size_t, size_t, uint64_t, uint64_t))                           \
  CALL(memUnmap, cuMemUnmap, (Address, size_t))                                                   \
  CALL(memSetAccess, cuMemSetAccess, (Address, size_t, const MemoryAccess *, size_t))             \
  CALL(memExport, cuMemExportToShareableHandle, (void *, uint64_t, uint32_t, uint64_t))           \
  CALL(memImport, cuMemImportFromShareableHandle, (uint64_t *, void *, uint32_t))                 \
  CALL(ipcGetHandle, cuIpcGetMemHandle, (IpcHandle *, Address))                                   \
  CALL(ipcOpenHandle, cuIpcOpenMemHandle_v2, (Address *, IpcHandle, unsigned))                    \
  CALL(ipcCloseHandle, cuIpcCloseMemHandle, (Address))                                            \
  CALL(memHostAlloc, cuMemHostAlloc, (void **, size_t, unsigned))                                 \
  CALL(memcpyAsync, cuMemcpyAsync, (Address, Address, size_t, Handle))                            \
  CALL(memsetAsync, cuMemsetD8Async, (Address, unsigned char, size_t, Handle))                    \
  CALL(pointerGetAttributes, cuPointerGetAttributes, (unsigned, int *, void **, Address))         \
  CALL(streamCreate, cuStreamCreate, (Handle *, unsigned))                                        \
  CALL(streamDestroy, cuStreamDestroy_v2, (Handle))                                               \
  CALL(streamSynchronize, cuStreamSynchronize, (Handle))                                          \
  CALL(streamQuery, cuStreamQuery, (Handle))                                                      \
  CALL(streamGetCaptureInfo, cuStreamGetCaptureInfo_v2,                                           \
       (Handle, int *, uint64_t *, Handle *, const Handle **, size_t *))                          \
  CALL(streamBeginCapture, cuStreamBeginCapture_v2, (Handle, int))                                \
  CALL(streamEndCapture, cuStreamEndCapture, (Handle, Handle *))                                  \
  CALL(graphInstantiate, cuGraphInstantiateWithFlags, (Handle *, Handle, unsigned long long))     \
  CALL(graphDestroy, cuGraphDestroy, (Handle))                                                    \
  CALL(graphLaunch, cuGraphLaunch, (Handle, Handle))                                              \
  CALL(graphExecDestroy, cuGraphExecDestroy, (Handle))                                            \
  CALL(streamWaitEvent, cuStreamWaitEvent, (Handle, Handle, unsigned))                            \
  CALL(exchangeCaptureMode, cuThreadExchangeStreamCaptureMode, (int *))                           \
  CALL(eventCreate, cuEventCreate, (Handle *, unsigned))                                          \
  CALL(eventDestroy, cuEventDestroy_v2, (Handle))                                                 \
  CALL(eventRecord, cuEventRecord, (Handle, Handle))                                              \
  CALL(eventElapsedTime, cuEventElapsedTime, (float *, Handle, Handle))                           \
  CALL(moduleLoadDataEx, cuModuleLoadDataEx,                                                      \
       (Handle *, const void *, unsigned, int *, void **))                                        \
  CALL(moduleUnload, cuModuleUnload, (Handle))                                                    \
  CALL(moduleGetFunction, cuModuleGetFunction, (Handle *, Handle, const char *))                  \
  CALL(functionSetAttribute, cuFuncSetAttribute, (Handle, int, int))                              \
  CALL(occupancyBlocks, cuOccupancyMaxActiveBlocksPerMultiprocessor,                              \
       (int *, Handle, int, size_t))                                                              \
  CALL(occupancyClusters, cuOccupancyMaxActiveClusters, (int *, Handle, const LaunchConfig *))    \
  CALL(launchKernelEx, cuLaunchKernelEx, (const LaunchConfig *, Handle, void **, void **))        \
  CALL(tensorMapEncodeTiled, cuTensorMapEncodeTiled,                                              \
       (void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *,      \
        const uint32_t *, int, int, int, int))

/// The functions of libcuda.
struct Api {
#define TILERY_CUDA_CALL(name, symbol, parameters) Result(*name) parameters = nullptr;
  TILERY_CUDA_CALLS(TILERY_CUDA_CALL)
#undef TILERY_CUDA_CALL
  int driverVersion = 0; // 12040
};

/// Opens and initialises the library once. "" or why it cannot be used.
const std::string &openError();
/// Only after openError() gave "".
const Api &api();
/// Somebody in this process has opened the library, so that there may be device memory.
bool isLoaded();

/// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"
std::string describe(Result result);
/// Raises an error that names the call, what it was for, and what to do.
[[noreturn]] void fail(Result result, const char *call, std::string_view about);
inline void check(Result result, const char *call, std::string_view about = {}) {
  if (result != Success) [[unlikely]]
    fail(result, call, about);
}

} // namespace tilery::rt::hal::cuda
