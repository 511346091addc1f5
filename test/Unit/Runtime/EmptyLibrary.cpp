//===- EmptyLibrary.cpp - A library without what is looked for ------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

extern "C" int blurtEmptyLibrary;
int blurtEmptyLibrary = 1;
