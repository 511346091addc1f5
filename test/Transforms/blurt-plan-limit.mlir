// RUN: not bt-opt %s --blurt-plan=memory-limit=1000 2>&1 | FileCheck %s
// RUN: bt-opt %s --blurt-plan=memory-limit=1024 | FileCheck %s --check-prefix=FITS

// FITS: func.func @train(%{{.*}}: !llvm.ptr, %{{.*}}: memref<1024xi8>)

// CHECK: error: entry 'train' needs 1024 bytes, the memory limit is 1000
// CHECK: note: 512 bytes: param 'w' at {{.*}}plan-limit.mlir:[[#@LINE+5]]:{{[0-9]+}}
// CHECK: note: 256 bytes: input 'x'
// CHECK: note: 256 bytes: output 'y'
module {
func.func @train(
    %w: tensor<128xf32> {blu.tensor = {name = "w", role = "param"}},
    %x: tensor<64xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<64xf32> {blu.tensor = {name = "y", role = "output"}}) {
  return %x : tensor<64xf32>
}
}
