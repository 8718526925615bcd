// RUN: %opt %s --tilery-simt-assign-layouts=num-warps=1 | FileCheck %s
// RUN: %opt %s --tilery-simt-assign-layouts=num-warps=4 | FileCheck %s --check-prefix=FOUR

// Neighbouring lanes touch neighbouring addresses, 16 bytes each; what depends on the load follows
// it, and no conversion is needed.
// CHECK-LABEL: func.func @copy
// CHECK-NOT: simt.convert_layout
// CHECK: core.load %{{.*}} -> tensor<512xf32, #simt.layout<registers = [1, 2, 128, 256], lanes = [4, 8, 16, 32, 64], warps = []>>
// CHECK: arith.addf %{{.*}} : tensor<512xf32, #simt.layout<registers = [1, 2, 128, 256], lanes = [4, 8, 16, 32, 64], warps = []>>
// FOUR-LABEL: func.func @copy
// FOUR: core.load %{{.*}} -> tensor<512xf32, #simt.layout<registers = [1, 2], lanes = [4, 8, 16, 32, 64], warps = [128, 256]>>
func.func @copy(%p: !core.ptr<f32> {core.divisibility = 16 : i32}, %q: !core.ptr<f32> {core.divisibility = 16 : i32}) attributes {core.kernel} {
  %r = core.range 0, 512 : tensor<512xi32>
  %ps = core.splat %p : !core.ptr<f32> -> tensor<512x!core.ptr<f32>>
  %pr = core.addptr %ps, %r : tensor<512x!core.ptr<f32>>, tensor<512xi32>
  %x = core.load %pr : tensor<512x!core.ptr<f32>> -> tensor<512xf32>
  %y = arith.addf %x, %x : tensor<512xf32>
  %qs = core.splat %q : !core.ptr<f32> -> tensor<512x!core.ptr<f32>>
  %qr = core.addptr %qs, %r : tensor<512x!core.ptr<f32>>, tensor<512xi32>
  core.store %qr, %y : tensor<512x!core.ptr<f32>>, tensor<512xf32>
  return
}

// A pointer that is aligned to its elements only is accessed one by one.
// CHECK-LABEL: func.func @unaligned
// CHECK: core.load %{{.*}} -> tensor<64xf32, #simt.layout<registers = [32], lanes = [1, 2, 4, 8, 16], warps = []>>
func.func @unaligned(%p: !core.ptr<f32>) attributes {core.kernel} {
  %r = core.range 0, 64 : tensor<64xi32>
  %ps = core.splat %p : !core.ptr<f32> -> tensor<64x!core.ptr<f32>>
  %pr = core.addptr %ps, %r : tensor<64x!core.ptr<f32>>, tensor<64xi32>
  %x = core.load %pr : tensor<64x!core.ptr<f32>> -> tensor<64xf32>
  core.store %pr, %x : tensor<64x!core.ptr<f32>>, tensor<64xf32>
  return
}

// The first dimension is contiguous: registers and lanes run along it, whose steps are 32.
// CHECK-LABEL: func.func @columns
// CHECK: core.load %{{.*}} -> tensor<32x32xf32, #simt.layout<registers = [32, 64,
func.func @columns(%p: !core.ptr<f32> {core.divisibility = 16 : i32}, %s: i32 {core.divisibility = 16 : i32}) attributes {core.kernel} {
  %r = core.range 0, 32 : tensor<32xi32>
  %row = core.expand_dims %r, 1 : tensor<32xi32> -> tensor<32x1xi32>
  %col = core.expand_dims %r, 0 : tensor<32xi32> -> tensor<1x32xi32>
  %ss = core.splat %s : i32 -> tensor<1x32xi32>
  %co = arith.muli %col, %ss : tensor<1x32xi32>
  %x = core.broadcast %row : tensor<32x1xi32> -> tensor<32x32xi32>
  %y = core.broadcast %co : tensor<1x32xi32> -> tensor<32x32xi32>
  %o = arith.addi %x, %y : tensor<32x32xi32>
  %ps = core.splat %p : !core.ptr<f32> -> tensor<32x32x!core.ptr<f32>>
  %pr = core.addptr %ps, %o : tensor<32x32x!core.ptr<f32>>, tensor<32x32xi32>
  %v = core.load %pr : tensor<32x32x!core.ptr<f32>> -> tensor<32x32xf32>
  core.store %pr, %v : tensor<32x32x!core.ptr<f32>>, tensor<32x32xf32>
  return
}

// The matrix instruction says where the accumulator's elements are; the loop carries them there, and
// operands are converted to what it takes.
// CHECK-LABEL: func.func @product
// CHECK: scf.for {{.*}} -> (tensor<16x16xf32, #simt.layout<registers = [1, 128, 8], lanes = [2, 4, 16, 32, 64], warps = []>>)
// CHECK: core.load
// CHECK: simt.convert_layout {{.*}} -> tensor<16x16xbf16, #simt.layout<registers = [1, 128, 8], lanes = [2, 4, 16, 32, 64], warps = []>>
// CHECK: core.dot
func.func @product(%p: !core.ptr<bf16> {core.divisibility = 16 : i32}, %out: !core.ptr<f32> {core.divisibility = 16 : i32}, %n: i32) attributes {core.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = core.range 0, 256 : tensor<256xi32>
  %sq = core.reshape %r : tensor<256xi32> -> tensor<16x16xi32>
  %ps = core.splat %p : !core.ptr<bf16> -> tensor<16x16x!core.ptr<bf16>>
  %pr = core.addptr %ps, %sq : tensor<16x16x!core.ptr<bf16>>, tensor<16x16xi32>
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %acc = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) -> (tensor<16x16xf32>) : i32 {
    %x = core.load %pr : tensor<16x16x!core.ptr<bf16>> -> tensor<16x16xbf16>
    %d = core.dot %x, %x, %sum, ieee : tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<16x16xf32>
    scf.yield %d : tensor<16x16xf32>
  }
  %os = core.splat %out : !core.ptr<f32> -> tensor<16x16x!core.ptr<f32>>
  %or = core.addptr %os, %sq : tensor<16x16x!core.ptr<f32>>, tensor<16x16xi32>
  core.store %or, %acc : tensor<16x16x!core.ptr<f32>>, tensor<16x16xf32>
  return
}

// A reduced tile has the layout of what is left; to add it back costs no conversion.
// CHECK-LABEL: func.func @rows
// CHECK: core.reduce
// CHECK-NOT: simt.convert_layout
// CHECK: core.store
func.func @rows(%p: !core.ptr<f32> {core.divisibility = 16 : i32}) attributes {core.kernel} {
  %r = core.range 0, 2048 : tensor<2048xi32>
  %sq = core.reshape %r : tensor<2048xi32> -> tensor<16x128xi32>
  %ps = core.splat %p : !core.ptr<f32> -> tensor<16x128x!core.ptr<f32>>
  %pr = core.addptr %ps, %sq : tensor<16x128x!core.ptr<f32>>, tensor<16x128xi32>
  %x = core.load %pr : tensor<16x128x!core.ptr<f32>> -> tensor<16x128xf32>
  %sum = core.reduce %x axis 1 : tensor<16x128xf32> -> tensor<16xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    core.yield %c : f32
  }
  %e = core.expand_dims %sum, 1 : tensor<16xf32> -> tensor<16x1xf32>
  %w = core.broadcast %e : tensor<16x1xf32> -> tensor<16x128xf32>
  %y = arith.subf %x, %w : tensor<16x128xf32>
  core.store %pr, %y : tensor<16x128x!core.ptr<f32>>, tensor<16x128xf32>
  return
}
