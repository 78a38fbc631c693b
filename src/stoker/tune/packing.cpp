#include "stoker/tune/packing.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <utility>

namespace stoker {
namespace {

Estimate product(const Estimate& a, const Estimate& b) {
    return {.low = a.low * b.low, .median = a.median * b.median, .high = a.high * b.high};
}

}  // namespace

std::optional<Packing> take_packing(TuneResult& result) {
    const auto packs = [](const TriedChange& kept) { return !kept.pack_codec.empty(); };
    const auto first = std::ranges::find_if(result.kept, packs);
    if (first == result.kept.end()) {
        return std::nullopt;
    }
    Packing packing{.change = *first};
    for (auto kept = std::next(first); kept != result.kept.end(); ++kept) {
        if (!packs(*kept)) {
            packing.after.push_back(*kept);
            continue;
        }
        TriedChange replaced = packing.change;
        replaced.change.clear();
        replaced.reason = fmt::format("--codec {} is faster", kept->pack_codec);
        result.rolled_back.push_back(std::move(replaced));
        packing.change.pack_codec = kept->pack_codec;
        packing.change.predicted = packing.change.predicted.value() * kept->predicted.value();
        packing.change.measured = product(packing.change.measured.value(), kept->measured.value());
    }
    result.kept.erase(first, result.kept.end());
    return packing;
}

void suggest(TuneResult& result, const Packing& packing) {
    result.suggested.push_back(packing.change);
    result.suggested.back().change.clear();
    for (TriedChange change : packing.after) {
        change.reason = "with packed data only";
        result.suggested.push_back(std::move(change));
    }
    result.gain.reset();
    result.tuned = result.baseline;
    for (const TriedChange& kept : result.kept) {
        result.tuned *= kept.measured.value().median;
    }
}

void keep(TuneResult& result, Packing packing, std::vector<RecipeChange> data) {
    packing.change.change = std::move(data);
    result.kept.push_back(std::move(packing.change));
    std::ranges::move(packing.after, std::back_inserter(result.kept));
}

}  // namespace stoker
