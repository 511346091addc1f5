//===- Registration.h - every dialect, pass and pipeline --------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_PIPELINES_REGISTRATION_H
#define BLUTRAIN_PIPELINES_REGISTRATION_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace blutrain {

/// Registers the dialects that any stage uses, ours and upstream's.
void registerDialects(mlir::DialectRegistry &registry);

/// Registers every pass and pipeline of ours, and the upstream passes that are
/// useful beside them.
void registerPasses();

} // namespace blutrain

#endif // BLUTRAIN_PIPELINES_REGISTRATION_H
