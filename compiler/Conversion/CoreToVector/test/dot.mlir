// RUN: %opt %s --convert-core-to-vector=vector-bits=512 --canonicalize | FileCheck %s
// RUN: %opt %s --convert-core-to-vector="vector-bits=512 bf16-dot" --canonicalize | FileCheck %s --check-prefix=BF16

// The accumulator has one buffer, which is updated in place: the loop carries nothing, and
// there is no copy from one buffer to another.
// CHECK-LABEL: func.func @in_place
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} : i32 {
// CHECK: iter_args({{.*}}) -> (vector<16xf32>{{.*}}vector<16xf32>)
// CHECK: math.fma {{.*}} : vector<16xf32>
// BF16-LABEL: func.func @in_place
// BF16: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"
func.func @in_place(%x: !core.ptr<bf16>, %out: !core.ptr<f32>, %n: i32) attributes {core.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = core.range 0, 32 : tensor<32xi32>
  %row = core.expand_dims %r, 1 : tensor<32xi32> -> tensor<32x1xi32>
  %col = core.expand_dims %r, 0 : tensor<32xi32> -> tensor<1x32xi32>
  %c32 = arith.constant dense<32> : tensor<32x1xi32>
  %rows = arith.muli %row, %c32 : tensor<32x1xi32>
  %rowB = core.broadcast %rows : tensor<32x1xi32> -> tensor<32x32xi32>
  %colB = core.broadcast %col : tensor<1x32xi32> -> tensor<32x32xi32>
  %o = arith.addi %rowB, %colB : tensor<32x32xi32>
  %xs = core.splat %x : !core.ptr<bf16> -> tensor<32x32x!core.ptr<bf16>>
  %xp = core.addptr %xs, %o : tensor<32x32x!core.ptr<bf16>>, tensor<32x32xi32>
  %init = arith.constant dense<0.0> : tensor<32x32xf32>
  %acc = scf.for %i = %zero to %n step %one iter_args(%c = %init) -> (tensor<32x32xf32>) : i32 {
    %v = core.load %xp : tensor<32x32x!core.ptr<bf16>> -> tensor<32x32xbf16>
    %d = core.dot %v, %v, %c, ieee : tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xf32>
    scf.yield %d : tensor<32x32xf32>
  }
  %os = core.splat %out : !core.ptr<f32> -> tensor<32x32x!core.ptr<f32>>
  %op = core.addptr %os, %o : tensor<32x32x!core.ptr<f32>>, tensor<32x32xi32>
  core.store %op, %acc : tensor<32x32x!core.ptr<f32>>, tensor<32x32xf32>
  return
}
