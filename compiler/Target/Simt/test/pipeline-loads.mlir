// RUN: %opt %s --tilery-nvidia-tiles="arch=sm_80 num-warps=4 num-stages=3" | FileCheck %s
// RUN: %opt %s --tilery-nvidia-tiles="arch=sm_80 num-warps=4 num-stages=12" | FileCheck %s --check-prefix=MANY
// RUN: %opt %s --tilery-nvidia-tiles="arch=sm_89 num-warps=4 num-stages=2" | FileCheck %s --check-prefix=TWO
// RUN: %opt %s --tilery-nvidia-tiles="arch=sm_80 num-warps=4 num-stages=1" | FileCheck %s --check-prefix=ONE

// The loop of Passes.td. Two iterations are under way before the first, under conditions of their own;
// in the loop the wait comes first, then the copies of the iteration two ahead, then the product.
// CHECK: %[[SLOTS:.*]]:2 = simt.alloc_slots : !simt.slots<3 of 128x64xbf16, 1, 3, 112>, !simt.slots<3 of 64x128xbf16, 1, 4, 112>
// CHECK: %[[RUNS:.*]] = arith.cmpi slt, %{{.*}}, %{{.*}} : i64
// CHECK: simt.copy_slot %[[SLOTS]]#0[%{{.*}}] if %[[RUNS]] from %{{.*}} mask %{{.*}} width 8
// CHECK: simt.copy_slot %[[SLOTS]]#1[%{{.*}}] if %[[RUNS]] from %{{.*}} mask %{{.*}} width 8
// CHECK: simt.commit_copies
// CHECK: simt.copy_slot
// CHECK: simt.copy_slot
// CHECK: simt.commit_copies
// CHECK: scf.for %{{.*}} iter_args(%[[SUM:.*]] = %{{.*}}, %[[SLOT:.*]] = %{{.*}})
// CHECK-NEXT: simt.await_copies 1
// CHECK-NOT: core.load
// CHECK: simt.copy_slot %[[SLOTS]]#0
// CHECK: simt.copy_slot %[[SLOTS]]#1
// CHECK: simt.commit_copies
// CHECK: %[[X:.*]] = simt.read_slot %[[SLOTS]]#0[%[[SLOT]]]
// CHECK: %[[Y:.*]] = simt.read_slot %[[SLOTS]]#1[%[[SLOT]]]
// CHECK: core.dot %[[X]], %[[Y]], %[[SUM]]
// CHECK: scf.yield
// CHECK: simt.free_slots
// CHECK: core.store

// As many slots of 32 KiB as there is room for.
// MANY: simt.alloc_slots : !simt.slots<5 of

// TWO: simt.alloc_slots : !simt.slots<2 of
// TWO: simt.await_copies 0

// ONE-NOT: _slots
// ONE: core.load
// ONE: simt.convert_layout
func.func @gemm(%a: !core.ptr<bf16> {core.divisibility = 16 : i32}, %b: !core.ptr<bf16> {core.divisibility = 16 : i32}, %c: !core.ptr<f32>, %K: i32 {core.divisibility = 16 : i32}, %s: i32 {core.divisibility = 16 : i32}) attributes {core.kernel} {
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
