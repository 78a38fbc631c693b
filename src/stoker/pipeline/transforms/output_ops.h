// The ops that a device runs behind crops, resizes and flips: changes of colours, then one random_erasing. Their
// parameters are an OutputDraw.
#pragma once

#include <optional>
#include <string>

#include "stoker/ops/output_draw.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

// Which ops have a place behind those before them. Each call returns why not; empty: it has one.
class OutputPlaces {
  public:
    std::string pixels(const PixelOp& op);  // but flips
    std::string crop() const;
    std::string flip() const;

  private:
    bool jittered_ = false;
    bool grayed_ = false;
    bool erased_ = false;
};

// What the ops of all samples have in common.
struct OutputOps {
    bool colors = false;                          // some of them change colours
    std::optional<Color> erased_value = Color{};  // of random_erasing; empty: random bytes
};
OutputOps output_ops(const OpSlice& slice);

// Draws the op's parameters for an image of this size. False for an op that has no place.
bool draw_output(const PixelOp& op, ImageSize size, Rng& rng, OutputDraw& draw);

}  // namespace stoker
