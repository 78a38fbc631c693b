// Finds the maker of an op: of images, of sounds, of a group of ops, or of the program. Options are checked when an op
// is made, so mistakes in a recipe are found before anything runs.
#include "stoker/pipeline/transforms/op_table.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/suggest.h"
#include "stoker/pipeline/transforms/op_makers.h"
#include "stoker/pipeline/transforms/op_options.h"
#include "stoker/pipeline/transforms/sound_ops.h"

namespace stoker {
namespace {

Op make_inner(const OpSpec& spec, OpOptions& outer);

std::vector<PixelOp> read_group(OpOptions& options) {
    std::vector<PixelOp> ops;
    for (const OpSpec& spec : options.ops()) {
        const Op op = make_inner(spec, options);
        if (const auto* pixels = std::get_if<PixelOp>(&op)) {
            ops.push_back(*pixels);
        } else if (const auto* flip = std::get_if<HorizontalFlip>(&op)) {
            ops.emplace_back(*flip);
        } else {
            throw InvalidArgument({.where = spec.where,
                                   .expected = "an op that keeps the image's size and type",
                                   .got = spec.name,
                                   .hint = "crops, resizes and normalize belong into the list itself"});
        }
    }
    return ops;
}

Op make_random_apply(OpOptions& options) {
    OpGroup group{.ops = read_group(options), .probability = options.probability(0.5)};
    return PixelOp(std::make_shared<const OpGroup>(std::move(group)));
}

Op make_random_choice(OpOptions& options) {
    OpGroup group{.ops = read_group(options)};
    const std::size_t count = group.ops.size();
    const std::vector<double> weights = options.numbers("p", std::vector<double>(count, 1), count, count);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    if (!std::ranges::all_of(weights, [](double weight) { return weight >= 0; }) || !(sum > 0 && sum < 1e9)) {
        options.refuse("p", "a weight for each op: 0 or more, and one above 0");
    }
    double up_to = 0;
    for (const double weight : weights) {
        up_to += weight;
        group.bounds.push_back(static_cast<float>(up_to / sum));
    }
    // Rounding must not leave a draw without an op, or give it to one of weight 0.
    for (std::size_t i = count; i-- > 0;) {
        group.bounds[i] = 1;
        if (weights[i] > 0) {
            break;
        }
    }
    return PixelOp(std::make_shared<const OpGroup>(std::move(group)));
}

// Ops of the program.
struct OwnOps {
    std::mutex mutex;
    std::map<std::string, MakeCustomOp> makers;
};

OwnOps& own_ops() {
    static OwnOps ops;
    return ops;
}

// Null for an unknown name.
std::function<Op(OpOptions&)> find_maker(const std::string& name) {
    if (const MakeOp make = name == "random_apply"    ? make_random_apply
                            : name == "random_choice" ? make_random_choice
                                                      : image_op_maker(name)) {
        return make;
    }
    if (const MakeSoundOp make = sound_op_maker(name)) {
        return make;
    }
    OwnOps& own = own_ops();
    const std::lock_guard lock(own.mutex);
    const auto found = own.makers.find(name);
    if (found == own.makers.end()) {
        return nullptr;
    }
    return [make = found->second](OpOptions& options) { return PixelOp(make(options)); };
}

std::vector<std::string> op_names() {
    std::vector<std::string> names = image_op_names();
    names.insert(names.end(), {"random_apply", "random_choice"});
    std::ranges::copy(sound_op_names(), std::back_inserter(names));
    OwnOps& own = own_ops();
    const std::lock_guard lock(own.mutex);
    for (const auto& [name, make] : own.makers) {
        names.push_back(name);
    }
    return names;
}

Op make_op(const OpSpec& spec, std::size_t& color_values) {
    const auto make = find_maker(spec.name);
    if (!make) {
        const std::vector<std::string> names = op_names();
        throw InvalidArgument({.where = spec.where,
                               .expected = fmt::format("an op: {}", fmt::join(names, ", ")),
                               .got = fmt::format("\"{}\"", spec.name),
                               .hint = nearest_name_hint(spec.name, names)});
    }
    OpOptions options(spec);
    Op op = make(options);
    options.finish();
    color_values = options.color_values();
    return op;
}

Op make_inner(const OpSpec& spec, OpOptions& outer) {
    std::size_t color_values = 0;
    Op op = make_op(spec, color_values);
    outer.add_color_values(color_values);
    return op;
}

}  // namespace

std::vector<Op> make_ops(const std::vector<OpSpec>& specs, std::vector<OpColor>* colors) {
    std::vector<Op> ops;
    for (const auto& spec : specs) {
        try {
            std::size_t color_values = 0;
            ops.push_back(make_op(spec, color_values));
            if (colors != nullptr && color_values > 1) {
                colors->push_back({spec.where, color_values});
            }
        } catch (const InvalidArgument& error) {
            if (spec.where.starts_with("--set")) {
                throw BadSetting(error.what());
            }
            throw;
        }
    }
    return ops;
}

void register_op(const std::string& name, MakeCustomOp make) {
    if (name.empty() || find_maker(name)) {
        throw InvalidArgument(
            {.where = "register_op", .expected = "a name that no op has", .got = fmt::format("\"{}\"", name)});
    }
    OwnOps& own = own_ops();
    const std::lock_guard lock(own.mutex);
    own.makers.emplace(name, std::move(make));
}

}  // namespace stoker
