// A trace knows the parameters by their tensors: those of a module tree, made from the dots in their names, appear in
// it as that tree's, not as constants.
#include "stoker/models/torchscript_export.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/rand.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <map>
#include <sstream>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/models/exported_model.h"
#include "stoker/models/torchscript_model.h"
#include "stoker/models/weights.h"

namespace stoker {
namespace {

using torch::jit::Module;

// "layer1.0.conv1.weight" goes to weight of conv1 of 0 of layer1; modules are made on the way.
class ModuleTree {
  public:
    explicit ModuleTree(Module root) { add_module("", std::move(root)); }

    void add(const NamedTensor& entry, bool is_buffer) {
        const std::size_t dot = entry.name.rfind('.');
        const std::string owner = dot == std::string::npos ? "" : entry.name.substr(0, dot);
        const std::string leaf = dot == std::string::npos ? entry.name : entry.name.substr(dot + 1);
        module(owner).register_parameter(leaf, entry.tensor, is_buffer);
    }

  private:
    Module& module(const std::string& name) {
        if (const auto found = modules_.find(name); found != modules_.end()) {
            return found->second;
        }
        const std::size_t dot = name.rfind('.');
        Module& parent = module(dot == std::string::npos ? "" : name.substr(0, dot));
        // A type of its own for each, named as Python names types.
        Module own(c10::QualifiedName("__torch__.stoker.Module" + std::to_string(modules_.size())),
                   modules_.at("")._ivalue()->compilation_unit());
        parent.register_module(dot == std::string::npos ? name : name.substr(dot + 1), own);
        return add_module(name, std::move(own));
    }

    Module& add_module(const std::string& name, Module own) {
        own.register_attribute("training", c10::BoolType::get(), false);  // Python's modules have it
        return modules_.emplace(name, std::move(own)).first->second;
    }

    std::map<std::string, Module> modules_;
};

Module traced(Model& model, const at::Tensor& example) {
    Module root("__torch__.stoker.Model");
    ModuleTree tree(root);
    for (const NamedTensor& entry : model.parameters()) {
        tree.add(entry, /*is_buffer=*/false);
    }
    for (const NamedTensor& entry : model.buffers()) {
        tree.add(entry, /*is_buffer=*/true);
    }
    const auto forward = [&](torch::jit::Stack inputs) -> torch::jit::Stack {
        return {model.forward(inputs.front().toTensor())};
    };
    const auto no_names = [](const at::Tensor&) { return std::string(); };
    const auto state = torch::jit::tracer::trace({example}, forward, no_names, /*strict=*/true,
                                                 /*force_outplace=*/false, &root, {"images"})
                           .first;
    torch::jit::Function* function = root._ivalue()->compilation_unit()->create_function(
        c10::QualifiedName(*root.type()->name(), "forward"), state->graph);
    root.type()->addMethod(function);
    return root;
}

// A size that was taken from the example instead of from the batch shows on a batch of another.
void require_equal(Model& model, Module& module, const at::Tensor& images) {
    bool equal = false;
    std::string why = "another result";
    try {
        equal = at::allclose(module.forward({images}).toTensor(), model.forward(images), 1e-4, 1e-5);
    } catch (const std::exception& error) {  // c10::Error, or the interpreter's own
        why = first_sentence(error.what());
    }
    if (!equal) {
        throw Unsupported({.where = "export",
                           .expected = "a traced model that is right for batches of any size",
                           .got = why,
                           .hint = "write the weights instead: -o OUT.safetensors"});
    }
}

void save(const Module& module, const std::string& path, const std::string& about) {
    std::ostringstream bytes;
    module.save(bytes, {{"stoker.json", about}});
    write_file(path, bytes.view());
}

}  // namespace

void save_torchscript(Model& model, const Shape& image, const std::string& path, const std::string& about) {
    require_finite(model, "export");
    if (const auto* script = dynamic_cast<TorchScriptModel*>(&model)) {
        save(script->for_saving(), path, about);
        return;
    }
    if (dynamic_cast<ExportedModel*>(&model) != nullptr) {
        throw Unsupported({.where = path,
                           .expected = "the weights of an exported model, which fit the Python model that it came from",
                           .got = "TorchScript",
                           .hint = "-o OUT.safetensors"});
    }
    const c10::NoGradGuard no_grad;
    const bool training = model.training();
    model.train(false);
    const auto images = [&](std::int64_t batch) {
        std::vector<std::int64_t> shape = image;
        shape.insert(shape.begin(), batch);
        return at::rand(shape);
    };
    Module module = traced(model, images(2));
    for (const std::int64_t batch : {1, 3}) {
        require_equal(model, module, images(batch));
    }
    save(module, path, about);
    model.train(training);
}

}  // namespace stoker
