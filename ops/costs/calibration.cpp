// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Figures as text and back, curves and fits.
#include "ops/costs/calibration.h"

#include "ops/options.h"
#include "tilery/error.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

namespace tilery::ops {

static constexpr double Version = 6; // of the formulas too, which fits belong to

void Curve::add(double bytes, double microseconds) {
  std::pair point(bytes, microseconds);
  points.insert(std::ranges::upper_bound(points, point), point);
}

// The least from any point to the last one: a point between that was disturbed would make it too large.
double Curve::rate() const {
  auto [bytes, microseconds] = points.back();
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i + 1 < points.size(); ++i)
    least = std::min(least, (bytes - points[i].first) / std::max(microseconds - points[i].second, 1e-3));
  return least;
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

// Of (start + factor * product + exposed * sending) / time = 1 for each, one term after the other as long as
// it helps (coordinate descent for non-negative least squares: Franc, Hlavac and Navara, Sequential
// coordinate-wise algorithm for the non-negative least squares problem, 2005).
Fit fitted(const std::vector<std::pair<Ideal, double>> &measured) {
  constexpr int sweeps = 20'000;
  Fit fit{0, 1, 0};
  auto improve = [&](double &term, double least, auto part) {
    double squares = 0, missing = 0;
    for (const auto &[ideal, time] : measured) {
      double share = part(ideal) / time;
      squares += share * share;
      missing += share * (1 - fit.at(ideal) / time);
    }
    if (squares > 0)
      term = std::max(least, term + missing / squares);
  };
  for (int i = 0; i < sweeps; ++i) {
    improve(fit.factor, 1, [](const Ideal &ideal) { return ideal.product; });
    improve(fit.exposed, 0, [](const Ideal &ideal) { return ideal.sending; });
    improve(fit.start, 0, [](const Ideal &) { return 1.0; });
  }
  return fit;
}

const Curve *Calibration::curve(const std::string &name) const {
  auto found = curves.find(name);
  return found != curves.end() && found->second.isKnown() ? &found->second : nullptr;
}

const Fit *Calibration::fit(const std::string &name) const {
  auto found = fits.find(name);
  return found == fits.end() ? nullptr : &found->second;
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
    into.fits[name].start = value;
  else if (last == "factor")
    into.fits[name].factor = value;
  else if (last == "exposed")
    into.fits[name].exposed = value;
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
  for (const auto &[name, fit] : fits) {
    add(name + ".start", fit.start);
    add(name + ".factor", fit.factor);
    add(name + ".exposed", fit.exposed);
  }
  return json + "\n}\n";
}

} // namespace tilery::ops
