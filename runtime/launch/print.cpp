// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// device_print: one line an element, in the form Triton users know.
#include "runtime/launch/device_api.h"

#include <cstdio>

namespace tilery::rt {

static std::string formatElement(int32_t kind, const void *values, int64_t index, bool hex) {
  if (kind == TILERY_PRINT_FLOAT)
    return fmt::format("{}", static_cast<const double *>(values)[index]);
  uint64_t bits = static_cast<const uint64_t *>(values)[index];
  if (hex)
    return fmt::format("{:#x}", bits);
  return kind == TILERY_PRINT_INT ? fmt::format("{}", int64_t(bits)) : fmt::format("{}", bits);
}

static std::string formatIndex(int64_t flat, const int64_t *shape, int32_t rank) {
  std::string text;
  for (int32_t axis = rank - 1; axis >= 0; --axis) {
    text = fmt::format("{}{}{}", flat % shape[axis], axis == rank - 1 ? "" : ", ", text);
    flat /= shape[axis];
  }
  return rank == 0 ? "" : " idx (" + text + ")";
}

static std::string formatTile(const Instance &self, const char *prefix, int32_t kind,
                              const void *values, const int64_t *shape, int32_t rank, bool hex) {
  int64_t count = 1;
  for (int32_t axis = 0; axis < rank; ++axis)
    count *= shape[axis];
  const int32_t *id = self.abi.program_id;
  std::string where = self.launch->size() > 1 ? self.launch->rankText() + " " : "";
  std::string text;
  if (!values)
    return fmt::format("{}pid ({}, {}, {}) {}\n", where, id[0], id[1], id[2], prefix);
  for (int64_t i = 0; i < count; ++i)
    text += fmt::format("{}pid ({}, {}, {}){} {}{}\n", where, id[0], id[1], id[2],
                        formatIndex(i, shape, rank), prefix, formatElement(kind, values, i, hex));
  return text;
}

void printTile(tilery_instance *abi, const char *prefix, int32_t kind, const void *values,
               const int64_t *shape, int32_t rank, int32_t hex, int32_t site) {
  Instance &self = instanceOf(abi);
  guarded(self, site, [&] {
    std::string text = formatTile(self, prefix, kind, values, shape, rank, hex != 0);
    // One call, so that lines of different ranks do not mix.
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  });
}

} // namespace tilery::rt
