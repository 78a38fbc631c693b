// A model from a TorchScript file, written with torch.jit.script or torch.jit.trace. It can be trained and saved again
// with its new weights.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stoker/models/model.h"

namespace torch::jit {
struct Module;
}

namespace stoker {

class TorchScriptModel final : public Model {
  public:
    // Parameters keep their requires_grad. Throws IoError, and DataError for a file that is not TorchScript or a trace
    // that is fixed to training or to evaluation mode.
    explicit TorchScriptModel(const std::string& path);
    ~TorchScriptModel() override;

    at::Tensor forward(const at::Tensor& input) override;
    // The arguments of the file's `forward` that have no default, if there are several.
    std::vector<std::string> inputs() const override;
    at::Tensor outputs(const DeviceBatch& batch) override;
    void train(bool training) override;
    // Attributes that are neither parameters nor buffers, and constants of the graphs: those with dimensions. A tensor
    // without is a number, which operations on a GPU take from the host.
    std::vector<at::Tensor> constants() const override;

    // A copy of the module in evaluation mode on the CPU.
    torch::jit::Module eval_copy() const;

  private:
    at::Tensor run(std::vector<at::Tensor> given);

    std::unique_ptr<torch::jit::Module> module_;
};

}  // namespace stoker
