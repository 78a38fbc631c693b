#include "stoker/train/run/model_checks.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"
#include "stoker/base/parallel_for.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/printable.h"
#include "stoker/base/url_secrets.h"
#include "stoker/bridge/tensor.h"
#include "stoker/bridge/torch_error.h"
#include "stoker/train/run/run_setup.h"
#include "stoker/train/step/autocast.h"
#include "stoker/train/step/forward_snapshot.h"

namespace stoker {
namespace {

at::Tensor zero_images(std::int64_t samples, const Shape& image, const at::Device& device) {
    std::vector<std::int64_t> shape = image;
    shape.insert(shape.begin(), samples);
    return at::zeros(shape, device);  // (N, C, H, W)
}

// The size of the smallest micro-batch of a batch, on any rank that has samples of it. Slices and micro-batches are as
// even as possible.
std::int64_t smallest_part(std::int64_t samples, std::int64_t ranks, std::int64_t accumulate) {
    const std::int64_t slice = std::max<std::int64_t>(samples / ranks, 1);
    return slice / std::min(accumulate, slice);
}

std::optional<std::int64_t> known_label(const Dataset& data, std::int64_t index) {
    try {
        return data.label(index);
    } catch (const DataError&) {  // of a damaged sample
        return std::nullopt;
    }
}

// Tries a training forward pass. Returns what the model throws, or an empty string.
std::string forward_error(std::int64_t samples, Model& model, const Shape& image, std::int64_t classes,
                          const at::Device& device, const StepOptions& options) {
    const c10::NoGradGuard no_grad;
    const Autocast autocast(options.precision, device);
    const at::Tensor label = options.soft_targets ? at::zeros({samples, classes}, device)
                                                  : at::zeros({samples}, at::TensorOptions(device).dtype(at::kLong));
    try {
        model.loss(zero_images(samples, image, device), label, options.loss);
    } catch (const std::exception& error) {
        const std::string text = first_sentence(first_line_of(error));
        return text.substr(0, text.find("; "));  // without the model's hint, which fits another situation
    }
    return "";
}

// Labels that are not known without reading the samples are not checked.
void require_val_labels(const Recipe& recipe, const Dataset& data, std::int64_t classes) {
    const std::int64_t budget = recipe.data.bad_samples.of(data.size());
    std::int64_t bad = 0;
    std::string first;
    for (std::int64_t index = 0; index < data.size(); ++index) {
        const std::int64_t label = known_label(data, index).value_or(0);
        if ((label < 0 || label >= classes) && ++bad == 1) {
            first = fmt::format("{}: {}", key_or_index(data, index), label == -1 ? "none" : fmt::to_string(label));
        }
    }
    if (bad > budget) {
        throw DataError({.path = data.path()},
                        {.where = "data.val",
                         .expected = fmt::format("labels from 0 to {}", classes - 1),
                         .got = fmt::format("{} without such a label, first {}", pluralize(bad, "sample"), first),
                         .hint = "name the field that holds the labels (data.fields), set model.classes to the number "
                                 "of classes, or raise data.bad_samples"});
    }
}

// Samples that cannot be read are left to the evaluation, which counts them.
void require_one_size(const Loader& val, const Transform& transform, std::uint64_t seed) {
    constexpr std::int64_t kTried = 64;
    const Dataset& data = val.dataset();
    const Shape& shape = val.image_shape();
    const ImageSlot slot{.pixels = {},
                         .channels = static_cast<int>(shape[0]),
                         .height = static_cast<int>(shape[1]),
                         .width = static_cast<int>(shape[2])};
    std::vector<std::int64_t> tried;
    for (std::int64_t i = 0; i < std::min(data.size(), kTried); ++i) {
        tried.push_back(data.size() <= kTried ? i : i * (data.size() - 1) / (kTried - 1));
    }
    data.prefetch(tried);
    parallel_for(cpu_cores().usable, std::ssize(tried), 1, [&](std::int64_t at, std::int64_t) {
        const std::int64_t index = tried[static_cast<std::size_t>(at)];
        Sample sample;
        TransformScratch scratch;
        StageTimes times;
        StageClock clock(times);
        try {
            data.read(index, sample);
            const ConstImageView image =
                transform.augment(transform.prepare(sample, scratch, clock),
                                  {.seed = seed, .sample = static_cast<std::uint64_t>(index)}, scratch);
            require_size(slot, image.channels, {image.height, image.width});
        } catch (const SizeMismatch& error) {
            throw error.located({.path = data.path(), .key = key_or_index(data, index), .index = index});
        } catch (const std::exception&) {
            return;
        }
    });
}

}  // namespace

void require_logits(const Recipe& recipe, Model& model, const Shape& image, std::int64_t classes,
                    const at::Device& device) {
    if (recipe.model.script.empty() && recipe.model.exported.empty()) {
        return;
    }
    const char* where = recipe.model.script.empty() ? "model.export" : "model.script";
    for (const NamedTensor& entry : model.state()) {
        dtype_of_scalar(entry.tensor.scalar_type());  // throws for a type that a checkpoint cannot hold
    }
    const c10::NoGradGuard no_grad;
    model.train(false);
    at::Tensor logits;
    try {
        logits = model.forward(zero_images(1, image, device));
    } catch (const c10::Error& error) {
        if (is_out_of_memory(error)) {
            throw;
        }
        throw InvalidArgument({.where = where,
                               .expected = fmt::format("a model that takes images ({})", fmt::join(image, ", ")),
                               .got = first_sentence(error.what_without_backtrace()),
                               .hint = "change data.train_ops and data.val_ops, or the model"});
    }
    model.train(true);
    if (logits.sizes() != at::IntArrayRef{1, classes} || logits.scalar_type() != at::kFloat) {
        throw InvalidArgument(
            {.where = where,
             .expected = fmt::format("float logits [1, {}] for one image and {} classes", classes, classes),
             .got = fmt::format("{} [{}]", at::toString(logits.scalar_type()), fmt::join(logits.sizes(), ", ")),
             .hint = "the model's last layer must have as many outputs as the data has classes"});
    }
}

void require_val_images(Model& model, const Shape& train, const Shape& val, const at::Device& device) {
    if (val == train) {
        return;
    }
    const c10::NoGradGuard no_grad;
    const bool training = model.training();
    model.train(false);
    try {
        model.forward(zero_images(1, val, device));
    } catch (const std::exception& error) {
        if (is_out_of_memory(error)) {
            throw;
        }
        throw InvalidArgument({.where = "data.val_ops",
                               .expected = fmt::format("images that the model takes, such as those of training ({})",
                                                       fmt::join(train, ", ")),
                               .got = fmt::format("({})", fmt::join(val, ", ")),
                               .hint = "let data.val_ops end with the size that data.train_ops end with"});
    }
    model.train(training);
}

void require_smallest_batch(const Recipe& recipe, Model& model, const BatchSampler& sampler, const Shape& image,
                            std::int64_t classes, const at::Device& device) {
    const StepOptions options = step_options(recipe, device);
    const int ranks = sampler.options().world_size;
    const std::int64_t whole = sampler.samples(0);
    const std::int64_t last = sampler.samples(sampler.batches() - 1);
    const bool in_all = smallest_part(whole, ranks, options.accumulate) == 1;
    if (model.linear_chain() != nullptr || (!in_all && smallest_part(last, ranks, options.accumulate) > 1)) {
        return;
    }
    ForwardSnapshot before(model, device);
    before.save();
    const std::string error = forward_error(1, model, image, classes, device, options);
    const bool two_are_enough = !error.empty() && forward_error(2, model, image, classes, device, options).empty();
    before.restore();
    if (!two_are_enough) {
        return;
    }
    const bool split_too_far = smallest_part(in_all ? whole : last, ranks, 1) > 1;
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

void require_classes(std::span<const std::string> trained, const std::string& origin, const Dataset& data) {
    const auto own = data.classes();
    const auto same = [](const std::string& a, const std::string& b) {
        return utf8_text(a) == utf8_text(b);  // a checkpoint stores UTF-8
    };
    if (own.size() <= trained.size() && std::equal(own.begin(), own.end(), trained.begin(), same)) {
        return;
    }
    // The first class that differs.
    const auto at = static_cast<std::size_t>(std::ranges::mismatch(trained, own, same).in1 - trained.begin());
    throw InvalidArgument(
        {.where = data.path(),
         .expected = fmt::format("{}, as in {}",
                                 at < trained.size() ? fmt::format("class {} to be \"{}\"", at, trained[at])
                                                     : fmt::format("no class {}", at),
                                 origin),
         .got = at < own.size() ? fmt::format("\"{}\"", own[at]) : "fewer classes",
         .hint = "a run is resumed with the same classes in the same order"});
}

void require_val_samples(const Recipe& recipe, const Loader& val, std::int64_t classes) {
    require_val_labels(recipe, val.dataset(), classes);
    TransformOptions options = transform_options(recipe.data);
    options.channels = val.image_shape().front();
    const Transform transform(recipe.data.val_ops, options);
    if (!gives_one_size(transform.ops())) {
        require_one_size(val, transform, recipe.seed);
    }
}

void require_several_classes(const Recipe& recipe, const Dataset& data) {
    if (class_count(recipe, data) == 1 && recipe.model.exported.empty()) {
        throw InvalidArgument(
            {.where = shown_url(recipe.data.train),
             .expected = "at least two classes",
             .got = data.classes().empty() ? "one" : fmt::format("one, \"{}\"", data.classes().front()),
             .hint = "with one class there is nothing to learn; if later data has more, set model.classes to their "
                     "number"});
    }
}

}  // namespace stoker
