// RUN: %opt %s --tilery-core-mark-polling-loads --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @wait
// CHECK: scf.while
// CHECK: core.load %{{.*}} {isVolatile}
func.func @wait(%flag: !core.ptr<i32>) {
  %one = arith.constant 1 : i32
  scf.while : () -> () {
    %v = core.load %flag : !core.ptr<i32> -> i32
    %wait = arith.cmpi ne, %v, %one : i32
    scf.condition(%wait)
  } do {
    scf.yield
  }
  return
}
