// Both runners are in libtorch_cpu. A compiled graph is a shared library inside the file, which LibTorch unpacks and
// opens. An interpreted one may contain such libraries too, so read_exported_file checks both kinds first.
#include "stoker/models/exported_graph.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/nativert/ModelRunnerHandle.h>

#include <optional>
#include <string_view>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/bridge/torch_error.h"

namespace stoker {
namespace {

// Silences nativert's warning that lists the operators without a specialised kernel.
class QuietLog {
  public:
    QuietLog() { FLAGS_caffe2_log_level = std::max(FLAGS_caffe2_log_level, kErrors); }
    QuietLog(const QuietLog&) = delete;
    QuietLog& operator=(const QuietLog&) = delete;
    ~QuietLog() { FLAGS_caffe2_log_level = before_; }

  private:
    static constexpr int kErrors = 2;
    int before_ = FLAGS_caffe2_log_level;
};

[[noreturn]] void refuse(const std::string& path, const std::string& name, std::string_view why) {
    throw DataError({.path = path}, {.where = "model.export",
                                     .expected = "a graph \"" + name + "\" that LibTorch can load",
                                     .got = first_sentence(why)});
}

}  // namespace

struct ExportedGraph::Runner {
    std::optional<torch::nativert::ModelRunnerHandle> interpreted;
    std::optional<torch::inductor::AOTIModelPackageLoader> compiled;
};

ExportedGraph::ExportedGraph(const File& file, const std::string& path, const std::string& name, bool compiled,
                             const at::Device& device)
    : runner_(std::make_unique<Runner>()) {
    const QuietLog quiet;
    try {
        if (compiled) {
            dlopen("libtorch.so", RTLD_NOW | RTLD_GLOBAL);  // an empty library that compiled ones depend on
            // For several threads LibTorch would wait for the last run's event, which a CUDA graph cannot capture.
            constexpr bool kOneThread = true;
            constexpr std::size_t kRunners = 1;
            runner_->compiled.emplace(file.descriptor_path(), name, kOneThread, kRunners, device.index());
        } else {
            runner_->interpreted.emplace(file.descriptor_path(), name);
        }
    } catch (const c10::Error& error) {
        refuse(path, name, error.what_without_backtrace());
    } catch (const std::exception& error) {
        refuse(path, name, error.what());
    }
}

ExportedGraph::ExportedGraph(ExportedGraph&&) noexcept = default;
ExportedGraph::~ExportedGraph() = default;

std::vector<at::Tensor> ExportedGraph::run(std::vector<at::Tensor> inputs) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    if (runner_->compiled) {
        return runner_->compiled->run(inputs);
    }
    const QuietLog quiet;  // nativert warns in its first run
    std::vector<c10::IValue> values;
    values.reserve(inputs.size());
    for (at::Tensor& input : inputs) {
        values.emplace_back(std::move(input));
    }
    std::vector<at::Tensor> outputs;
    for (c10::IValue& value : runner_->interpreted->runWithFlatInputsAndOutputs(std::move(values))) {
        outputs.push_back(std::move(value).toTensor());
    }
    return outputs;
}

}  // namespace stoker
