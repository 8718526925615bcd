// RUN: %opt %s --tilery-device-check-bounds | FileCheck %s
// RUN: %opt %s --tilery-device-check-bounds=signals | FileCheck %s --check-prefix=SIGNALS

// CHECK-LABEL: func.func @f(
// CHECK-SAME: %[[X:.*]]: !core.ptr<f32>, %{{.*}}: i32, %[[EXTENT:.*]]: i64) attributes
// CHECK-SAME: core.extents = array<i32: 0>
// CHECK-DAG: %[[ADDRESS:.*]] = core.ptr_to_int %[[X]]
// CHECK-DAG: %[[KNOWN:.*]] = arith.cmpi sge, %[[EXTENT]]
// CHECK: %[[BEGIN:.*]] = arith.select %{{.*}}, %[[ADDRESS]], %{{.*}} : i64
// CHECK: %[[P:.*]] = core.addptr %[[X]]
// CHECK: %[[AT:.*]] = core.ptr_to_int %[[P]]
// CHECK: %[[OFFSET:.*]] = arith.subi %[[AT]], %[[BEGIN]]
// CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %[[OFFSET]]
// CHECK: %[[INDEX:.*]] = arith.shrsi %[[OFFSET]]
// CHECK: %[[COUNT:.*]] = arith.shrsi %[[EXTENT]]
// CHECK: core.check_bounds %[[INSIDE]], %[[INDEX]] of %[[COUNT]], "tl.load reads argument 'x'"
// CHECK: core.load %[[P]]
func.func @f(%x: !core.ptr<f32>, %i: i32) attributes {core.check_bounds, core.parameters = ["x", "i"]} {
  %p = core.addptr %x, %i : !core.ptr<f32>, i32
  %v = core.load %p : !core.ptr<f32> -> f32
  return
}

// Neither is a kernel that does not ask for it looked at, nor does it get extents.
// CHECK-LABEL: func.func @unchecked(
// CHECK-SAME: %{{.*}}: !core.ptr<f32>)
// CHECK-NOT: core.check_bounds %
// SIGNALS-LABEL: func.func @unchecked(
// SIGNALS-NOT: core.check_bounds %
// SIGNALS-LABEL: func.func @carried(
func.func @unchecked(%x: !core.ptr<f32>) {
  %v = core.load %x : !core.ptr<f32> -> f32
  return
}

// Masked lanes are inside; a tile that a loop carries comes from where it began.
// CHECK-LABEL: func.func @carried(
// CHECK: scf.for
// CHECK: %[[ON:.*]] = arith.xori %[[MASK:.*]], %
// CHECK: %[[ALL:.*]] = arith.ori %{{.*}}, %[[ON]] : tensor<8xi1>
// CHECK: core.check_bounds %[[ALL]], %{{.*}} of %{{.*}}, "tl.store writes argument 'out'" : tensor<8xi1>, tensor<8xi64>
// CHECK-NEXT: core.store %{{.*}}, %{{.*}} mask %[[MASK]]
func.func @carried(%out: !core.ptr<i8>, %mask: tensor<8xi1>, %v: tensor<8xi8>, %n: i32)
    attributes {core.check_bounds, core.parameters = ["out", "mask", "v", "n"]} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %range = core.range 0, 8 : tensor<8xi32>
  %all = core.splat %out : !core.ptr<i8> -> tensor<8x!core.ptr<i8>>
  %first = core.addptr %all, %range : tensor<8x!core.ptr<i8>>, tensor<8xi32>
  %last = scf.for %i = %zero to %n step %one iter_args(%p = %first) -> (tensor<8x!core.ptr<i8>>) : i32 {
    core.store %p, %v mask %mask : tensor<8x!core.ptr<i8>>, tensor<8xi8>, tensor<8xi1>
    %next = core.addptr %p, %range : tensor<8x!core.ptr<i8>>, tensor<8xi32>
    scf.yield %next : tensor<8x!core.ptr<i8>>
  }
  return
}

// One of two arguments: inside of either.
// CHECK-LABEL: func.func @either(
// CHECK-SAME: core.extents = array<i32: 0, 1>
// CHECK: arith.ori
// CHECK: core.check_bounds %{{.*}}, "tl.atomic_add updates argument 'a' or 'b'"
func.func @either(%a: !core.ptr<i32>, %b: !core.ptr<i32>, %c: i1, %v: i32)
    attributes {core.check_bounds, core.parameters = ["a", "b", "c", "v"]} {
  %p = arith.select %c, %a, %b : !core.ptr<i32>
  %old = core.atomic_rmw add, relaxed, gpu, %p, %v : !core.ptr<i32>, i32 -> i32
  return
}

// On another rank the memory begins as far before the translated address as here.
// CHECK-LABEL: func.func @remote(
// CHECK: %[[LOCAL:.*]] = core.addptr %[[X:.*]], %{{.*}} : !device.symm<f32>
// CHECK: %[[THERE:.*]] = device.symm_at %[[LOCAL]]
// CHECK-DAG: %[[A:.*]] = core.ptr_to_int %[[LOCAL]]
// CHECK-DAG: %[[B:.*]] = core.ptr_to_int %[[X]]
// CHECK: %[[ADVANCED:.*]] = arith.subi %[[A]], %[[B]]
// CHECK: %[[R:.*]] = core.ptr_to_int %[[THERE]]
// CHECK: arith.subi %[[R]], %[[ADVANCED]]
// CHECK: core.check_bounds %{{.*}}, "tl.store writes argument 'x'"
func.func @remote(%x: !device.symm<f32>, %i: i32, %rank: i32, %v: f32)
    attributes {core.check_bounds, core.parameters = ["x", "i", "rank", "v"]} {
  %local = core.addptr %x, %i : !device.symm<f32>, i32
  %there = device.symm_at %local, %rank : !device.symm<f32> -> !core.ptr<f32, remote>
  %p = core.addptr %there, %i : !core.ptr<f32, remote>, i32
  core.store %p, %v : !core.ptr<f32, remote>, f32
  return
}

// Signals are checked in every kernel when the target asks for it.
// SIGNALS-LABEL: func.func @signals(
// SIGNALS-SAME: core.extents = array<i32: 0>
// SIGNALS: core.check_bounds %{{.*}}, "dl.notify uses argument 'ready'" : i1, i64
// SIGNALS: device.notify
// SIGNALS: core.check_bounds %{{.*}}, "dl.wait uses argument 'ready'" : i1, i64
// SIGNALS: device.wait
// CHECK-LABEL: func.func @signals(
// CHECK-NOT: core.check_bounds %
func.func @signals(%ready: !device.signal, %i: i32, %rank: i32, %n: i64)
    attributes {core.parameters = ["ready", "i", "rank", "n"]} {
  %s = core.addptr %ready, %i : !device.signal, i32
  device.notify %s, %rank, %n, set, sys
  device.wait %ready, %n, %n, eq, sys
  return
}

// CHECK-LABEL: func.func @gather(
// CHECK: core.check_bounds %{{.*}}, "tl.gather reads its source" : tensor<4xi1>, tensor<4xi64>
func.func @gather(%x: tensor<8xf32>, %i: tensor<4xi32>) attributes {core.check_bounds} {
  %v = core.gather %x[%i] 0 : tensor<8xf32>, tensor<4xi32> -> tensor<4xf32>
  return
}
