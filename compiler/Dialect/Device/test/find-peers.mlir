// RUN: %opt %s --split-input-file --tilery-device-find-peers | FileCheck %s

// A table for each argument that is used on other ranks, behind the other arguments.
// CHECK-LABEL: @each
// CHECK-SAME: %[[X:.*]]: !device.symm<f32> {device.registered}, %[[Y:.*]]: !device.symm<f32> {device.registered},
// CHECK-SAME: %[[LOCAL:.*]]: !core.ptr<f32>, %[[RANK:.*]]: i32, %[[N:.*]]: i64, %[[XS:.*]]: i64, %[[YS:.*]]: i64)
// CHECK-SAME: device.peers = array<i32: 0, 1>
func.func @each(%x: !device.symm<f32> {device.registered}, %y: !device.symm<f32> {device.registered},
                %local: !core.ptr<f32>, %rank: i32, %n: i64) {
  // CHECK: device.symm_at %[[X]], %[[RANK]] peers %[[XS]]
  %p = device.symm_at %x, %rank : !device.symm<f32> -> !core.ptr<f32, remote>
  // CHECK: %[[FAR:.*]] = core.addptr %[[Y]]
  %far = core.addptr %y, %rank : !device.symm<f32>, i32
  // CHECK: device.put %[[FAR]], %[[LOCAL]], %[[N]], %[[RANK]] peers %[[YS]]
  device.put %far, %local, %n, %rank : !device.symm<f32>, !core.ptr<f32>
  // CHECK: device.get %[[LOCAL]], %[[X]], %[[N]], %[[RANK]] peers %[[XS]]
  device.get %local, %x, %n, %rank : !core.ptr<f32>, !device.symm<f32>
  return
}

// -----

// Memory of the heap needs none, nor registered memory that stays on this rank; a loop that advances a
// pointer does not change where it comes from.
// CHECK-LABEL: @loop
// CHECK-SAME: %[[MINE:[a-z0-9]*]]: i64) attributes {device.peers = array<i32: 1>}
func.func @loop(%heap: !device.symm<f32>, %x: !device.symm<f32> {device.registered},
                %here: !device.symm<f32> {device.registered}, %rank: i32, %n: index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %step = arith.constant 4 : i32
  %value = arith.constant 1.0 : f32
  // CHECK: device.symm_at %{{.*}}, %{{.*}} : <f32> -> <f32, remote>
  %q = device.symm_at %heap, %rank : !device.symm<f32> -> !core.ptr<f32, remote>
  %last = scf.for %i = %zero to %n step %one iter_args(%at = %x) -> !device.symm<f32> {
    // CHECK: device.symm_at %{{.*}}, %{{.*}} peers %[[MINE]]
    %p = device.symm_at %at, %rank : !device.symm<f32> -> !core.ptr<f32, remote>
    core.store %p, %value : !core.ptr<f32, remote>, f32
    %next = core.addptr %at, %step : !device.symm<f32>, i32
    scf.yield %next : !device.symm<f32>
  }
  %local = device.local %here : !device.symm<f32> -> !core.ptr<f32>
  core.store %local, %value : !core.ptr<f32>, f32
  return
}
