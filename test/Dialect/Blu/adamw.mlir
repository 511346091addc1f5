// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @adamw(
// CHECK-SAME: %[[P:.+]]: tensor<8x64xf32>, %[[G:.+]]: tensor<8x64xf32>, %[[M:.+]]: tensor<8x64xf32>, %[[V:.+]]: tensor<8x64xf32>, %[[T:.+]]: tensor<i64>, %[[LR:.+]]: tensor<f64>, %[[B1:.+]]: tensor<f64>, %[[B2:.+]]: tensor<f64>, %[[E:.+]]: tensor<f64>, %[[WD:.+]]: tensor<f64>, %[[OK:.+]]: tensor<i1>
// CHECK: blu.adamw %[[P]], %[[G]], %[[M]], %[[V]] step %[[T]] lr %[[LR]] betas %[[B1]], %[[B2]] eps %[[E]] weight_decay %[[WD]] decay : tensor<8x64xf32>
// CHECK: blu.adamw %[[P]], %[[G]], %[[M]], %[[V]] step %[[T]] lr %[[LR]] betas %[[B1]], %[[B2]] eps %[[E]] weight_decay %[[WD]] : tensor<8x64xf32>
// CHECK: blu.adamw {{.*}} weight_decay %[[WD]] decay when %[[OK]] : tensor<8x64xf32>
func.func @adamw(%p: tensor<8x64xf32>, %g: tensor<8x64xf32>, %m: tensor<8x64xf32>, %v: tensor<8x64xf32>, %t: tensor<i64>, %lr: tensor<f64>, %b1: tensor<f64>, %b2: tensor<f64>, %e: tensor<f64>, %wd: tensor<f64>, %ok: tensor<i1>) {
  %u:3 = blu.adamw %p, %g, %m, %v step %t lr %lr betas %b1, %b2 eps %e weight_decay %wd decay : tensor<8x64xf32>
  %w:3 = blu.adamw %p, %g, %m, %v step %t lr %lr betas %b1, %b2 eps %e weight_decay %wd : tensor<8x64xf32>
  %x:3 = blu.adamw %p, %g, %m, %v step %t lr %lr betas %b1, %b2 eps %e weight_decay %wd decay when %ok : tensor<8x64xf32>
  return
}
