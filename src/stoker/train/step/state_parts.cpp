#include "stoker/train/step/state_parts.h"

#include <ATen/ops/empty.h>

namespace stoker {

std::size_t StateParts::add(const std::string& name, const at::Tensor& like) {
    tensors.push_back({name, at::empty(like.sizes(), like.options().device(at::kMeta).requires_grad(false))});
    return tensors.size() - 1;
}

void StateParts::add_whole(const NamedTensor& entry, bool owns) {
    const std::size_t place = add(entry.name, entry.tensor);
    if (owns) {
        own.push_back({.parameter = place, .values = entry.tensor.detach().contiguous().flatten()});
    }
}

void StateParts::add_pieces(const std::vector<RowMajorPiece>& pieces, const std::vector<std::size_t>& places) {
    for (RowMajorPiece piece : pieces) {
        piece.parameter = places[piece.parameter];
        own.push_back(std::move(piece));
    }
}

}  // namespace stoker
