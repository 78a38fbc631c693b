#include "stoker/ops/output_draw.h"

#include <fmt/format.h>

#include "stoker/base/error.h"

namespace stoker {

void OutputDraw::add(ColorStep kind, float by) {
    if (steps == kMost) {
        throw InvalidArgument({.where = "colors",
                               .expected = fmt::format("at most {} steps that change colours", kMost),
                               .got = "one more"});
    }
    step[steps] = kind;
    factor[steps] = by;
    ++steps;
}

void OutputDraw::add(const ColorJitterParams& params) {
    const auto add_unless = [&](float neutral, ColorStep kind, float by) {
        if (by != neutral) {
            add(kind, by);
        }
    };
    for (const Adjust adjust : params.order) {
        switch (adjust) {
            case Adjust::brightness:
                add_unless(1, ColorStep::scale, params.brightness);
                break;
            case Adjust::contrast:
                add_unless(1, ColorStep::contrast, params.contrast);
                break;
            case Adjust::saturation:
                add_unless(1, ColorStep::saturate, params.saturation);
                break;
            case Adjust::hue:
                add_unless(0, ColorStep::hue, params.hue);
                break;
        }
    }
}

}  // namespace stoker
