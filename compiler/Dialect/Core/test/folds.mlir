// RUN: %opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @constants
func.func @constants() -> (tensor<4xi32>, tensor<2x4xi32>, tensor<8xi32>) {
  %c = arith.constant 3 : i32
  %0 = core.splat %c : i32 -> tensor<4xi32>
  %1 = core.expand_dims %0, 0 : tensor<4xi32> -> tensor<1x4xi32>
  %2 = core.broadcast %1 : tensor<1x4xi32> -> tensor<2x4xi32>
  %3 = core.reshape %2 : tensor<2x4xi32> -> tensor<8xi32>
  // CHECK-DAG: arith.constant dense<3> : tensor<4xi32>
  // CHECK-DAG: arith.constant dense<3> : tensor<2x4xi32>
  // CHECK-DAG: arith.constant dense<3> : tensor<8xi32>
  // CHECK-NOT: core.
  return %0, %2, %3 : tensor<4xi32>, tensor<2x4xi32>, tensor<8xi32>
}

// CHECK-LABEL: func.func @identities
// CHECK-SAME: (%[[T:.*]]: tensor<2x4xf32>, %[[P:.*]]: !core.ptr<f32>)
func.func @identities(%t: tensor<2x4xf32>, %p: !core.ptr<f32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, !core.ptr<f32>) {
  %0 = core.broadcast %t : tensor<2x4xf32> -> tensor<2x4xf32>
  %1 = core.trans %t [0, 1] : tensor<2x4xf32> -> tensor<2x4xf32>
  %c0 = arith.constant 0 : i32
  %2 = core.addptr %p, %c0 : !core.ptr<f32>, i32
  // CHECK: return %[[T]], %[[T]], %[[P]]
  return %0, %1, %2 : tensor<2x4xf32>, tensor<2x4xf32>, !core.ptr<f32>
}
