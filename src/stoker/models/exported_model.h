// A model that Python exported as two graphs: a training step that returns loss and gradients, and the forward pass in
// evaluation mode. Weights and buffers belong to the Model and are inputs of the graphs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stoker/io/zip.h"
#include "stoker/models/exported_graph.h"
#include "stoker/models/model.h"

namespace stoker {

// An input that a model takes from a batch.
struct ExportedInput {
    std::string name = {};             // of a field; empty if there is one input, of any name
    Shape shape;                       // of one sample: (C, H, W), or (T) tokens
    at::ScalarType type = at::kFloat;  // used if there are several inputs
};

// The parts of a .pt2 file that are not graphs: a description of the model and its initial weights, both written by
// python/stoker/export.py.
struct ExportedFile {
    std::unique_ptr<const ZipFile> zip;  // still open, so that LibTorch loads the file that was checked
    bool compiled = false;
    std::string device;  // "cpu" or "cuda", which the graphs were exported for
    std::vector<ExportedInput> inputs;
    std::optional<ExportedInput> target;  // without a name; empty in files of before
    std::int64_t smallest_batch = 1;
    std::vector<NamedTensor> parameters;
    std::vector<bool> trained;  // for each parameter: whether the training graph returns its gradient
    std::vector<NamedTensor> buffers;
};

// Throws IoError, DataError for a damaged file or one that export_training did not write, and Unsupported for another
// version of the format. Unless STOKER_TRUST_NATIVE=1 is set, throws Unsupported also for a file with compiled graphs,
// and DataError for one that is not known to be without native code (formats/pt2/pt2_check.h).
ExportedFile read_exported_file(const std::string& path);

class ExportedModel final : public Model {
  public:
    // `input` is the shape of one sample, `device` where the model will run. Throws as read_exported_file and
    // ExportedGraph do, and InvalidArgument if the model was exported for another shape.
    ExportedModel(const std::string& path, const Shape& input, const at::Device& device = at::kCPU);

    // Runs the evaluation graph, also in training mode.
    at::Tensor forward(const at::Tensor& input) override;
    std::vector<std::string> inputs() const override;
    at::Tensor outputs(const DeviceBatch& batch) override;
    // Runs the training graph: the exported loss, whose gradients are kept for `backward`, and new buffer values.
    // Throws InvalidArgument for label smoothing, and for targets of another type or shape than the exported ones.
    at::Tensor loss(const DeviceBatch& batch, const LossOptions& options = {}) override;
    void backward(const at::Tensor& loss, const at::Tensor& gradient = {}) override;
    void require_autograd() const override;

  private:
    ExportedModel(const std::string& path, const Shape& input, const at::Device& device, const ExportedFile& file);
    std::vector<at::Tensor> take_inputs(const DeviceBatch& batch) const;
    void require_target(const at::Tensor& target) const;
    std::vector<at::Tensor> with_state(std::vector<at::Tensor> batch) const;
    void require_outputs(const std::vector<at::Tensor>& outputs) const;

    std::string path_;
    std::string device_;
    std::vector<ExportedInput> inputs_;
    std::optional<ExportedInput> target_;
    std::int64_t smallest_batch_;
    ExportedGraph train_;
    ExportedGraph eval_;
    std::vector<NamedTensor> trained_;   // the parameters with a gradient
    std::vector<at::Tensor> gradients_;  // of the last loss, in the order of trained_
};

}  // namespace stoker
