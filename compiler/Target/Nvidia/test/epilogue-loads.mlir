// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// RUN: %opt %s --split-input-file --tilery-nvidia-specialise-warps="num-warps=4 num-stages=4" | FileCheck %s

// 64 floats are two panels of 32; rows end at M.
// CHECK-LABEL: func.func @residual
// CHECK-SAME: {box = array<i32: 32, 64>, element = "fp32", extents = {{\[}}["constant", 2147483647], ["argument", 4]], hint, pointer = 3 : i32
// CHECK: simt.roles producer {
// CHECK: scf.for %[[TILE:.*]] = %{{.*}} to %arg4
// CHECK: simt.prefetch !simt.buffer<64x64xf32, 1> map 2 at %{{.*}}, %{{.*}}
// CHECK-NEXT: scf.for
// CHECK: simt.produce
// CHECK: } consumer {
// CHECK-NOT: simt.prefetch
// CHECK: core.load %{{.*}} mask
func.func @residual(%a: !core.ptr<bf16> {core.divisibility = 16 : i32}, %b: !core.ptr<bf16> {core.divisibility = 16 : i32}, %c: !core.ptr<f32>, %r: !core.ptr<f32> {core.divisibility = 16 : i32}, %M: i32, %K: i32, %s: i32 {core.divisibility = 16 : i32}, %w: !core.ptr<i32>) attributes {core.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %r64 = core.range 0, 64 : tensor<64xi32>
  %col = core.expand_dims %r64, 0 : tensor<64xi32> -> tensor<1x64xi32>
  %cols = core.broadcast %col : tensor<1x64xi32> -> tensor<64x64xi32>
  %s64 = core.splat %s : i32 -> tensor<64x1xi32>
  %Ms = core.splat %M : i32 -> tensor<64x1xi32>
  %as = core.splat %a : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  %bs = core.splat %b : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  scf.for %tile = %c0 to %M step %c1 : i32 {
    %m0 = arith.muli %tile, %c64 : i32
    %ms = core.splat %m0 : i32 -> tensor<64xi32>
    %m = arith.addi %ms, %r64 : tensor<64xi32>
    %row = core.expand_dims %m, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %ro = arith.muli %row, %s64 : tensor<64x1xi32>
    %ar = core.addptr %as, %ro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
    %ab = core.broadcast %ar : tensor<64x1x!core.ptr<bf16>> -> tensor<64x64x!core.ptr<bf16>>
    %acc = scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero) -> (tensor<64x64xf32>) : i32 {
      %ks = core.splat %k : i32 -> tensor<64xi32>
      %kr = arith.addi %ks, %r64 : tensor<64xi32>
      %kcol = core.expand_dims %kr, 0 : tensor<64xi32> -> tensor<1x64xi32>
      %krow = core.expand_dims %kr, 1 : tensor<64xi32> -> tensor<64x1xi32>
      %kco = core.broadcast %kcol : tensor<1x64xi32> -> tensor<64x64xi32>
      %ap = core.addptr %ab, %kco : tensor<64x64x!core.ptr<bf16>>, tensor<64x64xi32>
      %kro = arith.muli %krow, %s64 : tensor<64x1xi32>
      %br = core.addptr %bs, %kro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
      %bb = core.broadcast %br : tensor<64x1x!core.ptr<bf16>> -> tensor<64x64x!core.ptr<bf16>>
      %bp = core.addptr %bb, %cols : tensor<64x64x!core.ptr<bf16>>, tensor<64x64xi32>
      %x = core.load %ap : tensor<64x64x!core.ptr<bf16>> -> tensor<64x64xbf16>
      %y = core.load %bp : tensor<64x64x!core.ptr<bf16>> -> tensor<64x64xbf16>
      %next = core.dot %x, %y, %sum, ieee : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
      scf.yield %next : tensor<64x64xf32>
    }
    %rro = arith.muli %row, %s64 : tensor<64x1xi32>
    %rs = core.splat %r : !core.ptr<f32> -> tensor<64x1x!core.ptr<f32>>
    %rr = core.addptr %rs, %rro : tensor<64x1x!core.ptr<f32>>, tensor<64x1xi32>
    %rb = core.broadcast %rr : tensor<64x1x!core.ptr<f32>> -> tensor<64x64x!core.ptr<f32>>
    %rp = core.addptr %rb, %cols : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi32>
    %mr = arith.cmpi slt, %row, %Ms : tensor<64x1xi32>
    %mask = core.broadcast %mr : tensor<64x1xi1> -> tensor<64x64xi1>
    %res = core.load %rp mask %mask other %zero : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi1>, tensor<64x64xf32> -> tensor<64x64xf32>
    %total = arith.addf %acc, %res : tensor<64x64xf32>
    %os = core.splat %c : !core.ptr<f32> -> tensor<64x1x!core.ptr<f32>>
    %or = core.addptr %os, %ro : tensor<64x1x!core.ptr<f32>>, tensor<64x1xi32>
    %ob = core.broadcast %or : tensor<64x1x!core.ptr<f32>> -> tensor<64x64x!core.ptr<f32>>
    %op = core.addptr %ob, %cols : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi32>
    core.store %op, %total : tensor<64x64x!core.ptr<f32>>, tensor<64x64xf32>
  }
  return
}

// -----

// Of a tile of 48 rows no more are asked for.
// CHECK-LABEL: func.func @some_rows
// CHECK-SAME: box = array<i32: 32, 48>
// CHECK: simt.prefetch !simt.buffer<48x64xf32, 1> map 2 at
func.func @some_rows(%a: !core.ptr<bf16> {core.divisibility = 16 : i32}, %b: !core.ptr<bf16> {core.divisibility = 16 : i32}, %c: !core.ptr<f32>, %r: !core.ptr<f32> {core.divisibility = 16 : i32}, %M: i32, %K: i32, %s: i32 {core.divisibility = 16 : i32}, %w: !core.ptr<i32>) attributes {core.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %r64 = core.range 0, 64 : tensor<64xi32>
  %col = core.expand_dims %r64, 0 : tensor<64xi32> -> tensor<1x64xi32>
  %cols = core.broadcast %col : tensor<1x64xi32> -> tensor<64x64xi32>
  %s64 = core.splat %s : i32 -> tensor<64x1xi32>
  %Ms = core.splat %M : i32 -> tensor<64x1xi32>
  %as = core.splat %a : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  %bs = core.splat %b : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  scf.for %tile = %c0 to %M step %c1 : i32 {
    %m0 = arith.muli %tile, %c64 : i32
    %ms = core.splat %m0 : i32 -> tensor<64xi32>
    %m = arith.addi %ms, %r64 : tensor<64xi32>
    %row = core.expand_dims %m, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %ro = arith.muli %row, %s64 : tensor<64x1xi32>
    %ar = core.addptr %as, %ro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
    %ab = core.broadcast %ar : tensor<64x1x!core.ptr<bf16>> -> tensor<64x64x!core.ptr<bf16>>
    %acc = scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero) -> (tensor<64x64xf32>) : i32 {
      %ks = core.splat %k : i32 -> tensor<64xi32>
      %kr = arith.addi %ks, %r64 : tensor<64xi32>
      %kcol = core.expand_dims %kr, 0 : tensor<64xi32> -> tensor<1x64xi32>
      %krow = core.expand_dims %kr, 1 : tensor<64xi32> -> tensor<64x1xi32>
      %kco = core.broadcast %kcol : tensor<1x64xi32> -> tensor<64x64xi32>
      %ap = core.addptr %ab, %kco : tensor<64x64x!core.ptr<bf16>>, tensor<64x64xi32>
      %kro = arith.muli %krow, %s64 : tensor<64x1xi32>
      %br = core.addptr %bs, %kro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
      %bb = core.broadcast %br : tensor<64x1x!core.ptr<bf16>> -> tensor<64x64x!core.ptr<bf16>>
      %bp = core.addptr %bb, %cols : tensor<64x64x!core.ptr<bf16>>, tensor<64x64xi32>
      %x = core.load %ap : tensor<64x64x!core.ptr<bf16>> -> tensor<64x64xbf16>
      %y = core.load %bp : tensor<64x64x!core.ptr<bf16>> -> tensor<64x64xbf16>
      %next = core.dot %x, %y, %sum, ieee : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
      scf.yield %next : tensor<64x64xf32>
    }
    %rro = arith.muli %row, %s64 : tensor<64x1xi32>
    %rs = core.splat %r : !core.ptr<f32> -> tensor<64x1x!core.ptr<f32>>
    %rr = core.addptr %rs, %rro : tensor<64x1x!core.ptr<f32>>, tensor<64x1xi32>
    %rb = core.broadcast %rr : tensor<64x1x!core.ptr<f32>> -> tensor<64x64x!core.ptr<f32>>
    %rp = core.addptr %rb, %cols : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi32>
    %mr = arith.cmpi slt, %row, %Ms : tensor<64x1xi32>
    %c48 = arith.constant dense<48> : tensor<64x1xi32>
    %lane = core.expand_dims %r64, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %few = arith.cmpi slt, %lane, %c48 : tensor<64x1xi32>
    %both = arith.andi %mr, %few : tensor<64x1xi1>
    %mask = core.broadcast %both : tensor<64x1xi1> -> tensor<64x64xi1>
    %res = core.load %rp mask %mask other %zero : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi1>, tensor<64x64xf32> -> tensor<64x64xf32>
    %total = arith.addf %acc, %res : tensor<64x64xf32>
    %os = core.splat %c : !core.ptr<f32> -> tensor<64x1x!core.ptr<f32>>
    %or = core.addptr %os, %ro : tensor<64x1x!core.ptr<f32>>, tensor<64x1xi32>
    %ob = core.broadcast %or : tensor<64x1x!core.ptr<f32>> -> tensor<64x64x!core.ptr<f32>>
    %op = core.addptr %ob, %cols : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi32>
    core.store %op, %total : tensor<64x64x!core.ptr<f32>>, tensor<64x64xf32>
  }
  return
}

// -----

// Only the mask says where the array ends.
// CHECK-LABEL: func.func @end_unknown
// CHECK-NOT: hint
// CHECK-NOT: simt.prefetch
// CHECK: simt.produce
// CHECK-NOT: simt.prefetch
// CHECK: core.load %{{.*}} mask
func.func @end_unknown(%a: !core.ptr<bf16> {core.divisibility = 16 : i32}, %b: !core.ptr<bf16> {core.divisibility = 16 : i32}, %c: !core.ptr<f32>, %r: !core.ptr<f32> {core.divisibility = 16 : i32}, %M: i32, %K: i32, %s: i32 {core.divisibility = 16 : i32}, %w: !core.ptr<i32>) attributes {core.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %r64 = core.range 0, 64 : tensor<64xi32>
  %col = core.expand_dims %r64, 0 : tensor<64xi32> -> tensor<1x64xi32>
  %cols = core.broadcast %col : tensor<1x64xi32> -> tensor<64x64xi32>
  %s64 = core.splat %s : i32 -> tensor<64x1xi32>
  %Ms = core.splat %M : i32 -> tensor<64x1xi32>
  %as = core.splat %a : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  %bs = core.splat %b : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  scf.for %tile = %c0 to %M step %c1 : i32 {
    %m0 = arith.muli %tile, %c64 : i32
    %ms = core.splat %m0 : i32 -> tensor<64xi32>
    %m = arith.addi %ms, %r64 : tensor<64xi32>
    %row = core.expand_dims %m, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %ro = arith.muli %row, %s64 : tensor<64x1xi32>
    %ar = core.addptr %as, %ro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
    %ab = core.broadcast %ar : tensor<64x1x!core.ptr<bf16>> -> tensor<64x64x!core.ptr<bf16>>
    %acc = scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero) -> (tensor<64x64xf32>) : i32 {
      %ks = core.splat %k : i32 -> tensor<64xi32>
      %kr = arith.addi %ks, %r64 : tensor<64xi32>
      %kcol = core.expand_dims %kr, 0 : tensor<64xi32> -> tensor<1x64xi32>
      %krow = core.expand_dims %kr, 1 : tensor<64xi32> -> tensor<64x1xi32>
      %kco = core.broadcast %kcol : tensor<1x64xi32> -> tensor<64x64xi32>
      %ap = core.addptr %ab, %kco : tensor<64x64x!core.ptr<bf16>>, tensor<64x64xi32>
      %kro = arith.muli %krow, %s64 : tensor<64x1xi32>
      %br = core.addptr %bs, %kro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
      %bb = core.broadcast %br : tensor<64x1x!core.ptr<bf16>> -> tensor<64x64x!core.ptr<bf16>>
      %bp = core.addptr %bb, %cols : tensor<64x64x!core.ptr<bf16>>, tensor<64x64xi32>
      %x = core.load %ap : tensor<64x64x!core.ptr<bf16>> -> tensor<64x64xbf16>
      %y = core.load %bp : tensor<64x64x!core.ptr<bf16>> -> tensor<64x64xbf16>
      %next = core.dot %x, %y, %sum, ieee : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
      scf.yield %next : tensor<64x64xf32>
    }
    %rro = arith.muli %row, %s64 : tensor<64x1xi32>
    %rs = core.splat %r : !core.ptr<f32> -> tensor<64x1x!core.ptr<f32>>
    %rr = core.addptr %rs, %rro : tensor<64x1x!core.ptr<f32>>, tensor<64x1xi32>
    %rb = core.broadcast %rr : tensor<64x1x!core.ptr<f32>> -> tensor<64x64x!core.ptr<f32>>
    %rp = core.addptr %rb, %cols : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi32>
    %c48 = arith.constant dense<48> : tensor<64x1xi32>
    %lane = core.expand_dims %r64, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %few = arith.cmpi slt, %lane, %c48 : tensor<64x1xi32>
    %mask = core.broadcast %few : tensor<64x1xi1> -> tensor<64x64xi1>
    %res = core.load %rp mask %mask other %zero : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi1>, tensor<64x64xf32> -> tensor<64x64xf32>
    %total = arith.addf %acc, %res : tensor<64x64xf32>
    %os = core.splat %c : !core.ptr<f32> -> tensor<64x1x!core.ptr<f32>>
    %or = core.addptr %os, %ro : tensor<64x1x!core.ptr<f32>>, tensor<64x1xi32>
    %ob = core.broadcast %or : tensor<64x1x!core.ptr<f32>> -> tensor<64x64x!core.ptr<f32>>
    %op = core.addptr %ob, %cols : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi32>
    core.store %op, %total : tensor<64x64x!core.ptr<f32>>, tensor<64x64xf32>
  }
  return
}

// -----

// The producer may read what nobody writes.
// CHECK-LABEL: func.func @row_from_memory
// CHECK: simt.roles producer {
// CHECK: core.load %arg7
// CHECK: simt.prefetch
// CHECK: simt.produce
func.func @row_from_memory(%a: !core.ptr<bf16> {core.divisibility = 16 : i32}, %b: !core.ptr<bf16> {core.divisibility = 16 : i32}, %c: !core.ptr<f32>, %r: !core.ptr<f32> {core.divisibility = 16 : i32}, %M: i32, %K: i32, %s: i32 {core.divisibility = 16 : i32}, %w: !core.ptr<i32>) attributes {core.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %r64 = core.range 0, 64 : tensor<64xi32>
  %col = core.expand_dims %r64, 0 : tensor<64xi32> -> tensor<1x64xi32>
  %cols = core.broadcast %col : tensor<1x64xi32> -> tensor<64x64xi32>
  %s64 = core.splat %s : i32 -> tensor<64x1xi32>
  %Ms = core.splat %M : i32 -> tensor<64x1xi32>
  %as = core.splat %a : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  %bs = core.splat %b : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  scf.for %tile = %c0 to %M step %c1 : i32 {
    %m0 = arith.muli %tile, %c64 : i32
    %ms = core.splat %m0 : i32 -> tensor<64xi32>
    %m = arith.addi %ms, %r64 : tensor<64xi32>
    %row = core.expand_dims %m, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %ro = arith.muli %row, %s64 : tensor<64x1xi32>
    %ar = core.addptr %as, %ro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
    %ab = core.broadcast %ar : tensor<64x1x!core.ptr<bf16>> -> tensor<64x64x!core.ptr<bf16>>
    %o = core.load %w : !core.ptr<i32> -> i32
    %oo = arith.muli %o, %c64 : i32
    %ors = core.splat %oo : i32 -> tensor<64xi32>
    %orr = arith.addi %ors, %r64 : tensor<64xi32>
    %orow = core.expand_dims %orr, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %rro = arith.muli %orow, %s64 : tensor<64x1xi32>
    %acc = scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero) -> (tensor<64x64xf32>) : i32 {
      %ks = core.splat %k : i32 -> tensor<64xi32>
      %kr = arith.addi %ks, %r64 : tensor<64xi32>
      %kcol = core.expand_dims %kr, 0 : tensor<64xi32> -> tensor<1x64xi32>
      %krow = core.expand_dims %kr, 1 : tensor<64xi32> -> tensor<64x1xi32>
      %kco = core.broadcast %kcol : tensor<1x64xi32> -> tensor<64x64xi32>
      %ap = core.addptr %ab, %kco : tensor<64x64x!core.ptr<bf16>>, tensor<64x64xi32>
      %kro = arith.muli %krow, %s64 : tensor<64x1xi32>
      %br = core.addptr %bs, %kro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
      %bb = core.broadcast %br : tensor<64x1x!core.ptr<bf16>> -> tensor<64x64x!core.ptr<bf16>>
      %bp = core.addptr %bb, %cols : tensor<64x64x!core.ptr<bf16>>, tensor<64x64xi32>
      %x = core.load %ap : tensor<64x64x!core.ptr<bf16>> -> tensor<64x64xbf16>
      %y = core.load %bp : tensor<64x64x!core.ptr<bf16>> -> tensor<64x64xbf16>
      %next = core.dot %x, %y, %sum, ieee : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
      scf.yield %next : tensor<64x64xf32>
    }
    %rs = core.splat %r : !core.ptr<f32> -> tensor<64x1x!core.ptr<f32>>
    %rr = core.addptr %rs, %rro : tensor<64x1x!core.ptr<f32>>, tensor<64x1xi32>
    %rb = core.broadcast %rr : tensor<64x1x!core.ptr<f32>> -> tensor<64x64x!core.ptr<f32>>
    %rp = core.addptr %rb, %cols : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi32>
    %mr = arith.cmpi slt, %orow, %Ms : tensor<64x1xi32>
    %mask = core.broadcast %mr : tensor<64x1xi1> -> tensor<64x64xi1>
    %res = core.load %rp mask %mask other %zero : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi1>, tensor<64x64xf32> -> tensor<64x64xf32>
    %total = arith.addf %acc, %res : tensor<64x64xf32>
    %os = core.splat %c : !core.ptr<f32> -> tensor<64x1x!core.ptr<f32>>
    %or = core.addptr %os, %ro : tensor<64x1x!core.ptr<f32>>, tensor<64x1xi32>
    %ob = core.broadcast %or : tensor<64x1x!core.ptr<f32>> -> tensor<64x64x!core.ptr<f32>>
    %op = core.addptr %ob, %cols : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi32>
    core.store %op, %total : tensor<64x64x!core.ptr<f32>>, tensor<64x64xf32>
  }
  return
}

// -----

// What it must not read is no reason to do without roles.
// CHECK-LABEL: func.func @row_read_once
// CHECK-NOT: hint
// CHECK-NOT: simt.prefetch
// CHECK: simt.produce
// CHECK-NOT: simt.prefetch
// CHECK: core.load %{{.*}} mask
func.func @row_read_once(%a: !core.ptr<bf16> {core.divisibility = 16 : i32}, %b: !core.ptr<bf16> {core.divisibility = 16 : i32}, %c: !core.ptr<f32>, %r: !core.ptr<f32> {core.divisibility = 16 : i32}, %M: i32, %K: i32, %s: i32 {core.divisibility = 16 : i32}, %w: !core.ptr<i32>) attributes {core.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %r64 = core.range 0, 64 : tensor<64xi32>
  %col = core.expand_dims %r64, 0 : tensor<64xi32> -> tensor<1x64xi32>
  %cols = core.broadcast %col : tensor<1x64xi32> -> tensor<64x64xi32>
  %s64 = core.splat %s : i32 -> tensor<64x1xi32>
  %Ms = core.splat %M : i32 -> tensor<64x1xi32>
  %as = core.splat %a : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  %bs = core.splat %b : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  scf.for %tile = %c0 to %M step %c1 : i32 {
    %m0 = arith.muli %tile, %c64 : i32
    %ms = core.splat %m0 : i32 -> tensor<64xi32>
    %m = arith.addi %ms, %r64 : tensor<64xi32>
    %row = core.expand_dims %m, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %ro = arith.muli %row, %s64 : tensor<64x1xi32>
    %ar = core.addptr %as, %ro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
    %ab = core.broadcast %ar : tensor<64x1x!core.ptr<bf16>> -> tensor<64x64x!core.ptr<bf16>>
    %o = core.load %w {isVolatile} : !core.ptr<i32> -> i32
    %oo = arith.muli %o, %c64 : i32
    %ors = core.splat %oo : i32 -> tensor<64xi32>
    %orr = arith.addi %ors, %r64 : tensor<64xi32>
    %orow = core.expand_dims %orr, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %rro = arith.muli %orow, %s64 : tensor<64x1xi32>
    %acc = scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero) -> (tensor<64x64xf32>) : i32 {
      %ks = core.splat %k : i32 -> tensor<64xi32>
      %kr = arith.addi %ks, %r64 : tensor<64xi32>
      %kcol = core.expand_dims %kr, 0 : tensor<64xi32> -> tensor<1x64xi32>
      %krow = core.expand_dims %kr, 1 : tensor<64xi32> -> tensor<64x1xi32>
      %kco = core.broadcast %kcol : tensor<1x64xi32> -> tensor<64x64xi32>
      %ap = core.addptr %ab, %kco : tensor<64x64x!core.ptr<bf16>>, tensor<64x64xi32>
      %kro = arith.muli %krow, %s64 : tensor<64x1xi32>
      %br = core.addptr %bs, %kro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
      %bb = core.broadcast %br : tensor<64x1x!core.ptr<bf16>> -> tensor<64x64x!core.ptr<bf16>>
      %bp = core.addptr %bb, %cols : tensor<64x64x!core.ptr<bf16>>, tensor<64x64xi32>
      %x = core.load %ap : tensor<64x64x!core.ptr<bf16>> -> tensor<64x64xbf16>
      %y = core.load %bp : tensor<64x64x!core.ptr<bf16>> -> tensor<64x64xbf16>
      %next = core.dot %x, %y, %sum, ieee : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
      scf.yield %next : tensor<64x64xf32>
    }
    %rs = core.splat %r : !core.ptr<f32> -> tensor<64x1x!core.ptr<f32>>
    %rr = core.addptr %rs, %rro : tensor<64x1x!core.ptr<f32>>, tensor<64x1xi32>
    %rb = core.broadcast %rr : tensor<64x1x!core.ptr<f32>> -> tensor<64x64x!core.ptr<f32>>
    %rp = core.addptr %rb, %cols : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi32>
    %mr = arith.cmpi slt, %orow, %Ms : tensor<64x1xi32>
    %mask = core.broadcast %mr : tensor<64x1xi1> -> tensor<64x64xi1>
    %res = core.load %rp mask %mask other %zero : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi1>, tensor<64x64xf32> -> tensor<64x64xf32>
    %total = arith.addf %acc, %res : tensor<64x64xf32>
    %os = core.splat %c : !core.ptr<f32> -> tensor<64x1x!core.ptr<f32>>
    %or = core.addptr %os, %ro : tensor<64x1x!core.ptr<f32>>, tensor<64x1xi32>
    %ob = core.broadcast %or : tensor<64x1x!core.ptr<f32>> -> tensor<64x64x!core.ptr<f32>>
    %op = core.addptr %ob, %cols : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi32>
    core.store %op, %total : tensor<64x64x!core.ptr<f32>>, tensor<64x64xf32>
  }
  return
}

// -----

// The row is read behind the products.
// CHECK-LABEL: func.func @row_known_late
// CHECK-NOT: hint
// CHECK-NOT: simt.prefetch
// CHECK: simt.produce
// CHECK-NOT: simt.prefetch
// CHECK: core.load %{{.*}} mask
func.func @row_known_late(%a: !core.ptr<bf16> {core.divisibility = 16 : i32}, %b: !core.ptr<bf16> {core.divisibility = 16 : i32}, %c: !core.ptr<f32>, %r: !core.ptr<f32> {core.divisibility = 16 : i32}, %M: i32, %K: i32, %s: i32 {core.divisibility = 16 : i32}, %w: !core.ptr<i32>) attributes {core.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %r64 = core.range 0, 64 : tensor<64xi32>
  %col = core.expand_dims %r64, 0 : tensor<64xi32> -> tensor<1x64xi32>
  %cols = core.broadcast %col : tensor<1x64xi32> -> tensor<64x64xi32>
  %s64 = core.splat %s : i32 -> tensor<64x1xi32>
  %Ms = core.splat %M : i32 -> tensor<64x1xi32>
  %as = core.splat %a : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  %bs = core.splat %b : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  scf.for %tile = %c0 to %M step %c1 : i32 {
    %m0 = arith.muli %tile, %c64 : i32
    %ms = core.splat %m0 : i32 -> tensor<64xi32>
    %m = arith.addi %ms, %r64 : tensor<64xi32>
    %row = core.expand_dims %m, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %ro = arith.muli %row, %s64 : tensor<64x1xi32>
    %ar = core.addptr %as, %ro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
    %ab = core.broadcast %ar : tensor<64x1x!core.ptr<bf16>> -> tensor<64x64x!core.ptr<bf16>>
    %acc = scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero) -> (tensor<64x64xf32>) : i32 {
      %ks = core.splat %k : i32 -> tensor<64xi32>
      %kr = arith.addi %ks, %r64 : tensor<64xi32>
      %kcol = core.expand_dims %kr, 0 : tensor<64xi32> -> tensor<1x64xi32>
      %krow = core.expand_dims %kr, 1 : tensor<64xi32> -> tensor<64x1xi32>
      %kco = core.broadcast %kcol : tensor<1x64xi32> -> tensor<64x64xi32>
      %ap = core.addptr %ab, %kco : tensor<64x64x!core.ptr<bf16>>, tensor<64x64xi32>
      %kro = arith.muli %krow, %s64 : tensor<64x1xi32>
      %br = core.addptr %bs, %kro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
      %bb = core.broadcast %br : tensor<64x1x!core.ptr<bf16>> -> tensor<64x64x!core.ptr<bf16>>
      %bp = core.addptr %bb, %cols : tensor<64x64x!core.ptr<bf16>>, tensor<64x64xi32>
      %x = core.load %ap : tensor<64x64x!core.ptr<bf16>> -> tensor<64x64xbf16>
      %y = core.load %bp : tensor<64x64x!core.ptr<bf16>> -> tensor<64x64xbf16>
      %next = core.dot %x, %y, %sum, ieee : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>
      scf.yield %next : tensor<64x64xf32>
    }
    %o = core.load %w : !core.ptr<i32> -> i32
    %oo = arith.muli %o, %c64 : i32
    %ors = core.splat %oo : i32 -> tensor<64xi32>
    %orr = arith.addi %ors, %r64 : tensor<64xi32>
    %orow = core.expand_dims %orr, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %rro = arith.muli %orow, %s64 : tensor<64x1xi32>
    %rs = core.splat %r : !core.ptr<f32> -> tensor<64x1x!core.ptr<f32>>
    %rr = core.addptr %rs, %rro : tensor<64x1x!core.ptr<f32>>, tensor<64x1xi32>
    %rb = core.broadcast %rr : tensor<64x1x!core.ptr<f32>> -> tensor<64x64x!core.ptr<f32>>
    %rp = core.addptr %rb, %cols : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi32>
    %mr = arith.cmpi slt, %orow, %Ms : tensor<64x1xi32>
    %mask = core.broadcast %mr : tensor<64x1xi1> -> tensor<64x64xi1>
    %res = core.load %rp mask %mask other %zero : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi1>, tensor<64x64xf32> -> tensor<64x64xf32>
    %total = arith.addf %acc, %res : tensor<64x64xf32>
    %os = core.splat %c : !core.ptr<f32> -> tensor<64x1x!core.ptr<f32>>
    %or = core.addptr %os, %ro : tensor<64x1x!core.ptr<f32>>, tensor<64x1xi32>
    %ob = core.broadcast %or : tensor<64x1x!core.ptr<f32>> -> tensor<64x64x!core.ptr<f32>>
    %op = core.addptr %ob, %cols : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi32>
    core.store %op, %total : tensor<64x64x!core.ptr<f32>>, tensor<64x64xf32>
  }
  return
}
