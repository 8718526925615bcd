// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Inputs and one-tile kernels for the tests of the CPU target.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace tilery::cpu {

inline std::vector<float> ramp(size_t count, float scale = 0.25f) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = scale * float(int((i * 37 + 11) % 101) - 50);
  return values;
}

inline float toFloat(uint16_t bf16) {
  uint32_t bits = uint32_t(bf16) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// One tile of x [R, C] in, `body` computes %r, one tile out.
inline std::string tileKernel(int rows, int columns, const std::string &body,
                       const std::string &result = "") {
  std::string in = std::to_string(rows) + "x" + std::to_string(columns);
  std::string out = result.empty() ? in + "xf32" : result;
  std::string shape = out.substr(0, out.rfind('x')), type = out.substr(out.rfind('x') + 1);
  int64_t count = 1;
  for (size_t at = 0; at < shape.size(); at = shape.find('x', at) == std::string::npos
                                                  ? shape.size()
                                                  : shape.find('x', at) + 1)
    count *= std::stoi(shape.substr(at));
  std::string inCount = std::to_string(rows * columns), outCount = std::to_string(count);
  return "func.func @tile(%x: !core.ptr<f32>, %out: !core.ptr<" + type +
         ">) attributes {core.kernel} {\n"
         "%i = core.range 0, " + inCount + " : tensor<" + inCount + "xi32>\n"
         "%xs = core.splat %x : !core.ptr<f32> -> tensor<" + inCount + "x!core.ptr<f32>>\n"
         "%xp = core.addptr %xs, %i : tensor<" + inCount + "x!core.ptr<f32>>, tensor<" + inCount + "xi32>\n"
         "%flat = core.load %xp : tensor<" + inCount + "x!core.ptr<f32>> -> tensor<" + inCount + "xf32>\n"
         "%t = core.reshape %flat : tensor<" + inCount + "xf32> -> tensor<" + in + "xf32>\n" + body +
         "\n%rf = core.reshape %r : tensor<" + out + "> -> tensor<" + outCount + "x" + type + ">\n"
         "%o = core.range 0, " + outCount + " : tensor<" + outCount + "xi32>\n"
         "%os = core.splat %out : !core.ptr<" + type + "> -> tensor<" + outCount + "x!core.ptr<" + type + ">>\n"
         "%op = core.addptr %os, %o : tensor<" + outCount + "x!core.ptr<" + type + ">>, tensor<" + outCount + "xi32>\n"
         "core.store %op, %rf : tensor<" + outCount + "x!core.ptr<" + type + ">>, tensor<" + outCount + "x" + type + ">\n"
         "return }";
}

} // namespace tilery::cpu
