// stoker export: writes a trained model for other programs.
#include <filesystem>
#include <fmt/format.h>
#include <system_error>
#include <utility>

#include "cli/terminal/output_path.h"
#include "cli/terminal/print.h"
#include "engine/commands.h"
#include "engine/commands/checkpoint_argument.h"
#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"
#include "stoker/base/pluralize.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/models/torchscript_export.h"
#include "stoker/pipeline/recipe_data.h"
#include "stoker/track/recipe_keys.h"
#include "stoker/train/run/checkpoint.h"
#include "stoker/train/run/run_setup.h"

namespace stoker::cli {
namespace {

struct ExportArguments : TrainedOptions {
    std::string out;
};

// data.val_ops of a recipe, as text.
std::string val_ops(const std::string& recipe) {
    return recipe.empty() ? "" : recipe_keys(recipe, "the recipe")["data.val_ops"];
}

// The shape (C, H, W) of the model's images. It is in the checkpoint; the data is opened only if data.val_ops differ
// from those of the training, or if the checkpoint does not have the shape.
Shape image_shape(const Trained& trained, const ModelMetadata& metadata) {
    const Recipe& recipe = trained.recipe;
    Shape stored = input_of(metadata);
    if (!stored.empty() && val_ops(read_trained_recipe(trained.checkpoint)) == val_ops(recipe_to_toml(recipe))) {
        return stored;
    }
    const at::Device cpu = at::kCPU;
    RecipeData data = open_data(recipe.data);
    Recipe single_threaded = recipe;
    single_threaded.data.workers = 0;
    single_threaded.data.cache = "none";
    const auto loader =
        make_predict_loader(single_threaded, data.val != nullptr ? data.val : data.train, cpu, false, metadata);
    return loader->image_shape();
}

// Throws InvalidArgument if the output would take the place of a file that the recipe's model is made from.
void require_other_file(const std::string& out, const ModelRecipe& model) {
    for (const auto& [key, file] : {std::pair("model.script", model.script), std::pair("model.export", model.exported),
                                    std::pair("model.weights", model.weights)}) {
        std::error_code none;
        if (!file.empty() && std::filesystem::equivalent(out, file, none)) {
            throw InvalidArgument({.where = out,
                                   .expected = fmt::format("another file than {} of the recipe", key),
                                   .got = "that file",
                                   .hint = "choose another name for the output"});
        }
    }
}

int run(const ExportArguments& options) {
    const bool script = options.out.ends_with(".pt");
    if (!script && !options.out.ends_with(".safetensors")) {
        throw InvalidArgument(
            {.where = "-o",
             .expected = "a file name that ends in .safetensors (weights) or .pt (TorchScript)",
             .got = options.out,
             .hint = options.out.ends_with(".onnx")
                         ? fmt::format("Python writes it: stoker.export_onnx(\"{}\", \"{}\")", options.run, options.out)
                         : ""});
    }
    require_writable_file(options.out);
    if (script && !open_recipe(options).model.exported.empty()) {
        throw Unsupported({.where = "-o",
                           .expected = "a .safetensors name: only the weights of a model.export model can be exported, "
                                       "for the Python model it came from",
                           .got = "TorchScript",
                           .hint = "-o OUT.safetensors"});
    }
    const auto trained = open_trained(options);
    if (!trained.note.empty()) {
        print_stderr("{}\n", trained.note);
    }
    const Recipe& recipe = trained.recipe;
    std::vector<std::string> data = training_sets(recipe.data);
    data.push_back(recipe.data.val);
    require_outside_data(options.out, data);
    require_other_file(options.out, recipe.model);
    const auto& checkpoint = trained.checkpoint;
    ModelFile weights = read_model(checkpoint);
    for (NamedTensor& entry : weights.tensors) {
        entry.tensor = entry.tensor.clone();  // they are views of a file, which may be damaged while they are written
    }
    check_maps();
    if (script && !inputs_of(weights.metadata).empty()) {
        throw Unsupported({.where = "-o",
                           .expected = "a .safetensors name: only the weights of a model of several inputs can be "
                                       "exported, for the Python model it came from",
                           .got = "TorchScript",
                           .hint = "-o OUT.safetensors"});
    }
    if (!script) {
        write_tensors(options.out, weights.tensors, weights.metadata);
    } else {
        with_stoker_errors([&] {
            const Shape image = image_shape(trained, weights.metadata);
            const bool classifies = task_named(recipe.task) == TaskKind::classification;  // others store their outputs
            const std::int64_t classes = classifies ? std::ssize(class_names(recipe, checkpoint)) : 0;
            Task task = trained_task(recipe, weights.metadata, image, classes);
            const auto model = make_trained_model(recipe, weights, task, at::kCPU, {});
            save_torchscript(*model, image, options.out, to_json(weights.metadata));
        });
    }
    print_stderr("{}: {} of {}\n", options.out, pluralize(std::ssize(weights.tensors), "tensor"), checkpoint.string());
    return 0;
}

}  // namespace

Command add_export(CLI::App& app) {
    auto options = std::make_shared<ExportArguments>();
    add_trained_options(app, *options, "device=cpu");
    app.add_option("-o,--out", options->out, "OUT.safetensors: the weights; OUT.pt: the whole model as TorchScript")
        ->type_name("OUT")
        ->required();
    example(app,
            "  stoker export runs/digits -o digits.pt\n"
            "  stoker export runs/digits -o digits.safetensors\n"
            "If the run averaged its weights (train.ema), the averages are exported.");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli
