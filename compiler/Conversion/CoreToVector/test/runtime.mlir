// RUN: %opt %s --convert-core-to-vector --canonicalize --mlir-print-debuginfo | FileCheck %s

// A loop that polls memory lets others run on its back edge (slot 10 of the table).
// CHECK-LABEL: func.func @spin
// CHECK-SAME: core.sites = {{\[}}["k.py", 7, 5]]
// CHECK-SAME: core.suspends
// CHECK: scf.while
// CHECK: llvm.cmpxchg
// CHECK: do
// CHECK: llvm.getelementptr %{{.*}}[80]
// CHECK: llvm.call %{{.*}}(%{{.*}}, %{{.*}}) : !llvm.ptr, (!llvm.ptr, i32) -> ()
func.func @spin(%lock: !core.ptr<i32>) attributes {core.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.while : () -> () {
    %old = core.atomic_cas acquire, sys, %lock, %c0, %c1 : !core.ptr<i32>, i32
    %busy = arith.cmpi ne, %old, %c0 : i32
    scf.condition(%busy)
  } do {
    scf.yield
  } loc("k.py":7:5)
  return
}

// CHECK-LABEL: func.func @protocol
// CHECK-SAME: core.communicates
// CHECK-SAME: core.suspends
// CHECK: llvm.getelementptr %{{.*}}[24]
// CHECK: llvm.call {{.*}} : !llvm.ptr, (!llvm.ptr, !llvm.ptr, i64, i64, i32, i32) -> ()
// CHECK: llvm.getelementptr %{{.*}}[32]
// CHECK: llvm.call {{.*}} : !llvm.ptr, (!llvm.ptr, !llvm.ptr, i32, i64, i32, i32, i32) -> ()
func.func @protocol(%sig: !device.signal) attributes {core.kernel} {
  %one = arith.constant 1 : i64
  %rank = device.rank : i32
  device.wait %sig, %one, %one, eq, sys
  device.notify %sig, %rank, %one, set, sys
  return
}
