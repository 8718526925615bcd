// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Edit distance (optimal string alignment) and the nearest name.
#include "runtime/base/nearest_name.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

namespace tilery::rt {

size_t editDistance(std::string_view left, std::string_view right) {
  std::vector<std::vector<size_t>> cost(left.size() + 1,
                                        std::vector<size_t>(right.size() + 1));
  for (size_t i = 0; i <= left.size(); ++i)
    cost[i][0] = i;
  for (size_t j = 0; j <= right.size(); ++j)
    cost[0][j] = j;
  for (size_t i = 1; i <= left.size(); ++i)
    for (size_t j = 1; j <= right.size(); ++j) {
      size_t change = left[i - 1] == right[j - 1] ? 0 : 1;
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + change});
      bool swapped = i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
      if (swapped)
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  return cost[left.size()][right.size()];
}

std::string_view nearestName(std::string_view name, std::span<const std::string_view> known) {
  std::string_view best;
  size_t bestDistance = std::max<size_t>(2, name.size() / 3) + 1;
  for (std::string_view candidate : known) {
    size_t distance = editDistance(name, candidate);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

std::string didYouMean(std::string_view name, std::span<const std::string_view> known) {
  std::string_view nearest = nearestName(name, known);
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

} // namespace tilery::rt
