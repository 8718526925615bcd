// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Which figures a world's calls choose by, and the choice. All ranks have the same figures, so that they
// choose alike.
#include "ops/costs/choose.h"

#include "ops/costs/costs.h"
#include "ops/costs/measure.h"
#include "ops/launch_options.h"

#include <map>
#include <memory>
#include <mutex>

namespace tilery::ops {

namespace {
/// Of one world.
struct Known {
  std::shared_ptr<const Calibration> figures; ///< null: rules decide
  std::map<std::vector<int64_t>, std::string> choices;
};

struct Worlds {
  std::mutex mutex;
  std::map<uint64_t, Known> bySerial;
};
} // namespace

static Worlds &worlds() {
  static Worlds &all = *new Worlds; // outlives static destruction
  return all;
}

static std::shared_ptr<const Calibration> remember(World &world,
                                                   std::shared_ptr<const Calibration> figures) {
  std::lock_guard lock(worlds().mutex);
  worlds().bySerial[tilery_world_serial(world.handle())] = {figures, {}};
  return figures;
}

// What `known` says of the world, which needs no other rank; nothing where it is not known.
template <typename Value> static Value ofWorld(World &world, Value nothing, auto known) {
  std::lock_guard lock(worlds().mutex);
  auto found = worlds().bySerial.find(tilery_world_serial(world.handle()));
  return found == worlds().bySerial.end() ? nothing : known(found->second);
}

static std::string rememberedChoice(World &world, const std::vector<int64_t> &depends) {
  return ofWorld(world, std::string(), [&](const Known &known) {
    auto found = known.choices.find(depends);
    return found == known.choices.end() ? std::string() : found->second;
  });
}

static void rememberChoice(World &world, std::vector<int64_t> depends, const std::string &form) {
  constexpr size_t most = 4096; // shapes of a program that has a new one in each call
  ofWorld(world, false, [&](Known &known) {
    if (known.choices.size() >= most)
      known.choices.clear();
    return known.choices.emplace(std::move(depends), form).second;
  });
}

static std::shared_ptr<const Calibration> builtIn() {
  return {std::shared_ptr<void>(), &Calibration::builtIn()};
}

static std::shared_ptr<const Calibration> shared(std::optional<Calibration> figures) {
  return figures ? std::make_shared<const Calibration>(std::move(*figures)) : nullptr;
}

static bool isRecordedAnywhere(World &world) {
  int32_t recorded = 0;
  check(tilery_stream_is_recorded(world.handle(), tilery_world_device(world.handle()), &recorded));
  int32_t any = 0;
  for (int32_t each : world.allGather(recorded))
    any |= each;
  return any != 0;
}

// Collective. What fails here is no failure of the call that asks.
static std::shared_ptr<const Calibration> measured(World &world) {
  try {
    return shared(measureCosts(world));
  } catch (const Error &error) {
    tilery_log_warning((std::string("this machine's costs were not measured, operators choose their "
                                    "form by built-in figures (TILERY_CALIBRATION=off does not try): ") +
                        error.what())
                           .c_str());
    return builtIn();
  }
}

static void warnOfRecording() {
  static std::once_flag once;
  std::call_once(once, [] {
    tilery_log_warning("the first call of a communicating operator is recorded in a graph, where nothing "
                       "can be measured: it chooses its form by built-in figures; call it once before, "
                       "or run `tilery calibrate`");
  });
}

static std::shared_ptr<const Calibration> resolve(Call &call) {
  World &world = call.world();
  if (!hasWarps(call.device()))
    return remember(world, nullptr);
  const char *text = nullptr;
  int32_t isNamed = 0;
  check(tilery_calibration_load(world.handle(), &text, &isNamed));
  std::string known = text;
  if (known == "off")
    return remember(world, builtIn());
  if (std::shared_ptr<const Calibration> kept = shared(Calibration::parse(known)))
    return remember(world, kept);
  if (isNamed)
    throw Error(Kind::Config, "TILERY_CALIBRATION names a file without figures of this version; `tilery "
                              "calibrate -o` writes one");
  if (world.size() == 1)
    return remember(world, builtIn());
  if (isRecordedAnywhere(world)) {
    warnOfRecording();
    return builtIn();
  }
  return remember(world, measured(world));
}

static std::shared_ptr<const Calibration> figuresOf(Call &call) {
  using Figures = std::optional<std::shared_ptr<const Calibration>>;
  Figures kept = ofWorld(call.world(), Figures(), [](const Known &known) { return Figures(known.figures); });
  return kept ? *kept : resolve(call);
}

const std::string &calibrate(World &world) {
  static thread_local std::string text;
  std::shared_ptr<const Calibration> figures = remember(world, shared(measureCosts(world)));
  return text = figures->text();
}

[[noreturn]] static void explain(Call &call, const std::vector<std::pair<std::string, double>> &costs,
                                 const std::string &chosen) {
  std::string json = "{";
  for (const auto &[form, microseconds] : costs)
    json += "\"" + form + "\": " + std::to_string(microseconds) + ", ";
  *call.explanation = json + "\"chosen\": \"" + chosen + "\"}";
  throw Explained{};
}

std::string chooseForm(Call &call, const std::vector<std::string> &forms, const char *onHost,
                       std::vector<int64_t> depends, const FormCost &cost) {
  std::string chosen = formOf(call, forms, "");
  if (!call.explanation && chosen.empty()) {
    depends.push_back(textNumber(call.op));
    chosen = rememberedChoice(call.world(), depends);
  }
  if (!call.explanation && !chosen.empty())
    return chosen;
  std::vector<std::pair<std::string, double>> costs;
  if (std::shared_ptr<const Calibration> figures = figuresOf(call))
    for (size_t i = 1; i < forms.size(); ++i)
      if (double microseconds = cost(*figures, forms[i]); microseconds < Never)
        costs.emplace_back(forms[i], microseconds);
  auto least = std::ranges::min_element(costs, {}, [](const auto &each) { return each.second; });
  if (chosen.empty())
    chosen = least == costs.end() ? onHost : least->first;
  if (call.explanation)
    explain(call, costs, chosen);
  rememberChoice(call.world(), std::move(depends), chosen);
  return chosen;
}

} // namespace tilery::ops
