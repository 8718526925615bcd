// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What communication and products cost between the devices of a world: measured figures.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tilery::ops {

/// Microseconds by bytes: measured points, straight between them and on from the last two.
class Curve {
public:
  void add(double bytes, double microseconds);
  bool isKnown() const { return points.size() >= 2; }
  double at(double bytes) const;
  /// Bytes a microsecond of what goes on from the last point.
  double rate() const;

private:
  friend class Calibration;
  std::vector<std::pair<double, double>> points; // in the order of bytes
};

/// What a product with communication would take in an ideal run, in microseconds.
struct Ideal {
  double product = 0;
  double sending = 0; ///< of what is sent, alone
};

/// What it takes then: it hides all but a part of the sending.
struct Fit {
  double start = 0, factor = 1, exposed = 0;
  double at(const Ideal &ideal) const {
    return start + factor * ideal.product + exposed * ideal.sending;
  }
};

/// The one with the least squares of relative errors, none of whose terms is negative, nor the factor below
/// 1: it would promise of long products that they take less than alone.
Fit fitted(const std::vector<std::pair<Ideal, double>> &measured);

/// All figures of a machine. As text they are a flat JSON object: "all_gather.push.1024" is a point of
/// the curve "all_gather.push", "ag_gemm.copies.start", ".factor" and ".exposed" make a fit; "sustained" is
/// a number.
class Calibration {
public:
  /// Nothing when the text is no such object, or of another version.
  static std::optional<Calibration> parse(const std::string &text);
  /// What was measured between two H200s joined by NVLink.
  static const Calibration &builtIn();
  std::string text() const;

  /// Null when it is not known.
  const Curve *curve(const std::string &name) const;
  const Fit *fit(const std::string &name) const;
  double number(const std::string &name) const;

  std::map<std::string, Curve> curves;
  std::map<std::string, Fit> fits;
  std::map<std::string, double> numbers;
};

} // namespace tilery::ops
