// stoker predict: probabilities or values for each image, one row per image, in the order of the data; or a mask.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>

#include "cli/terminal/advice.h"
#include "cli/terminal/output_path.h"
#include "cli/terminal/print.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/table.h"
#include "engine/commands.h"
#include "engine/commands/checkpoint_argument.h"
#include "engine/commands/mask_folder.h"
#include "engine/commands/prediction_file.h"
#include "engine/ranks.h"
#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/url_secrets.h"
#include "stoker/formats/folder/image_folder.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/open.h"
#include "stoker/formats/paired/paired_folder.h"
#include "stoker/formats/shard_names.h"
#include "stoker/pipeline/recipe_data.h"
#include "stoker/pipeline/transforms/op_table.h"
#include "stoker/recipe/op_spec.h"
#include "stoker/train/run/checkpoint.h"
#include "stoker/train/run/predict.h"
#include "stoker/train/run/rank_checks.h"
#include "stoker/train/run/run_setup.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

struct PredictArguments : TrainedOptions {
    std::vector<std::string> data;
    std::string out;
    std::int64_t top = 0;
};

void require_exists(const std::string& path) {
    std::error_code error;
    const bool exists = fs::exists(path, error);
    if (!exists) {
        throw errno_error(path, "an image or a folder of images", error ? error.value() : ENOENT);
    }
}

// Expands patterns that the shell did not expand. Names of data sets stay: "x-{000..127}.tar" is one.
std::vector<std::string> expand_patterns(const std::vector<std::string>& given) {
    std::vector<std::string> paths;
    for (const std::string& path : given) {
        std::error_code unknown;
        const bool pattern = path.find_first_of("*?[{") != std::string::npos && !fs::exists(path, unknown);
        if (pattern && !is_other_than_image_folder(path)) {
            std::ranges::move(shard_names(path), std::back_inserter(paths));
        } else {
            paths.push_back(path);
        }
    }
    return paths;
}

// True for an image as a .npy file: several of them are images, and so is one of two sides.
bool is_npy_image(const std::string& path, bool alone) {
    return is_npy_name(path) && (!alone || npy_sides(path) == 2);
}

// One data set of any format, or any number of images and folders of images.
std::shared_ptr<const Dataset> open_images(const std::vector<std::string>& data, const DataRecipe& recipe) {
    use_memory_limit(recipe);
    const std::vector<std::string> paths = expand_patterns(data);
    const auto found = std::ranges::find_if(paths, [&](const std::string& path) {
        return is_other_than_image_folder(path) && !is_npy_image(path, paths.size() == 1);
    });
    if (found == paths.end()) {
        std::ranges::for_each(paths, require_exists);
        return std::make_shared<ImageFileList>(paths, recipe.frames > 0);
    }
    if (paths.size() > 1) {
        throw InvalidArgument({.where = *found,
                               .expected = "images and folders of images, where several paths are given",
                               .got = "a data set of another format",
                               .hint = "give it alone"});
    }
    OpenOptions options = open_options(recipe);
    options.fields.unlabelled = true;
    std::shared_ptr<const Dataset> dataset = open_dataset(*found, Split::test, options);
    if (const auto* paired = dynamic_cast<const PairedFolder*>(dataset.get())) {  // the masks need not be there
        return std::make_shared<ImageFileList>(std::vector{paired->image_folder()});
    }
    return dataset;
}

// The destination of predictions: rows of a file, or masks in a folder.
class Sink {
  public:
    virtual ~Sink() = default;
    virtual void write(const Prediction& prediction) = 0;
    virtual void finish() {}
    // A line that names the files written; empty for rows on stdout.
    virtual std::string place() const = 0;
};

class RowSink final : public Sink {
  public:
    RowSink(const PredictArguments& options, std::vector<std::string> columns, TaskKind task)
        : file_(options.out, std::move(columns), options.top, task), out_(options.out) {}
    void write(const Prediction& prediction) override { file_.write(prediction); }
    void finish() override { file_.finish(); }
    std::string place() const override { return out_.empty() ? "" : "written to " + out_; }

  private:
    PredictionFile file_;
    std::string out_;
};

class MaskSink final : public Sink {
  public:
    MaskSink(const PredictArguments& options, bool own_size)
        : folder_(options.out), out_(options.out), size_(own_size ? "the image" : "the model's input") {}
    void write(const Prediction& prediction) override { folder_.write(prediction); }
    std::string place() const override {
        const std::int64_t numbered = folder_.numbered();
        return fmt::format("masks in {}, of the size of {}{}", (fs::path(out_) / "").string(), size_,
                           numbered > 0 ? fmt::format("; {} numbered, as the name was taken", numbered) : "");
    }

  private:
    MaskFolder folder_;
    std::string out_;
    std::string size_;
};

// Passes predictions on and shows the progress.
class PredictionReport {
  public:
    PredictionReport(Sink& sink, std::int64_t size) : sink_(sink), size_(size) {}

    void add(const std::vector<Prediction>& batch) {
        for (const Prediction& prediction : batch) {
            sink_.write(prediction);
            if (!prediction.error.empty()) {
                ++bad_;
                progress_.clear();
                print_stderr("{}: {}\n", for_terminal(prediction.key, 100), for_terminal(prediction.error, 300));
                other_size_ = other_size_ || prediction.other_size;
            }
        }
        done_ += std::ssize(batch);
        progress_.update({.label = "predict",
                          .done = done_,
                          .total = size_,
                          .amount = static_cast<double>(done_),
                          .unit = "images"});
    }

    // Returns the exit status.
    int finish(const std::string& data, const std::string& resize_option) {
        sink_.finish();
        progress_.clear();
        const std::string place = sink_.place();
        print_stderr("{}: {}{}{}{}\n", data, pluralize(done_, "image"),
                     bad_ > 0 ? fmt::format(", {} of them bad", bad_) : "", place.empty() ? "" : "; ", place);
        if (other_size_) {
            print_stderr("for images of other sizes add: {}\n", resize_option);
        }
        return bad_ == done_ ? 1 : 0;
    }

  private:
    Sink& sink_;
    std::int64_t size_;
    ProgressBar progress_ = {};
    std::int64_t done_ = 0;
    std::int64_t bad_ = 0;
    bool other_size_ = false;
};

// The option that resizes images of any size to the model's input size; empty if the model takes any size.
std::string resize_option(const DataRecipe& recipe, const ModelMetadata& metadata) {
    const std::optional<ImageSize> size = required_size(recipe, metadata);
    if (!size) {
        return "";
    }
    if (recipe.sample_rate > 0) {
        return "data.sample_rate and data.seconds as in training";
    }
    std::string ops = fmt::format("{{op = \"resize\", size = [{}, {}]}}", size->height, size->width);
    for (const OpSpec& op : recipe.val_ops) {
        ops += ", " + op_to_toml(op);
    }
    return fmt::format("--set 'data.val_ops=[{}]'", ops);
}

void require_options(const PredictArguments& options, TaskKind task) {
    if (task != TaskKind::classification && options.top > 0) {
        throw BadSetting(
            {.where = "--top", .expected = "nothing, except for classification", .got = fmt::to_string(options.top)});
    }
    if (task != TaskKind::segmentation) {
        PredictionFile::check(options.out);
    } else {
        MaskFolder::check(options.out);
    }
}

std::unique_ptr<Sink> open_sink(const PredictArguments& options, TaskKind task, std::vector<std::string> columns,
                                bool own_size) {
    if (task == TaskKind::segmentation) {
        return std::make_unique<MaskSink>(options, own_size);
    }
    return std::make_unique<RowSink>(options, std::move(columns), task);
}

// What masks of the training data store for each class; empty: its number.
std::vector<std::int64_t> mask_values(const DataRecipe& recipe) {
    const auto mask = std::ranges::find(recipe.fields.more, "mask", &FieldRecipe::is);
    return mask == recipe.fields.more.end() ? std::vector<std::int64_t>() : mask->values;
}

// Keeps those of the recipe's further fields that the model takes: the data need not have the target.
void keep_inputs(DataRecipe& recipe, const std::vector<std::string>& data, const std::vector<std::string>& inputs) {
    std::erase_if(recipe.fields.more,
                  [&](const FieldRecipe& field) { return std::ranges::find(inputs, field.name) == inputs.end(); });
    const std::vector<std::string> paths = expand_patterns(data);
    if (!inputs.empty() && std::ranges::none_of(paths, is_other_than_image_folder)) {
        throw InvalidArgument({.where = data.front(),
                               .expected = fmt::format("a data set with the field{} {}, which the model takes",
                                                       inputs.size() == 1 ? "" : "s", fmt::join(inputs, ", ")),
                               .got = "images"});
    }
}

int run(const PredictArguments& options, const Group& group) {
    require_outside_data(options.out, options.data);
    if (PredictionFile::is_named(options.out)) {
        PredictionFile::check(options.out);
    }
    const TaskKind kind = task_named(open_recipe(options).task);
    require_options(options, kind);
    require_predictable({.kind = kind});
    auto [recipe, checkpoint, which] = open_trained(options);
    if (group.first() && !which.empty()) {
        print_stderr("{}\n", which);
    }
    recipe.data.cache = "none";  // each image is read once
    const ModelFile weights = read_model(checkpoint);
    const std::vector<std::string> columns = output_names(recipe, checkpoint, weights.metadata);
    const std::vector<std::int64_t> values = mask_values(recipe.data);
    keep_inputs(recipe.data, options.data, inputs_of(weights.metadata));
    const auto dataset = open_images(options.data, recipe.data);
    const bool files = dynamic_cast<const ImageFileList*>(dataset.get()) != nullptr;
    if (group.first() && !files && has_splits(options.data.front())) {
        print_stderr("{}: predicting on the test split\n", shown_url(options.data.front()));
    }
    if (group.first()) {
        print_advice(*dataset, recipe.data);
    }
    const at::Device device = prepare_device(recipe, group);
    recipe.data.batch_size = shared_batch_size(recipe.data.batch_size, group);
    std::unique_ptr<Loader> loader;
    std::vector<Prediction> bad;
    try {
        const bool channels_last = uses_channels_last(recipe, nullptr);
        loader = make_predict_loader(recipe, dataset, device, channels_last, weights.metadata, group);
        require_same_data(group, *loader, weights);
    } catch (const TooManyBadSamples& error) {  // no image is usable
        std::ranges::transform(error.samples(), std::back_inserter(bad), prediction_of);
    }
    std::unique_ptr<Model> model;
    Task task;
    if (loader != nullptr) {
        task = trained_task(recipe, weights.metadata, loader->image_shape(), std::ssize(columns));
        task.mask_values = values;
        model = make_trained_model(recipe, weights, task, device, loader->field_specs());
    }
    if (!group.first()) {
        if (model != nullptr) {
            predict(*model, *loader, device, nullptr, task, run_precision(recipe, device), group);
        }
        return 0;
    }
    const std::unique_ptr<Sink> sink = open_sink(options, kind, columns, keep_frame(make_ops(recipe.data.val_ops)));
    PredictionReport report(*sink, dataset->size());
    if (model != nullptr) {
        predict(
            *model, *loader, device, [&](const std::vector<Prediction>& batch) { report.add(batch); }, task,
            run_precision(recipe, device), group);
    } else {
        report.add(bad);
    }
    return report.finish(dataset->path(), resize_option(recipe.data, weights.metadata));
}

}  // namespace

Command add_predict(CLI::App& app) {
    auto options = std::make_shared<PredictArguments>();
    add_trained_options(app, *options, "device=cpu");
    app.add_option(
           "data", options->data,
           "images, folders of images and patterns such as 'scans/*.png'; or one data set of another format: the "
           "test split, if it has one")
        ->required();
    app.add_option("-o,--out", options->out,
                   "OUT.csv or OUT.json (default: CSV on stdout); for segmentation a folder for the masks")
        ->type_name("OUT");
    app.add_option("--top", options->top,
                   "only the K most probable classes (default: the probabilities of all classes)")
        ->type_name("K")
        ->check(CLI::Range(1, 1'000'000));
    example(app,
            "  stoker predict runs/digits scans -o scans.csv\n"
            "  stoker predict runs/digits scan.png 'more/*.png' --top 3\n"
            "  stoker predict runs/streets/best photos -o masks\n"
            "An image that cannot be read gets a row with the reason, and a line on stderr. If no image can be read,\n"
            "the exit status is 1.");
    return [options] {
        return run_in_group([options](const std::shared_ptr<Group>& group) { return run(*options, *group); });
    };
}

}  // namespace stoker::cli
