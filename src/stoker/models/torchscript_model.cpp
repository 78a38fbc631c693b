// Graphs run operator by operator, as written. LibTorch's profiling executor would fuse operators after the first
// steps, which changes rounding. A TorchScript file cannot bring native code: its operators and classes are those
// registered in LibTorch, and none of those opens a library. But loading is not sandboxed: it runs the file's
// __setstate__ methods, and aten::save and aten::from_file write files.
#include "stoker/models/torchscript_model.h"

#include <ATen/MemoryOverlap.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/io/zip.h"
#include "stoker/models/imported_model.h"

namespace stoker {
namespace {

constexpr const char* kSaveScript = "write it with torch.jit.script(net).save(path)";

[[noreturn]] void refuse(const std::string& path, std::string_view why, const char* hint = kSaveScript) {
    throw DataError({.path = "model.script: " + path}, {.where = "model.script",
                                                        .expected = "a TorchScript module with `forward`",
                                                        .got = first_sentence(why),
                                                        .hint = hint});
}

// A file of PyTorch that is not TorchScript; nulls for all others. Except for the oldest format, these are zip files
// with members below one folder.
struct OtherFile {
    const char* kind = nullptr;
    const char* hint = nullptr;
};

OtherFile detect_other_file(std::span<const std::byte> bytes) {
    constexpr OtherFile kSaved{"a file that torch.save wrote", kSaveScript};
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
            return {"a .pt2 file of export_training", "set model.export instead of model.script"};
        }
        if (has("/archive_format")) {
            return {"a .pt2 file of torch.export",
                    "model.export needs a file that export_training wrote (python/stoker/export.py)"};
        }
        return has("/data.pkl") ? kSaved : OtherFile();
    } catch (const Error&) {
        return {};  // damaged: torch::jit::load reports it
    }
}

// Whether an operator that differs between training and evaluation, such as batch norm or dropout, has the mode as a
// constant. A script reads it from the module; a trace has the mode in which it was traced.
bool has_fixed_mode(const torch::jit::Node& node) {
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
    if (constant("use_input_stats")) {  // instance norm; without running statistics the modes are equal
        const auto mean = constant("running_mean");
        return !mean || !mean->isNone();
    }
    const auto share = constant("dropout_p");  // attention
    return share && share->isDouble() && share->toDouble() > 0;
}

void require_both_modes(const std::string& path, at::ArrayRef<const torch::jit::Block*> blocks) {
    for (const torch::jit::Block* block : blocks) {
        for (const torch::jit::Node* node : block->nodes()) {
            if (has_fixed_mode(*node)) {
                throw DataError(
                    {.path = "model.script: " + path},
                    {.where = "model.script",
                     .expected = "a model for both training and evaluation",
                     .got = fmt::format("a trace whose {} is fixed to one of them", node->kind().toQualString()),
                     .hint = "script it instead (torch.jit.script); to continue training "
                             "after `stoker export`, set model.weights to the run folder"});
            }
            require_both_modes(path, node->blocks());
        }
    }
}

// The buffer that a node replaces by another tensor; "" for other nodes. Batch norm of older versions of PyTorch counts
// its batches so, which changes nothing as long as it has a momentum.
std::string replaced_buffer(const torch::jit::Node& node) {
    if (node.kind() != torch::jit::prim::SetAttr) {
        return "";
    }
    const std::string& name = node.s(torch::jit::attr::name);
    const auto type = node.input(0)->type()->cast<c10::ClassType>();
    const auto slot = type != nullptr ? type->findAttributeSlot(name) : std::nullopt;
    return slot && type->is_buffer(*slot) && name != "num_batches_tracked" ? name : "";
}

// A tensor that replaces another is in no checkpoint, and a CUDA graph reads the memory of the one before.
void require_same_tensors(const std::string& path, at::ArrayRef<const torch::jit::Block*> blocks) {
    for (const torch::jit::Block* block : blocks) {
        for (const torch::jit::Node* node : block->nodes()) {
            if (const std::string name = replaced_buffer(*node); !name.empty()) {
                throw DataError({.path = "model.script: " + path},
                                {.where = "model.script",
                                 .expected = "buffers that stay the same tensors",
                                 .got = fmt::format("a method that replaces self.{}", name),
                                 .hint = fmt::format("write self.{}.copy_(...) instead", name)});
            }
            require_same_tensors(path, node->blocks());
        }
    }
}

// Calls visit(value) for the constants of a block and of those within it.
template <typename Visit>
void visit_constants(const torch::jit::Block* block, const Visit& visit) {
    for (const torch::jit::Node* node : block->nodes()) {
        if (node->kind() == torch::jit::prim::Constant) {
            if (const auto value = torch::jit::toIValue(node->output())) {
                visit(*value);
            }
        }
        for (const torch::jit::Block* inner : node->blocks()) {
            visit_constants(inner, visit);
        }
        if (node->hasAttribute(torch::jit::attr::Subgraph)) {
            visit_constants(node->g(torch::jit::attr::Subgraph)->block(), visit);
        }
    }
}

torch::jit::Module load_module(const std::string& path) {
    const MappedFile file = open_imported_model("model.script", path);
    if (const OtherFile other = detect_other_file(file.bytes()); other.kind != nullptr) {
        refuse(path, other.kind, other.hint);
    }
    try {
        // Loading to a GPU directly would synchronise for every tensor.
        torch::jit::Module module = torch::jit::load(path, at::Device(at::kCPU));
        if (!module.find_method("forward")) {
            refuse(path, "a module without forward");
        }
        for (const torch::jit::Module& part : module.modules()) {
            for (const torch::jit::Method& method : part.get_methods()) {
                const torch::jit::Block* body = method.graph()->block();
                require_both_modes(path, {body});
                require_same_tensors(path, {body});
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

// The interpreter reports an operator's error as text: a traceback whose last line is the message.
[[noreturn]] void rethrow(const std::exception& error) {
    const auto* own = dynamic_cast<const c10::Error*>(&error);  // its what() has frames of C++ below, from 2.15 on
    std::string text = own != nullptr ? own->what_without_backtrace() : error.what();
    text.resize(text.find_last_not_of(" \n") + 1);
    const std::string last = text.substr(text.rfind('\n') + 1);
    TORCH_CHECK_WITH(OutOfMemoryError, !is_out_of_memory(error), last);  // the step is retried in smaller parts
    TORCH_CHECK(false, first_sentence(last));
}

}  // namespace

TorchScriptModel::TorchScriptModel(const std::string& path)
    : module_(std::make_unique<torch::jit::Module>(load_module(path))) {
    for (const auto& entry : module_->named_parameters()) {
        const bool trained = entry.value.requires_grad();
        parameter(entry.name, entry.value).requires_grad_(trained);
    }
    for (const auto& entry : module_->named_buffers()) {
        if (at::has_internal_overlap(entry.value) == at::MemOverlap::Yes) {
            entry.value.set_data(entry.value.contiguous());  // an expanded one could not be loaded
        }
        buffer(entry.name, entry.value);
    }
    module_->train(true);
}

TorchScriptModel::~TorchScriptModel() = default;

at::Tensor TorchScriptModel::forward(const at::Tensor& input) {
    return run({input});
}

std::vector<std::string> TorchScriptModel::inputs() const {
    std::vector<std::string> names;
    const torch::jit::Method forward = module_->get_method("forward");
    const std::vector<c10::Argument>& all = forward.function().getSchema().arguments();
    for (const c10::Argument& argument : std::span(all).subspan(1)) {  // behind the module, whatever its name
        if (!argument.default_value()) {
            names.push_back(argument.name());
        }
    }
    return names.size() > 1 ? names : std::vector<std::string>();
}

at::Tensor TorchScriptModel::outputs(const DeviceBatch& batch) {
    return run(named_inputs(batch, inputs()));
}

at::Tensor TorchScriptModel::run(std::vector<at::Tensor> given) {
    const torch::jit::GraphOptimizerEnabledGuard as_written(false);
    c10::IValue output;
    try {
        output = module_->forward({given.begin(), given.end()});
    } catch (const std::exception& error) {
        rethrow(error);
    }
    if (!output.isTensor()) {
        throw InvalidArgument({.where = "model.script",
                               .expected = "a `forward` that returns one tensor, the logits",
                               .got = output.tagKind()});
    }
    return std::move(output).toTensor();
}

void TorchScriptModel::train(bool training) {
    Model::train(training);
    module_->train(training);
}

std::vector<at::Tensor> TorchScriptModel::constants() const {
    std::vector<at::Tensor> found;
    std::set<const c10::TensorImpl*> seen;
    for (const NamedTensor& own : state()) {
        seen.insert(own.tensor.unsafeGetTensorImpl());
    }
    const auto add = [&](const c10::IValue& value) {
        value.visit([&](const c10::IValue& part) {
            if (part.isTensor() && part.toTensor().dim() > 0 &&
                seen.insert(part.toTensor().unsafeGetTensorImpl()).second) {
                found.push_back(part.toTensor());
            }
            return false;
        });
    };
    add(module_->_ivalue());
    for (const torch::jit::Function* function : module_->_ivalue()->compilation_unit()->get_functions()) {
        visit_constants(toGraphFunction(*function).graph()->block(), add);
    }
    return found;
}

torch::jit::Module TorchScriptModel::eval_copy() const {
    torch::jit::Module copy = module_->deepcopy(at::Device(at::kCPU));
    copy.eval();
    return copy;
}

}  // namespace stoker
