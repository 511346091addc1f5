// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @param(
// CHECK: blu.param "fc.weight" init(#blu.normal<0.000000e+00, 2.000000e-02>) export("h.{i}.mlp.c_fc.weight" transpose) : tensor<256x64xf32>
// CHECK: blu.param "fc.bias" init(#blu.zeros) export("h.{i}.mlp.c_fc.bias") : tensor<256xf32>
// CHECK: blu.param "gain" init(#blu.ones) decay : tensor<4xf32>
// CHECK: blu.param "table" init(#blu.uniform<-1.000000e+00, 1.000000e+00>) no_decay : tensor<2x2xbf16>
// CHECK: blu.param "scale" init(#blu.fill<2.500000e-01>) : tensor<f64>
func.func @param() {
  %w = blu.param "fc.weight" init(#blu.normal<0.000000e+00, 2.000000e-02>) export("h.{i}.mlp.c_fc.weight" transpose) : tensor<256x64xf32>
  %b = blu.param "fc.bias" init(#blu.zeros) export("h.{i}.mlp.c_fc.bias") : tensor<256xf32>
  %g = blu.param "gain" init(#blu.ones) decay : tensor<4xf32>
  %u = blu.param "table" init(#blu.uniform<-1.000000e+00, 1.000000e+00>) no_decay : tensor<2x2xbf16>
  %f = blu.param "scale" init(#blu.fill<2.500000e-01>) : tensor<f64>
  return
}
