// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The JSON options of tilery_world_init and tilery_group_create.
#include "capi/error.h"
#include "capi/world.h"
#include "runtime/base/nearest_name.h"

#include <functional>
#include <limits>
#include <llvm/Support/JSON.h>
#include <map>

namespace tilery::capi {

namespace json = llvm::json;

namespace {
/// One key: takes the value or returns false when it has the wrong type.
struct Key {
  const char *wanted;
  std::function<bool(const json::Value &)> take;
};
using Keys = std::map<std::string_view, Key>;
} // namespace

template <typename T> static Key integerKey(T &result, int64_t least) {
  return {least > 0 ? "a positive whole number" : "a whole number", [&result, least](auto &value) {
            std::optional<int64_t> number = value.getAsInteger();
            constexpr auto most = std::numeric_limits<T>::max();
            if (!number || *number < least || uint64_t(*number) > uint64_t(most))
              return false;
            result = T(*number);
            return true;
          }};
}

template <typename T> static Key optionalIntegerKey(std::optional<T> &result) {
  return {"a whole number of 0 or more", [&result](auto &value) {
            std::optional<int64_t> number = value.getAsInteger();
            bool fits = number && *number >= 0 &&
                        uint64_t(*number) <= uint64_t(std::numeric_limits<T>::max());
            if (fits)
              result = T(*number);
            return fits || bool(value.getAsNull());
          }};
}

static Key textKey(std::string &result) {
  return {"a string", [&result](auto &value) {
            if (auto text = value.getAsString())
              result = text->str();
            return value.getAsString() || value.getAsNull();
          }};
}

static Key portKey(std::string &result) {
  return {"a port number", [&result](auto &value) {
            if (auto text = value.getAsString())
              result = text->str();
            else if (auto number = value.getAsInteger())
              result = std::to_string(*number);
            else
              return false;
            return true;
          }};
}

static Key secondsKey(double &result) {
  return {"a number of seconds, 0 for none", [&result](auto &value) {
            std::optional<double> number = value.getAsNumber();
            if (number && *number >= 0)
              result = *number;
            return (number && *number >= 0) || value.getAsNull();
          }};
}

static Key flagKey(bool &result) {
  return {"true or false", [&result](auto &value) {
            std::optional<bool> flag = value.getAsBoolean();
            result = flag.value_or(false);
            return flag.has_value();
          }};
}

static Key devicesKey(std::vector<std::string> &result) {
  return {"the name of a device, such as \"cpu\" or \"cuda:1\", or a list of one for each rank",
          [&result](auto &value) {
            result.clear();
            if (auto text = value.getAsString()) {
              result = {text->str()};
              return true;
            }
            const json::Array *list = value.getAsArray();
            if (!list)
              return bool(value.getAsNull());
            for (const json::Value &entry : *list) {
              auto text = entry.getAsString();
              if (!text)
                return false;
              result.push_back(text->str());
            }
            return !result.empty();
          }};
}

static Key meshKey(std::vector<int> &result) {
  return {"a list of positive whole numbers", [&result](auto &value) {
            const json::Array *list = value.getAsArray();
            if (!list)
              return bool(value.getAsNull());
            for (const json::Value &entry : *list) {
              std::optional<int64_t> extent = entry.getAsInteger();
              if (!extent || *extent < 1 || *extent > std::numeric_limits<int>::max())
                return false;
              result.push_back(int(*extent));
            }
            return true;
          }};
}

static std::string print(const json::Value &value) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << value;
  return text;
}

static void takeKey(const json::Object::value_type &entry, const Keys &keys) {
  std::string name = entry.first.str();
  auto found = keys.find(name);
  if (found == keys.end()) {
    std::vector<std::string_view> known;
    for (const auto &[key, rest] : keys)
      known.push_back(key);
    rt::raise(TILERY_CONFIG_ERROR, "unknown option '{}'{}", name, rt::didYouMean(name, known));
  }
  if (!found->second.take(entry.second))
    rt::raise(TILERY_CONFIG_ERROR, "option '{}' is {}, it must be {}", name, print(entry.second),
              found->second.wanted);
}

static void parseOptions(const char *text, const Keys &keys) {
  if (!text)
    return;
  llvm::Expected<json::Value> value = json::parse(text);
  if (!value)
    rt::raise(TILERY_CONFIG_ERROR, "the options are not JSON: {}",
              llvm::toString(value.takeError()));
  const json::Object *object = value->getAsObject();
  if (!object)
    rt::raise(TILERY_CONFIG_ERROR, "the options are {}, they must be a JSON object", print(*value));
  for (const auto &entry : *object)
    takeKey(entry, keys);
}

static void addWorldKeys(Keys &keys, rt::WorldOptions &options) {
  keys.emplace("mesh", meshKey(options.mesh));
  keys.emplace("heap_bytes", integerKey(options.heapBytes, 1));
  keys.emplace("timeout_s", secondsKey(options.timeoutSeconds));
  keys.emplace("trace", textKey(options.trace));
  keys.emplace("device", devicesKey(options.deviceNames));
  keys.emplace("share_device", flagKey(options.shareDevice));
  keys.emplace("shared_heap", flagKey(options.sharedHeap));
}

InitOptions parseInitOptions(const char *json) {
  InitOptions options;
  Keys keys;
  addWorldKeys(keys, options.world);
  keys.emplace("rank", optionalIntegerKey(options.job.rank));
  keys.emplace("size", optionalIntegerKey(options.job.size));
  keys.emplace("master_addr", textKey(options.job.masterAddress));
  keys.emplace("master_port", portKey(options.job.masterPort));
  keys.emplace("token", textKey(options.job.token));
  parseOptions(json, keys);
  return options;
}

rt::WorldOptions parseGroupOptions(const char *json) {
  rt::WorldOptions options;
  options.ranks = 0;
  Keys keys;
  addWorldKeys(keys, options);
  keys.emplace("ranks", integerKey(options.ranks, 1));
  keys.emplace("seed", optionalIntegerKey(options.seed));
  keys.emplace("delay", flagKey(options.delay));
  keys.emplace("residency", integerKey(options.residency, 0));
  parseOptions(json, keys);
  if (options.ranks == 0)
    rt::raise(TILERY_CONFIG_ERROR, "option 'ranks' is missing");
  return options;
}

} // namespace tilery::capi
