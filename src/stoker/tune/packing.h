// A result in which packing the data was kept holds only once all of the data is packed.
#pragma once

#include <optional>
#include <vector>

#include "stoker/tune/tuner.h"

namespace stoker {

// The change that packs the data, and the changes kept after it, which were measured with packed data.
struct Packing {
    TriedChange change;
    std::vector<TriedChange> after = {};
};

// Takes packing and all after it out of the kept changes. If two codecs were kept, the later one replaces the first:
// its factors are against data that were packed already, so they are multiplied.
std::optional<Packing> take_packing(TuneResult& result);

// For data that are not packed: packing is a suggestion, and so are the changes measured with packed data. The rate is
// that of the changes which take_packing left in `result`.
void suggest(TuneResult& result, const Packing& packing);

// For data that are packed now: `data` is the change of data.train.
void keep(TuneResult& result, Packing packing, std::vector<RecipeChange> data);

}  // namespace stoker
