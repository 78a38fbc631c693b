// Digits that Stoker draws itself, 28x28 grey, white on black and centred as MNIST's: data for tests,
// benchmarks and first steps where nothing may be downloaded. Image i is a pure function of (seed, split, i).
#pragma once

#include <cstdint>
#include <memory>

#include "stoker/formats/dataset.h"

namespace stoker {

// As many as MNIST has.
inline constexpr std::int64_t kSynthDigitsTrain = 60000;
inline constexpr std::int64_t kSynthDigitsTest = 10000;

// Raw pixels (28, 28, 1), label = the digit, keys "train/123" and "test/123". Images are drawn when they
// are read, so `count` costs no memory. Throws InvalidArgument for a count below 1.
std::unique_ptr<Dataset> make_synth_digits(Split split, std::int64_t count, std::uint64_t seed);

}  // namespace stoker
