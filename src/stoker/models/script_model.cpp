// Graphs run as written, operator by operator: LibTorch's profiling executor would change roundings between the first
// steps and those after.
#include "stoker/models/script_model.h"

#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <string_view>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/bridge/torch_error.h"

namespace stoker {
namespace {

[[noreturn]] void refuse(const std::string& path, std::string_view why) {
    throw DataError({.path = path}, {.where = "model.script",
                                     .expected = "a TorchScript module with `forward`",
                                     .got = first_sentence(why),
                                     .hint = "write it with torch.jit.script(net).save(path)"});
}

torch::jit::Module load_module(const std::string& path) {
    const MappedFile readable(path);  // for IoError: LibTorch's own text tells of its sources
    try {
        // Straight to a GPU it would wait for every tensor.
        torch::jit::Module module = torch::jit::load(path, at::Device(at::kCPU));
        if (!module.find_method("forward")) {
            refuse(path, "a module without it");
        }
        return module;
    } catch (const c10::Error& error) {
        refuse(path, error.what_without_backtrace());
    } catch (const Error&) {
        throw;
    } catch (const std::exception& error) {
        refuse(path, error.what());
    }
}

// The interpreter tells of an operator's error as text: a traceback, and what was wrong in its last line.
[[noreturn]] void rethrow(const std::exception& error) {
    std::string text = error.what();
    text.resize(text.find_last_not_of(" \n") + 1);
    const std::string last = first_sentence(std::string_view(text).substr(text.rfind('\n') + 1));
    const bool no_memory =
        text.find("out of memory") != std::string::npos || text.find("DefaultCPUAllocator") != std::string::npos;
    TORCH_CHECK_WITH(OutOfMemoryError, !no_memory, last);  // a step tries again with smaller batches
    TORCH_CHECK(false, last);
}

}  // namespace

ScriptModel::ScriptModel(const std::string& path)
    : path_(path), module_(std::make_unique<torch::jit::Module>(load_module(path))) {
    for (const auto& entry : module_->named_parameters()) {
        const bool trained = entry.value.requires_grad();
        parameter(entry.name, entry.value).requires_grad_(trained);
    }
    for (const auto& entry : module_->named_buffers()) {
        buffer(entry.name, entry.value);
    }
    module_->train(true);
}

ScriptModel::~ScriptModel() = default;

at::Tensor ScriptModel::forward(const at::Tensor& input) {
    const torch::jit::GraphOptimizerEnabledGuard as_written(false);
    c10::IValue output;
    try {
        output = module_->forward({input});
    } catch (const std::exception& error) {
        rethrow(error);
    }
    if (!output.isTensor()) {
        throw InvalidArgument({.where = "model.script",
                               .expected = "a `forward` that gives one tensor, the logits",
                               .got = output.tagKind()});
    }
    return std::move(output).toTensor();
}

void ScriptModel::train(bool training) {
    Model::train(training);
    module_->train(training);
}

torch::jit::Module ScriptModel::for_saving() const {
    torch::jit::Module copy = module_->deepcopy(at::Device(at::kCPU));
    copy.eval();
    return copy;
}

}  // namespace stoker
