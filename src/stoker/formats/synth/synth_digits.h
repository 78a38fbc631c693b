// Digits that Stoker draws, 28 x 28 grey, white on black and centred as in MNIST. Data for tests, benchmarks and first
// steps without a download. Image i is a pure function of (seed, split, i).
#pragma once

#include <cstdint>
#include <memory>

#include "stoker/formats/dataset.h"

namespace stoker {

// The size of MNIST's training split.
inline constexpr std::int64_t kSynthDigitsTrain = 60000;

// Raw pixels (28, 28, 1); the label is the digit; keys are "train/123" and "test/123". Images are drawn when they are
// read, so `count` costs no memory. Throws InvalidArgument for a count below 1.
std::unique_ptr<Dataset> make_synth_digits(Split split, std::int64_t count, std::uint64_t seed);

}  // namespace stoker
