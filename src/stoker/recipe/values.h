// Text forms of values: sizes ("4GiB"), shares ("10%"), intervals ("200 steps"), and TOML strings, numbers and keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "stoker/recipe/recipe.h"

namespace stoker {

// "4GiB", "500 MB", "1024": bytes; KiB MiB GiB TiB are powers of 1024, KB MB GB TB of 1000. Empty for anything else and
// for sizes above 2^63 - 1.
std::optional<std::int64_t> parse_byte_size(std::string_view text);

// The least data.memory and --memory. A smaller number is most likely meant in GiB.
inline constexpr std::int64_t kLeastMemory = std::int64_t{64} << 20;

// The shortest exact form: 4294967296 is "4GiB", 1000 is "1000". bytes >= 0.
std::string byte_size_text(std::int64_t bytes);

// "1 epoch", "2 epochs", "200 steps", count >= least. Empty for anything else.
std::optional<Interval> parse_interval(std::string_view text, std::int64_t least = 1);
std::string interval_text(const Interval& every);

// "10%" is 0.1. Empty unless above 0% and below 100%.
std::optional<double> parse_share(std::string_view text);

// Integers above this magnitude are not all exact as doubles.
inline constexpr std::int64_t kMaxExactInteger = std::int64_t{1} << 53;

// "12" (samples) or "0.1%" (a share from 0% to 100%). Empty for anything else.
std::optional<BadSamples> parse_bad_samples(std::string_view text);
// As TOML: 12, "0.1%".
std::string bad_samples_toml(const BadSamples& bad);

std::string toml_string(std::string_view text);  // a basic string, quoted and escaped
std::string toml_number(double value);           // shortest text that gives the same double
std::string toml_key(std::string_view key);      // bare if TOML allows it, otherwise quoted

}  // namespace stoker
