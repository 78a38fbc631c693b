// Named tensors that are divided among the ranks: the part of a checkpoint's file that a rank writes.
#pragma once

#include <string>
#include <vector>

#include "stoker/dist/parameter_shards.h"
#include "stoker/models/model.h"

namespace stoker {

struct StateParts {
    std::vector<NamedTensor> tensors = {};  // all, in the file's order, without memory
    std::vector<RowMajorPiece> own = {};    // this rank's; `parameter` is a place in `tensors`

    // A tensor of the shape and type of `like`. Returns its place.
    std::size_t add(const std::string& name, const at::Tensor& like);
    // The same of tensors that this rank writes whole where `owns`.
    void add_whole(const std::vector<NamedTensor>& entries, bool owns);
    // Elements of the tensors at `places`.
    void add_pieces(const std::vector<RowMajorPiece>& pieces, const std::vector<std::size_t>& places);
};

}  // namespace stoker
