// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What the host side of an operator is: a row of the registry and a function of a call.
#pragma once

#include "ops/options.h"
#include "ops/peer_buffers.h"
#include "tilery/tilery.hpp"

#include <algorithm>

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tilery::ops {

/// What all ranks must have alike: the name that errors use, the value, and how they show it (null: only
/// that it differs).
struct AgreedValue {
  const char *name;
  int64_t value;
  std::string (*shown)(int64_t) = [](int64_t number) { return std::to_string(number); };
};
using AgreedValues = std::vector<AgreedValue>;
AgreedValue agreedType(const char *name, int32_t dtype);
AgreedValue agreedText(const char *name, const std::string &text);
/// The number by which ranks compare texts.
int64_t textNumber(const std::string &text);

/// One call of an operator on one rank.
class Call {
public:
  Call(std::string op, tilery_world *world, std::span<const tilery_tensor> tensors,
       const std::vector<std::string> &names, Options options)
      : op(std::move(op)), worldHandle(world), tensors(tensors), names(names),
        options(std::move(options)) {}

  /// The world; a LaunchError when the caller gave none.
  World &world();
  tilery_world *worldOrNull() const { return worldHandle; }
  /// Tensor number `at`; `missing` tensors have null data.
  const tilery_tensor &tensor(size_t at) const { return tensors[at]; }
  bool has(size_t at) const { return at < tensors.size() && tensors[at].rank >= 0; }
  const std::string &name(size_t at) const { return names[at]; }
  /// A LaunchError in the user's words: "matmul: <message>".
  [[noreturn]] void fail(const std::string &message) const;

  /// Where the tensors are. Those without elements are nowhere: of a call without others, the world's
  /// device.
  int32_t deviceNumber() const;
  /// What that device can do.
  tilery_device_properties device() const;

  // Checks; each names the tensor and both values.
  void needRank(size_t at, int rank) const;
  void needDim(size_t at, int dim, int64_t extent, const char *what) const;
  void needContiguous(size_t at) const;
  void needInnerContiguous(size_t at) const;
  void needSameType(size_t first, size_t second) const;
  void needType(size_t at, std::initializer_list<tilery_dtype> allowed) const;
  /// Collective: all ranks bring the same values, else every rank gets an error that lists the
  /// differing ones. Of `own`, which may differ, all get the least that a rank has of each. `buffers` hear
  /// what the other ranks say of theirs.
  std::vector<int64_t> agree(const AgreedValues &values, std::vector<int64_t> own = {},
                             PeerBuffers *buffers = nullptr);
  /// Program instances that wait for each other and are resident in this rank's share of its device,
  /// one on each processor.
  int64_t residentShare();

  std::string op;
  /// Where only the choice of a form is asked for: gets it as JSON, and the call ends there.
  std::string *explanation = nullptr;

private:
  tilery_world *worldHandle;
  std::span<const tilery_tensor> tensors;
  const std::vector<std::string> &names;

public:
  Options options;

private:
  std::vector<World> bound; // empty or one element
};

/// Option 'form', one of `forms`, of which the first is "auto"; `chosen` is what that stands for.
std::string formOf(const Call &call, const std::vector<std::string> &forms, const char *chosen);

struct Op {
  std::string name;
  std::string summary;
  std::vector<std::string> tensors; // a trailing "?" marks an optional one, passed last
  std::vector<std::pair<std::string, std::string>> options; // name, default as JSON
  void (*run)(Call &);
  bool communicates = false;
};

int64_t stride(const tilery_tensor &tensor, int dim);
int64_t elements(const tilery_tensor &tensor);
Memory memory(const tilery_tensor &tensor);
/// `count` elements of a contiguous one, from element `first` on.
Memory part(const tilery_tensor &tensor, int64_t first, int64_t count);
const char *dtypeName(int32_t dtype);
bool isFloat(int32_t dtype);
/// The type in which values of `dtype` are added up: fp32, fp64, int32 or int64.
tilery_dtype accumulator(int32_t dtype);
std::string shapeText(const tilery_tensor &tensor);
/// The smallest power of two >= n within [least, most].
int64_t blockFor(int64_t n, int64_t least, int64_t most);
inline int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

} // namespace tilery::ops
