// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Simt/SharedMemory.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/MathExtras.h"

#include <array>

namespace tilery::simt {

// 32 banks of 4 bytes; lanes that read the same word share the pass.
unsigned bankPasses(const LinearLayout &layout, unsigned elementBytes, unsigned vectorBytes,
                    const Swizzle &swizzle) {
  std::array<llvm::SmallDenseSet<int32_t, 8>, 32> words;
  for (unsigned lane = 0; lane < (1u << layout.lanes.size()); ++lane) {
    int32_t start = swizzle.apply(layout.at(0, lane, 0) * int32_t(elementBytes));
    for (int32_t byte = start; byte < start + int32_t(vectorBytes); byte += 4)
      words[size_t(byte / 4) % 32].insert(byte / 4);
  }
  size_t most = 1;
  for (const auto &bank : words)
    most = std::max<size_t>(most, bank.size());
  return unsigned(most);
}

Swizzle chooseSwizzle(const LinearLayout &from, const LinearLayout &to, unsigned elementBytes,
                      unsigned vectorBytes, int64_t tileBytes) {
  Swizzle best;
  auto cost = [&](const Swizzle &swizzle) {
    return bankPasses(from, elementBytes, vectorBytes, swizzle) +
           bankPasses(to, elementBytes, vectorBytes, swizzle);
  };
  unsigned least = cost(best);
  unsigned unit = std::max(vectorBytes, 4u);
  int32_t mask = 128 - int32_t(unit); // bits of a row of banks above the vector
  for (unsigned shift = 1; (int64_t(1) << shift) * unit < tileBytes; ++shift) {
    Swizzle swizzle{shift, mask};
    if (unsigned passes = cost(swizzle); passes < least) {
      least = passes;
      best = swizzle;
    }
  }
  return best;
}

} // namespace tilery::simt
