// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Event ring and its JSON form (Chrome trace event format, which Perfetto reads).
#include "runtime/trace/trace.h"

#include <fmt/format.h>
#include <iterator>
#include <set>

namespace tilery::rt {

uint32_t Trace::intern(std::string_view name) {
  if (auto found = ids.find(name); found != ids.end())
    return found->second;
  names.emplace_back(name);
  auto id = uint32_t(names.size() - 1);
  ids.emplace(names.back(), id);
  return id;
}

void Trace::record(const TraceEvent &event) {
  if (ring.size() < Capacity) {
    ring.push_back(event);
    return;
  }
  // Full: the newest events are the interesting ones.
  ring[next] = event;
  next = (next + 1) % Capacity;
  ++summary.droppedEvents;
}

std::string quoteJson(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      quoted += fmt::format("\\u{:04x}", int(c));
    else
      quoted += c;
  }
  return quoted + '"';
}

static const char *category(TraceKind kind) {
  switch (kind) {
  case TraceKind::Launch: return "launch";
  case TraceKind::Instance: return "instance";
  case TraceKind::Tile: return "tile";
  case TraceKind::Wait: return "wait";
  case TraceKind::Put: return "put";
  case TraceKind::Get: return "get";
  case TraceKind::Notify: return "notify";
  }
  return "";
}

static std::string details(const TraceEvent &event) {
  switch (event.kind) {
  case TraceKind::Launch: return fmt::format(R"("instances":{})", event.amount);
  case TraceKind::Instance:
  case TraceKind::Tile: return fmt::format(R"("instance":{})", event.amount);
  case TraceKind::Wait: return fmt::format(R"("expected":{})", event.amount);
  case TraceKind::Notify: return fmt::format(R"("value":{},"to":{})", event.amount, event.peer);
  case TraceKind::Put: return fmt::format(R"("bytes":{},"to":{})", event.amount, event.peer);
  case TraceKind::Get: return fmt::format(R"("bytes":{},"from":{})", event.amount, event.peer);
  }
  return "";
}

std::string Trace::arguments(const TraceEvent &event) const {
  std::string text = details(event);
  if (event.kernel)
    text += fmt::format(R"(,"kernel":{})", quoteJson(names[event.kernel]));
  if (event.place)
    text += fmt::format(R"(,"at":{})", quoteJson(names[event.place]));
  if (event.producer)
    text += R"(,"copies":true)";
  return text;
}

// The file without its folders.
static std::string shortPlace(const std::string &place) {
  return place.substr(place.find_last_of('/') + 1);
}

std::string Trace::title(const TraceEvent &event) const {
  const std::string &name = names[event.name];
  switch (event.kind) {
  case TraceKind::Wait:
    return event.place ? fmt::format("wait {} ({})", name, shortPlace(names[event.place])) : "wait " + name;
  case TraceKind::Tile: return "tile of " + name;
  case TraceKind::Notify: return "notify " + name;
  case TraceKind::Put: return fmt::format("put to {}", event.peer);
  case TraceKind::Get: return fmt::format("get from {}", event.peer);
  default: return name;
  }
}

static void appendMetadata(std::string &text, const char *what, int rank, uint32_t row,
                           const std::string &name) {
  fmt::format_to(std::back_inserter(text),
                 R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":"{}"}}}},)"
                 "\n",
                 what, rank, row, name);
}

std::string Trace::rowName(uint32_t row) const {
  if (auto named = rowNames.find(row); named != rowNames.end())
    return named->second;
  return row == 0 ? "launches" : fmt::format("slot {}", row - 1);
}

std::string Trace::toJson(int rank) const {
  std::string text;
  std::set<uint32_t> rows = {0};
  for (const TraceEvent &event : ring)
    rows.insert(event.row);
  appendMetadata(text, "process_name", rank, 0, fmt::format("rank {}", rank));
  if (!clock.empty())
    fmt::format_to(std::back_inserter(text),
                   R"({{"ph":"M","name":"process_labels","pid":{},"args":{{"labels":{}}}}},)"
                   "\n",
                   rank, quoteJson(clock));
  for (uint32_t row : rows)
    appendMetadata(text, "thread_name", rank, row, rowName(row));
  for (size_t i = 0; i < ring.size(); ++i) {
    const TraceEvent &event = ring[(next + i) % ring.size()];
    fmt::format_to(
        std::back_inserter(text),
        R"({{"ph":"X","cat":"{}","name":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}},)"
        "\n",
        category(event.kind), quoteJson(title(event)), rank, event.row,
        double(event.beginNs) / 1e3, double(event.endNs - event.beginNs) / 1e3, arguments(event));
  }
  text.resize(text.size() - 2);
  return text;
}

std::string Trace::summaryJson(int rank) const {
  const TraceSummary &s = summary;
  return fmt::format(R"({{"rank":{},"enabled":{},"launches":{},"instances":{},"launch_ns":{},)"
                     R"("compute_ns":{},"transfer_ns":{},"wait_ns":{},"exposed_wait_ns":{},)"
                     R"("put_bytes":{},"get_bytes":{},"notifies":{},"dropped_events":{}}})",
                     rank, enabled, s.launches, s.instances, s.launchNs, s.computeNs, s.transferNs,
                     s.waitNs, s.exposedWaitNs, s.putBytes, s.getBytes, s.notifies,
                     s.droppedEvents);
}

std::string wrapTrace(const std::vector<std::string> &ranks) {
  return fmt::format("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n",
                     fmt::join(ranks, ",\n"));
}

} // namespace tilery::rt
