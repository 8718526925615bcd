// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The timeline of one rank: a ring of events and the time spent in each phase. Recording is off
// unless asked for.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tilery::rt {

/// Tile: a part of an instance, one turn of its loop over tiles.
enum class TraceKind : uint8_t { Launch, Instance, Tile, Wait, Put, Get, Notify };

struct TraceEvent {
  TraceKind kind = TraceKind::Launch;
  /// Row of the timeline: 0 the launches, else 1 + slot of the program instance, or a named one.
  uint32_t row = 0;
  /// Interned, as `kernel` and `place`: kernel, or signal for waits and notifies.
  uint32_t name = 0;
  int32_t peer = -1;
  int64_t beginNs = 0;
  int64_t endNs = 0;
  /// Bytes of a transfer, expected value of a wait, value of a notify, number of an instance.
  int64_t amount = 0;
  /// In which it happened, and where in the source ("ring.py:12"); 0: not known.
  uint32_t kernel = 0, place = 0;
  /// By warps that only copy for the others, which may work meanwhile.
  bool producer = false;
};

/// Sums over all launches of one rank, in nanoseconds and bytes.
struct TraceSummary {
  int64_t launches = 0;
  int64_t instances = 0;
  int64_t launchNs = 0;
  /// Program instances running, transfers excluded.
  int64_t computeNs = 0;
  int64_t transferNs = 0;
  /// Sum over program instances; overlaps with other instances' work.
  int64_t waitNs = 0;
  /// Launch time in which no program instance of this rank ran: waiting that was not hidden.
  int64_t exposedWaitNs = 0;
  int64_t putBytes = 0;
  int64_t getBytes = 0;
  int64_t notifies = 0;
  int64_t droppedEvents = 0;
};

class Trace {
public:
  explicit Trace(bool enabled) : enabled(enabled) { intern(""); }

  bool on() const { return enabled; }
  void enable() { enabled = true; }
  uint32_t intern(std::string_view name);
  void record(const TraceEvent &event);
  void nameRow(uint32_t row, std::string name) { rowNames.try_emplace(row, std::move(name)); }
  /// Stands beside the rank's name: how well a clock fits the others.
  void noteClock(std::string text) { clock = std::move(text); }

  /// Chrome trace events, separated by ",\n", without the enclosing brackets.
  std::string toJson(int rank) const;
  std::string summaryJson(int rank) const;

  TraceSummary summary;

private:
  std::string arguments(const TraceEvent &event) const;
  std::string title(const TraceEvent &event) const;
  std::string rowName(uint32_t row) const;

  static constexpr size_t Capacity = 1 << 17;
  bool enabled;
  std::vector<TraceEvent> ring;
  size_t next = 0;
  std::deque<std::string> names;
  std::unordered_map<std::string_view, uint32_t> ids;
  std::map<uint32_t, std::string> rowNames;
  std::string clock;
};

/// A file that Perfetto and chrome://tracing load, from the ranks' toJson texts.
std::string wrapTrace(const std::vector<std::string> &ranks);

/// Escapes a text for JSON, quotes included.
std::string quoteJson(std::string_view text);

} // namespace tilery::rt
