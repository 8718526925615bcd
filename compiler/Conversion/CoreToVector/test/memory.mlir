// RUN: %opt %s --convert-core-to-vector=vector-bits=512 --canonicalize | FileCheck %s

// Consecutive addresses become one vector access, masked where there is a mask.
// CHECK-LABEL: func.func @contiguous
// CHECK-SAME: core.scratch_bytes = 0
// CHECK-NOT: gather
// CHECK: llvm.intr.masked.load {{.*}} -> vector<16xf32>
// CHECK-NOT: scatter
// CHECK: llvm.store {{.*}} : vector<16xf32>
func.func @contiguous(%x: !core.ptr<f32>, %out: !core.ptr<f32>, %n: i32) attributes {core.kernel} {
  %pid = core.program_id 0 : i32
  %c64 = arith.constant 64 : i32
  %start = arith.muli %pid, %c64 : i32
  %s = core.splat %start : i32 -> tensor<64xi32>
  %r = core.range 0, 64 : tensor<64xi32>
  %o = arith.addi %s, %r : tensor<64xi32>
  %ns = core.splat %n : i32 -> tensor<64xi32>
  %m = arith.cmpi slt, %o, %ns : tensor<64xi32>
  %xs = core.splat %x : !core.ptr<f32> -> tensor<64x!core.ptr<f32>>
  %xp = core.addptr %xs, %o : tensor<64x!core.ptr<f32>>, tensor<64xi32>
  %v = core.load %xp mask %m : tensor<64x!core.ptr<f32>>, tensor<64xi1> -> tensor<64xf32>
  %os = core.splat %out : !core.ptr<f32> -> tensor<64x!core.ptr<f32>>
  %op = core.addptr %os, %o : tensor<64x!core.ptr<f32>>, tensor<64xi32>
  core.store %op, %v : tensor<64x!core.ptr<f32>>, tensor<64xf32>
  return
}

// A column-major tile is read along its columns.
// CHECK-LABEL: func.func @columns
// CHECK-NOT: gather
// CHECK: llvm.load {{.*}} -> vector<16xf32>
// CHECK: return
func.func @columns(%x: !core.ptr<f32>, %out: !core.ptr<f32>, %stride: i32) attributes {core.kernel} {
  %r = core.range 0, 32 : tensor<32xi32>
  %row = core.expand_dims %r, 1 : tensor<32xi32> -> tensor<32x1xi32>
  %col = core.expand_dims %r, 0 : tensor<32xi32> -> tensor<1x32xi32>
  %s = core.splat %stride : i32 -> tensor<1x32xi32>
  %cs = arith.muli %col, %s : tensor<1x32xi32>
  %rowB = core.broadcast %row : tensor<32x1xi32> -> tensor<32x32xi32>
  %colB = core.broadcast %cs : tensor<1x32xi32> -> tensor<32x32xi32>
  %o = arith.addi %rowB, %colB : tensor<32x32xi32>
  %xs = core.splat %x : !core.ptr<f32> -> tensor<32x32x!core.ptr<f32>>
  %xp = core.addptr %xs, %o : tensor<32x32x!core.ptr<f32>>, tensor<32x32xi32>
  %v = core.load %xp : tensor<32x32x!core.ptr<f32>> -> tensor<32x32xf32>
  %os = core.splat %out : !core.ptr<f32> -> tensor<32x32x!core.ptr<f32>>
  %op = core.addptr %os, %o : tensor<32x32x!core.ptr<f32>>, tensor<32x32xi32>
  core.store %op, %v : tensor<32x32x!core.ptr<f32>>, tensor<32x32xf32>
  return
}

// Symmetric pointers keep their strides.
// CHECK-LABEL: func.func @symmetric
// CHECK-SAME: core.communicates
// CHECK-NOT: gather
// CHECK: llvm.load {{.*}} -> vector<16xf32>
func.func @symmetric(%x: !device.symm<f32>, %out: !core.ptr<f32>) attributes {core.kernel} {
  %o = core.range 0, 64 : tensor<64xi32>
  %xs = core.splat %x : !device.symm<f32> -> tensor<64x!device.symm<f32>>
  %xp = core.addptr %xs, %o : tensor<64x!device.symm<f32>>, tensor<64xi32>
  %l = device.local %xp : tensor<64x!device.symm<f32>> -> tensor<64x!core.ptr<f32>>
  %v = core.load %l : tensor<64x!core.ptr<f32>> -> tensor<64xf32>
  %os = core.splat %out : !core.ptr<f32> -> tensor<64x!core.ptr<f32>>
  %op = core.addptr %os, %o : tensor<64x!core.ptr<f32>>, tensor<64xi32>
  core.store %op, %v : tensor<64x!core.ptr<f32>>, tensor<64xf32>
  return
}
