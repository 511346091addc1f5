//===- Graph.cpp - An entry's work as one launch --------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Abi.h"
#include "blurt/Cuda.h"
#include "blurt/Error.h"

using namespace blurt;

CudaGraph::CudaGraph(CudaDevice &device, CudaCode &code,
                     const std::string &entry,
                     const std::function<void()> &queue)
    : device(device), what("the graph of entry '" + entry + "'") {
  const cuda::Driver &api = device.driver();
  const std::string otherwise = "; --no-graph runs without";
  // The plain run before has loaded what the libraries need.
  device.book("loaded on first use");
  device.call(api.StreamBeginCapture, what, device.stream(),
              cuda::CaptureRelaxed);
  code.setCapturing(true);
  queue();
  code.setCapturing(false);
  // A capture that failed has to end too.
  cuda::Graph graph = nullptr;
  int result = api.StreamEndCapture(device.stream(), &graph);
  try {
    code.rethrow();
    if (result)
      device.fail(api.StreamEndCapture.name, result, what);
    if (int made = api.GraphInstantiate(&exec, graph, 0))
      device.fail(api.GraphInstantiate.name, made, what);
    if (int uploaded = api.GraphUpload(exec, device.stream()))
      device.fail(api.GraphUpload.name, uploaded, what);
  } catch (const Error &error) {
    if (exec)
      api.GraphExecDestroy(exec);
    if (graph)
      api.GraphDestroy(graph);
    throw failure("capturing " + what + ": " + error.what() + otherwise);
  }
  api.GraphDestroy(graph);
  device.book("graph of '" + entry + "'");
}

CudaGraph::~CudaGraph() { device.driver().GraphExecDestroy(exec); }

void CudaGraph::launch() const {
  device.call(device.driver().GraphLaunch, what, exec, device.stream());
}
