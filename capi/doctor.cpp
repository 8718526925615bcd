// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What this machine has, as JSON: targets, processor, launcher variables, cache.
#include "capi/bindings.h"
#include "capi/kernel_cache.h"
#include "compiler/Target/Cpu/CpuTarget.h"

#include "runtime/hal/driver.h"
#include "llvm/TargetParser/Host.h"

#include <cstdlib>
#include <dlfcn.h>
#include <thread>

namespace tilery::rt::hal {
Driver &cudaDriver();
}

using namespace tilery;
namespace json = llvm::json;

// A choice of TILERY_CPU: usable here, or why not.
static json::Value describeCpu(const char *choice) {
  auto options = cpu::CpuOptions::fromName(choice);
  if (!options)
    return json::Object{{"choice", choice}, {"usable", false},
                        {"reason", llvm::toString(options.takeError())}};
  return json::Object{{"choice", choice},
                      {"usable", true},
                      {"vector_bits", int64_t(options->vectorBits)},
                      {"bf16_dot", options->hasBf16Dot}};
}

// A library of a vendor's driver, opened the way a driver of ours would open it.
static json::Value describeDriver(const char *target, const char *library) {
  if (void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL)) {
    dlclose(handle);
    return json::Object{{"name", target}, {"found", true},
                        {"note", "driver library present; this build generates code for cpu only"}};
  }
  return json::Object{{"name", target}, {"found", false}, {"note", std::string(dlerror())}};
}

static json::Value describeDevice(rt::hal::Driver &driver, int device) {
  const rt::hal::DeviceProperties &known = driver.properties(device);
  return json::Object{{"name", known.name},
                      {"target", known.target},
                      {"processors", known.processors},
                      {"memory_bytes", known.memoryBytes},
                      {"shared_bytes", known.sharedBytes},
                      {"assembly_version", known.assemblyVersion}};
}

// A driver of ours: its devices, or why there are none.
static json::Value describeDevices(const char *target, rt::hal::Driver &driver) {
  if (std::string reason = driver.unavailable(); !reason.empty())
    return json::Object{{"name", target}, {"found", false}, {"note", reason}};
  json::Array devices;
  for (int device = 0; device < driver.deviceCount(); ++device)
    devices.push_back(describeDevice(driver, device));
  return json::Object{{"name", target}, {"found", true}, {"devices", std::move(devices)}};
}

static json::Value describeLauncher() {
  static const std::pair<const char *, const char *> known[] = {
      {"tilery run or torchrun", "RANK"}, {"Open MPI", "OMPI_COMM_WORLD_RANK"},
      {"PMI", "PMI_RANK"}, {"Slurm", "SLURM_PROCID"}};
  for (const auto &[name, variable] : known)
    if (const char *value = std::getenv(variable))
      return json::Object{{"launcher", name}, {"variable", variable}, {"rank", value}};
  return json::Object{{"launcher", "none"}, {"note", "a single process is a world of one rank"}};
}

extern "C" const char *tilery_doctor(void) {
  static thread_local std::string text;
  const char *cache = tilery_cache_describe();
  if (!cache)
    return nullptr;
  json::Array cpus{describeCpu("native"), describeCpu("avx512"), describeCpu("avx2")};
  json::Value report = json::Object{
      {"version", tilery_version()},
      {"build", capi::buildId()},
      {"cpu", json::Object{{"name", llvm::sys::getHostCPUName()},
                           {"threads", int64_t(std::thread::hardware_concurrency())},
                           {"code", std::move(cpus)}}},
      {"targets", json::Array{json::Object{{"name", "cpu"}, {"found", true}},
                              describeDevices("nvidia", rt::hal::cudaDriver()),
                              describeDriver("amd", "libamdhip64.so"),
                              describeDriver("ascend", "libascendcl.so"),
                              describeDriver("maca", "libmcruntime.so")}},
      {"world", describeLauncher()},
      {"cache", cantFail(json::parse(cache))}};
  text.clear();
  llvm::raw_string_ostream(text) << report;
  return text.c_str();
}

extern "C" const char *tilery_version(void) { return "0.1.0"; }

extern "C" int64_t tilery_dtype_size(tilery_dtype dtype) {
  if (dtype == TILERY_SIGNAL)
    return 8;
  return dtype < TILERY_SIGNAL ? (frontend::bitWidth(frontend::DType(dtype)) + 7) / 8 : 0;
}
