// RUN: %opt %s --split-input-file --tilery-nvidia-specialise-warps="num-warps=8 num-stages=4" | FileCheck %s
// RUN: %opt %s --split-input-file --tilery-nvidia-specialise-warps="num-warps=2" | FileCheck %s --check-prefix=FEW
// RUN: %opt %s --split-input-file --tilery-nvidia-specialise-warps="num-warps=8 num-stages=4 shared-bytes=80000" | FileCheck %s --check-prefix=SMALL
// RUN: %opt %s --split-input-file --tilery-nvidia-specialise-warps="num-warps=8 shared-bytes=40000" | FileCheck %s --check-prefix=NONE

// Roles take groups of four warps; a ring has at least two slots.
// FEW-NOT: simt.roles
// NONE-NOT: simt.roles

// The loop of Passes.td: pointer tiles with masks at the end of the depth.
// CHECK-LABEL: func.func @gemm
// CHECK-SAME: simt.consumer_registers = 240 : i32, simt.producer_registers = 24 : i32
// CHECK-SAME: simt.rings = [{stages = 4 : i32, tiles = [!simt.buffer<64x128xbf16, 1>, !simt.buffer<128x64xbf16, 1>]}]
// CHECK-SAME: extents = {{\[}}["constant", 2147483647], ["argument", 3]], pointer = 1 : i32, strides = {{\[}}["multiply", ["constant", 1], ["argument", 4]]], swizzle = 128
// CHECK-SAME: extents = {{\[}}["argument", 3], ["constant", 2147483647]], pointer = 0 : i32
// CHECK: simt.roles producer {
// CHECK-NOT: core.load
// CHECK: scf.for %[[K:.*]] = %{{.*}} to %arg3
// CHECK: simt.produce 0 maps [0, 1] ranks [2, 2] at
// CHECK: } consumer {
// CHECK-NOT: core.load
// CHECK: %[[ACC:.*]] = scf.for %[[I:.*]] = %[[LOWER:.*]] to %arg3 step %{{.*}} iter_args(%[[SUM:.*]] = %{{.*}})
// CHECK: %[[T:.*]]:2 = simt.consume 0 : !simt.buffer<64x128xbf16, 1>, !simt.buffer<128x64xbf16, 1>
// CHECK: %[[NEXT:.*]] = simt.async_dot %[[T]]#1, %[[T]]#0, %[[SUM]]
// CHECK: simt.dot_wait 1{{$}}
// CHECK: %[[LATER:.*]] = arith.cmpi ne, %[[I]], %[[LOWER]]
// CHECK: scf.if %[[LATER]] {
// CHECK-NEXT: simt.release 0, 1
// CHECK: scf.yield %[[NEXT]]
// CHECK: %[[DONE:.*]] = simt.dot_wait 0, %[[ACC]]
// CHECK: %[[RAN:.*]] = arith.cmpi slt, %[[LOWER]], %arg3
// CHECK: scf.if %[[RAN]] {
// CHECK-NEXT: simt.release 0, 0
// CHECK: core.store %{{.*}}, %[[DONE]]
// A slot of 32 KiB: two fit into 80000 bytes.
// SMALL-LABEL: func.func @gemm
// SMALL-SAME: simt.rings = [{stages = 2 : i32
func.func @gemm(%a: !core.ptr<bf16> {core.divisibility = 16 : i32}, %b: !core.ptr<bf16> {core.divisibility = 16 : i32}, %c: !core.ptr<f32>, %K: i32, %s: i32 {core.divisibility = 16 : i32}) attributes {core.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %za = arith.constant dense<0.0> : tensor<128x64xbf16>
  %zb = arith.constant dense<0.0> : tensor<64x128xbf16>
  %id = core.program_id 0 : i32
  %m0 = arith.muli %id, %c128 : i32
  %r128 = core.range 0, 128 : tensor<128xi32>
  %r64 = core.range 0, 64 : tensor<64xi32>
  %ms = core.splat %m0 : i32 -> tensor<128xi32>
  %m = arith.addi %ms, %r128 : tensor<128xi32>
  %row = core.expand_dims %m, 1 : tensor<128xi32> -> tensor<128x1xi32>
  %col = core.expand_dims %r128, 0 : tensor<128xi32> -> tensor<1x128xi32>
  %s128 = core.splat %s : i32 -> tensor<128x1xi32>
  %s64 = core.splat %s : i32 -> tensor<64x1xi32>
  %ro = arith.muli %row, %s128 : tensor<128x1xi32>
  %as = core.splat %a : !core.ptr<bf16> -> tensor<128x1x!core.ptr<bf16>>
  %ar = core.addptr %as, %ro : tensor<128x1x!core.ptr<bf16>>, tensor<128x1xi32>
  %ab = core.broadcast %ar : tensor<128x1x!core.ptr<bf16>> -> tensor<128x64x!core.ptr<bf16>>
  %bs = core.splat %b : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  %cols = core.broadcast %col : tensor<1x128xi32> -> tensor<64x128xi32>
  %acc = scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero) -> (tensor<128x128xf32>) : i32 {
    %ks = core.splat %k : i32 -> tensor<64xi32>
    %kr = arith.addi %ks, %r64 : tensor<64xi32>
    %kcol = core.expand_dims %kr, 0 : tensor<64xi32> -> tensor<1x64xi32>
    %krow = core.expand_dims %kr, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %kco = core.broadcast %kcol : tensor<1x64xi32> -> tensor<128x64xi32>
    %ap = core.addptr %ab, %kco : tensor<128x64x!core.ptr<bf16>>, tensor<128x64xi32>
    %kro = arith.muli %krow, %s64 : tensor<64x1xi32>
    %br = core.addptr %bs, %kro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
    %bb = core.broadcast %br : tensor<64x1x!core.ptr<bf16>> -> tensor<64x128x!core.ptr<bf16>>
    %bp = core.addptr %bb, %cols : tensor<64x128x!core.ptr<bf16>>, tensor<64x128xi32>
    %kc = core.splat %K : i32 -> tensor<1x64xi32>
    %ka = arith.cmpi slt, %kcol, %kc : tensor<1x64xi32>
    %am = core.broadcast %ka : tensor<1x64xi1> -> tensor<128x64xi1>
    %kd = core.splat %K : i32 -> tensor<64x1xi32>
    %kb = arith.cmpi slt, %krow, %kd : tensor<64x1xi32>
    %bm = core.broadcast %kb : tensor<64x1xi1> -> tensor<64x128xi1>
    %x = core.load %ap mask %am other %za : tensor<128x64x!core.ptr<bf16>>, tensor<128x64xi1>, tensor<128x64xbf16> -> tensor<128x64xbf16>
    %y = core.load %bp mask %bm other %zb : tensor<64x128x!core.ptr<bf16>>, tensor<64x128xi1>, tensor<64x128xbf16> -> tensor<64x128xbf16>
    %next = core.dot %x, %y, %sum, ieee : tensor<128x64xbf16>, tensor<64x128xbf16>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  }
  %os = core.splat %c : !core.ptr<f32> -> tensor<128x1x!core.ptr<f32>>
  %or = core.addptr %os, %ro : tensor<128x1x!core.ptr<f32>>, tensor<128x1xi32>
  %ob = core.broadcast %or : tensor<128x1x!core.ptr<f32>> -> tensor<128x128x!core.ptr<f32>>
  %oc = core.broadcast %col : tensor<1x128xi32> -> tensor<128x128xi32>
  %op = core.addptr %ob, %oc : tensor<128x128x!core.ptr<f32>>, tensor<128x128xi32>
  core.store %op, %acc : tensor<128x128x!core.ptr<f32>>, tensor<128x128xf32>
  return
}

// -----

// What an instance stores after its last product, copies cannot overtake.
// CHECK-LABEL: func.func @writes_what_it_loads
// CHECK: simt.roles
// CHECK: simt.async_dot
// CHECK: core.store
func.func @writes_what_it_loads(%a: !core.ptr<bf16> {core.divisibility = 16 : i32}, %b: !core.ptr<bf16> {core.divisibility = 16 : i32}, %c: !core.ptr<f32>, %K: i32, %s: i32 {core.divisibility = 16 : i32}) attributes {core.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %id = core.program_id 0 : i32
  %m0 = arith.muli %id, %c128 : i32
  %r128 = core.range 0, 128 : tensor<128xi32>
  %r64 = core.range 0, 64 : tensor<64xi32>
  %ms = core.splat %m0 : i32 -> tensor<128xi32>
  %m = arith.addi %ms, %r128 : tensor<128xi32>
  %row = core.expand_dims %m, 1 : tensor<128xi32> -> tensor<128x1xi32>
  %col = core.expand_dims %r128, 0 : tensor<128xi32> -> tensor<1x128xi32>
  %s128 = core.splat %s : i32 -> tensor<128x1xi32>
  %s64 = core.splat %s : i32 -> tensor<64x1xi32>
  %ro = arith.muli %row, %s128 : tensor<128x1xi32>
  %as = core.splat %a : !core.ptr<bf16> -> tensor<128x1x!core.ptr<bf16>>
  %ar = core.addptr %as, %ro : tensor<128x1x!core.ptr<bf16>>, tensor<128x1xi32>
  %ab = core.broadcast %ar : tensor<128x1x!core.ptr<bf16>> -> tensor<128x64x!core.ptr<bf16>>
  %bs = core.splat %b : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  %cols = core.broadcast %col : tensor<1x128xi32> -> tensor<64x128xi32>
  %acc = scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero) -> (tensor<128x128xf32>) : i32 {
    %ks = core.splat %k : i32 -> tensor<64xi32>
    %kr = arith.addi %ks, %r64 : tensor<64xi32>
    %kcol = core.expand_dims %kr, 0 : tensor<64xi32> -> tensor<1x64xi32>
    %krow = core.expand_dims %kr, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %kco = core.broadcast %kcol : tensor<1x64xi32> -> tensor<128x64xi32>
    %ap = core.addptr %ab, %kco : tensor<128x64x!core.ptr<bf16>>, tensor<128x64xi32>
    %kro = arith.muli %krow, %s64 : tensor<64x1xi32>
    %br = core.addptr %bs, %kro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
    %bb = core.broadcast %br : tensor<64x1x!core.ptr<bf16>> -> tensor<64x128x!core.ptr<bf16>>
    %bp = core.addptr %bb, %cols : tensor<64x128x!core.ptr<bf16>>, tensor<64x128xi32>
    %x = core.load %ap : tensor<128x64x!core.ptr<bf16>> -> tensor<128x64xbf16>
    %y = core.load %bp : tensor<64x128x!core.ptr<bf16>> -> tensor<64x128xbf16>
    %next = core.dot %x, %y, %sum, ieee : tensor<128x64xbf16>, tensor<64x128xbf16>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  }
  %os = core.splat %c : !core.ptr<f32> -> tensor<128x1x!core.ptr<f32>>
  %or = core.addptr %os, %ro : tensor<128x1x!core.ptr<f32>>, tensor<128x1xi32>
  %ob = core.broadcast %or : tensor<128x1x!core.ptr<f32>> -> tensor<128x128x!core.ptr<f32>>
  %oc = core.broadcast %col : tensor<1x128xi32> -> tensor<128x128xi32>
  %op = core.addptr %ob, %oc : tensor<128x128x!core.ptr<f32>>, tensor<128x128xi32>
  core.store %op, %acc : tensor<128x128x!core.ptr<f32>>, tensor<128x128xf32>
  %bc = core.broadcast %ar : tensor<128x1x!core.ptr<bf16>> -> tensor<128x128x!core.ptr<bf16>>
  %bo = core.addptr %bc, %oc : tensor<128x128x!core.ptr<bf16>>, tensor<128x128xi32>
  %small = arith.truncf %acc : tensor<128x128xf32> to tensor<128x128xbf16>
  core.store %bo, %small : tensor<128x128x!core.ptr<bf16>>, tensor<128x128xbf16>
  return
}

// -----

// Rows of a tensor map start at multiples of 16 bytes.
// CHECK-LABEL: func.func @misaligned_stride
// CHECK-NOT: simt.
// CHECK: core.load
// CHECK: core.dot
// CHECK: core.store
func.func @misaligned_stride(%a: !core.ptr<bf16> {core.divisibility = 16 : i32}, %b: !core.ptr<bf16> {core.divisibility = 16 : i32}, %c: !core.ptr<f32>, %K: i32, %s: i32 {core.divisibility = 4 : i32}) attributes {core.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %id = core.program_id 0 : i32
  %m0 = arith.muli %id, %c128 : i32
  %r128 = core.range 0, 128 : tensor<128xi32>
  %r64 = core.range 0, 64 : tensor<64xi32>
  %ms = core.splat %m0 : i32 -> tensor<128xi32>
  %m = arith.addi %ms, %r128 : tensor<128xi32>
  %row = core.expand_dims %m, 1 : tensor<128xi32> -> tensor<128x1xi32>
  %col = core.expand_dims %r128, 0 : tensor<128xi32> -> tensor<1x128xi32>
  %s128 = core.splat %s : i32 -> tensor<128x1xi32>
  %s64 = core.splat %s : i32 -> tensor<64x1xi32>
  %ro = arith.muli %row, %s128 : tensor<128x1xi32>
  %as = core.splat %a : !core.ptr<bf16> -> tensor<128x1x!core.ptr<bf16>>
  %ar = core.addptr %as, %ro : tensor<128x1x!core.ptr<bf16>>, tensor<128x1xi32>
  %ab = core.broadcast %ar : tensor<128x1x!core.ptr<bf16>> -> tensor<128x64x!core.ptr<bf16>>
  %bs = core.splat %b : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  %cols = core.broadcast %col : tensor<1x128xi32> -> tensor<64x128xi32>
  %acc = scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero) -> (tensor<128x128xf32>) : i32 {
    %ks = core.splat %k : i32 -> tensor<64xi32>
    %kr = arith.addi %ks, %r64 : tensor<64xi32>
    %kcol = core.expand_dims %kr, 0 : tensor<64xi32> -> tensor<1x64xi32>
    %krow = core.expand_dims %kr, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %kco = core.broadcast %kcol : tensor<1x64xi32> -> tensor<128x64xi32>
    %ap = core.addptr %ab, %kco : tensor<128x64x!core.ptr<bf16>>, tensor<128x64xi32>
    %kro = arith.muli %krow, %s64 : tensor<64x1xi32>
    %br = core.addptr %bs, %kro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
    %bb = core.broadcast %br : tensor<64x1x!core.ptr<bf16>> -> tensor<64x128x!core.ptr<bf16>>
    %bp = core.addptr %bb, %cols : tensor<64x128x!core.ptr<bf16>>, tensor<64x128xi32>
    %x = core.load %ap : tensor<128x64x!core.ptr<bf16>> -> tensor<128x64xbf16>
    %y = core.load %bp : tensor<64x128x!core.ptr<bf16>> -> tensor<64x128xbf16>
    %next = core.dot %x, %y, %sum, ieee : tensor<128x64xbf16>, tensor<64x128xbf16>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  }
  %os = core.splat %c : !core.ptr<f32> -> tensor<128x1x!core.ptr<f32>>
  %or = core.addptr %os, %ro : tensor<128x1x!core.ptr<f32>>, tensor<128x1xi32>
  %ob = core.broadcast %or : tensor<128x1x!core.ptr<f32>> -> tensor<128x128x!core.ptr<f32>>
  %oc = core.broadcast %col : tensor<1x128xi32> -> tensor<128x128xi32>
  %op = core.addptr %ob, %oc : tensor<128x128x!core.ptr<f32>>, tensor<128x128xi32>
  core.store %op, %acc : tensor<128x128x!core.ptr<f32>>, tensor<128x128xf32>
  return
}

// -----

// The same of its base.
// CHECK-LABEL: func.func @misaligned_base
// CHECK-NOT: simt.
// CHECK: core.load
// CHECK: core.dot
// CHECK: core.store
func.func @misaligned_base(%a: !core.ptr<bf16> {core.divisibility = 8 : i32}, %b: !core.ptr<bf16> {core.divisibility = 16 : i32}, %c: !core.ptr<f32>, %K: i32, %s: i32 {core.divisibility = 16 : i32}) attributes {core.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %id = core.program_id 0 : i32
  %m0 = arith.muli %id, %c128 : i32
  %r128 = core.range 0, 128 : tensor<128xi32>
  %r64 = core.range 0, 64 : tensor<64xi32>
  %ms = core.splat %m0 : i32 -> tensor<128xi32>
  %m = arith.addi %ms, %r128 : tensor<128xi32>
  %row = core.expand_dims %m, 1 : tensor<128xi32> -> tensor<128x1xi32>
  %col = core.expand_dims %r128, 0 : tensor<128xi32> -> tensor<1x128xi32>
  %s128 = core.splat %s : i32 -> tensor<128x1xi32>
  %s64 = core.splat %s : i32 -> tensor<64x1xi32>
  %ro = arith.muli %row, %s128 : tensor<128x1xi32>
  %as = core.splat %a : !core.ptr<bf16> -> tensor<128x1x!core.ptr<bf16>>
  %ar = core.addptr %as, %ro : tensor<128x1x!core.ptr<bf16>>, tensor<128x1xi32>
  %ab = core.broadcast %ar : tensor<128x1x!core.ptr<bf16>> -> tensor<128x64x!core.ptr<bf16>>
  %bs = core.splat %b : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  %cols = core.broadcast %col : tensor<1x128xi32> -> tensor<64x128xi32>
  %acc = scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero) -> (tensor<128x128xf32>) : i32 {
    %ks = core.splat %k : i32 -> tensor<64xi32>
    %kr = arith.addi %ks, %r64 : tensor<64xi32>
    %kcol = core.expand_dims %kr, 0 : tensor<64xi32> -> tensor<1x64xi32>
    %krow = core.expand_dims %kr, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %kco = core.broadcast %kcol : tensor<1x64xi32> -> tensor<128x64xi32>
    %ap = core.addptr %ab, %kco : tensor<128x64x!core.ptr<bf16>>, tensor<128x64xi32>
    %kro = arith.muli %krow, %s64 : tensor<64x1xi32>
    %br = core.addptr %bs, %kro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
    %bb = core.broadcast %br : tensor<64x1x!core.ptr<bf16>> -> tensor<64x128x!core.ptr<bf16>>
    %bp = core.addptr %bb, %cols : tensor<64x128x!core.ptr<bf16>>, tensor<64x128xi32>
    %x = core.load %ap : tensor<128x64x!core.ptr<bf16>> -> tensor<128x64xbf16>
    %y = core.load %bp : tensor<64x128x!core.ptr<bf16>> -> tensor<64x128xbf16>
    %next = core.dot %x, %y, %sum, ieee : tensor<128x64xbf16>, tensor<64x128xbf16>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  }
  %os = core.splat %c : !core.ptr<f32> -> tensor<128x1x!core.ptr<f32>>
  %or = core.addptr %os, %ro : tensor<128x1x!core.ptr<f32>>, tensor<128x1xi32>
  %ob = core.broadcast %or : tensor<128x1x!core.ptr<f32>> -> tensor<128x128x!core.ptr<f32>>
  %oc = core.broadcast %col : tensor<1x128xi32> -> tensor<128x128xi32>
  %op = core.addptr %ob, %oc : tensor<128x128x!core.ptr<f32>>, tensor<128x128xi32>
  core.store %op, %acc : tensor<128x128x!core.ptr<f32>>, tensor<128x128xf32>
  return
}

// -----

// A copy cuts off what lies beyond an end, nothing else.
// CHECK-LABEL: func.func @causal_mask
// CHECK-NOT: simt.
// CHECK: core.load
// CHECK: core.dot
// CHECK: core.store
func.func @causal_mask(%a: !core.ptr<bf16> {core.divisibility = 16 : i32}, %b: !core.ptr<bf16> {core.divisibility = 16 : i32}, %c: !core.ptr<f32>, %K: i32, %s: i32 {core.divisibility = 16 : i32}) attributes {core.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %id = core.program_id 0 : i32
  %m0 = arith.muli %id, %c128 : i32
  %r128 = core.range 0, 128 : tensor<128xi32>
  %r64 = core.range 0, 64 : tensor<64xi32>
  %ms = core.splat %m0 : i32 -> tensor<128xi32>
  %m = arith.addi %ms, %r128 : tensor<128xi32>
  %row = core.expand_dims %m, 1 : tensor<128xi32> -> tensor<128x1xi32>
  %col = core.expand_dims %r128, 0 : tensor<128xi32> -> tensor<1x128xi32>
  %s128 = core.splat %s : i32 -> tensor<128x1xi32>
  %s64 = core.splat %s : i32 -> tensor<64x1xi32>
  %ro = arith.muli %row, %s128 : tensor<128x1xi32>
  %as = core.splat %a : !core.ptr<bf16> -> tensor<128x1x!core.ptr<bf16>>
  %ar = core.addptr %as, %ro : tensor<128x1x!core.ptr<bf16>>, tensor<128x1xi32>
  %ab = core.broadcast %ar : tensor<128x1x!core.ptr<bf16>> -> tensor<128x64x!core.ptr<bf16>>
  %bs = core.splat %b : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  %cols = core.broadcast %col : tensor<1x128xi32> -> tensor<64x128xi32>
  %acc = scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero) -> (tensor<128x128xf32>) : i32 {
    %ks = core.splat %k : i32 -> tensor<64xi32>
    %kr = arith.addi %ks, %r64 : tensor<64xi32>
    %kcol = core.expand_dims %kr, 0 : tensor<64xi32> -> tensor<1x64xi32>
    %krow = core.expand_dims %kr, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %kco = core.broadcast %kcol : tensor<1x64xi32> -> tensor<128x64xi32>
    %ap = core.addptr %ab, %kco : tensor<128x64x!core.ptr<bf16>>, tensor<128x64xi32>
    %kro = arith.muli %krow, %s64 : tensor<64x1xi32>
    %br = core.addptr %bs, %kro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
    %bb = core.broadcast %br : tensor<64x1x!core.ptr<bf16>> -> tensor<64x128x!core.ptr<bf16>>
    %bp = core.addptr %bb, %cols : tensor<64x128x!core.ptr<bf16>>, tensor<64x128xi32>
    %rows = core.broadcast %row : tensor<128x1xi32> -> tensor<128x64xi32>
    %low = arith.cmpi sle, %kco, %rows : tensor<128x64xi32>
    %x = core.load %ap mask %low : tensor<128x64x!core.ptr<bf16>>, tensor<128x64xi1> -> tensor<128x64xbf16>
    %y = core.load %bp : tensor<64x128x!core.ptr<bf16>> -> tensor<64x128xbf16>
    %next = core.dot %x, %y, %sum, ieee : tensor<128x64xbf16>, tensor<64x128xbf16>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  }
  %os = core.splat %c : !core.ptr<f32> -> tensor<128x1x!core.ptr<f32>>
  %or = core.addptr %os, %ro : tensor<128x1x!core.ptr<f32>>, tensor<128x1xi32>
  %ob = core.broadcast %or : tensor<128x1x!core.ptr<f32>> -> tensor<128x128x!core.ptr<f32>>
  %oc = core.broadcast %col : tensor<1x128xi32> -> tensor<128x128xi32>
  %op = core.addptr %ob, %oc : tensor<128x128x!core.ptr<f32>>, tensor<128x128xi32>
  core.store %op, %acc : tensor<128x128x!core.ptr<f32>>, tensor<128x128xf32>
  return
}

// -----

// A copy fills with zeros, not with ones.
// CHECK-LABEL: func.func @other_than_zero
// CHECK-NOT: simt.
// CHECK: core.load
// CHECK: core.dot
// CHECK: core.store
func.func @other_than_zero(%a: !core.ptr<bf16> {core.divisibility = 16 : i32}, %b: !core.ptr<bf16> {core.divisibility = 16 : i32}, %c: !core.ptr<f32>, %K: i32, %s: i32 {core.divisibility = 16 : i32}) attributes {core.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %id = core.program_id 0 : i32
  %m0 = arith.muli %id, %c128 : i32
  %r128 = core.range 0, 128 : tensor<128xi32>
  %r64 = core.range 0, 64 : tensor<64xi32>
  %ms = core.splat %m0 : i32 -> tensor<128xi32>
  %m = arith.addi %ms, %r128 : tensor<128xi32>
  %row = core.expand_dims %m, 1 : tensor<128xi32> -> tensor<128x1xi32>
  %col = core.expand_dims %r128, 0 : tensor<128xi32> -> tensor<1x128xi32>
  %s128 = core.splat %s : i32 -> tensor<128x1xi32>
  %s64 = core.splat %s : i32 -> tensor<64x1xi32>
  %ro = arith.muli %row, %s128 : tensor<128x1xi32>
  %as = core.splat %a : !core.ptr<bf16> -> tensor<128x1x!core.ptr<bf16>>
  %ar = core.addptr %as, %ro : tensor<128x1x!core.ptr<bf16>>, tensor<128x1xi32>
  %ab = core.broadcast %ar : tensor<128x1x!core.ptr<bf16>> -> tensor<128x64x!core.ptr<bf16>>
  %bs = core.splat %b : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  %cols = core.broadcast %col : tensor<1x128xi32> -> tensor<64x128xi32>
  %acc = scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero) -> (tensor<128x128xf32>) : i32 {
    %ks = core.splat %k : i32 -> tensor<64xi32>
    %kr = arith.addi %ks, %r64 : tensor<64xi32>
    %kcol = core.expand_dims %kr, 0 : tensor<64xi32> -> tensor<1x64xi32>
    %krow = core.expand_dims %kr, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %kco = core.broadcast %kcol : tensor<1x64xi32> -> tensor<128x64xi32>
    %ap = core.addptr %ab, %kco : tensor<128x64x!core.ptr<bf16>>, tensor<128x64xi32>
    %kro = arith.muli %krow, %s64 : tensor<64x1xi32>
    %br = core.addptr %bs, %kro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
    %bb = core.broadcast %br : tensor<64x1x!core.ptr<bf16>> -> tensor<64x128x!core.ptr<bf16>>
    %bp = core.addptr %bb, %cols : tensor<64x128x!core.ptr<bf16>>, tensor<64x128xi32>
    %one = arith.constant dense<1.0> : tensor<128x64xbf16>
    %kc = core.splat %K : i32 -> tensor<1x64xi32>
    %ka = arith.cmpi slt, %kcol, %kc : tensor<1x64xi32>
    %am = core.broadcast %ka : tensor<1x64xi1> -> tensor<128x64xi1>
    %x = core.load %ap mask %am other %one : tensor<128x64x!core.ptr<bf16>>, tensor<128x64xi1>, tensor<128x64xbf16> -> tensor<128x64xbf16>
    %y = core.load %bp : tensor<64x128x!core.ptr<bf16>> -> tensor<64x128xbf16>
    %next = core.dot %x, %y, %sum, ieee : tensor<128x64xbf16>, tensor<64x128xbf16>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  }
  %os = core.splat %c : !core.ptr<f32> -> tensor<128x1x!core.ptr<f32>>
  %or = core.addptr %os, %ro : tensor<128x1x!core.ptr<f32>>, tensor<128x1xi32>
  %ob = core.broadcast %or : tensor<128x1x!core.ptr<f32>> -> tensor<128x128x!core.ptr<f32>>
  %oc = core.broadcast %col : tensor<1x128xi32> -> tensor<128x128xi32>
  %op = core.addptr %ob, %oc : tensor<128x128x!core.ptr<f32>>, tensor<128x128xi32>
  core.store %op, %acc : tensor<128x128x!core.ptr<f32>>, tensor<128x128xf32>
  return
}

// -----

// Registers hold what more than products use.
// CHECK-LABEL: func.func @used_otherwise
// CHECK-NOT: simt.
// CHECK: core.load
// CHECK: core.dot
// CHECK: core.store
func.func @used_otherwise(%a: !core.ptr<bf16> {core.divisibility = 16 : i32}, %b: !core.ptr<bf16> {core.divisibility = 16 : i32}, %c: !core.ptr<f32>, %K: i32, %s: i32 {core.divisibility = 16 : i32}) attributes {core.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %id = core.program_id 0 : i32
  %m0 = arith.muli %id, %c128 : i32
  %r128 = core.range 0, 128 : tensor<128xi32>
  %r64 = core.range 0, 64 : tensor<64xi32>
  %ms = core.splat %m0 : i32 -> tensor<128xi32>
  %m = arith.addi %ms, %r128 : tensor<128xi32>
  %row = core.expand_dims %m, 1 : tensor<128xi32> -> tensor<128x1xi32>
  %col = core.expand_dims %r128, 0 : tensor<128xi32> -> tensor<1x128xi32>
  %s128 = core.splat %s : i32 -> tensor<128x1xi32>
  %s64 = core.splat %s : i32 -> tensor<64x1xi32>
  %ro = arith.muli %row, %s128 : tensor<128x1xi32>
  %as = core.splat %a : !core.ptr<bf16> -> tensor<128x1x!core.ptr<bf16>>
  %ar = core.addptr %as, %ro : tensor<128x1x!core.ptr<bf16>>, tensor<128x1xi32>
  %ab = core.broadcast %ar : tensor<128x1x!core.ptr<bf16>> -> tensor<128x64x!core.ptr<bf16>>
  %bs = core.splat %b : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  %cols = core.broadcast %col : tensor<1x128xi32> -> tensor<64x128xi32>
  %acc = scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero) -> (tensor<128x128xf32>) : i32 {
    %ks = core.splat %k : i32 -> tensor<64xi32>
    %kr = arith.addi %ks, %r64 : tensor<64xi32>
    %kcol = core.expand_dims %kr, 0 : tensor<64xi32> -> tensor<1x64xi32>
    %krow = core.expand_dims %kr, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %kco = core.broadcast %kcol : tensor<1x64xi32> -> tensor<128x64xi32>
    %ap = core.addptr %ab, %kco : tensor<128x64x!core.ptr<bf16>>, tensor<128x64xi32>
    %kro = arith.muli %krow, %s64 : tensor<64x1xi32>
    %br = core.addptr %bs, %kro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
    %bb = core.broadcast %br : tensor<64x1x!core.ptr<bf16>> -> tensor<64x128x!core.ptr<bf16>>
    %bp = core.addptr %bb, %cols : tensor<64x128x!core.ptr<bf16>>, tensor<64x128xi32>
    %x = core.load %ap : tensor<128x64x!core.ptr<bf16>> -> tensor<128x64xbf16>
    %y = core.load %bp : tensor<64x128x!core.ptr<bf16>> -> tensor<64x128xbf16>
    %both = arith.addf %x, %x : tensor<128x64xbf16>
    core.print "x" %both : tensor<128x64xbf16> {isSigned = array<i1: true>}
    %next = core.dot %x, %y, %sum, ieee : tensor<128x64xbf16>, tensor<64x128xbf16>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  }
  %os = core.splat %c : !core.ptr<f32> -> tensor<128x1x!core.ptr<f32>>
  %or = core.addptr %os, %ro : tensor<128x1x!core.ptr<f32>>, tensor<128x1xi32>
  %ob = core.broadcast %or : tensor<128x1x!core.ptr<f32>> -> tensor<128x128x!core.ptr<f32>>
  %oc = core.broadcast %col : tensor<1x128xi32> -> tensor<128x128xi32>
  %op = core.addptr %ob, %oc : tensor<128x128x!core.ptr<f32>>, tensor<128x128xi32>
  core.store %op, %acc : tensor<128x128x!core.ptr<f32>>, tensor<128x128xf32>
  return
}

// -----

// The consumer asserts; the producer finds the failure where it waits for a slot.
// CHECK-LABEL: func.func @assertion
// CHECK: simt.roles
// CHECK: simt.async_dot
func.func @assertion(%a: !core.ptr<bf16> {core.divisibility = 16 : i32}, %b: !core.ptr<bf16> {core.divisibility = 16 : i32}, %c: !core.ptr<f32>, %K: i32, %s: i32 {core.divisibility = 16 : i32}) attributes {core.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %id = core.program_id 0 : i32
  %m0 = arith.muli %id, %c128 : i32
  %r128 = core.range 0, 128 : tensor<128xi32>
  %r64 = core.range 0, 64 : tensor<64xi32>
  %ms = core.splat %m0 : i32 -> tensor<128xi32>
  %m = arith.addi %ms, %r128 : tensor<128xi32>
  %row = core.expand_dims %m, 1 : tensor<128xi32> -> tensor<128x1xi32>
  %col = core.expand_dims %r128, 0 : tensor<128xi32> -> tensor<1x128xi32>
  %s128 = core.splat %s : i32 -> tensor<128x1xi32>
  %s64 = core.splat %s : i32 -> tensor<64x1xi32>
  %ro = arith.muli %row, %s128 : tensor<128x1xi32>
  %as = core.splat %a : !core.ptr<bf16> -> tensor<128x1x!core.ptr<bf16>>
  %ar = core.addptr %as, %ro : tensor<128x1x!core.ptr<bf16>>, tensor<128x1xi32>
  %ab = core.broadcast %ar : tensor<128x1x!core.ptr<bf16>> -> tensor<128x64x!core.ptr<bf16>>
  %bs = core.splat %b : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  %cols = core.broadcast %col : tensor<1x128xi32> -> tensor<64x128xi32>
  %acc = scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero) -> (tensor<128x128xf32>) : i32 {
    %ks = core.splat %k : i32 -> tensor<64xi32>
    %kr = arith.addi %ks, %r64 : tensor<64xi32>
    %kcol = core.expand_dims %kr, 0 : tensor<64xi32> -> tensor<1x64xi32>
    %krow = core.expand_dims %kr, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %kco = core.broadcast %kcol : tensor<1x64xi32> -> tensor<128x64xi32>
    %ap = core.addptr %ab, %kco : tensor<128x64x!core.ptr<bf16>>, tensor<128x64xi32>
    %kro = arith.muli %krow, %s64 : tensor<64x1xi32>
    %br = core.addptr %bs, %kro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
    %bb = core.broadcast %br : tensor<64x1x!core.ptr<bf16>> -> tensor<64x128x!core.ptr<bf16>>
    %bp = core.addptr %bb, %cols : tensor<64x128x!core.ptr<bf16>>, tensor<64x128xi32>
    %fine = arith.cmpi sge, %k, %c0 : i32
    core.assert %fine, "k must not be negative" : i1
    %x = core.load %ap : tensor<128x64x!core.ptr<bf16>> -> tensor<128x64xbf16>
    %y = core.load %bp : tensor<64x128x!core.ptr<bf16>> -> tensor<64x128xbf16>
    %next = core.dot %x, %y, %sum, ieee : tensor<128x64xbf16>, tensor<64x128xbf16>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  }
  %os = core.splat %c : !core.ptr<f32> -> tensor<128x1x!core.ptr<f32>>
  %or = core.addptr %os, %ro : tensor<128x1x!core.ptr<f32>>, tensor<128x1xi32>
  %ob = core.broadcast %or : tensor<128x1x!core.ptr<f32>> -> tensor<128x128x!core.ptr<f32>>
  %oc = core.broadcast %col : tensor<1x128xi32> -> tensor<128x128xi32>
  %op = core.addptr %ob, %oc : tensor<128x128x!core.ptr<f32>>, tensor<128x128xi32>
  core.store %op, %acc : tensor<128x128x!core.ptr<f32>>, tensor<128x128xf32>
  return
}

// -----

// A while loop that waits for others stands before the copies.
// CHECK-LABEL: func.func @while_loop
// CHECK-NOT: simt.
// CHECK: core.load
// CHECK: core.dot
// CHECK: core.store
func.func @while_loop(%a: !core.ptr<bf16> {core.divisibility = 16 : i32}, %b: !core.ptr<bf16> {core.divisibility = 16 : i32}, %c: !core.ptr<f32>, %K: i32, %s: i32 {core.divisibility = 16 : i32}, %w: !core.ptr<i32>) attributes {core.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %id = core.program_id 0 : i32
  %m0 = arith.muli %id, %c128 : i32
  %r128 = core.range 0, 128 : tensor<128xi32>
  %r64 = core.range 0, 64 : tensor<64xi32>
  %ms = core.splat %m0 : i32 -> tensor<128xi32>
  %m = arith.addi %ms, %r128 : tensor<128xi32>
  %row = core.expand_dims %m, 1 : tensor<128xi32> -> tensor<128x1xi32>
  %col = core.expand_dims %r128, 0 : tensor<128xi32> -> tensor<1x128xi32>
  %s128 = core.splat %s : i32 -> tensor<128x1xi32>
  %s64 = core.splat %s : i32 -> tensor<64x1xi32>
  %ro = arith.muli %row, %s128 : tensor<128x1xi32>
  %as = core.splat %a : !core.ptr<bf16> -> tensor<128x1x!core.ptr<bf16>>
  %ar = core.addptr %as, %ro : tensor<128x1x!core.ptr<bf16>>, tensor<128x1xi32>
  %ab = core.broadcast %ar : tensor<128x1x!core.ptr<bf16>> -> tensor<128x64x!core.ptr<bf16>>
  %bs = core.splat %b : !core.ptr<bf16> -> tensor<64x1x!core.ptr<bf16>>
  %cols = core.broadcast %col : tensor<1x128xi32> -> tensor<64x128xi32>
  %n = scf.while (%i = %c0) : (i32) -> i32 {
    %now = core.load %w {isVolatile} : !core.ptr<i32> -> i32
    %more = arith.cmpi slt, %now, %K : i32
    scf.condition(%more) %i : i32
  } do {
  ^bb0(%i: i32):
    %i1 = arith.addi %i, %c64 : i32
    scf.yield %i1 : i32
  }
  %acc = scf.for %k = %c0 to %K step %c64 iter_args(%sum = %zero) -> (tensor<128x128xf32>) : i32 {
    %ks = core.splat %k : i32 -> tensor<64xi32>
    %kr = arith.addi %ks, %r64 : tensor<64xi32>
    %kcol = core.expand_dims %kr, 0 : tensor<64xi32> -> tensor<1x64xi32>
    %krow = core.expand_dims %kr, 1 : tensor<64xi32> -> tensor<64x1xi32>
    %kco = core.broadcast %kcol : tensor<1x64xi32> -> tensor<128x64xi32>
    %ap = core.addptr %ab, %kco : tensor<128x64x!core.ptr<bf16>>, tensor<128x64xi32>
    %kro = arith.muli %krow, %s64 : tensor<64x1xi32>
    %br = core.addptr %bs, %kro : tensor<64x1x!core.ptr<bf16>>, tensor<64x1xi32>
    %bb = core.broadcast %br : tensor<64x1x!core.ptr<bf16>> -> tensor<64x128x!core.ptr<bf16>>
    %bp = core.addptr %bb, %cols : tensor<64x128x!core.ptr<bf16>>, tensor<64x128xi32>
    %x = core.load %ap : tensor<128x64x!core.ptr<bf16>> -> tensor<128x64xbf16>
    %y = core.load %bp : tensor<64x128x!core.ptr<bf16>> -> tensor<64x128xbf16>
    %next = core.dot %x, %y, %sum, ieee : tensor<128x64xbf16>, tensor<64x128xbf16>, tensor<128x128xf32>
    scf.yield %next : tensor<128x128xf32>
  }
  %os = core.splat %c : !core.ptr<f32> -> tensor<128x1x!core.ptr<f32>>
  %or = core.addptr %os, %ro : tensor<128x1x!core.ptr<f32>>, tensor<128x1xi32>
  %ob = core.broadcast %or : tensor<128x1x!core.ptr<f32>> -> tensor<128x128x!core.ptr<f32>>
  %oc = core.broadcast %col : tensor<1x128xi32> -> tensor<128x128xi32>
  %op = core.addptr %ob, %oc : tensor<128x128x!core.ptr<f32>>, tensor<128x128xi32>
  core.store %op, %acc : tensor<128x128x!core.ptr<f32>>, tensor<128x128xf32>
  return
}
