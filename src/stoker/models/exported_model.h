// A model that Python exported as graphs: one training step with its gradients, and the forward pass of evaluation.
// The weights are ours; the graphs take them as inputs.
#pragma once

#include <string>
#include <vector>

#include "stoker/models/exported_graph.h"
#include "stoker/models/model.h"

namespace stoker {

class ExportedModel final : public Model {
  public:
    // `input` is (C, H, W) of one sample. Throws what reading throws, and InvalidArgument for a file of other images.
    ExportedModel(const std::string& path, const Shape& input);

    // The graph of evaluation, also in training mode.
    at::Tensor forward(const at::Tensor& input) override;
    // The loss that was exported, with its gradients and new buffers. Throws InvalidArgument for options, which it
    // cannot take.
    at::Tensor loss(const at::Tensor& input, const at::Tensor& label, const LossOptions& options = {}) override;
    void backward(const at::Tensor& loss, const at::Tensor& gradient = {}) override;

  private:
    struct Parts;
    ExportedModel(const std::string& path, const Shape& input, Parts parts);
    std::vector<at::Tensor> with_state(std::vector<at::Tensor> batch) const;
    void require_outputs(const std::vector<at::Tensor>& outputs) const;

    std::string path_;
    std::string device_;
    std::int64_t smallest_batch_;
    ExportedGraph train_;
    ExportedGraph eval_;
    std::vector<NamedTensor> trained_;   // the parameters with a gradient
    std::vector<at::Tensor> gradients_;  // of the last loss, one for each of them
};

}  // namespace stoker
