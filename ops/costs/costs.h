// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What each form of a communicating operator is expected to take, from the figures of a machine.
// All in microseconds; infinity where a form is not possible or its figures are not known.
#pragma once

#include "ops/costs/calibration.h"
#include "ops/matmul/plan.h"

#include <limits>
#include <string>

namespace tilery::ops {

constexpr double Never = std::numeric_limits<double>::infinity();

/// The operator alone. bytes: of one rank's part of what is gathered, scattered or exchanged; of all of
/// an all_reduce or broadcast. size: of an element.
double collectiveMicroseconds(const Calibration &figures, const std::string &op,
                              const std::string &form, int ranks, int64_t bytes, int64_t size);
/// Of the form that takes the least.
double collectiveMicroseconds(const Calibration &figures, const std::string &op, int ranks,
                              int64_t bytes, int64_t size);
/// Bytes that a rank sends to others; the curves of collectives are over them.
double sentBytes(const std::string &op, const std::string &form, int ranks, double bytes);

/// A product with communication, as all ranks see it.
struct ProductCase {
  std::string op;
  MatmulProblem problem; ///< what one rank multiplies
  tilery_device_properties device;
  int ranks = 1;
  int64_t instances = 1;   ///< resident ones
  int64_t sumSize = 0;     ///< bytes of an element of partial sums
  MatmulPlan plan;         ///< of an overlapped form
};
/// depth: the K that its tiles are chosen for.
ProductCase productCase(const std::string &op, const MatmulProblem &problem,
                        const tilery_device_properties &device, int ranks, int64_t instances,
                        int64_t sumSize, int64_t depth);

double productMicroseconds(const Calibration &figures, const ProductCase &product,
                           const std::string &form);
/// What an overlapped form's fit starts from.
Ideal idealProduct(const Calibration &figures, const ProductCase &product, const std::string &form);
/// That a rank sends in a microsecond, to all others together (two H200s).
constexpr double bytesOfLink = 340e3;
/// Who of the instances of a gathered product sends rows to the others.
struct Senders {
  int64_t count;
  double microseconds; ///< that the product takes then
};
/// `product` takes so many microseconds in all instances; `bytes` go to the others.
Senders bestSenders(double product, int64_t tiles, int64_t instances, int ranks, double bytes);
/// What `matmul` starts from: what the planner expects, with the power that was measured here.
double idealMatmul(const Calibration &figures, const MatmulPlan &plan, const MatmulProblem &problem,
                   const tilery_device_properties &device);

} // namespace tilery::ops
