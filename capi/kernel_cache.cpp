// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The disk cache: one file a kernel, a JSON line with its description, then the object.
#include "capi/kernel_cache.h"

#include "capi/bindings.h"
#include "capi/error.h"
#include "runtime/base/knobs.h"
#include "runtime/base/log.h"
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

static fs::path cacheDirectory() {
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
static bool isPrivate(const fs::path &directory) {
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
static bool prepareDirectory() {
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
                               std::to_string(TILERY_KERNEL_ABI)};
  for (const std::string &part : parts) {
    hash.update(part);
    hash.update(llvm::StringRef("\0", 1));
  }
  return llvm::toHex(hash.final(), true).substr(0, 40);
}

static fs::path pathOf(const std::string &key) { return cacheDirectory() / (key + ".kernel"); }

static json::Value describe(const KernelInfo &info) {
  json::Array sites;
  for (const SourceSite &site : info.sites)
    sites.push_back(json::Array{site.file, site.line, site.column});
  return json::Object{{"name", info.name},
                      {"scratch_bytes", info.scratchBytes},
                      {"suspends", info.suspends},
                      {"communicates", info.communicates},
                      {"sites", std::move(sites)}};
}

static KernelInfo parseInfo(const json::Object &object) {
  KernelInfo info;
  info.name = object.getString("name").value_or("").str();
  info.scratchBytes = object.getInteger("scratch_bytes").value_or(0);
  info.suspends = object.getBoolean("suspends").value_or(false);
  info.communicates = object.getBoolean("communicates").value_or(false);
  if (auto *sites = object.getArray("sites"))
    for (const json::Value &entry : *sites)
      if (auto *site = entry.getAsArray(); site && site->size() == 3)
        info.sites.push_back({(*site)[0].getAsString().value_or("").str(),
                              int32_t((*site)[1].getAsInteger().value_or(0)),
                              int32_t((*site)[2].getAsInteger().value_or(0))});
  return info;
}

std::optional<CompiledCode> capi::loadCached(const std::string &key) {
  if (!isPrivate(cacheDirectory()))
    return std::nullopt;
  std::ifstream file(pathOf(key), std::ios::binary);
  std::string header, object;
  if (!file || !std::getline(file, header))
    return std::nullopt;
  std::stringstream rest;
  rest << file.rdbuf();
  object = rest.str();
  llvm::Expected<json::Value> parsed = json::parse(header);
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return std::nullopt;
  }
  const json::Object *description = parsed->getAsObject();
  if (!description || description->getInteger("bytes") != int64_t(object.size()) ||
      description->getString("hash") != llvm::toHex(llvm::SHA256::hash(llvm::arrayRefFromStringRef(object)), true))
    return std::nullopt;
  CompiledCode code;
  code.kernels.push_back(parseInfo(*description));
  code.object = std::move(object);
  return code;
}

void capi::storeCached(const std::string &key, const CompiledCode &code) {
  if (!prepareDirectory())
    return;
  json::Value description = describe(code.kernels.at(0));
  (*description.getAsObject())["bytes"] = int64_t(code.object.size());
  (*description.getAsObject())["hash"] =
      llvm::toHex(llvm::SHA256::hash(llvm::arrayRefFromStringRef(code.object)), true);
  std::error_code error;
  fs::path temporary = pathOf(key);
  temporary += "." + std::to_string(getpid()) + "." + std::to_string(uintptr_t(&code));
  {
    std::ofstream file(temporary, std::ios::binary);
    std::string header;
    llvm::raw_string_ostream(header) << description;
    file << header << '\n' << code.object;
    file.close();
    if (file)
      fs::rename(temporary, pathOf(key), error);
    else
      error = std::make_error_code(std::errc::io_error);
  }
  if (!error)
    return;
  fs::remove(temporary, error);
  warnOnce("compiled kernels cannot be written to " + cacheDirectory().string() +
           "; set TILERY_CACHE_DIR to a directory that can");
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
      if (entry.path().extension() == ".kernel")
        fs::remove(entry.path(), error);
  });
}
