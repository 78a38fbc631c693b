// One graph of a .pt2 file: interpreted here, or compiled by AOTInductor.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "stoker/io/zip.h"

namespace stoker {

class ExportedGraph {
  public:
    // Loads a graph of a file that read_exported_file (exported_model.h) has accepted and still has open: a compiled
    // one may run native code as soon as LibTorch opens it, and `path`, for messages, may name another one by now.
    // Throws DataError or Unsupported if the graph `name` cannot be loaded. It runs on `device` alone, and a compiled
    // one by one thread at a time.
    ExportedGraph(const ZipFile& file, const std::string& path, const std::string& name, bool compiled,
                  const at::Device& device);
    ExportedGraph(ExportedGraph&&) noexcept;
    ~ExportedGraph();

    // Runs without autograd: the outputs have no grad_fn.
    std::vector<at::Tensor> run(std::vector<at::Tensor> inputs);

  private:
    struct Runner;
    std::unique_ptr<Runner> runner_;
};

}  // namespace stoker
