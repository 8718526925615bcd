// RUN: %opt %s | %opt | FileCheck %s

// CHECK-LABEL: func.func @all
func.func @all(%s: !device.symm<f32>, %sig: !device.signal, %r: i32, %n: i64, %p: !core.ptr<f32>) {
  // CHECK: device.rank : i32
  %0 = device.rank : i32
  // CHECK: device.num_ranks {axis = 1 : i32} : i32
  %1 = device.num_ranks {axis = 1 : i32} : i32
  // CHECK: device.local %{{.*}} : !device.symm<f32> -> !core.ptr<f32>
  %2 = device.local %s : !device.symm<f32> -> !core.ptr<f32>
  // CHECK: device.symm_at %{{.*}}, %{{.*}} : <f32> -> <f32, remote>
  %3 = device.symm_at %s, %r : !device.symm<f32> -> !core.ptr<f32, remote>
  // CHECK: device.notify %{{.*}}, %{{.*}}, %{{.*}}, add, sys
  device.notify %sig, %r, %n, add, sys
  // CHECK: device.wait %{{.*}}, %{{.*}}, %{{.*}}, ge, sys
  device.wait %sig, %n, %n, ge, sys
  // CHECK: device.put %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} signal %{{.*}}, %{{.*}} {nonblocking}
  device.put %s, %p, %n, %r signal %sig, %n {nonblocking} : !device.symm<f32>, !core.ptr<f32>
  // CHECK: device.get
  device.get %p, %s, %n, %r : !core.ptr<f32>, !device.symm<f32>
  // CHECK: device.fence
  device.fence
  // CHECK: device.quiet
  device.quiet
  // CHECK: device.barrier_all
  device.barrier_all
  // CHECK: device.sync_all
  device.sync_all
  return
}
