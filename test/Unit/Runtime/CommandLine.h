//===- CommandLine.h - Running the mock programs ----------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_TEST_COMMANDLINE_H
#define BLURT_TEST_COMMANDLINE_H

#include "TestFiles.h"

#include <nlohmann/json.hpp>
#include <sys/wait.h>

namespace blurt::test {

using nlohmann::json;

struct Outcome {
  int code;
  std::string out, err;
};

class CommandLine : public TestFolder {
protected:
  void SetUp() override {
    TestFolder::SetUp();
    std::string text;
    while (text.size() < 500)
      text += "the cat sat on the mat. ";
    std::vector<uint16_t> tokens(text.begin(), text.end());
    writeFile(path("train_0.bin"),
              shard16({tokens.begin(), tokens.begin() + 203}));
    writeFile(path("train_1.bin"),
              shard16({tokens.begin() + 203, tokens.end()}));
    writeFile(path("val.bin"), shard16({tokens.begin(), tokens.begin() + 55}));
  }

  /// Runs a mock in the test's folder, `arguments` as a shell would read them.
  Outcome run(const std::string &arguments, const std::string &mock = "",
              const std::string &before = "") {
    std::string command = "cd '" + folder.string() + "' && " + before + " '" +
                          BLURT_MOCK_FOLDER "/blurt-mock" + mock + "' " +
                          arguments + " >out.txt 2>err.txt";
    int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            readFile(path("out.txt")), readFile(path("err.txt"))};
  }

  /// Expects an exit code and a part of the first error line.
  void expectError(const std::string &arguments, int code,
                   const std::string &part, const std::string &mock = "") {
    Outcome outcome = run(arguments, mock);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.err;
    EXPECT_NE(outcome.err.find("error: "), std::string::npos) << arguments;
    EXPECT_NE(outcome.err.find(part), std::string::npos)
        << arguments << "\ngot: " << outcome.err << "\nexpected: " << part;
  }

  std::vector<json> lines(const std::string &name) {
    std::vector<json> result;
    std::stringstream text(readFile(path(name)));
    for (std::string line; std::getline(text, line);)
      result.push_back(json::parse(line));
    return result;
  }

  const std::string train = "train --data 'train_*.bin' --lr 0.1 --steps 40 ";
};

} // namespace blurt::test

#endif // BLURT_TEST_COMMANDLINE_H
