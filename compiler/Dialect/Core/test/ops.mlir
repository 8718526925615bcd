// RUN: %opt %s | %opt | FileCheck %s
// Every operation prints what it parses.

// CHECK-LABEL: func.func @shape
func.func @shape(%s: f32, %t: tensor<4x8xf32>, %i: tensor<4x8xi32>) {
  // CHECK: core.program_id 0 : i32
  %p = core.program_id 0 : i32
  // CHECK: core.num_programs 2 : i32
  %n = core.num_programs 2 : i32
  // CHECK: core.range -4, 4 : tensor<8xi32>
  %r = core.range -4, 4 : tensor<8xi32>
  // CHECK: core.splat %{{.*}} : f32 -> tensor<8xf32>
  %0 = core.splat %s : f32 -> tensor<8xf32>
  // CHECK: core.expand_dims %{{.*}}, 0 : tensor<8xf32> -> tensor<1x8xf32>
  %1 = core.expand_dims %0, 0 : tensor<8xf32> -> tensor<1x8xf32>
  // CHECK: core.broadcast %{{.*}} : tensor<1x8xf32> -> tensor<4x8xf32>
  %2 = core.broadcast %1 : tensor<1x8xf32> -> tensor<4x8xf32>
  // CHECK: core.reshape %{{.*}} : tensor<4x8xf32> -> tensor<32xf32>
  %3 = core.reshape %2 : tensor<4x8xf32> -> tensor<32xf32>
  // CHECK: core.trans %{{.*}} [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  %4 = core.trans %2 [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  // CHECK: core.join %{{.*}}, %{{.*}} : tensor<8xf32> -> tensor<8x2xf32>
  %5 = core.join %0, %0 : tensor<8xf32> -> tensor<8x2xf32>
  // CHECK: core.split %{{.*}} : tensor<8x2xf32> -> tensor<8xf32>
  %6:2 = core.split %5 : tensor<8x2xf32> -> tensor<8xf32>
  // CHECK: core.cat %{{.*}}, %{{.*}} : tensor<8xf32> -> tensor<16xf32>
  %7 = core.cat %0, %0 : tensor<8xf32> -> tensor<16xf32>
  // CHECK: core.gather %{{.*}}[%{{.*}}] 1 : tensor<4x8xf32>, tensor<4x8xi32> -> tensor<4x8xf32>
  %8 = core.gather %t[%i] 1 : tensor<4x8xf32>, tensor<4x8xi32> -> tensor<4x8xf32>
  // CHECK: core.hint %{{.*}} {contiguity = array<i32: 8>} : tensor<8xi32>
  %9 = core.hint %r {contiguity = array<i32: 8>} : tensor<8xi32>
  return
}

// CHECK-LABEL: func.func @memory
func.func @memory(%p: !core.ptr<f32>, %q: !core.ptr<i32, remote>, %v: i32, %m: i1) {
  // CHECK: core.load %{{.*}} mask %{{.*}} : !core.ptr<f32>, i1 -> f32
  %0 = core.load %p mask %m : !core.ptr<f32>, i1 -> f32
  // CHECK: core.store %{{.*}}, %{{.*}} mask %{{.*}} : !core.ptr<i32, remote>, i32, i1
  core.store %q, %v mask %m : !core.ptr<i32, remote>, i32, i1
  // CHECK: core.atomic_rmw add, acq_rel, sys, %{{.*}}, %{{.*}} : !core.ptr<i32, remote>, i32 -> i32
  %1 = core.atomic_rmw add, acq_rel, sys, %q, %v : !core.ptr<i32, remote>, i32 -> i32
  // CHECK: core.atomic_cas relaxed, gpu, %{{.*}}, %{{.*}}, %{{.*}} : !core.ptr<i32, remote>, i32
  %2 = core.atomic_cas relaxed, gpu, %q, %v, %1 : !core.ptr<i32, remote>, i32
  // CHECK: core.assume %{{.*}}
  core.assume %m
  // CHECK: core.assert %{{.*}}, "text" : i1
  core.assert %m, "text" : i1
  // CHECK: core.debug_barrier
  core.debug_barrier
  return
}

// CHECK-LABEL: func.func @tiles
func.func @tiles(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>, %c: tensor<4x4xf32>) {
  // CHECK: core.dot %{{.*}}, %{{.*}}, %{{.*}}, ieee : tensor<4x8xbf16>, tensor<8x4xbf16>, tensor<4x4xf32>
  %0 = core.dot %a, %b, %c, ieee : tensor<4x8xbf16>, tensor<8x4xbf16>, tensor<4x4xf32>
  // CHECK: core.reduce %{{.*}} axis 1 : tensor<4x4xf32> -> tensor<4xf32>
  %1 = core.reduce %0 axis 1 : tensor<4x4xf32> -> tensor<4xf32> {
  ^bb0(%x: f32, %y: f32):
    %s = arith.addf %x, %y : f32
    // CHECK: core.yield %{{.*}} : f32
    core.yield %s : f32
  }
  // CHECK: core.scan %{{.*}} axis 0 {reverse} : tensor<4xf32> -> tensor<4xf32>
  %2 = core.scan %1 axis 0 {reverse} : tensor<4xf32> -> tensor<4xf32> {
  ^bb0(%x: f32, %y: f32):
    %s = arith.addf %x, %y : f32
    core.yield %s : f32
  }
  return
}
