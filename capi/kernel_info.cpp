// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Kernel descriptions to JSON and back.
#include "capi/kernel_info.h"

using namespace tilery;
namespace json = llvm::json;

// A constant is a number, an argument ["arg", index], the rest [operation, left, right].
static const char *const operations[] = {"", "arg", "+", "-", "*", "/", "min", "max"};

static json::Value describe(const HostExpression &expression) {
  using Kind = HostExpression::Kind;
  if (expression.kind == Kind::Constant)
    return expression.value;
  const char *name = operations[int(expression.kind)];
  if (expression.kind == Kind::Argument)
    return json::Array{name, expression.value};
  return json::Array{name, describe(*expression.lhs), describe(*expression.rhs)};
}

static HostExpression parseExpression(const json::Value &value) {
  HostExpression result;
  const json::Array *parts = value.getAsArray();
  if (!parts || parts->size() < 2) {
    result.value = value.getAsInteger().value_or(0);
    return result;
  }
  for (int kind = 1; kind < 8; ++kind)
    if ((*parts)[0].getAsString() == operations[kind])
      result.kind = HostExpression::Kind(kind);
  if (parts->size() == 2) {
    result.value = (*parts)[1].getAsInteger().value_or(0);
    return result;
  }
  result.lhs = std::make_shared<HostExpression>(parseExpression((*parts)[1]));
  result.rhs = std::make_shared<HostExpression>(parseExpression((*parts)[2]));
  return result;
}

static json::Array describe(const std::vector<HostExpression> &list) {
  json::Array result;
  for (const HostExpression &expression : list)
    result.push_back(describe(expression));
  return result;
}

static std::vector<HostExpression> parseList(const json::Array *list) {
  std::vector<HostExpression> result;
  if (list)
    for (const json::Value &entry : *list)
      result.push_back(parseExpression(entry));
  return result;
}

static std::vector<int32_t> parseIntegers(const json::Array *list) {
  std::vector<int32_t> result;
  if (list)
    for (const json::Value &entry : *list)
      result.push_back(int32_t(entry.getAsInteger().value_or(0)));
  return result;
}

static json::Object describe(const TensorMapRecipe &recipe) {
  return json::Object{{"pointer", recipe.pointer},
                      {"offset", describe(recipe.offsetElements)},
                      {"element", recipe.element},
                      {"extents", describe(recipe.extents)},
                      {"strides", describe(recipe.strides)},
                      {"box", json::Array(recipe.box)},
                      {"swizzle", recipe.swizzleBytes}};
}

static TensorMapRecipe parseRecipe(const json::Object &object) {
  TensorMapRecipe recipe;
  recipe.pointer = int32_t(object.getInteger("pointer").value_or(0));
  if (const json::Value *offset = object.get("offset"))
    recipe.offsetElements = parseExpression(*offset);
  recipe.element = object.getString("element").value_or("").str();
  recipe.extents = parseList(object.getArray("extents"));
  recipe.strides = parseList(object.getArray("strides"));
  recipe.box = parseIntegers(object.getArray("box"));
  recipe.swizzleBytes = int32_t(object.getInteger("swizzle").value_or(0));
  return recipe;
}

static void describeDevicePart(const KernelInfo &info, json::Object &object) {
  json::Array maps;
  for (const TensorMapRecipe &recipe : info.tensorMaps)
    maps.push_back(describe(recipe));
  object["threads"] = info.threads;
  object["shared_bytes"] = info.sharedBytes;
  object["cluster"] = json::Array(info.clusterExtent);
  object["tensor_maps"] = std::move(maps);
  object["messages"] = json::Array(info.messages);
  object["can_fail"] = info.canFail;
}

static void parseDevicePart(const json::Object &object, KernelInfo &info) {
  info.threads = int32_t(object.getInteger("threads").value_or(0));
  info.sharedBytes = int32_t(object.getInteger("shared_bytes").value_or(0));
  std::vector<int32_t> cluster = parseIntegers(object.getArray("cluster"));
  if (cluster.size() == 3)
    info.clusterExtent = {cluster[0], cluster[1], cluster[2]};
  if (const json::Array *maps = object.getArray("tensor_maps"))
    for (const json::Value &map : *maps)
      if (const json::Object *recipe = map.getAsObject())
        info.tensorMaps.push_back(parseRecipe(*recipe));
  if (const json::Array *messages = object.getArray("messages"))
    for (const json::Value &message : *messages)
      info.messages.push_back(message.getAsString().value_or("").str());
  info.canFail = object.getBoolean("can_fail").value_or(false);
}

json::Object capi::describeKernelInfo(const KernelInfo &info) {
  json::Array sites;
  for (const SourceSite &site : info.sites)
    sites.push_back(json::Array{site.file, site.line, site.column});
  json::Object object{{"name", info.name},
                      {"scratch_bytes", info.scratchBytes},
                      {"suspends", info.suspends},
                      {"communicates", info.communicates},
                      {"extents", json::Array(info.extents)},
                      {"peers", json::Array(info.peers)},
                      {"sites", std::move(sites)}};
  if (info.threads > 0)
    describeDevicePart(info, object);
  return object;
}

KernelInfo capi::parseKernelInfo(const json::Object &object) {
  KernelInfo info;
  info.name = object.getString("name").value_or("").str();
  info.scratchBytes = object.getInteger("scratch_bytes").value_or(0);
  info.suspends = object.getBoolean("suspends").value_or(false);
  info.communicates = object.getBoolean("communicates").value_or(false);
  info.extents = parseIntegers(object.getArray("extents"));
  info.peers = parseIntegers(object.getArray("peers"));
  if (const json::Array *sites = object.getArray("sites"))
    for (const json::Value &entry : *sites)
      if (auto *site = entry.getAsArray(); site && site->size() == 3)
        info.sites.push_back({(*site)[0].getAsString().value_or("").str(),
                              int32_t((*site)[1].getAsInteger().value_or(0)),
                              int32_t((*site)[2].getAsInteger().value_or(0))});
  parseDevicePart(object, info);
  return info;
}
