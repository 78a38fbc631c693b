// Reads one op's options. It records the names that were read, so finish() can refuse misspelt options and list the
// known ones. Every error names the option's place in the recipe.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stoker/ops/affine.h"
#include "stoker/ops/resize.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

class OpOptions {
  public:
    explicit OpOptions(const OpSpec& spec) : spec_(spec) {}

    // Whether the option is given. Records its name as known.
    bool has(const std::string& name);

    // Throws if the option and the fallback are missing.
    double number(const std::string& name, std::optional<double> fallback, double low, double high);
    float probability(double fallback) { return static_cast<float>(number("p", fallback, 0, 1)); }  // the option `p`
    int whole(const std::string& name, std::optional<int> fallback, int low, int high);
    bool is_text(const std::string& name);
    bool flag(const std::string& name, bool fallback);
    // A list of `least` to `most` numbers; a single number is a list of one if `least` is 1.
    std::vector<double> numbers(const std::string& name, std::vector<double> fallback, std::size_t least,
                                std::size_t most);
    // The option `size`: a side or [height, width], each at least 1. Throws if it is missing.
    ImageSize size();
    // The index of the value in `names`; 0 if the option is missing.
    std::size_t choice(const std::string& name, const std::vector<std::string>& names);
    // A value from 0 to 255, or one per channel.
    Color color(const std::string& name);
    // The number of values of the longest colour that was read: 1, or the channels that images must have.
    std::size_t color_values() const { return color_values_; }
    void add_color_values(std::size_t values) { color_values_ = std::max(color_values_, values); }
    // The option `ops`. Throws if it is missing or empty.
    const std::vector<OpSpec>& ops();
    Interpolation interpolation();

    // For an option whose value is impossible or missing. If a misspelt one is given instead, that is refused.
    [[noreturn]] void refuse(const std::string& name, const std::string& expected, const std::string& hint = "") const;

    // Throws for options that were not read.
    void finish() const;

  private:
    // A given option that is not known and near `name`; empty if there is none.
    std::string misspelling_of(const std::string& name) const;

    const OpSpec& spec_;
    std::vector<std::string> known_;
    std::size_t color_values_ = 1;
};

}  // namespace stoker
