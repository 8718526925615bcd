// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// A matrix product in core IR, as the front end gives it for a kernel in Triton's style.
#pragma once

#include <string>

namespace tilery::cpu {

/// Tile extents, element types, and whether the last block of k needs a mask.
struct MatmulShape {
  int m, n, k;
  std::string operand = "f32", result = "f32";
};

/// @matmul(a, b, c, M, N, K, strideA, strideB, strideC), row-major; program ids are the tile's
/// row and column. Pointer tiles advance with k; every access has a mask.
inline std::string matmulText(const MatmulShape &shape) {
  std::string text = R"(
    func.func @matmul(%a: !core.ptr<$T>, %b: !core.ptr<$T>, %c: !core.ptr<$R>, %M: i32, %N: i32,
                      %K: i32, %sa: i32, %sb: i32, %sc: i32) attributes {core.kernel} {
      %pm = core.program_id 0 : i32
      %pn = core.program_id 1 : i32
      %cm = arith.constant $M : i32
      %cn = arith.constant $N : i32
      %ck = arith.constant $K : i32
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %m0 = arith.muli %pm, %cm : i32
      %n0 = arith.muli %pn, %cn : i32
      %rm = core.range 0, $M : tensor<$Mxi32>
      %rn = core.range 0, $N : tensor<$Nxi32>
      %rk = core.range 0, $K : tensor<$Kxi32>
      %m0s = core.splat %m0 : i32 -> tensor<$Mxi32>
      %om = arith.addi %m0s, %rm : tensor<$Mxi32>
      %n0s = core.splat %n0 : i32 -> tensor<$Nxi32>
      %on = arith.addi %n0s, %rn : tensor<$Nxi32>
      %om2 = core.expand_dims %om, 1 : tensor<$Mxi32> -> tensor<$Mx1xi32>
      %on2 = core.expand_dims %on, 0 : tensor<$Nxi32> -> tensor<1x$Nxi32>
      %rkr = core.expand_dims %rk, 0 : tensor<$Kxi32> -> tensor<1x$Kxi32>
      %rkc = core.expand_dims %rk, 1 : tensor<$Kxi32> -> tensor<$Kx1xi32>
      %sas = core.splat %sa : i32 -> tensor<$Mx1xi32>
      %aRow = arith.muli %om2, %sas : tensor<$Mx1xi32>
      %aRowB = core.broadcast %aRow : tensor<$Mx1xi32> -> tensor<$Mx$Kxi32>
      %rkrB = core.broadcast %rkr : tensor<1x$Kxi32> -> tensor<$Mx$Kxi32>
      %aOff = arith.addi %aRowB, %rkrB : tensor<$Mx$Kxi32>
      %aS = core.splat %a : !core.ptr<$T> -> tensor<$Mx$Kx!core.ptr<$T>>
      %aP = core.addptr %aS, %aOff : tensor<$Mx$Kx!core.ptr<$T>>, tensor<$Mx$Kxi32>
      %sbs = core.splat %sb : i32 -> tensor<$Kx1xi32>
      %bRow = arith.muli %rkc, %sbs : tensor<$Kx1xi32>
      %bRowB = core.broadcast %bRow : tensor<$Kx1xi32> -> tensor<$Kx$Nxi32>
      %on2B = core.broadcast %on2 : tensor<1x$Nxi32> -> tensor<$Kx$Nxi32>
      %bOff = arith.addi %bRowB, %on2B : tensor<$Kx$Nxi32>
      %bS = core.splat %b : !core.ptr<$T> -> tensor<$Kx$Nx!core.ptr<$T>>
      %bP = core.addptr %bS, %bOff : tensor<$Kx$Nx!core.ptr<$T>>, tensor<$Kx$Nxi32>
      %Ms = core.splat %M : i32 -> tensor<$Mx1xi32>
      %mOk = arith.cmpi slt, %om2, %Ms : tensor<$Mx1xi32>
      %Ns = core.splat %N : i32 -> tensor<1x$Nxi32>
      %nOk = arith.cmpi slt, %on2, %Ns : tensor<1x$Nxi32>
      %mOkB = core.broadcast %mOk : tensor<$Mx1xi1> -> tensor<$Mx$Kxi1>
      %nOkB = core.broadcast %nOk : tensor<1x$Nxi1> -> tensor<$Kx$Nxi1>
      %aStep = arith.constant dense<$K> : tensor<$Mx$Kxi32>
      %bStepS = arith.muli %ck, %sb : i32
      %bStep = core.splat %bStepS : i32 -> tensor<$Kx$Nxi32>
      %aZero = arith.constant dense<0.0> : tensor<$Mx$Kx$T>
      %bZero = arith.constant dense<0.0> : tensor<$Kx$Nx$T>
      %init = arith.constant dense<0.0> : tensor<$Mx$Nxf32>
      %acc, %pa, %pb = scf.for %k = %zero to %K step %ck
          iter_args(%sum = %init, %ap = %aP, %bp = %bP)
          -> (tensor<$Mx$Nxf32>, tensor<$Mx$Kx!core.ptr<$T>>, tensor<$Kx$Nx!core.ptr<$T>>) : i32 {
        %left = arith.subi %K, %k : i32
        %leftA = core.splat %left : i32 -> tensor<1x$Kxi32>
        %kOkA = arith.cmpi slt, %rkr, %leftA : tensor<1x$Kxi32>
        %kOkAB = core.broadcast %kOkA : tensor<1x$Kxi1> -> tensor<$Mx$Kxi1>
        %aMask = arith.andi %mOkB, %kOkAB : tensor<$Mx$Kxi1>
        %leftB = core.splat %left : i32 -> tensor<$Kx1xi32>
        %kOkB = arith.cmpi slt, %rkc, %leftB : tensor<$Kx1xi32>
        %kOkBB = core.broadcast %kOkB : tensor<$Kx1xi1> -> tensor<$Kx$Nxi1>
        %bMask = arith.andi %kOkBB, %nOkB : tensor<$Kx$Nxi1>
        %at = core.load %ap mask %aMask other %aZero : tensor<$Mx$Kx!core.ptr<$T>>, tensor<$Mx$Kxi1>, tensor<$Mx$Kx$T> -> tensor<$Mx$Kx$T>
        %bt = core.load %bp mask %bMask other %bZero : tensor<$Kx$Nx!core.ptr<$T>>, tensor<$Kx$Nxi1>, tensor<$Kx$Nx$T> -> tensor<$Kx$Nx$T>
        %next = core.dot %at, %bt, %sum, ieee : tensor<$Mx$Kx$T>, tensor<$Kx$Nx$T>, tensor<$Mx$Nxf32>
        %apn = core.addptr %ap, %aStep : tensor<$Mx$Kx!core.ptr<$T>>, tensor<$Mx$Kxi32>
        %bpn = core.addptr %bp, %bStep : tensor<$Kx$Nx!core.ptr<$T>>, tensor<$Kx$Nxi32>
        scf.yield %next, %apn, %bpn : tensor<$Mx$Nxf32>, tensor<$Mx$Kx!core.ptr<$T>>, tensor<$Kx$Nx!core.ptr<$T>>
      }
      %scs = core.splat %sc : i32 -> tensor<$Mx1xi32>
      %cRow = arith.muli %om2, %scs : tensor<$Mx1xi32>
      %cRowB = core.broadcast %cRow : tensor<$Mx1xi32> -> tensor<$Mx$Nxi32>
      %onC = core.broadcast %on2 : tensor<1x$Nxi32> -> tensor<$Mx$Nxi32>
      %cOff = arith.addi %cRowB, %onC : tensor<$Mx$Nxi32>
      %cS = core.splat %c : !core.ptr<$R> -> tensor<$Mx$Nx!core.ptr<$R>>
      %cP = core.addptr %cS, %cOff : tensor<$Mx$Nx!core.ptr<$R>>, tensor<$Mx$Nxi32>
      %mOkC = core.broadcast %mOk : tensor<$Mx1xi1> -> tensor<$Mx$Nxi1>
      %nOkC = core.broadcast %nOk : tensor<1x$Nxi1> -> tensor<$Mx$Nxi1>
      %cMask = arith.andi %mOkC, %nOkC : tensor<$Mx$Nxi1>
      $STORE
      return
    })";
  auto replace = [&](const std::string &from, const std::string &to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  };
  std::string rest = ": tensor<$Mx$Nx!core.ptr<$R>>, tensor<$Mx$Nx$R>, tensor<$Mx$Nxi1>";
  replace("$STORE", shape.result == "f32"
                        ? "core.store %cP, %acc mask %cMask " + rest
                        : "%half = arith.truncf %acc : tensor<$Mx$Nxf32> to tensor<$Mx$Nx$R>\n"
                          "core.store %cP, %half mask %cMask " + rest);
  replace("$T", shape.operand);
  replace("$R", shape.result);
  replace("$M", std::to_string(shape.m));
  replace("$N", std::to_string(shape.n));
  replace("$K", std::to_string(shape.k));
  return text;
}

} // namespace tilery::cpu
