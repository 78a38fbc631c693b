// One graph of a .pt2 file: interpreted by LibTorch's nativert, or compiled by AOTInductor.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace stoker {

class ExportedGraph {
  public:
    // Throws DataError if the graph `name` cannot be loaded, and Unsupported for a compiled graph unless
    // STOKER_TRUST_NATIVE=1 is set.
    ExportedGraph(const std::string& path, const std::string& name, bool compiled);
    ExportedGraph(ExportedGraph&&) noexcept;
    ~ExportedGraph();

    // Runs without autograd: the outputs have no grad_fn.
    std::vector<at::Tensor> run(std::vector<at::Tensor> inputs);

  private:
    struct Runner;
    std::unique_ptr<Runner> runner_;
};

}  // namespace stoker
