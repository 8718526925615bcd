// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The disk cache: one file a kernel, a JSON line with its description, then the object (for a GPU
// the assembly text, whose machine code the driver keeps).
#include "capi/kernel_cache.h"

#include "capi/bindings.h"
#include "capi/cache_limit.h"
#include "capi/error.h"
#include "capi/kernel_info.h"
#include "runtime/base/knobs.h"
#include "runtime/base/log.h"
#include "tilery/gpu_abi.h"
#include "tilery/kernel_abi.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

#include <atomic>
#include <cstdlib>
#include <elf.h>
#include <filesystem>
#include <fstream>
#include <link.h>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace tilery;
using namespace tilery::capi;
namespace fs = std::filesystem;
namespace json = llvm::json;

fs::path capi::cacheDirectory() {
  if (!rt::knobs().cacheDir.empty())
    return rt::knobs().cacheDir;
  const char *base = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (base && *base)
    return fs::path(base) / "tilery";
  if (home && *home)
    return fs::path(home) / ".cache" / "tilery";
  return fs::path("/tmp") / ("tilery-" + std::to_string(geteuid()));
}

// What is in the cache runs in this process: only a directory that nobody else can write counts.
bool capi::isPrivate(const fs::path &directory) {
  struct stat status;
  return stat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static void warnOnce(const std::string &text) {
  static std::atomic_flag warned;
  if (!warned.test_and_set())
    rt::warn(text);
}

// Made for this user alone when it is not there. False, with one warning, when it cannot be used.
bool capi::prepareDirectory() {
  std::error_code error;
  fs::path directory = cacheDirectory();
  if (!fs::exists(directory, error)) {
    fs::create_directories(directory.parent_path(), error);
    mkdir(directory.c_str(), S_IRWXU);
  }
  if (isPrivate(directory))
    return true;
  warnOnce("compiled kernels are not kept: " + directory.string() +
           " must be a directory of this user that no other can write; set TILERY_CACHE_DIR");
  return false;
}

// The GNU build id of the shared object that this code is in.
static int findBuildId(dl_phdr_info *info, size_t, void *result) {
  auto here = reinterpret_cast<uintptr_t>(&findBuildId);
  bool contains = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    contains |= segment.p_type == PT_LOAD && here >= begin && here < begin + segment.p_memsz;
  }
  if (!contains)
    return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE)
      continue;
    auto *note = reinterpret_cast<const char *>(info->dlpi_addr + segment.p_vaddr);
    const char *end = note + segment.p_memsz;
    while (note + sizeof(ElfW(Nhdr)) <= end) {
      auto *header = reinterpret_cast<const ElfW(Nhdr) *>(note);
      const char *name = note + sizeof(*header);
      const char *text = name + ((header->n_namesz + 3) & ~3u);
      if (header->n_type == NT_GNU_BUILD_ID)
        *static_cast<std::string *>(result) =
            llvm::toHex(llvm::StringRef(text, header->n_descsz), true);
      note = text + ((header->n_descsz + 3) & ~3u);
    }
  }
  return 1;
}

std::string capi::buildId() {
  static const std::string id = [] {
    std::string found;
    dl_iterate_phdr(findBuildId, &found);
    return found.empty() ? std::string(tilery_version()) : found;
  }();
  return id;
}

std::string capi::cacheKey(const std::string &irText, const Target &target) {
  llvm::SHA256 hash;
  const std::string parts[] = {irText, target.description(), buildId(),
                               std::to_string(TILERY_KERNEL_ABI),
                               std::to_string(TILERY_GPU_ABI)};
  for (const std::string &part : parts) {
    hash.update(part);
    hash.update(llvm::StringRef("\0", 1));
  }
  return llvm::toHex(hash.final(), true).substr(0, 40);
}

static fs::path pathOf(const std::string &key) { return cacheDirectory() / (key + ".kernel"); }

namespace {
/// A JSON line, then bytes that it holds the length and the hash of.
struct Entry {
  json::Object description;
  std::string bytes;
};
} // namespace

static std::string hashOf(const std::string &bytes) {
  return llvm::toHex(llvm::SHA256::hash(llvm::arrayRefFromStringRef(bytes)), true);
}

static std::optional<Entry> readEntry(const fs::path &path) {
  if (!isPrivate(cacheDirectory()))
    return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string header;
  if (!file || !std::getline(file, header))
    return std::nullopt;
  std::stringstream rest;
  rest << file.rdbuf();
  llvm::Expected<json::Value> parsed = json::parse(header);
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return std::nullopt;
  }
  json::Object *description = parsed->getAsObject();
  std::string bytes = rest.str();
  if (!description || description->getInteger("bytes") != int64_t(bytes.size()) ||
      description->getString("hash") != hashOf(bytes))
    return std::nullopt;
  touchEntry(path);
  return Entry{std::move(*description), std::move(bytes)};
}

static bool writeFile(const fs::path &path, const std::string &text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return bool(file);
}

bool capi::replaceFile(const fs::path &path, const std::string &text) {
  std::error_code error;
  fs::path temporary = path;
  temporary += "." + std::to_string(getpid()) + "." + std::to_string(uintptr_t(&text));
  if (writeFile(temporary, text)) {
    fs::rename(temporary, path, error);
    if (!error)
      return true;
  }
  fs::remove(temporary, error);
  return false;
}

static void writeEntry(const fs::path &path, json::Object description, const std::string &bytes) {
  if (!prepareDirectory())
    return;
  description["bytes"] = int64_t(bytes.size());
  description["hash"] = hashOf(bytes);
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(std::move(description)) << '\n' << bytes;
  if (replaceFile(path, text))
    return limitCache(path.parent_path(), int64_t(bytes.size()));
  warnOnce("compiled kernels cannot be written to " + cacheDirectory().string() +
           "; set TILERY_CACHE_DIR to a directory that can");
}

std::optional<CompiledCode> capi::loadCached(const std::string &key) {
  std::optional<Entry> entry = readEntry(pathOf(key));
  if (!entry)
    return std::nullopt;
  CompiledCode code;
  code.kernels.push_back(parseKernelInfo(entry->description));
  code.object = std::move(entry->bytes);
  return code;
}

void capi::storeCached(const std::string &key, const CompiledCode &code) {
  writeEntry(pathOf(key), describeKernelInfo(code.kernels.at(0)), code.object);
}

static std::string describeCache() {
  std::string text;
  int64_t entries = 0, bytes = 0;
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(cacheDirectory(), error))
    if (entry.path().extension() == ".kernel") {
      ++entries;
      bytes += int64_t(entry.file_size(error));
    }
  llvm::raw_string_ostream(text) << json::Value(json::Object{
      {"path", cacheDirectory().string()}, {"entries", entries}, {"bytes", bytes}});
  return text;
}

extern "C" const char *tilery_cache_describe(void) {
  static thread_local std::string text;
  tilery_status status = capi::guarded([] { text = describeCache(); });
  return status ? nullptr : text.c_str();
}

extern "C" tilery_status tilery_cache_clear(void) {
  return guarded([&] {
    std::error_code error;
    for (const auto &entry : fs::directory_iterator(cacheDirectory(), error))
      if (entry.path().extension() == ".kernel" || entry.path().string().ends_with(".calibration.json"))
        fs::remove(entry.path(), error);
  });
}
