// A model from a TorchScript file, which Python wrote with torch.jit.script or torch.jit.trace: it trains here and goes
// back with new weights.
#pragma once

#include <memory>
#include <string>

#include "stoker/models/model.h"

namespace torch::jit {
struct Module;
}

namespace stoker {

class TorchScriptModel final : public Model {
  public:
    // Parameters have a gradient where they had one in the file. Throws IoError, and DataError for a file that is no
    // TorchScript, or a trace that is bound to training or to evaluation.
    explicit TorchScriptModel(const std::string& path);
    ~TorchScriptModel() override;

    at::Tensor forward(const at::Tensor& input) override;
    void train(bool training) override;

    // The module with the weights of now, in evaluation mode, on the CPU.
    torch::jit::Module for_saving() const;

  private:
    std::string path_;
    std::unique_ptr<torch::jit::Module> module_;
};

}  // namespace stoker
