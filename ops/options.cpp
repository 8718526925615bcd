// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// A reader for flat JSON objects: names with numbers, strings, booleans or null.
#include "ops/options.h"

#include "tilery/error.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <numeric>

namespace tilery::ops {

namespace {

/// Takes {"name": value, ...} apart; values stay as JSON text.
class Reader {
public:
  Reader(const std::string &op, const std::string &text) : op(op), text(text) {}

  std::map<std::string, std::string> object() {
    std::map<std::string, std::string> values;
    expect('{');
    if (take('}'))
      return values;
    do {
      std::string name = string();
      expect(':');
      values[name] = value();
    } while (take(','));
    expect('}');
    return values;
  }

private:
  char peek() {
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])))
      ++at;
    return at < text.size() ? text[at] : '\0';
  }
  bool take(char c) {
    bool found = peek() == c;
    at += found;
    return found;
  }
  void expect(char c) {
    if (!take(c))
      throw Error(Kind::Config, op + ": the options are not a flat JSON object (expected '" + c +
                                    "' at " + std::to_string(at) + " of " + text + ")");
  }
  std::string string() {
    expect('"');
    std::string result;
    while (at < text.size() && text[at] != '"') {
      if (text[at] == '\\' && at + 1 < text.size())
        ++at;
      result += text[at++];
    }
    ++at;
    return result;
  }
  std::string value() {
    if (peek() == '"')
      return '"' + string();
    size_t begin = at;
    while (at < text.size() && text[at] != ',' && text[at] != '}' &&
           !std::isspace(static_cast<unsigned char>(text[at])))
      ++at;
    return text.substr(begin, at - begin);
  }

  const std::string &op, &text;
  size_t at = 0;
};

size_t editDistance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

} // namespace

std::string nearestName(const std::string &word, const std::vector<std::string> &known) {
  auto nearer = [&](const std::string &a, const std::string &b) {
    return editDistance(word, a) < editDistance(word, b);
  };
  auto found = std::min_element(known.begin(), known.end(), nearer);
  return found == known.end() ? std::string() : *found;
}

std::map<std::string, std::string> readFlatJson(const std::string &what, const std::string &json) {
  return Reader(what, json).object();
}

Options Options::parse(const std::string &op, const char *json,
                       const std::vector<std::pair<std::string, std::string>> &known) {
  Options options;
  options.op = op;
  std::vector<std::string> names;
  for (const auto &[name, text] : known) {
    names.push_back(name);
    options.values[name] = text.starts_with('"') ? text.substr(0, text.size() - 1) : text;
  }
  std::string text = json && *json ? json : "{}";
  for (auto &[name, value] : readFlatJson(op, text)) {
    if (!options.values.contains(name)) {
      std::string nearest = nearestName(name, names);
      throw Error(Kind::Config,
                  op + " has no option '" + name + "'" +
                      (nearest.empty() ? "; it takes none" : "; did you mean '" + nearest + "'?"));
    }
    options.values[name] = value;
  }
  return options;
}

const std::string &Options::raw(const std::string &name) const { return values.at(name); }

void Options::fail(const std::string &name, const std::string &what) const {
  std::string shown = raw(name);
  if (shown.starts_with('"'))
    shown = "'" + shown.substr(1) + "'";
  throw Error(Kind::Config, op + ": option '" + name + "' is " + shown + ", needs " + what);
}

int64_t Options::integer(const std::string &name) const {
  char *end = nullptr;
  errno = 0;
  long long value = std::strtoll(raw(name).c_str(), &end, 10);
  if (raw(name).empty() || *end || errno == ERANGE)
    fail(name, "an integer of 64 bits");
  return value;
}

int64_t Options::natural(const std::string &name, int64_t otherwise) const {
  int64_t value = integer(name);
  if (value < 0)
    fail(name, "1 or more (0 chooses)");
  return value ? value : otherwise;
}

double Options::real(const std::string &name) const {
  char *end = nullptr;
  double value = std::strtod(raw(name).c_str(), &end);
  if (raw(name).empty() || *end)
    fail(name, "a number");
  return value;
}

bool Options::flag(const std::string &name) const {
  if (raw(name) != "true" && raw(name) != "false")
    fail(name, "true or false");
  return raw(name) == "true";
}

std::string Options::text(const std::string &name) const {
  if (!raw(name).starts_with('"'))
    fail(name, "a string");
  return raw(name).substr(1);
}

int Options::choice(const std::string &name, const std::vector<std::string> &allowed) const {
  std::string value = text(name), list;
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (value == allowed[i])
      return int(i);
    list += (i ? ", " : "") + allowed[i];
  }
  fail(name, "one of " + list);
}

} // namespace tilery::ops
