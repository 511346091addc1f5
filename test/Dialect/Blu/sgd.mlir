// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @sgd(
// CHECK-SAME: %[[P:.+]]: tensor<8x64xf32>, %[[G:.+]]: tensor<8x64xf32>, %[[M:.+]]: tensor<8x64xf32>, %[[LR:.+]]: tensor<f64>, %[[MU:.+]]: tensor<f64>, %[[WD:.+]]: tensor<f64>, %[[OK:.+]]: tensor<i1>
// CHECK: blu.sgd %[[P]], %[[G]], %[[M]] lr %[[LR]] momentum %[[MU]] weight_decay %[[WD]] decay : tensor<8x64xf32>
// CHECK: blu.sgd %[[P]], %[[G]], %[[M]] lr %[[LR]] momentum %[[MU]] weight_decay %[[WD]] : tensor<8x64xf32>
// CHECK: blu.sgd {{.*}} weight_decay %[[WD]] when %[[OK]] : tensor<8x64xf32>
func.func @sgd(%p: tensor<8x64xf32>, %g: tensor<8x64xf32>, %m: tensor<8x64xf32>, %lr: tensor<f64>, %mu: tensor<f64>, %wd: tensor<f64>, %ok: tensor<i1>) {
  %u:2 = blu.sgd %p, %g, %m lr %lr momentum %mu weight_decay %wd decay : tensor<8x64xf32>
  %w:2 = blu.sgd %p, %g, %m lr %lr momentum %mu weight_decay %wd : tensor<8x64xf32>
  %x:2 = blu.sgd %p, %g, %m lr %lr momentum %mu weight_decay %wd when %ok : tensor<8x64xf32>
  return
}
