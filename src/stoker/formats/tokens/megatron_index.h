// The index of a token file of Megatron-LM (x.idx of x.bin): the type of the tokens, and how many there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stoker/formats/array.h"

namespace stoker {

struct MegatronIndex {
    ArrayType type = {};
    std::int64_t tokens = 0;     // of all sequences
    std::int64_t documents = 0;  // of one or more sequences
};

// True for bytes that begin as such an index.
bool is_megatron_index(std::span<const std::byte> bytes);

// Throws DataError for a damaged index, and one whose sequences do not follow each other; Unsupported for other types
// than uint8, uint16, int32 and int64.
MegatronIndex parse_megatron_index(std::span<const std::byte> bytes);

}  // namespace stoker
