// Each op reads its own options through OpOptions, which remembers what was asked for, so that a
// misspelt option is found and the known ones are listed.
#include "stoker/pipeline/op_table.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr int kMaxSide = 1 << 15;

class OpOptions {
  public:
    explicit OpOptions(const OpSpec& spec) : spec_(spec) {}

    bool has(const std::string& name) {
        if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
            known_.push_back(name);
        }
        return spec_.options.contains(name);
    }

    double number(const std::string& name, double fallback, double low, double high) {
        if (!has(name)) {
            return fallback;
        }
        const auto* value = std::get_if<double>(&spec_.options.at(name));
        if (value == nullptr || !(*value >= low && *value <= high)) {
            refuse(name, fmt::format("a number from {} to {}", low, high));
        }
        return *value;
    }

    std::vector<double> numbers(const std::string& name, std::vector<double> fallback, std::size_t least,
                                std::size_t most) {
        if (!has(name)) {
            return fallback;
        }
        const OptionValue& value = spec_.options.at(name);
        std::vector<double> list;
        if (const auto* one = std::get_if<double>(&value); one != nullptr && least == 1) {
            list = {*one};
        } else if (const auto* many = std::get_if<std::vector<double>>(&value)) {
            list = *many;
        }
        if (list.size() < least || list.size() > most) {
            refuse(name, least == most ? fmt::format("a list of {} numbers", least)
                                       : fmt::format("a number or a list of up to {} numbers", most));
        }
        return list;
    }

    // An output side or [height, width], each at least 1; throws where it is missing.
    ImageSize size() {
        const std::vector<double> list = numbers("size", {}, 1, 2);
        for (const double side : list) {
            if (side < 1 || side > kMaxSide || side != std::floor(side)) {
                refuse("size", fmt::format("whole pixels from 1 to {}", kMaxSide));
            }
        }
        if (list.empty()) {
            throw InvalidArgument({.where = spec_.where,
                                   .expected = fmt::format("the option size for {}", spec_.name),
                                   .got = "none",
                                   .hint = fmt::format("write {{op = \"{}\", size = 224}}", spec_.name)});
        }
        return {static_cast<int>(list.front()), static_cast<int>(list.back())};
    }

    std::string text(const std::string& name) {
        const auto* value = std::get_if<std::string>(&spec_.options.at(name));
        if (value == nullptr) {
            refuse(name, "a string");
        }
        return *value;
    }

    [[noreturn]] void refuse(const std::string& name, const std::string& expected) const {
        throw InvalidArgument({.where = fmt::format("{}.{}", spec_.where, name),
                               .expected = expected,
                               .got = spec_.options.contains(name) ? describe(spec_.options.at(name)) : "none"});
    }

    void finish() const {
        for (const auto& [name, value] : spec_.options) {
            if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
                throw InvalidArgument(
                    {.where = spec_.where,
                     .expected = fmt::format("an option of {}: {}", spec_.name, fmt::join(known_, ", ")),
                     .got = name});
            }
        }
    }

  private:
    static std::string describe(const OptionValue& value) {
        if (const auto* flag = std::get_if<bool>(&value)) {
            return *flag ? "true" : "false";
        }
        if (const auto* number = std::get_if<double>(&value)) {
            return fmt::to_string(*number);
        }
        if (const auto* text = std::get_if<std::string>(&value)) {
            return fmt::format("\"{}\"", *text);
        }
        return fmt::format("[{}]", fmt::join(std::get<std::vector<double>>(value), ", "));
    }

    const OpSpec& spec_;
    std::vector<std::string> known_;
};

Op make_resize(OpOptions& options) {
    const bool exact = options.numbers("size", {}, 1, 2).size() == 2;
    const ImageSize size = options.size();
    return exact ? Resize{0, size} : Resize{size.height, std::nullopt};
}

Op make_center_crop(OpOptions& options) {
    const ImageSize size = options.size();
    return CenterCrop{size.height, size.width};
}

Op make_random_resized_crop(OpOptions& options) {
    const ImageSize size = options.size();
    const auto range = [&](const char* name, double low, double high, double most) {
        const auto list = options.numbers(name, {low, high}, 2, 2);
        if (!(list[0] >= 1e-6 && list[0] <= list[1] && list[1] <= most)) {
            options.refuse(name, fmt::format("[low, high] with 1e-6 <= low <= high <= {}", most));
        }
        return std::pair(static_cast<float>(list[0]), static_cast<float>(list[1]));
    };
    const auto [scale_low, scale_high] = range("scale", 0.08, 1.0, 1.0);
    const auto [ratio_low, ratio_high] = range("ratio", 3.0 / 4.0, 4.0 / 3.0, 1000.0);
    return RandomResizedCrop{size.height, size.width, scale_low, scale_high, ratio_low, ratio_high};
}

Op make_horizontal_flip(OpOptions& options) {
    return HorizontalFlip{static_cast<float>(options.number("p", 0.5, 0, 1))};
}

Op make_normalize(OpOptions& options) {
    Normalize op;
    if (options.has("preset")) {
        const std::string preset = options.text("preset");
        if (preset == "imagenet") {
            op = kImageNetNormalize;
        } else if (preset == "mnist") {
            // Grey images that are stored as RGB have the same figures in every channel.
            op.mean.fill(kMnistNormalize.mean[0]);
            op.std.fill(kMnistNormalize.std[0]);
        } else if (preset == "cifar10") {
            op = kCifar10Normalize;
        } else {
            options.refuse("preset", "one of imagenet, mnist, cifar10");
        }
    }
    const auto fill = [&](const char* name, std::array<float, 4>& values, bool positive) {
        const auto list = options.numbers(name, {}, 1, 4);
        for (std::size_t i = 0; i < list.size(); ++i) {
            const float value = static_cast<float>(list[i]);
            if (!std::isfinite(value) || (positive && value <= 0)) {
                options.refuse(name, positive ? "finite numbers above 0" : "finite numbers");
            }
        }
        for (std::size_t i = 0; i < values.size() && !list.empty(); ++i) {
            values[i] = static_cast<float>(list[std::min(i, list.size() - 1)]);
        }
    };
    fill("mean", op.mean, false);
    fill("std", op.std, true);
    return op;
}

struct Entry {
    const char* name;
    Op (*make)(OpOptions&);
};
constexpr Entry kOps[] = {
    {"random_resized_crop", make_random_resized_crop}, {"resize", make_resize},       {"center_crop", make_center_crop},
    {"horizontal_flip", make_horizontal_flip},         {"normalize", make_normalize},
};

}  // namespace

std::vector<Op> make_ops(const std::vector<OpSpec>& specs) {
    std::vector<Op> ops;
    for (const auto& spec : specs) {
        const auto* entry =
            std::find_if(std::begin(kOps), std::end(kOps), [&](const Entry& e) { return spec.name == e.name; });
        if (entry == std::end(kOps)) {
            throw InvalidArgument({.where = spec.where,
                                   .expected = fmt::format("an op: {}", fmt::join(op_names(), ", ")),
                                   .got = fmt::format("\"{}\"", spec.name)});
        }
        OpOptions options(spec);
        ops.push_back(entry->make(options));
        options.finish();
    }
    return ops;
}

std::vector<std::string> op_names() {
    std::vector<std::string> names;
    for (const auto& entry : kOps) {
        names.emplace_back(entry.name);
    }
    return names;
}

}  // namespace stoker
