// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Figures as text and back, curves and fits.
#include "ops/costs/calibration.h"

#include "ops/options.h"
#include "tilery/error.hpp"

#include <algorithm>
#include <charconv>

namespace tilery::ops {

static constexpr double Version = 1;

void Curve::add(double bytes, double microseconds) {
  std::pair point(bytes, microseconds);
  points.insert(std::ranges::upper_bound(points, point), point);
}

double Curve::rate() const {
  auto [bytes, microseconds] = points[points.size() - 2];
  return (points.back().first - bytes) / std::max(points.back().second - microseconds, 1e-3);
}

double Curve::at(double bytes) const {
  if (bytes <= points.front().first)
    return points.front().second;
  if (bytes >= points.back().first)
    return points.back().second + (bytes - points.back().first) / rate();
  auto above = std::ranges::find_if(points, [&](const auto &point) { return point.first > bytes; });
  auto [x0, y0] = above[-1];
  auto [x1, y1] = *above;
  return y0 + (y1 - y0) * (bytes - x0) / (x1 - x0);
}

// Of start / y + factor * x / y = 1 for each point, by the normal equations. What comes out below 0
// is left out of the fit.
Line fitted(const std::vector<std::pair<double, double>> &points) {
  double ones = 0, cross = 0, squares = 0, left = 0, right = 0;
  for (auto [x, y] : points) {
    ones += 1 / (y * y);
    cross += x / (y * y);
    squares += x * x / (y * y);
    left += 1 / y;
    right += x / y;
  }
  double determinant = ones * squares - cross * cross;
  if (determinant <= 1e-12 * ones * squares)
    return {0, right / squares};
  Line line{(left * squares - right * cross) / determinant,
            (ones * right - cross * left) / determinant};
  if (line.start < 0)
    return {0, right / squares};
  if (line.factor < 0)
    return {left / ones, 0};
  return line;
}

const Curve *Calibration::curve(const std::string &name) const {
  auto found = curves.find(name);
  return found != curves.end() && found->second.isKnown() ? &found->second : nullptr;
}

const Line *Calibration::line(const std::string &name) const {
  auto found = lines.find(name);
  return found == lines.end() ? nullptr : &found->second;
}

double Calibration::number(const std::string &name) const {
  auto found = numbers.find(name);
  return found == numbers.end() ? 0 : found->second;
}

static std::optional<double> numberIn(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

static void take(Calibration &into, const std::string &key, double value) {
  size_t dot = key.rfind('.');
  std::string name = key.substr(0, dot), last = dot == key.npos ? "" : key.substr(dot + 1);
  if (std::optional<double> bytes = numberIn(last))
    into.curves[name].add(*bytes, value);
  else if (last == "start")
    into.lines[name].start = value;
  else if (last == "factor")
    into.lines[name].factor = value;
  else
    into.numbers[key] = value;
}

std::optional<Calibration> Calibration::parse(const std::string &text) {
  Calibration result;
  try {
    for (const auto &[key, written] : readFlatJson("calibration", text)) {
      std::optional<double> value = numberIn(written);
      if (!value || !(*value >= 0))
        return std::nullopt;
      take(result, key, *value);
    }
  } catch (const Error &) {
    return std::nullopt;
  }
  return result.number("version") == Version ? std::optional(result) : std::nullopt;
}

static std::string written(double value) {
  char text[32];
  auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  return {text, end};
}

std::string Calibration::text() const {
  std::string json = "{\n  \"version\": " + written(Version);
  auto add = [&](const std::string &key, double value) {
    json += ",\n  \"" + key + "\": " + written(value);
  };
  for (const auto &[name, value] : numbers)
    if (name != "version")
      add(name, value);
  for (const auto &[name, curve] : curves)
    for (auto [bytes, microseconds] : curve.points)
      add(name + "." + written(bytes), microseconds);
  for (const auto &[name, line] : lines) {
    add(name + ".start", line.start);
    add(name + ".factor", line.factor);
  }
  return json + "\n}\n";
}

} // namespace tilery::ops
