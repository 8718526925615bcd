// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Devices, memory, streams and events.
#include "runtime/hal/cuda/devices.h"

#include "runtime/base/knobs.h"

#include <algorithm>
#include <vector>

namespace tilery::rt::hal {

Driver &cudaDriver() {
  static cuda::CudaDriver instance;
  return instance;
}

namespace cuda {

static int attribute(DeviceAttribute which, Device device) {
  int value = 0;
  check(api().deviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

// The assembly version that a driver takes, by the release notes of PTX.
static int32_t ptxVersion(int driver) {
  static constexpr struct {
    int driver, ptx;
  } table[] = {{13020, 92}, {13010, 91}, {13000, 90}, {12090, 88}, {12080, 87}, {12070, 86}, {12050, 85},
               {12040, 84}, {12030, 83}, {12020, 82}, {12010, 81}, {12000, 80}};
  for (auto [from, version] : table)
    if (driver >= from)
      return version;
  return 80;
}

// From Hopper on code can ask for what only this very architecture has ("a").
static std::string targetName(int major, int minor) {
  return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : "");
}

static std::string identityOf(Device device) {
  Uuid uuid = {};
  check(api().deviceGetUuid(&uuid, device), "cuDeviceGetUuid");
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i)
    text += fmt::format("{}{:02x}", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                        uuid.bytes[i]);
  return text;
}

// Shared memory that an instance can have on the GPU that code is generated for: CUDA C++ Programming
// Guide, table of technical specifications.
static int64_t sharedBytesOf(const std::string &target) {
  if (target == "sm_80")
    return 163 << 10;
  return target == "sm_86" || target == "sm_89" ? 99 << 10 : 227 << 10;
}

// Code for an older GPU runs on a newer one, and then is planned as for the older.
static void pretend(DeviceProperties &known, const std::string &target) {
  if (target.empty())
    return;
  known.target = target;
  known.sharedBytes = std::min(known.sharedBytes, sharedBytesOf(target));
}

static void describeDevice(DeviceState &state, Device device) {
  char name[256] = "";
  size_t memory = 0;
  check(api().deviceGetName(name, sizeof name, device), "cuDeviceGetName");
  check(api().deviceTotalMem(&memory, device), "cuDeviceTotalMem");
  int major = attribute(ComputeCapabilityMajor, device);
  int minor = attribute(ComputeCapabilityMinor, device);
  DeviceProperties &known = state.properties;
  known.name = name;
  known.identity = identityOf(device);
  known.target = targetName(major, minor);
  known.assemblyVersion = ptxVersion(api().driverVersion);
  known.processors = attribute(MultiprocessorCount, device);
  known.memoryBytes = int64_t(memory);
  known.sharedBytes = attribute(MaxSharedBytesPerBlock, device);
  pretend(known, knobs().gpuArch);
  state.concurrentManaged = attribute(ConcurrentManagedAccess, device) != 0;
  state.hasClusters = attribute(ClusterLaunch, device) != 0;
  state.mapsDescriptors =
      attribute(VirtualMemory, device) != 0 && attribute(FileDescriptorHandles, device) != 0;
}

struct CudaDriver::Devices {
  std::vector<std::unique_ptr<DeviceState>> list;
};

CudaDriver::Devices &CudaDriver::devices() {
  static Devices all = [] {
    Devices found;
    int count = 0;
    if (!openError().empty())
      return found;
    check(api().deviceGetCount(&count), "cuDeviceGetCount");
    for (int device = 0; device < count; ++device) {
      found.list.push_back(std::make_unique<DeviceState>());
      describeDevice(*found.list.back(), device);
    }
    return found;
  }();
  return all;
}

static std::atomic<int> firstOpened = -1;

int CudaDriver::anyOpened() { return std::max(firstOpened.load(std::memory_order_acquire), 0); }

DeviceState &CudaDriver::opened(int device) {
  auto &list = devices().list;
  if (size_t(device) >= list.size())
    raise(TILERY_LAUNCH_ERROR, "there is no device {}: the driver 'cuda' has {}", device,
          list.size());
  DeviceState &state = *list[size_t(device)];
  std::call_once(state.opened, [&] {
    RelaxedCapture relaxed;
    check(api().primaryContextRetain(&state.context, device), "cuDevicePrimaryCtxRetain",
          state.properties.name);
    Scope scope(state.context);
    check(api().streamCreate(&state.stream, StreamNonBlocking), "cuStreamCreate");
    int none = -1;
    firstOpened.compare_exchange_strong(none, device);
  });
  return state;
}

int CudaDriver::deviceCount() const { return int(devices().list.size()); }

const DeviceProperties &CudaDriver::properties(int device) const {
  return devices().list.at(size_t(device))->properties;
}

int CudaDriver::deviceOf(const void *address) const {
  unsigned type = 0, managed = 0;
  int ordinal = -1;
  Address at = addressOf(address);
  if (at == 0)
    return -1;
  // Of a peer's memory the driver tells where it lies, not who can use it here.
  if (ReachableBlock block = reachableAt(address); block.bytes > 0)
    return block.device;
  // For memory that the driver has never seen, the host's, this form leaves zeros and is no error.
  int which[] = {MemoryType, IsManaged, DeviceOrdinal};
  void *values[] = {&type, &managed, &ordinal};
  Result result = api().pointerGetAttributes(3, which, values, at);
  if (result == InvalidContext) { // of a thread that has used no device yet
    check(api().contextSetCurrent(opened(anyOpened()).context), "cuCtxSetCurrent");
    result = api().pointerGetAttributes(3, which, values, at);
  }
  return result == Success && (type == MemoryTypeDevice || managed) ? ordinal : -1;
}

void CudaDriver::copy(void *destination, const void *source, size_t bytes) {
  if (bytes == 0)
    return;
  int device = std::max(deviceOf(destination), deviceOf(source));
  DeviceState &state = opened(device < 0 ? anyOpened() : device);
  Scope scope(state.context);
  RelaxedCapture relaxed;
  check(api().memcpyAsync(addressOf(destination), addressOf(source), bytes, state.stream),
        "cuMemcpyAsync");
  check(api().streamSynchronize(state.stream), "cuStreamSynchronize", "a copy");
}

Stream CudaDriver::createStream(int device, bool inOrder) {
  DeviceState &state = opened(device);
  Scope scope(state.context);
  RelaxedCapture relaxed;
  std::lock_guard lock(mutex);
  std::vector<Handle> &idle = inOrder ? state.idleInOrder : state.idleStreams;
  if (!idle.empty()) {
    Handle stream = idle.back();
    idle.pop_back();
    return stream;
  }
  Handle stream = nullptr;
  check(api().streamCreate(&stream, inOrder ? 0 : StreamNonBlocking), "cuStreamCreate");
  if (inOrder)
    state.inOrder.insert(stream);
  return stream;
}

void CudaDriver::destroyStream(int device, Stream stream) {
  DeviceState &state = opened(device);
  std::lock_guard lock(mutex);
  (state.inOrder.contains(stream) ? state.idleInOrder : state.idleStreams).push_back(stream);
}

void CudaDriver::copyAsync(void *destination, const void *source, size_t bytes, int device,
                           Stream stream) {
  if (bytes == 0)
    return;
  Scope scope(opened(device).context);
  check(api().memcpyAsync(addressOf(destination), addressOf(source), bytes, stream),
        "cuMemcpyAsync");
}

void CudaDriver::fillAsync(void *memory, uint8_t byte, size_t bytes, int device, Stream stream) {
  if (bytes == 0)
    return;
  Scope scope(opened(device).context);
  check(api().memsetAsync(addressOf(memory), byte, bytes, stream), "cuMemsetD8Async");
}

void CudaDriver::synchronize(int device, Stream stream) {
  Scope scope(opened(device).context);
  check(api().streamSynchronize(stream), "cuStreamSynchronize");
}

bool CudaDriver::isIdle(int device, Stream stream) {
  Scope scope(opened(device).context);
  Result result = api().streamQuery(stream);
  if (result == NotReady)
    return false;
  check(result, "cuStreamQuery");
  return true;
}

void CudaDriver::synchronizeDevice(int device) {
  Scope scope(opened(device).context);
  check(api().contextSynchronize(), "cuCtxSynchronize");
}

uint64_t CudaDriver::recordingOf(int device, Stream stream) {
  if (!stream)
    return 0; // cannot be captured; asking while another stream is captured is an error
  Scope scope(opened(device).context);
  int status = 0;
  uint64_t number = 0;
  Result result =
      api().streamGetCaptureInfo(stream, &status, &number, nullptr, nullptr, nullptr);
  return result == Success && status != 0 ? number : 0;
}

// Relaxed: this thread and others may go on to do what is not recorded.
void CudaDriver::beginRecording(int device, Stream stream) {
  Scope scope(opened(device).context);
  check(api().streamBeginCapture(stream, CaptureModeRelaxed), "cuStreamBeginCapture");
}

Recording CudaDriver::endRecording(int device, Stream stream) {
  Scope scope(opened(device).context);
  Handle graph = nullptr, recording = nullptr;
  check(api().streamEndCapture(stream, &graph), "cuStreamEndCapture");
  Result result = api().graphInstantiate(&recording, graph, 0);
  api().graphDestroy(graph);
  check(result, "cuGraphInstantiate");
  return recording;
}

void CudaDriver::replay(Recording recording, int device, Stream stream) {
  Scope scope(opened(device).context);
  check(api().graphLaunch(recording, stream), "cuGraphLaunch");
}

void CudaDriver::destroyRecording(int device, Recording recording) {
  Scope scope(opened(device).context);
  api().graphExecDestroy(recording);
}

Event CudaDriver::createEvent(int device, bool timed) {
  Scope scope(opened(device).context);
  Handle event = nullptr;
  check(api().eventCreate(&event, timed ? 0 : EventDisableTiming), "cuEventCreate");
  return event;
}

void CudaDriver::destroyEvent(int device, Event event) {
  Scope scope(opened(device).context);
  api().eventDestroy(event);
}

void CudaDriver::record(Event event, int device, Stream stream) {
  Scope scope(opened(device).context);
  check(api().eventRecord(event, stream), "cuEventRecord");
}

void CudaDriver::waitFor(Event event, int device, Stream stream) {
  Scope scope(opened(device).context);
  check(api().streamWaitEvent(stream, event, 0), "cuStreamWaitEvent");
}

double CudaDriver::milliseconds(Event begin, Event end) {
  float elapsed = 0;
  check(api().eventElapsedTime(&elapsed, begin, end), "cuEventElapsedTime");
  return double(elapsed);
}

} // namespace cuda
} // namespace tilery::rt::hal
