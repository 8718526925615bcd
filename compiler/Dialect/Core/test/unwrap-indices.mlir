// RUN: %opt %s --tilery-core-unwrap-indices --cse | FileCheck %s

// Rows of the left operand and columns of the right one, as Triton's matrix product has them.
// CHECK-LABEL: func.func @product
// CHECK-SAME: (%[[A:.*]]: !core.ptr<f16>, %[[B:.*]]: !core.ptr<f16>, %{{.*}}: !core.ptr<f32>, %[[M:.*]]: i32, %[[N:.*]]: i32, %[[LD:.*]]: i32)
func.func @product(%a: !core.ptr<f16>, %b: !core.ptr<f16>, %c: !core.ptr<f32>, %M: i32, %N: i32, %ld: i32) {
  // CHECK-NOT: arith.remsi
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %pid = core.program_id 0 : i32
  %start = arith.muli %pid, %c64 : i32
  %starts = core.splat %start : i32 -> tensor<64xi32>
  %lane = core.range 0, 64 : tensor<64xi32>
  // CHECK: %[[LANE:.*]] = core.range 0, 64
  // CHECK: %[[ROW:.*]] = arith.addi
  %row = arith.addi %starts, %lane : tensor<64xi32>
  %Ms = core.splat %M : i32 -> tensor<64xi32>
  %wrapped = arith.remsi %row, %Ms : tensor<64xi32>
  // CHECK: %[[BELOW:.*]] = arith.cmpi slt, %[[ROW]]
  // CHECK: %[[BELOWS:.*]] = core.expand_dims %[[BELOW]], 1
  // CHECK: %[[INSIDE:.*]] = core.broadcast %[[BELOWS]] : tensor<64x1xi1> -> tensor<64x64xi1>
  %rows = core.expand_dims %wrapped, 1 : tensor<64xi32> -> tensor<64x1xi32>
  %lds = core.splat %ld : i32 -> tensor<64x1xi32>
  %scaled = arith.muli %rows, %lds : tensor<64x1xi32>
  %wide = core.broadcast %scaled : tensor<64x1xi32> -> tensor<64x64xi32>
  %k = core.expand_dims %lane, 0 : tensor<64xi32> -> tensor<1x64xi32>
  %ks = core.broadcast %k : tensor<1x64xi32> -> tensor<64x64xi32>
  %at = arith.addi %wide, %ks : tensor<64x64xi32>
  %as = core.splat %a : !core.ptr<f16> -> tensor<64x64x!core.ptr<f16>>
  %ap = core.addptr %as, %at : tensor<64x64x!core.ptr<f16>>, tensor<64x64xi32>
  // CHECK: core.load %{{.*}} mask %[[INSIDE]] other
  %x = core.load %ap : tensor<64x64x!core.ptr<f16>> -> tensor<64x64xf16>
  %Ns = core.splat %N : i32 -> tensor<64xi32>
  %column = arith.remsi %row, %Ns : tensor<64xi32>
  %columns = core.expand_dims %column, 0 : tensor<64xi32> -> tensor<1x64xi32>
  %wideColumns = core.broadcast %columns : tensor<1x64xi32> -> tensor<64x64xi32>
  %bs = core.splat %b : !core.ptr<f16> -> tensor<64x64x!core.ptr<f16>>
  %bp = core.addptr %bs, %wideColumns : tensor<64x64x!core.ptr<f16>>, tensor<64x64xi32>
  // CHECK: core.load %{{.*}} mask %{{.*}} other
  %y = core.load %bp : tensor<64x64x!core.ptr<f16>> -> tensor<64x64xf16>
  %p = core.dot %x, %y, %zero, ieee : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
  %belowM = arith.cmpi slt, %row, %Ms : tensor<64xi32>
  %m0 = core.expand_dims %belowM, 1 : tensor<64xi1> -> tensor<64x1xi1>
  %m1 = core.broadcast %m0 : tensor<64x1xi1> -> tensor<64x64xi1>
  %rowsAgain = core.expand_dims %row, 0 : tensor<64xi32> -> tensor<1x64xi32>
  %Ns2 = core.splat %N : i32 -> tensor<1x64xi32>
  %belowN = arith.cmpi slt, %rowsAgain, %Ns2 : tensor<1x64xi32>
  %m2 = core.broadcast %belowN : tensor<1x64xi1> -> tensor<64x64xi1>
  %mask = arith.andi %m1, %m2 : tensor<64x64xi1>
  %cs = core.splat %c : !core.ptr<f32> -> tensor<64x64x!core.ptr<f32>>
  %cp = core.addptr %cs, %ks : tensor<64x64x!core.ptr<f32>>, tensor<64x64xi32>
  core.store %cp, %p mask %mask : tensor<64x64x!core.ptr<f32>>, tensor<64x64xf32>, tensor<64x64xi1>
  return
}

// The same extent must be what the store leaves out, and for the same index.
// CHECK-LABEL: func.func @other_extent
func.func @other_extent(%a: !core.ptr<f32>, %M: i32, %N: i32) {
  %lane = core.range 0, 64 : tensor<64xi32>
  %Ms = core.splat %M : i32 -> tensor<64xi32>
  %Ns = core.splat %N : i32 -> tensor<64xi32>
  // CHECK: %[[W:.*]] = arith.remsi
  %wrapped = arith.remsi %lane, %Ms : tensor<64xi32>
  %as = core.splat %a : !core.ptr<f32> -> tensor<64x!core.ptr<f32>>
  // CHECK: core.addptr %{{.*}}, %[[W]]
  %p = core.addptr %as, %wrapped : tensor<64x!core.ptr<f32>>, tensor<64xi32>
  // CHECK: core.load %{{[^ ]*}} : 
  %x = core.load %p : tensor<64x!core.ptr<f32>> -> tensor<64xf32>
  %q = core.addptr %as, %lane : tensor<64x!core.ptr<f32>>, tensor<64xi32>
  %mask = arith.cmpi slt, %lane, %Ns : tensor<64xi32>
  core.store %q, %x mask %mask : tensor<64x!core.ptr<f32>>, tensor<64xf32>, tensor<64xi1>
  return
}

// A sum sees every element, and so does a store without a mask.
// CHECK-LABEL: func.func @seen
func.func @seen(%a: !core.ptr<f32>, %M: i32) {
  %lane = core.range 0, 64 : tensor<64xi32>
  %Ms = core.splat %M : i32 -> tensor<64xi32>
  // CHECK: %[[W:.*]] = arith.remsi
  %wrapped = arith.remsi %lane, %Ms : tensor<64xi32>
  %as = core.splat %a : !core.ptr<f32> -> tensor<64x!core.ptr<f32>>
  // CHECK: core.addptr %{{.*}}, %[[W]]
  %p = core.addptr %as, %wrapped : tensor<64x!core.ptr<f32>>, tensor<64xi32>
  // CHECK: core.load %{{[^ ]*}} : 
  %x = core.load %p : tensor<64x!core.ptr<f32>> -> tensor<64xf32>
  %q = core.addptr %as, %lane : tensor<64x!core.ptr<f32>>, tensor<64xi32>
  core.store %q, %x : tensor<64x!core.ptr<f32>>, tensor<64xf32>
  return
}

// What may be negative reads before the array.
// CHECK-LABEL: func.func @negative
func.func @negative(%a: !core.ptr<f32>, %M: i32, %shift: i32) {
  %pid = core.program_id 0 : i32
  %start = arith.subi %pid, %shift : i32
  %starts = core.splat %start : i32 -> tensor<64xi32>
  %lane = core.range 0, 64 : tensor<64xi32>
  %row = arith.addi %starts, %lane : tensor<64xi32>
  %Ms = core.splat %M : i32 -> tensor<64xi32>
  // CHECK: %[[W:.*]] = arith.remsi
  %wrapped = arith.remsi %row, %Ms : tensor<64xi32>
  %as = core.splat %a : !core.ptr<f32> -> tensor<64x!core.ptr<f32>>
  // CHECK: core.addptr %{{.*}}, %[[W]]
  %p = core.addptr %as, %wrapped : tensor<64x!core.ptr<f32>>, tensor<64xi32>
  %x = core.load %p : tensor<64x!core.ptr<f32>> -> tensor<64xf32>
  %q = core.addptr %as, %row : tensor<64x!core.ptr<f32>>, tensor<64xi32>
  %mask = arith.cmpi slt, %row, %Ms : tensor<64xi32>
  core.store %q, %x mask %mask : tensor<64x!core.ptr<f32>>, tensor<64xf32>, tensor<64xi1>
  return
}
