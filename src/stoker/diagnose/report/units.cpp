#include "stoker/diagnose/report/units.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

#include "stoker/base/byte_text.h"
#include "stoker/base/pluralize.h"

namespace stoker {
namespace {

// Three significant digits, without trailing zeros after the point.
std::string digits(double value) {
    const double size = std::abs(value);
    const int decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
    std::string text = fmt::format("{:.{}f}", value, decimals);
    if (text.find('.') != std::string::npos) {
        text.erase(text.find_last_not_of('0') + 1);
        if (text.back() == '.') {
            text.pop_back();
        }
    }
    return text == "-0" ? "0" : text;
}

std::string in_two_units(double whole, int base, std::string_view large, std::string_view small) {
    const auto count = std::llround(whole);
    return fmt::format("{} {} {} {}", count / base, large, count % base, small);
}

// The text of `value` whose unit is the word `unit`; empty: `unit` is none.
std::string with_unit(double value, std::string_view unit) {
    if (unit == "share") {
        return percent_text(value);
    }
    if (unit == "us") {
        return duration_text(value);
    }
    if (unit == "ms") {
        return duration_text(value * 1e3);
    }
    if (unit == "seconds") {
        return duration_text(value * 1e6);
    }
    if (unit == "bytes" && std::abs(value) < 9e18) {
        return byte_text(std::llround(value));
    }
    return {};
}

}  // namespace

std::string number_text(double value) {
    if (!std::isfinite(value)) {
        return "unknown";
    }
    if (value != 0 && std::abs(value) < 0.01) {
        return fmt::format("{:.2g}", value);
    }
    return std::abs(value) < 999.5 ? digits(value) : with_commas(value);
}

std::string duration_text(double us) {
    if (!std::isfinite(us)) {
        return "unknown";
    }
    const double size = std::abs(us);
    if (size == 0) {
        return "0 s";
    }
    if (size < 0.9995) {
        return digits(us * 1e3) + " ns";
    }
    if (size < 999.5) {
        return digits(us) + " µs";
    }
    if (size < 999.5e3) {
        return digits(us / 1e3) + " ms";
    }
    if (size < 99.5e6) {
        return digits(us / 1e6) + " s";
    }
    if (size < 5940e6) {
        return in_two_units(us / 1e6, 60, "min", "s");
    }
    return size < 1e15 ? in_two_units(us / 60e6, 60, "h", "min") : number_text(us / 3600e6) + " h";
}

std::string percent_text(double share) {
    return std::isfinite(share) ? digits(share * 100) + " %" : "unknown";
}

std::vector<int> tenths_of_percent(std::span<const double> values) {
    constexpr int kWhole = 1000;
    std::vector<int> parts(values.size(), 0);
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    if (!(sum > 0)) {
        return parts;
    }
    std::vector<std::pair<double, std::size_t>> rest;
    int given = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double exact = values[i] / sum * kWhole;
        parts[i] = static_cast<int>(exact);
        given += parts[i];
        rest.emplace_back(exact - parts[i], i);
    }
    std::ranges::stable_sort(rest, [](const auto& a, const auto& b) { return a.first > b.first; });
    for (std::size_t i = 0; given < kWhole && i < rest.size(); ++i, ++given) {
        ++parts[rest[i].second];
    }
    return parts;
}

Fact evidence_fact(const Evidence& evidence) {
    Fact fact{.name = evidence.name, .text = number_text(evidence.value)};
    const std::size_t cut = evidence.name.rfind('_');
    std::string_view unit = std::string_view(evidence.name).substr(cut == std::string::npos ? 0 : cut + 1);
    if (evidence.name.ends_with("_per_second")) {
        const std::string_view what = std::string_view(evidence.name).substr(0, evidence.name.size() - 11);
        const bool bytes = what.ends_with("bytes");
        fact.text = (bytes ? with_unit(evidence.value, "bytes") : number_text(evidence.value)) + "/s";
        fact.name = bytes && what.size() > 6 ? std::string(what.substr(0, what.size() - 6)) : std::string(what);
    } else if (const std::string text = with_unit(evidence.value, unit); !text.empty()) {
        fact.text = text;
        if (cut != std::string::npos && unit != "share") {
            fact.name.resize(cut);
        }
    }
    std::ranges::replace(fact.name, '_', ' ');
    return fact;
}

std::string steps_text(const Finding& finding) {
    return finding.first_step == finding.last_step
               ? fmt::format("step {}", finding.first_step)
               : fmt::format("steps {} to {}", finding.first_step, finding.last_step);
}

std::string ranks_text(const Finding& finding) {
    if (finding.ranks.size() < 2) {
        return fmt::format("rank {}", finding.rank);
    }
    const bool in_a_row = finding.ranks.back() - finding.ranks.front() + 1 == std::ssize(finding.ranks);
    return in_a_row ? fmt::format("ranks {} to {}", finding.ranks.front(), finding.ranks.back())
                    : fmt::format("ranks {}", fmt::join(finding.ranks, ", "));
}

std::string gain_text(const Gain& gain) {
    if (gain.low == 1 && gain.expected == 1 && gain.high == 1) {
        return {};
    }
    return fmt::format("{}× the throughput ({}× to {}×)", digits(gain.expected), digits(gain.low), digits(gain.high));
}

}  // namespace stoker
