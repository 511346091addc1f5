//===- bt-opt.cpp - run single passes and pipelines over a module ---------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Pipelines/Registration.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  blutrain::registerDialects(registry);
  blutrain::registerPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "BluTrain optimizer driver\n", registry));
}
