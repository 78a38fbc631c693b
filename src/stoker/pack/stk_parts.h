// Joins the parts that PackOptions::part makes, on one machine or many, to the data set that one packing of all samples
// gives, byte for byte. Payloads are copied and their hashes checked; nothing is decoded.
#pragma once

#include <filesystem>
#include <functional>

#include "stoker/pack/pack.h"

namespace stoker {

struct MergeOptions {
    int workers = 1;  // threads that read the result back
    // Phases "check", "merge" and "verify". An exception from it ends the merging, which can then be resumed.
    std::function<void(const PackProgress&)> progress = {};
};

// Merges "x.part-0-of-8.stk" ... "x.part-7-of-8.stk" to "x.stk", the target; the parts stay. Its result is that of
// pack(). Throws InvalidArgument for missing or unfinished parts, which it names, parts of different packings, or
// another target; DataError for a damaged part; IoError.
PackResult merge_stk_parts(const std::filesystem::path& target, const MergeOptions& options);

}  // namespace stoker
