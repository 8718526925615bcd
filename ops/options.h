// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Options of an operator: a flat JSON object, checked against the operator's table.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tilery::ops {

class Options {
public:
  /// `known` are names with defaults as JSON. Throws a ConfigError for an unknown name (with the
  /// nearest) and for malformed JSON. `json` may be null.
  static Options parse(const std::string &op, const char *json,
                       const std::vector<std::pair<std::string, std::string>> &known);

  bool has(const std::string &name) const { return values.contains(name); }
  int64_t integer(const std::string &name) const;
  /// 1 or more; `otherwise` where it is left at 0.
  int64_t natural(const std::string &name, int64_t otherwise) const;
  double real(const std::string &name) const;
  bool flag(const std::string &name) const;
  std::string text(const std::string &name) const;
  /// Throws unless the text is one of `allowed`; returns its place.
  int choice(const std::string &name, const std::vector<std::string> &allowed) const;
  bool isNull(const std::string &name) const { return raw(name) == "null"; }

private:
  const std::string &raw(const std::string &name) const;
  [[noreturn]] void fail(const std::string &name, const std::string &what) const;

  std::string op;
  std::map<std::string, std::string> values; // JSON texts
};

/// {"name": value, ...}; values stay as JSON text, strings without their last quote. A ConfigError that
/// begins with `what` when it is something else.
std::map<std::string, std::string> readFlatJson(const std::string &what, const std::string &json);

/// The entry of `known` with the fewest edits to `word`.
std::string nearestName(const std::string &word, const std::vector<std::string> &known);

} // namespace tilery::ops
