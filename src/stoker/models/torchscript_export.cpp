// The forward pass is traced with a module tree, which is built from the dots in the parameters' names. Tensors of that
// tree become parameters of the saved module; the tracer would make other tensors constants.
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

// Nested modules: "layer1.0.conv1.weight" becomes `weight` of module `conv1` in `0` in `layer1`.
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
        // Each module has its own type, named as Python names them.
        Module own(c10::QualifiedName("__torch__.stoker.Module" + std::to_string(modules_.size())),
                   modules_.at("")._ivalue()->compilation_unit());
        parent.register_module(dot == std::string::npos ? name : name.substr(dot + 1), own);
        return add_module(name, std::move(own));
    }

    Module& add_module(const std::string& name, Module own) {
        own.register_attribute("training", c10::BoolType::get(), false);  // as modules of Python have
        return modules_.emplace(name, std::move(own)).first->second;
    }

    std::map<std::string, Module> modules_;
};

Module trace(Model& model, const at::Tensor& example) {
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

// Compares trace and model for one batch. A trace that has the example's batch size as a constant fails for others.
void require_equal(Model& model, Module& module, const at::Tensor& images) {
    bool equal = false;
    std::string got = "a different result";
    try {
        equal = at::allclose(module.forward({images}).toTensor(), model.forward(images), 1e-4, 1e-5);
    } catch (const std::exception& error) {  // c10::Error, or the interpreter's own
        got = first_sentence(error.what());
    }
    if (!equal) {
        throw Unsupported({.where = "export",
                           .expected = "a traced model that gives the model's results for any batch size",
                           .got = got,
                           .hint = "write the weights instead: -o OUT.safetensors"});
    }
}

void save(const Module& module, const std::string& path, const std::string& metadata) {
    std::ostringstream bytes;
    module.save(bytes, {{"stoker.json", metadata}});
    write_file(path, bytes.view());
}

}  // namespace

void save_torchscript(Model& model, const Shape& image, const std::string& path, const std::string& metadata) {
    require_finite(model, "export");
    if (const auto* script = dynamic_cast<TorchScriptModel*>(&model)) {
        save(script->eval_copy(), path, metadata);
        return;
    }
    if (dynamic_cast<ExportedModel*>(&model) != nullptr) {
        throw Unsupported({.where = path,
                           .expected = "a .safetensors file, since an exported model cannot become TorchScript",
                           .got = "a .pt file",
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
    Module module = trace(model, images(2));
    for (const std::int64_t batch : {1, 3}) {
        require_equal(model, module, images(batch));
    }
    save(module, path, metadata);
    model.train(training);
}

}  // namespace stoker
