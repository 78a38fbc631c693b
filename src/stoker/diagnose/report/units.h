// Numbers with their units, as a person reads them: three digits are enough to decide on.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/diagnose/finding.h"

namespace stoker {

// 12.34 -> "12.3"; 1234567 -> "1,234,567".
std::string number_text(double value);
// Microseconds as "850 ns", "12.3 µs", "4.56 ms", "1.23 s", "2 min 5 s", "3 h 20 min".
std::string duration_text(double us);
// 0.1234 -> "12.3 %".
std::string percent_text(double share);

// Shares in tenths of a percent that sum to 1000 (largest remainders); all 0 if the values are.
std::vector<int> tenths_of_percent(std::span<const double> values);

struct Fact {
    std::string name;
    std::string text;
};

// "wait_share" 0.5 -> {"wait share", "50 %"}; the name's last word is the unit: us, ms, seconds, bytes, share, ...
Fact evidence_fact(const Evidence& evidence);

// "rank 2", "ranks 0 to 7", "ranks 1, 5, 6".
std::string ranks_text(const Finding& finding);

// "step 7" or "steps 2 to 50": those that it is about.
std::string steps_text(const Finding& finding);

// "1.3× the throughput (1.1× to 1.6×)"; empty if no gain was predicted.
std::string gain_text(const Gain& gain);

}  // namespace stoker
