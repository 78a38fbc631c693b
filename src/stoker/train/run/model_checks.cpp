#include "stoker/train/run/model_checks.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <optional>

#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"
#include "stoker/base/parallel_for.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/printable.h"
#include "stoker/base/url_secrets.h"
#include "stoker/bridge/tensor.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/models/imported_model.h"
#include "stoker/pipeline/mask_values.h"
#include "stoker/pipeline/read_sample.h"
#include "stoker/train/run/best_epoch.h"
#include "stoker/train/run/evaluate.h"
#include "stoker/train/run/run_setup.h"
#include "stoker/train/step/autocast.h"
#include "stoker/train/step/forward_snapshot.h"
#include "stoker/train/task/scores.h"

namespace stoker {
namespace {

// How a batch is divided: into slices of the ranks, and those into micro-batches, each as even as possible.
struct Division {
    std::int64_t ranks = 1;
    std::int64_t accumulate = 1;
    bool synced = false;  // batch norm takes the ranks' micro-batches together
};

// The size of the smallest micro-batch of a batch, on any rank that has samples of it.
std::int64_t smallest_part(std::int64_t samples, const Division& division) {
    const std::int64_t ranks = division.ranks;
    if (!division.synced) {
        const std::int64_t slice = std::max<std::int64_t>(samples / ranks, 1);
        return slice / std::min(division.accumulate, slice);
    }
    const std::int64_t parts = std::min(division.accumulate, (samples - 1) / ranks + 1);
    std::int64_t smallest = samples;
    for (std::int64_t part = 0; part < parts; ++part) {
        std::int64_t together = 0;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
            const std::int64_t slice = samples * (rank + 1) / ranks - samples * rank / ranks;
            together += slice * (part + 1) / parts - slice * part / parts;
        }
        smallest = std::min(smallest, together);
    }
    return smallest;
}

// Tries a training forward pass. Returns what the model throws, or an empty string. Too little memory says nothing
// about the model: it is thrown.
std::string forward_error(std::int64_t samples, Model& model, const Task& task, const at::Device& device,
                          const StepOptions& options) {
    const c10::NoGradGuard no_grad;
    const Autocast autocast(options.precision, device);
    DeviceBatch batch = zero_batch(task, samples, device);
    if (options.soft_targets) {
        batch.target = at::zeros({samples, task.outputs}, device);
    }
    try {
        model.loss(batch, options.loss);
    } catch (const std::exception& error) {
        if (is_out_of_memory(error)) {
            throw;
        }
        const std::string text = first_sentence(first_line_of(error));
        return text.substr(0, text.find("; "));  // without the model's hint, which fits another situation
    }
    return "";
}

// Labels that are not known without reading the samples are not checked.
void require_val_labels(const Recipe& recipe, const Dataset& data, std::int64_t classes) {
    const std::int64_t budget = recipe.data.bad_samples.of(data.size());
    std::int64_t bad = 0;
    std::int64_t missing = 0;
    std::string first;
    for (std::int64_t index = 0; index < data.size(); ++index) {
        const std::int64_t label = known_label(data, index).value_or(0);
        missing += label == -1;
        if ((label < 0 || label >= classes) && ++bad == 1) {
            first = fmt::format("{}: {}", key_or_index(data, index), label == -1 ? "none" : fmt::to_string(label));
        }
    }
    if (bad > budget) {
        throw DataError(
            {.path = data.path()},
            {.where = "data.val",
             .expected = fmt::format("labels from 0 to {}", classes - 1),
             .got = fmt::format("{} without such a label, first {}", pluralize(bad, "sample"), first),
             .hint = missing == data.size() ? "set data.fields.label to the field that holds the labels"
                                            : "set model.classes to the number of classes, or raise data.bad_samples"});
    }
}

// Samples that cannot be read are left to the evaluation, which counts them.
void require_one_size(const Loader& val, const Transform& transform, std::uint64_t seed) {
    constexpr std::int64_t kTried = 64;
    const Dataset& data = val.dataset();
    const Shape& shape = val.image_shape();
    const ImageSlot slot{.pixels = {},
                         .channels = static_cast<int>(channels_in(shape)),
                         .height = static_cast<int>(shape[shape.size() - 2]),
                         .width = static_cast<int>(shape.back())};
    std::vector<std::int64_t> tried;
    for (std::int64_t i = 0; i < std::min(data.size(), kTried); ++i) {
        tried.push_back(data.size() <= kTried ? i : i * (data.size() - 1) / (kTried - 1));
    }
    data.prefetch(tried);
    parallel_for(cpu_cores().usable, std::ssize(tried), 1, [&](std::int64_t at, std::int64_t) {
        const std::int64_t index = tried[static_cast<std::size_t>(at)];
        Sample sample;
        Buffer recording;
        TransformScratch scratch;
        StageTimes times;
        StageClock clock(times);
        try {
            const RngKey key{.seed = seed, .sample = static_cast<std::uint64_t>(index)};
            const ClipOptions& clips = val.options().clips;
            const FrameWindow wanted =
                clips.sample_rate > 0 ? wanted_frames(clips, index, key) : FrameWindow{.count = 1};  // one of a clip's
            read_sample(data, index, sample, wanted);
            decode_wanted(sample, wanted, recording, transform.options().channels);
            const FieldValue& stored = first_image(sample);
            if (transform.takes_planes(stored, scratch)) {
                const ConstPlanesView planes = transform.planes(stored, key, scratch, clock);
                require_size(slot, planes.channels, {planes.height, planes.width});
                return;
            }
            const ConstImageView image = transform.augment(transform.prepare(stored, scratch, clock), key, scratch);
            require_size(slot, image.channels, {image.height, image.width});
        } catch (const SizeMismatch& error) {
            ErrorInfo info = error.info();
            if (val.options().clips.sample_rate > 0) {
                info.hint = "data.seconds gives sounds one length, and data.channels = 1 makes stereo mono";
            }
            throw DataError({.path = data.path(), .key = key_or_index(data, index), .index = index}, info);
        } catch (const std::exception&) {
            return;
        }
    });
}

constexpr std::int64_t kAny = -1;

// kAny: any number of classes.
Shape wanted_outputs(const Task& task, std::int64_t samples) {
    const std::int64_t k = task.outputs > 0 ? task.outputs : kAny;
    switch (task.kind) {
        case TaskKind::segmentation: {
            Shape shape = {samples, k};
            shape.insert(shape.end(), task.target.begin(), task.target.end());
            return shape;
        }
        case TaskKind::language:
            return {samples, task.target[0], k};
        default:
            return {samples, k};
    }
}

bool fit(const at::Tensor& outputs, const Task& task, std::int64_t samples) {
    if (task.kind == TaskKind::custom) {
        return true;
    }
    if (outputs.scalar_type() != at::kFloat) {
        return false;
    }
    if (task.kind == TaskKind::regression) {
        return outputs.numel() == samples * task.outputs;
    }
    return std::ranges::equal(
        outputs.sizes(), wanted_outputs(task, samples),
        [](std::int64_t own, std::int64_t wanted) { return wanted == kAny ? own > 0 : own == wanted; });
}

std::string describe_outputs(const Task& task, std::int64_t samples) {
    const auto count = [&](const char* what) {
        return samples == 1 ? fmt::format("one {}", what) : pluralize(samples, what);
    };
    if (task.classifies()) {
        return fmt::format("float logits [{}, {}] for {} and {} classes", samples, task.outputs, count("image"),
                           task.outputs);
    }
    std::vector<std::string> sides;
    for (const std::int64_t side : wanted_outputs(task, samples)) {
        sides.push_back(side == kAny ? "classes" : fmt::to_string(side));
    }
    return fmt::format("float outputs [{}] for {}, as {} needs", fmt::join(sides, ", "), count("sample"),
                       task_name(task.kind));
}

// `where`: of the model, for messages. `run` returns the model's outputs for `samples`.
at::Tensor try_outputs(const char* where, const Task& task, std::int64_t samples,
                       const std::function<at::Tensor()>& run) {
    at::Tensor outputs;
    try {
        outputs = run();
    } catch (const c10::Error& error) {
        if (is_out_of_memory(error)) {
            throw;
        }
        const std::string inputs = task.kind == TaskKind::language    ? "tokens"
                                   : task.fields.input == kImageField ? "images"
                                                                      : task.fields.input;
        throw InvalidArgument(
            {.where = where,
             .expected = fmt::format("a model that takes {} ({})", inputs, fmt::join(task.input, ", ")),
             .got = first_sentence(error.what_without_backtrace()),
             .hint = "change data.train_ops and data.val_ops, or the model"});
    }
    if (!fit(outputs, task, samples)) {
        throw InvalidArgument(
            {.where = where,
             .expected = describe_outputs(task, samples),
             .got = fmt::format("{} [{}]", at::toString(outputs.scalar_type()), fmt::join(outputs.sizes(), ", ")),
             .hint = task.classifies() ? "the model's last layer must have as many outputs as the data has classes, "
                                         "or as model.classes says"
                                       : ""});
    }
    return outputs;
}

std::string metric_names(const Task& task) {
    std::string names = "val_loss";
    for (const Metric& metric : metrics_of(task)) {
        names += ", val_" + metric.name;
    }
    return names;
}

}  // namespace

void require_outputs(const Recipe& recipe, Model& model, Task& task, const at::Device& device) {
    const char* file_key = imported_model_key(recipe.model);
    if (file_key == nullptr && !task.needs_own_model()) {
        return;
    }
    const char* where = file_key == nullptr ? "model" : file_key;
    for (const NamedTensor& entry : model.state()) {
        dtype_of_scalar(entry.tensor.scalar_type());  // throws for a type that a checkpoint cannot hold
    }
    const c10::NoGradGuard no_grad;
    model.train(false);
    const at::Tensor outputs = try_outputs(where, task, 1, [&] { return model.outputs(zero_batch(task, 1, device)); });
    model.train(true);
    if (task.needs_own_model()) {
        task.outputs = outputs.size(task.kind == TaskKind::language ? 2 : 1);
    }
}

void require_own_parts(const Recipe& recipe, Model& model, const Task& task, bool own_model, const at::Device& device) {
    const bool own_functions = task.loss.function != nullptr;
    if (!own_model && !own_functions) {
        return;
    }
    ForwardSnapshot before(model, device);
    before.save();
    const std::int64_t samples = std::min<std::int64_t>(2, recipe.data.batch_size);
    DeviceBatch batch = zero_batch(task, samples, device);
    const at::Tensor outputs = try_outputs("model", task, samples, [&] {
        return evaluation_outputs(model, batch, run_precision(recipe, device), device);
    });
    try {
        if (own_functions) {
            make_scores(task, device)->add(outputs, batch);
        }
    } catch (const c10::Error& error) {
        if (is_out_of_memory(error)) {
            throw;
        }
        throw InvalidArgument(
            {.where = "task",
             .expected = fmt::format("a loss and metrics that take outputs [{}] and the batch's fields",
                                     fmt::join(outputs.sizes(), ", ")),
             .got = first_sentence(error.what_without_backtrace())});
    }
    before.restore();
}

void require_inputs(const Recipe& recipe, const Model& model, const Task& task) {
    const TrainRecipe& train = recipe.train;
    if (!model.inputs().empty() && (train.mixup > 0 || train.cutmix > 0)) {
        throw InvalidArgument({.where = train.mixup > 0 ? "train.mixup" : "train.cutmix",
                               .expected = "0 for a model of several inputs",
                               .got = fmt::to_string(std::max(train.mixup, train.cutmix)),
                               .hint = "it would mix the image alone"});
    }
    if (task.kind != TaskKind::custom && std::ranges::count(task.inputs, task.fields.target) > 0) {
        throw InvalidArgument({.where = "model",
                               .expected = fmt::format("inputs beside the target {}", task.fields.target),
                               .got = fmt::format("{}", fmt::join(model.inputs(), ", ")),
                               .hint = "the target is the first field of the task's kind: name another one before it"});
    }
}

void require_val_images(Model& model, const Task& task, const Shape& val, const at::Device& device) {
    if (task.fields.input != kImageField || val == task.input) {
        return;
    }
    const c10::NoGradGuard no_grad;
    const bool training = model.training();
    model.train(false);
    Task other = task;
    other.input = val;
    try {
        model.outputs(zero_batch(other, 1, device));
    } catch (const std::exception& error) {
        if (is_out_of_memory(error)) {
            throw;
        }
        throw InvalidArgument({.where = "data.val_ops",
                               .expected = fmt::format("images that the model takes, such as those of training ({})",
                                                       fmt::join(task.input, ", ")),
                               .got = fmt::format("({})", fmt::join(val, ", ")),
                               .hint =
                                   "let data.train_ops and data.val_ops give all images one size, by center_crop or "
                                   "resize with size = [height, width]: one number keeps the aspect ratio"});
    }
    model.train(training);
}

void require_smallest_batch(const Recipe& recipe, Model& model, const BatchSampler& sampler, const Task& task,
                            const at::Device& device) {
    const StepOptions options = step_options(recipe, task, device);
    const int ranks = sampler.options().world_size;
    const std::int64_t whole = sampler.options().begins.empty() ? sampler.samples(0) : sampler.options().batch_size;
    const std::int64_t last = sampler.smallest();
    const Division division{.ranks = ranks, .accumulate = options.accumulate, .synced = options.sync_batch_norm};
    const bool in_all = smallest_part(whole, division) == 1;
    if (model.linear_chain() != nullptr || (!in_all && smallest_part(last, division) > 1)) {
        return;
    }
    ForwardSnapshot before(model, device);
    before.save();
    const std::string error = forward_error(1, model, task, device, options);
    const bool two_are_enough = !error.empty() && forward_error(2, model, task, device, options).empty();
    before.restore();
    if (!two_are_enough) {
        return;
    }
    const bool split_too_far =
        smallest_part(in_all ? whole : last, {.ranks = ranks, .synced = options.sync_batch_norm}) > 1;
    const std::string of_ranks = ranks > 1 ? fmt::format(", over {} ranks", ranks) : "";
    const std::string in_parts = options.accumulate > 1 ? fmt::format(", in {} parts", options.accumulate) : "";
    throw InvalidArgument(
        {.where = split_too_far ? "train.accumulate"
                  : in_all      ? "data.batch_size"
                                : "data.drop_last",
         .expected = "at least two samples at a time, without which this model does not train",
         .got = fmt::format("one in {} of {}{}{} ({})", in_all ? "a batch" : "an epoch's last batch",
                            in_all ? whole : last, of_ranks, in_parts, error),
         .hint = std::string(split_too_far ? "lower it, or " : "") +
                 (in_all ? "set a larger data.batch_size" : "set data.drop_last = true, or another data.batch_size")});
}

void require_classes(std::span<const std::string> trained, const std::string& origin, std::span<const std::string> own,
                     const std::string& data) {
    const auto same = [](const std::string& a, const std::string& b) {
        return utf8_text(a) == utf8_text(b);  // a checkpoint stores UTF-8
    };
    if (own.size() <= trained.size() && std::equal(own.begin(), own.end(), trained.begin(), same)) {
        return;
    }
    // The first class that differs.
    const auto at = static_cast<std::size_t>(std::ranges::mismatch(trained, own, same).in1 - trained.begin());
    throw InvalidArgument(
        {.where = data,
         .expected = fmt::format("{}, as in {}",
                                 at < trained.size() ? fmt::format("class {} to be \"{}\"", at, trained[at])
                                                     : fmt::format("no class {}", at),
                                 origin),
         .got = at < own.size() ? fmt::format("\"{}\"", own[at]) : "fewer classes",
         .hint = "a run is resumed with the same classes in the same order"});
}

void require_val_samples(const Recipe& recipe, const Loader& val, const Task& task) {
    if (task.classifies()) {
        require_val_labels(recipe, val.dataset(), task.outputs);
    }
    if (val.image_shape().empty() || task.kind == TaskKind::language) {
        return;
    }
    TransformOptions options = transform_options(recipe.data);
    options.channels = channels_in(val.image_shape());
    const Transform transform(recipe.data.val_ops, options);
    if (!gives_one_size(transform.ops())) {
        require_one_size(val, transform, recipe.seed);
    }
}

void require_mask_classes(const Recipe& recipe, const Task& task, const Dataset& data) {
    const std::int64_t ignored = task.loss.ignore_index;
    const std::string& target = task.fields.target;
    const auto own = std::ranges::find(recipe.data.fields.more, target, &FieldRecipe::name);
    const bool mapped = own != recipe.data.fields.more.end() && !own->values.empty();
    const bool named = task.classes.size() > 1;
    if (task.kind != TaskKind::segmentation || ignored < 0 || ignored > 255 || mapped || named ||
        !recipe.model.exported.empty()) {
        return;
    }
    constexpr std::int64_t kMasks = 32;
    constexpr std::int64_t kMoreMasks = 1000;  // if those hold one class: another may be rare
    const auto field = std::ranges::find(data.fields(), target, &Field::name) - data.fields().begin();
    const auto one_class = [&](const std::array<std::int64_t, 256>& counts) {
        return counts[static_cast<std::size_t>(ignored)] > 0 &&
               std::ranges::count_if(counts, [](std::int64_t count) { return count > 0; }) == 2;
    };
    auto counts = count_mask_values(data, static_cast<std::size_t>(field), kMasks);
    if (one_class(counts) && data.size() > kMasks) {
        counts = count_mask_values(data, static_cast<std::size_t>(field), kMoreMasks);
    }
    if (!one_class(counts)) {
        return;
    }
    const auto other =
        std::ranges::find_if(counts,
                             [&](const std::int64_t& count) {
                                 return count > 0 && &count != &counts[static_cast<std::size_t>(ignored)];
                             }) -
        counts.begin();
    const auto [low, high] = std::minmax<std::int64_t>(other, ignored);
    throw InvalidArgument(
        {.where = "data.fields." + target,
         .expected = fmt::format("masks of at least two classes besides {}, which the loss leaves out", ignored),
         .got = fmt::format("the values {} and {} alone", low, high),
         .hint = fmt::format("set data.fields.{0}.is = \"mask\" and data.fields.{0}.values = [{1}, {2}] if {3} is a "
                             "class, [{1}, ...] with all classes if "
                             "others are rare, or train.ignore_index = \"none\"",
                             target, low, high, ignored)});
}

void require_several_classes(const Recipe& recipe, const Task& task, const Dataset& data) {
    if (task.classifies() && task.outputs == 1 && recipe.model.exported.empty()) {
        throw InvalidArgument(
            {.where = shown_url(recipe.data.train),
             .expected = "at least two classes",
             .got = data.classes().empty() ? "one" : fmt::format("one, \"{}\"", data.classes().front()),
             .hint =
                 fmt::format("{}with one class there is nothing to learn; if later data has more, set model.classes "
                             "to their number",
                             data.advice().empty() ? "" : data.advice() + "; ")});
    }
}

void require_task(const Recipe& recipe, const Task& task, bool own_model, bool evaluates) {
    const bool built_in = !own_model && imported_model_key(recipe.model) == nullptr;
    const bool pixels = task.kind == TaskKind::segmentation;
    if (built_in && task.needs_own_model() && !(pixels && gives_pixels(recipe.model))) {
        throw InvalidArgument(
            {.where = "model.name",
             .expected = fmt::format("{}a model of your own for {}, whose outputs are {}: model.script or model.export",
                                     pixels ? "fcn_resnet50, or " : "", task_name(task.kind),
                                     pixels ? "(N, K, H, W)" : "(N, T, K)"),
             .got = fmt::format("{}, which gives one answer for an image", recipe.model.name)});
    }
    if (built_in && pixels && task.outputs == 0) {
        throw InvalidArgument(
            {.where = "model.classes",
             .expected = "the number of classes in the masks",
             .got = "auto, and neither data.fields." + task.fields.target + ".values nor names of classes in the data",
             .hint = "set it, or list the masks' values there; `stoker inspect` counts them"});
    }
    if (built_in && !pixels && gives_pixels(recipe.model)) {
        throw InvalidArgument(
            {.where = "model.name",
             .expected = fmt::format("a model with one answer for an image, as {} needs", task_name(task.kind)),
             .got = recipe.model.name + ", which gives a class for each pixel",
             .hint = "set another model, or task = \"segmentation\""});
    }
    const bool has_loss = !own_model && !recipe.model.exported.empty();
    if (task.kind == TaskKind::custom && task.loss.function == nullptr && has_loss) {
        if (evaluates) {
            throw InvalidArgument({.where = "data.val",
                                   .expected = "none, as the loss of an exported model is for training",
                                   .got = "validation data in the task custom",
                                   .hint = "leave it out"});
        }
    } else if (task.kind == TaskKind::custom && task.loss.function == nullptr) {
        throw InvalidArgument({.where = "task",
                               .expected = "a loss of your own for custom",
                               .got = "none",
                               .hint = "export a model with its loss and set model.export, or pass one to Trainer in a "
                                       "C++ program (docs/cpp.md)"});
    }
    if (task.loss.function != nullptr && has_loss) {
        throw InvalidArgument({.where = "model.export",
                               .expected = "a model without a loss, for the loss of your own",
                               .got = "an exported one, whose graph has the loss",
                               .hint = "set model.script, or export the model with this loss"});
    }
    if (task.kind == TaskKind::custom && built_in && task.outputs == 0) {
        throw InvalidArgument({.where = "model.classes",
                               .expected = "the number of outputs of the model",
                               .got = "none",
                               .hint = "or give Trainer a model of your own"});
    }
    const std::string& best = recipe.train.keep_best;
    if (!evaluates && (!best.empty() || recipe.train.early_stop > 0)) {
        throw InvalidArgument({.where = best.empty() ? "train.early_stop" : "train.keep_best",
                               .expected = "validation data",
                               .got = "none",
                               .hint = "set data.val to a data set or to a share of train such as \"10%\""});
    }
    if (!best.empty() && !best_by(task, best)) {
        throw InvalidArgument({.where = "train.keep_best", .expected = metric_names(task), .got = best});
    }
}

}  // namespace stoker
