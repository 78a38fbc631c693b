#include "stoker/train/step/state_parts.h"

#include <ATen/ops/empty.h>

namespace stoker {

std::size_t StateParts::add(const std::string& name, const at::Tensor& like) {
    tensors.push_back({name, at::empty(like.sizes(), like.options().device(at::kMeta).requires_grad(false))});
    return tensors.size() - 1;
}

void StateParts::add_whole(const std::vector<NamedTensor>& entries, bool owns) {
    for (const auto& [name, tensor] : entries) {
        const std::size_t place = add(name, tensor);
        if (owns) {
            own.push_back({.parameter = place, .values = tensor.detach().contiguous().flatten()});
        }
    }
}

void StateParts::add_pieces(const std::vector<RowMajorPiece>& pieces, const std::vector<std::size_t>& places) {
    for (RowMajorPiece piece : pieces) {
        piece.parameter = places[piece.parameter];
        own.push_back(std::move(piece));
    }
}

}  // namespace stoker
