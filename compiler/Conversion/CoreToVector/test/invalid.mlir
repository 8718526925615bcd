// RUN: %opt %s -split-input-file -verify-diagnostics --convert-core-to-vector

func.func private @callee()
func.func @call() attributes {core.kernel} {
  // expected-error @+1 {{operation func.call is not supported on the CPU target}}
  func.call @callee() : () -> ()
  return
}

// -----

func.func @dot(%a: tensor<4x4xf32>) {
  return
}
func.func @fp8(%x: !core.ptr<f8E4M3FN>) attributes {core.kernel} {
  // expected-error @+1 {{fp8 values are not supported on the CPU target}}
  %0 = core.load %x : !core.ptr<f8E4M3FN> -> f8E4M3FN
  return
}

// -----

// expected-error @+1 {{a kernel must have structured control flow only}}
func.func @branches() attributes {core.kernel} {
  cf.br ^next
^next:
  return
}

// -----

func.func @bits(%x: !core.ptr<i1>, %v: i1) attributes {core.kernel} {
  // expected-error @+1 {{atomics on elements of 'i1' are not supported}}
  %0 = core.atomic_rmw xchg, relaxed, gpu, %x, %v : !core.ptr<i1>, i1 -> i1
  return
}
