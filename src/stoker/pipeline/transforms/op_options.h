// One op's options as its maker reads them. It remembers what was asked for, so that a misspelt option is found
// and the known ones are listed. Every error names the option's place in the recipe.
#pragma once

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

    // Whether the option is there; from now on it is a known one.
    bool has(const std::string& name);

    double number(const std::string& name, double fallback, double low, double high);
    bool is_text(const std::string& name);
    bool flag(const std::string& name, bool fallback);
    // A list of `least` to `most` numbers; where `least` is 1, one number is a list of one.
    std::vector<double> numbers(const std::string& name, std::vector<double> fallback, std::size_t least,
                                std::size_t most);
    // An output side or [height, width], each at least 1; throws where it is missing.
    ImageSize size();
    // The option must be there.
    std::string text(const std::string& name);
    // One of the `names`; the first where it is missing. Returns its number.
    std::size_t choice(const std::string& name, const std::vector<std::string>& names);
    // A value from 0 to 255, or one for each channel.
    Color color(const std::string& name);
    Interpolation interpolation();

    [[noreturn]] void refuse(const std::string& name, const std::string& expected) const;

    // Throws for options that nobody asked for.
    void finish() const;

  private:
    const OpSpec& spec_;
    std::vector<std::string> known_;
};

}  // namespace stoker
