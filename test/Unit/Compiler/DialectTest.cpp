//===- DialectTest.cpp - every op is described and tested -----------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Walks the registered ops of `blu` and looks for what each must have: a
// description in parts, a round-trip test, an invalid input for each labelled
// constraint. Descriptions are read from the generated page, which
// `tools/lint.sh docs` compares with the sources.
//
//===----------------------------------------------------------------------===//

#include "Blu/Blu.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBuffer.h"

#include "gtest/gtest.h"

using namespace mlir;

namespace {

/// Text of a file below the root of the sources, empty if there is none.
std::string read(const std::string &path) {
  auto buffer =
      llvm::MemoryBuffer::getFile(std::string(BLUTRAIN_SOURCE_DIR "/") + path);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

class DialectTest : public testing::Test {
protected:
  DialectTest() { context.loadDialect<blu::BluDialect>(); }

  /// Mnemonics of the registered ops.
  std::vector<std::string> ops() {
    std::vector<std::string> names;
    for (RegisteredOperationName op :
         context.getRegisteredOperationsByDialect("blu"))
      names.push_back(op.stripDialect().str());
    return names;
  }

  /// What the generated page says about an op, from heading to heading.
  std::string section(StringRef op) {
    StringRef text = page;
    size_t begin = text.find(("### `blu." + op + "` (").str());
    if (begin == StringRef::npos)
      return "";
    return text.slice(begin, text.find("\n### ", begin)).str();
  }

  MLIRContext context;
  std::string page = read("docs/Dialects/Blu.md");
};

TEST_F(DialectTest, EveryOpIsDescribed) {
  ASSERT_FALSE(ops().empty());
  // These give a program its structure: differentiation passes through them.
  llvm::StringSet<> withoutGradient = {"model", "step", "return", "yield"};
  for (const std::string &op : ops()) {
    std::string text = section(op);
    EXPECT_FALSE(text.empty()) << "docs/Dialects/Blu.md has no blu." << op
                               << "; run tools/gen-docs.sh";
    for (StringRef part : {"Constraints", "Gradient", "Example"}) {
      if (part == "Gradient" && withoutGradient.contains(op))
        continue;
      EXPECT_TRUE(StringRef(text).contains(("\n" + part + ":").str()))
          << "the description of blu." << op << " lacks '" << part.str()
          << ":'";
    }
  }
}

TEST_F(DialectTest, EveryOpRoundTrips) {
  for (const std::string &op : ops()) {
    std::string file = "test/Dialect/Blu/" + op + ".mlir";
    std::string text = read(file);
    ASSERT_FALSE(text.empty()) << "there is no " << file;
    EXPECT_TRUE(StringRef(text).contains("bt-opt %s | bt-opt | FileCheck %s"))
        << file << " does not print and parse again";
    EXPECT_TRUE(StringRef(text).contains("--emit-bytecode"))
        << file << " does not pass through bytecode";
    bool isChecked = llvm::any_of(llvm::split(text, '\n'), [&](StringRef line) {
      return line.contains("CHECK") && line.contains("blu." + op);
    });
    EXPECT_TRUE(isChecked) << file << " does not check for blu." << op;
  }
}

TEST_F(DialectTest, EveryConstraintHasAnInvalidInput) {
  for (const std::string &op : ops()) {
    std::string file = "test/Dialect/Blu/Invalid/" + op + ".mlir";
    std::string text = read(file);
    for (unsigned i = 1;; ++i) {
      std::string label = "C" + std::to_string(i);
      if (!StringRef(section(op)).contains("\n- " + label + ":"))
        break;
      // The case is called @op_Ci, or @op_Ci_what.
      std::string name = "@" + op + "_" + label;
      EXPECT_TRUE(StringRef(text).contains(name + "(") ||
                  StringRef(text).contains(name + "_") ||
                  StringRef(text).contains(name + " "))
          << file << " has no case for " << label << " of blu." << op;
    }
  }
}

} // namespace
