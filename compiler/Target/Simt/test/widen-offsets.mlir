// RUN: %opt %s --tilery-simt-widen-offsets --canonicalize | FileCheck %s

// The snippet of Passes.td: sums and products are redone in 64 bits from the operands on.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: (%[[BASE:.*]]: tensor<64x!core.ptr<f32>>, %[[I:.*]]: tensor<64xi32>, %[[S:.*]]: tensor<64xi32>)
func.func @rows(%base: tensor<64x!core.ptr<f32>>, %i: tensor<64xi32>, %stride: tensor<64xi32>) -> tensor<64x!core.ptr<f32>> {
  // CHECK-DAG: %[[WI:.*]] = arith.extsi %[[I]] : tensor<64xi32> to tensor<64xi64>
  // CHECK-DAG: %[[WS:.*]] = arith.extsi %[[S]] : tensor<64xi32> to tensor<64xi64>
  // CHECK: %[[ROW:.*]] = arith.muli %[[WI]], %[[WS]] : tensor<64xi64>
  // CHECK: core.addptr %[[BASE]], %[[ROW]] : tensor<64x!core.ptr<f32>>, tensor<64xi64>
  %row = arith.muli %i, %stride : tensor<64xi32>
  %p = core.addptr %base, %row : tensor<64x!core.ptr<f32>>, tensor<64xi32>
  return %p : tensor<64x!core.ptr<f32>>
}

// A promise that 32-bit sums do not wrap says nothing of the new ones; moves go along.
// CHECK-LABEL: func.func @moves
func.func @moves(%base: tensor<32x64x!core.ptr<f32>>, %i: i32) -> tensor<32x64x!core.ptr<f32>> {
  // CHECK: %[[W:.*]] = arith.extsi %{{.*}} : i32 to i64
  // CHECK: %[[S:.*]] = core.splat %[[W]] : i64 -> tensor<32xi64>
  // CHECK: %[[A:.*]] = arith.addi %{{.*}}, %{{.*}} : tensor<32xi64>
  // CHECK: %[[E:.*]] = core.expand_dims %[[A]], 1 : tensor<32xi64> -> tensor<32x1xi64>
  // CHECK: core.broadcast %[[E]] : tensor<32x1xi64> -> tensor<32x64xi64>
  %r = core.range 0, 32 : tensor<32xi32>
  %s = core.splat %i : i32 -> tensor<32xi32>
  %a = arith.addi %r, %s overflow<nsw> : tensor<32xi32>
  %e = core.expand_dims %a, 1 : tensor<32xi32> -> tensor<32x1xi32>
  %b = core.broadcast %e : tensor<32x1xi32> -> tensor<32x64xi32>
  %p = core.addptr %base, %b : tensor<32x64x!core.ptr<f32>>, tensor<32x64xi32>
  return %p : tensor<32x64x!core.ptr<f32>>
}

// The remainder of a 32-bit number is one of 32 bits: what is not a sum is extended as it is.
// CHECK-LABEL: func.func @other
func.func @other(%base: tensor<64x!core.ptr<f32>>, %i: tensor<64xi32>, %j: tensor<64xi32>) -> tensor<64x!core.ptr<f32>> {
  // CHECK: %[[R:.*]] = arith.remsi %{{.*}}, %{{.*}} : tensor<64xi32>
  // CHECK: arith.extsi %[[R]] : tensor<64xi32> to tensor<64xi64>
  %x = arith.remsi %i, %j : tensor<64xi32>
  %p = core.addptr %base, %x : tensor<64x!core.ptr<f32>>, tensor<64xi32>
  return %p : tensor<64x!core.ptr<f32>>
}

// 64-bit offsets stay as they are.
// CHECK-LABEL: func.func @wide
func.func @wide(%base: tensor<64x!core.ptr<f32>>, %i: tensor<64xi64>) -> tensor<64x!core.ptr<f32>> {
  // CHECK-NEXT: core.addptr
  %p = core.addptr %base, %i : tensor<64x!core.ptr<f32>>, tensor<64xi64>
  return %p : tensor<64x!core.ptr<f32>>
}
