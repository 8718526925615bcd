// RUN: %opt %s --tilery-core-scalarize-carried-offsets | FileCheck %s

// CHECK-LABEL: func.func @pointers
// CHECK-SAME: (%[[INIT:.*]]: tensor<64x!core.ptr<f32>>, %[[STEP:.*]]: i32, %[[N:.*]]: i32)
func.func @pointers(%init: tensor<64x!core.ptr<f32>>, %step: i32, %n: i32) -> tensor<64x!core.ptr<f32>> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = core.splat %step : i32 -> tensor<64xi32>
  // CHECK: %[[R:.*]] = scf.for {{.*}} iter_args(%[[O:.*]] = %c0_i64) -> (i64)
  // CHECK:   %[[TILE:.*]] = core.splat %[[O]] : i64 -> tensor<64xi64>
  // CHECK:   %[[P:.*]] = core.addptr %[[INIT]], %[[TILE]]
  // CHECK:   core.load %[[P]]
  // CHECK:   %[[WIDE:.*]] = arith.extsi %[[STEP]] : i32 to i64
  // CHECK:   %[[NEXT:.*]] = arith.addi %[[O]], %[[WIDE]] : i64
  // CHECK:   scf.yield %[[NEXT]] : i64
  // CHECK: %[[LAST:.*]] = core.splat %[[R]]
  // CHECK: core.addptr %[[INIT]], %[[LAST]]
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%p = %init) -> (tensor<64x!core.ptr<f32>>) : i32 {
    %x = core.load %p {isVolatile} : tensor<64x!core.ptr<f32>> -> tensor<64xf32>
    %next = core.addptr %p, %s : tensor<64x!core.ptr<f32>>, tensor<64xi32>
    scf.yield %next : tensor<64x!core.ptr<f32>>
  }
  return %r : tensor<64x!core.ptr<f32>>
}

// A step that differs between elements stays.
// CHECK-LABEL: func.func @uneven
func.func @uneven(%init: tensor<64xi32>, %n: i32) -> tensor<64xi32> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = core.range 0, 64 : tensor<64xi32>
  // CHECK: iter_args({{.*}}) -> (tensor<64xi32>)
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%p = %init) -> (tensor<64xi32>) : i32 {
    %next = arith.addi %p, %s : tensor<64xi32>
    scf.yield %next : tensor<64xi32>
  }
  return %r : tensor<64xi32>
}
