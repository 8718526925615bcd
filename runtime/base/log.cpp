// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The only file that includes spdlog, which is slow to compile.
#include "runtime/base/log.h"

#include "runtime/base/knobs.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace tilery::rt {

static std::shared_ptr<spdlog::logger> makeLogger() {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>("tilery", sink);
  logger->set_pattern("tilery: %l: %v");
  // Not knobs(): reading the knobs may itself want to log.
  logger->set_level(spdlog::level::from_str(readKnobText("TILERY_LOG", "warning")));
  return logger;
}

static spdlog::logger &logger() {
  // Never destroyed: threads may log while the process exits.
  static auto *instance = new std::shared_ptr<spdlog::logger>(makeLogger());
  return **instance;
}

static spdlog::level::level_enum toSpdlog(LogLevel level) {
  switch (level) {
  case LogLevel::Debug: return spdlog::level::debug;
  case LogLevel::Info: return spdlog::level::info;
  case LogLevel::Warning: return spdlog::level::warn;
  }
  return spdlog::level::warn;
}

bool logEnabled(LogLevel level) { return logger().should_log(toSpdlog(level)); }

void log(LogLevel level, std::string_view text) { logger().log(toSpdlog(level), "{}", text); }

} // namespace tilery::rt
