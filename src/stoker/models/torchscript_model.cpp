// Graphs run as written, operator by operator: LibTorch's profiling executor would change roundings between the first
// steps and those after.
#include "stoker/models/torchscript_model.h"

#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <optional>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/io/zip.h"
#include "stoker/models/custom_model.h"

namespace stoker {
namespace {

constexpr const char* kWriteIt = "write it with torch.jit.script(net).save(path)";

[[noreturn]] void refuse(const std::string& path, std::string_view why, const char* hint = kWriteIt) {
    throw DataError({.path = "model.script: " + path}, {.where = "model.script",
                                                        .expected = "a TorchScript module with `forward`",
                                                        .got = first_sentence(why),
                                                        .hint = hint});
}

// What else PyTorch writes; null: none of these. All but the oldest are zips of members below one folder.
struct OtherFile {
    const char* is = nullptr;
    const char* hint = nullptr;
};

OtherFile other_kind(std::span<const std::byte> bytes) {
    constexpr OtherFile kSaved{"one that torch.save wrote", kWriteIt};
    constexpr std::array kPickle{std::byte{0x80}, std::byte{2}};
    if (!is_zip(bytes)) {
        return bytes.size() > kPickle.size() && std::ranges::equal(bytes.first(kPickle.size()), kPickle) ? kSaved
                                                                                                         : OtherFile();
    }
    try {
        const ZipFile zip(bytes);
        const auto has = [&](std::string_view name) {
            return std::ranges::any_of(zip.entries(),
                                       [&](const ZipEntry& entry) { return entry.name.ends_with(name); });
        };
        if (has("/constants.pkl")) {
            return {};
        }
        if (has("/extra/stoker.json")) {
            return {"a .pt2 file of export_training", "set model.export in place of model.script"};
        }
        if (has("/archive_format")) {
            return {"a .pt2 file of torch.export",
                    "model.export takes such files as export_training writes (python/stoker/export.py)"};
        }
        return has("/data.pkl") ? kSaved : OtherFile();
    } catch (const Error&) {
        return {};  // damaged: LibTorch says where
    }
}

// Whether an operator that differs between training and evaluation, such as batch norm and dropout, has one of the two
// as a constant. A script asks the module; a trace keeps what the module was when it was made.
bool keeps_its_mode(const torch::jit::Node& node) {
    const c10::FunctionSchema* schema = node.maybeSchema();
    if (schema == nullptr) {
        return false;
    }
    const auto constant = [&](const char* name) -> std::optional<c10::IValue> {
        const auto index = schema->argumentIndexWithName(name);
        return index ? torch::jit::toIValue(node.input(*index)) : std::nullopt;
    };
    if (constant("training") || constant("train")) {
        return true;
    }
    if (constant("use_input_stats")) {  // instance norm: no matter where it has no others
        const auto mean = constant("running_mean");
        return !mean || !mean->isNone();
    }
    const auto share = constant("dropout_p");  // attention
    return share && share->isDouble() && share->toDouble() > 0;
}

void require_both_modes(const std::string& path, at::ArrayRef<const torch::jit::Block*> blocks) {
    for (const torch::jit::Block* block : blocks) {
        for (const torch::jit::Node* node : block->nodes()) {
            if (keeps_its_mode(*node)) {
                throw DataError(
                    {.path = "model.script: " + path},
                    {.where = "model.script",
                     .expected = "a model that trains and evaluates",
                     .got = fmt::format("a trace whose {} does only one of them", node->kind().toQualString()),
                     .hint = "script it instead (torch.jit.script); to train on after "
                             "`stoker export`, set model.weights to the run folder"});
            }
            require_both_modes(path, node->blocks());
        }
    }
}

torch::jit::Module load_module(const std::string& path) {
    const MappedFile file = open_custom_model("model.script", path);  // LibTorch's own text tells of its sources
    if (const OtherFile other = other_kind(file.bytes()); other.is != nullptr) {
        refuse(path, other.is, other.hint);
    }
    try {
        // Straight to a GPU it would wait for every tensor.
        torch::jit::Module module = torch::jit::load(path, at::Device(at::kCPU));
        if (!module.find_method("forward")) {
            refuse(path, "a module without it");
        }
        for (const torch::jit::Module& part : module.modules()) {
            for (const torch::jit::Method& method : part.get_methods()) {
                const torch::jit::Block* whole = method.graph()->block();
                require_both_modes(path, {whole});
            }
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
    const std::string last = text.substr(text.rfind('\n') + 1);
    TORCH_CHECK_WITH(OutOfMemoryError, !is_out_of_memory(error), last);  // a step tries again with smaller batches
    TORCH_CHECK(false, first_sentence(last));
}

}  // namespace

TorchScriptModel::TorchScriptModel(const std::string& path)
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

TorchScriptModel::~TorchScriptModel() = default;

at::Tensor TorchScriptModel::forward(const at::Tensor& input) {
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

void TorchScriptModel::train(bool training) {
    Model::train(training);
    module_->train(training);
}

torch::jit::Module TorchScriptModel::for_saving() const {
    torch::jit::Module copy = module_->deepcopy(at::Device(at::kCPU));
    copy.eval();
    return copy;
}

}  // namespace stoker
