// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Which processor to generate code for: this one, or a named subset of it.
#include "compiler/Target/Cpu/CpuTarget.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

#include <map>

using namespace tilery::cpu;

namespace {

// What the avx2 choice needs; every x86-64-v3 processor has them.
const char *const avx2Features[] = {"avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe",
                                    "popcnt"};
// What the avx512 choice adds (Skylake server and later, Zen 4 and later).
const char *const avx512Features[] = {"avx512f", "avx512bw", "avx512cd", "avx512dq",
                                      "avx512vl"};

template <size_t N>
llvm::Error require(const llvm::StringMap<bool> &host, const char *const (&features)[N],
                    llvm::StringRef choice) {
  for (const char *feature : features)
    if (!host.lookup(feature))
      return llvm::createStringError("target '" + choice.str() +
                                     "' needs the processor feature '" + feature +
                                     "', which this machine lacks");
  return llvm::Error::success();
}

template <size_t N>
void append(std::string &list, const char *const (&features)[N]) {
  for (const char *feature : features)
    list += (list.empty() ? "+" : ",+") + std::string(feature);
}

} // namespace

llvm::Expected<CpuOptions> CpuOptions::fromHost() {
  llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
  if (llvm::Error error = require(host, avx2Features, "native"))
    return std::move(error);
  CpuOptions options;
  options.cpu = llvm::sys::getHostCPUName().str();
  // Sorted, since the list is part of the cache key.
  std::map<std::string, bool> sorted;
  for (const auto &feature : host)
    sorted[feature.first().str()] = feature.second;
  for (const auto &[feature, present] : sorted)
    options.features +=
        (options.features.empty() ? "" : ",") + std::string(present ? "+" : "-") + feature;
  if (!errorToBool(require(host, avx512Features, "native"))) {
    options.vectorBits = 512;
    options.hasBf16Dot = host.lookup("avx512bf16");
  }
  return options;
}

llvm::Expected<CpuOptions> CpuOptions::fromName(llvm::StringRef name) {
  if (name.empty() || name == "native")
    return fromHost();
  if (name != "avx2" && name != "avx512")
    return llvm::createStringError("unknown CPU target '" + name.str() +
                                   "' (choose native, avx512 or avx2)");
  llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
  if (llvm::Error error = require(host, avx2Features, name))
    return std::move(error);
  CpuOptions options;
  options.cpu = "x86-64-v3";
  append(options.features, avx2Features);
  if (name == "avx2")
    return options;
  if (llvm::Error error = require(host, avx512Features, name))
    return std::move(error);
  options.cpu = "x86-64-v4";
  append(options.features, avx512Features);
  options.vectorBits = 512;
  return options;
}
