// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Launch options: parsed once for each text, checked, kept for the life of the process.
#include "capi/options.h"

#include "capi/bindings.h"
#include "runtime/base/nearest_name.h"

#include <map>
#include <memory>
#include <mutex>

using namespace tilery;
using namespace tilery::capi;
namespace json = llvm::json;

namespace {

struct IntegerOption {
  int64_t tilery_options::*field;
  int64_t least, most;
};

const std::map<std::string, IntegerOption> integerOptions = {
    {"num_warps", {&tilery_options::numWarps, 1, 32}},
    {"num_stages", {&tilery_options::numStages, 0, 64}},
    {"num_ctas", {&tilery_options::numCtas, 1, 16}},
    {"maxnreg", {&tilery_options::maxRegisters, 0, 255}}};
const std::map<std::string, bool tilery_options::*> flagOptions = {
    {"enable_fp_fusion", &tilery_options::fpFusion},
    {"debug", &tilery_options::debug},
    {"check_bounds", &tilery_options::checkBounds}};

std::string listed() {
  std::string names;
  for (const auto &entry : integerOptions)
    names += entry.first + ", ";
  return names + "enable_fp_fusion, debug, check_bounds, target";
}

[[noreturn]] void unknownOption(const std::string &name) {
  std::vector<std::string_view> known;
  for (const auto &entry : integerOptions)
    known.push_back(entry.first);
  for (const auto &entry : flagOptions)
    known.push_back(entry.first);
  known.push_back("target");
  rt::raise(TILERY_CONFIG_ERROR, "unknown launch option '{}'{}\nhint: the options are {}", name,
            rt::didYouMean(name, known), listed());
}

void setOption(tilery_options &options, const std::string &name, const json::Value &value) {
  if (auto integer = integerOptions.find(name); integer != integerOptions.end()) {
    const IntegerOption &option = integer->second;
    std::optional<int64_t> number = value.getAsInteger();
    if (!number || *number < option.least || *number > option.most)
      rt::raise(TILERY_CONFIG_ERROR, "launch option '{}' must be an integer from {} to {}", name,
                option.least, option.most);
    if (name == "num_warps" && (*number & (*number - 1)) != 0)
      rt::raise(TILERY_CONFIG_ERROR, "launch option 'num_warps' must be a power of two, not {}",
                *number);
    options.*option.field = *number;
    return;
  }
  if (name == "target") {
    if (!value.getAsString())
      rt::raise(TILERY_CONFIG_ERROR, "launch option 'target' must be the name of a target");
    options.target = value.getAsString()->str();
    return;
  }
  auto flag = flagOptions.find(name);
  if (flag == flagOptions.end())
    unknownOption(name);
  if (!value.getAsBoolean())
    rt::raise(TILERY_CONFIG_ERROR, "launch option '{}' must be true or false", name);
  options.*flag->second = *value.getAsBoolean();
  if (name == "debug")
    options.assertions = options.debug;
}

} // namespace

extern "C" tilery_status tilery_options_intern(const char *options_json,
                                               const tilery_options **options) {
  return guardedCompile([&] {
    static std::mutex mutex;
    static std::map<std::string, std::unique_ptr<tilery_options>> known;
    std::string text = options_json ? options_json : "{}";
    std::lock_guard lock(mutex);
    std::unique_ptr<tilery_options> &entry = known[text];
    if (!entry) {
      auto parsed = std::make_unique<tilery_options>();
      for (const auto &[name, value] : parseObject(text.c_str(), "the launch options"))
        setOption(*parsed, name.str(), value);
      entry = std::move(parsed);
    }
    require(options, "the result") = entry.get();
  });
}
