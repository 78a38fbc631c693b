#include "stoker/train/run/data_checks.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"
#include "stoker/base/parallel_for.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/printable.h"
#include "stoker/base/url_secrets.h"
#include "stoker/pipeline/mask_values.h"
#include "stoker/pipeline/read_sample.h"
#include "stoker/pipeline/recipe_data.h"

namespace stoker {
namespace {

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

}  // namespace

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
    if (!gives_one_size(transform.ops()) && val.options().bucket_sizes.empty()) {
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

}  // namespace stoker
