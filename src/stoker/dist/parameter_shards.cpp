// Shards travel in chunks, so that a rank needs little additional memory.
#include "stoker/dist/parameter_shards.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/dist/message_sizes.h"

namespace stoker {
namespace {

// The end of the first `count` elements of all parameters, moved to where a piece may begin.
ParameterPiece cut_at(std::span<const std::int64_t> sizes, std::int64_t count) {
    std::size_t parameter = 0;
    while (parameter < sizes.size() && count >= sizes[parameter]) {
        count -= sizes[parameter++];
    }
    return {.parameter = parameter, .begin = count / kPieceAlignment * kPieceAlignment};
}

std::vector<std::int64_t> sizes_of(const std::vector<at::Tensor>& tensors) {
    std::vector<std::int64_t> sizes;
    std::ranges::transform(tensors, std::back_inserter(sizes), [](const at::Tensor& tensor) { return tensor.numel(); });
    return sizes;
}

// Several tensors as one run of elements.
class Run {
  public:
    Run(const std::vector<at::Tensor>& wholes, const std::vector<ParameterPiece>& pieces) {
        for (const ParameterPiece& piece : pieces) {
            parts_.push_back(ParameterShards::part(wholes[piece.parameter], piece));
        }
    }
    explicit Run(const std::vector<at::Tensor>& parts) : parts_(parts) {}

    // Elements [begin, begin + chunk's size) of the run; what lies beyond its end is left alone.
    void read(std::int64_t begin, const at::Tensor& chunk) const {
        copy(begin, chunk, [](const at::Tensor& part, const at::Tensor& of_chunk) { of_chunk.copy_(part); });
    }
    void write(std::int64_t begin, const at::Tensor& chunk) const {
        copy(begin, chunk, [](const at::Tensor& part, const at::Tensor& of_chunk) { part.copy_(of_chunk); });
    }

  private:
    template <typename Copy>
    void copy(std::int64_t begin, const at::Tensor& chunk, Copy copy) const {
        std::int64_t first = 0;  // of the part, in the run
        for (const at::Tensor& part : parts_) {
            const std::int64_t from = std::max(begin, first);
            const std::int64_t to = std::min(begin + chunk.numel(), first + part.numel());
            if (from < to) {
                copy(part.narrow(0, from - first, to - from), chunk.narrow(0, from - begin, to - from));
            }
            first += part.numel();
        }
    }

    std::vector<at::Tensor> parts_;
};

}  // namespace

std::vector<std::vector<ParameterPiece>> divide_parameters(std::span<const std::int64_t> sizes, int ranks) {
    const std::int64_t all = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    std::vector<std::vector<ParameterPiece>> pieces(static_cast<std::size_t>(ranks));
    ParameterPiece at;  // the end of the last rank's elements
    for (int rank = 0; rank < ranks; ++rank) {
        const ParameterPiece end = cut_at(sizes, all / ranks * (rank + 1) + all % ranks * (rank + 1) / ranks);
        for (; at.parameter <= end.parameter && at.parameter < sizes.size(); ++at.parameter, at.begin = 0) {
            const std::int64_t to = at.parameter == end.parameter ? end.begin : sizes[at.parameter];
            if (to > at.begin) {
                pieces[static_cast<std::size_t>(rank)].push_back({at.parameter, at.begin, to});
            }
            if (at.parameter == end.parameter) {
                break;
            }
        }
        at = end;
    }
    return pieces;
}

ParameterShards::ParameterShards(const Group& group, const std::vector<at::Tensor>& parameters)
    : ParameterShards(group, parameters, divide_parameters(sizes_of(parameters), group.size())) {}

ParameterShards::ParameterShards(const Group& group, const std::vector<at::Tensor>& parameters,
                                 std::vector<std::vector<ParameterPiece>> pieces)
    : group_(group), pieces_(std::move(pieces)) {
    for (const at::Tensor& parameter : parameters) {
        if (!parameter.is_non_overlapping_and_dense() || parameter.scalar_type() != parameters[0].scalar_type()) {
            throw InvalidArgument({.where = "train.shard",
                                   .expected = "parameters of one type, without gaps in memory",
                                   .got = fmt::format("{} [{}]", at::toString(parameter.scalar_type()),
                                                      fmt::join(parameter.sizes(), ", ")),
                                   .hint = "set train.shard = \"none\""});
        }
        like_.push_back(at::empty_like(parameter, parameter.options().device(at::kMeta)));
    }
}

at::Tensor ParameterShards::laid_out_like(const at::Tensor& values, const at::Tensor& parameter) {
    return values.strides() == parameter.strides() ? values : at::empty_like(parameter, values.options()).copy_(values);
}

at::Tensor ParameterShards::part(const at::Tensor& whole, const ParameterPiece& piece) {
    return whole.detach().as_strided({piece.end - piece.begin}, {1}, whole.storage_offset() + piece.begin);
}

std::int64_t ParameterShards::gathered_elements() const {
    return kGatherBytes / static_cast<std::int64_t>(like_.at(0).element_size());
}

// At least 1.
std::int64_t ParameterShards::longest_shard() const {
    std::int64_t longest = 1;
    for (const auto& pieces : pieces_) {
        std::int64_t size = 0;
        for (const ParameterPiece& piece : pieces) {
            size += piece.end - piece.begin;
        }
        longest = std::max(longest, size);
    }
    return longest;
}

void ParameterShards::all_gather(const std::vector<at::Tensor>& wholes) const {
    const c10::NoGradGuard no_grad;
    const std::int64_t longest = longest_shard();
    const std::int64_t chunk = std::clamp<std::int64_t>(gathered_elements() / group_.size(), 1, longest);
    std::vector<Run> runs;
    for (const auto& pieces : pieces_) {
        runs.emplace_back(wholes, pieces);
    }
    const auto me = static_cast<std::size_t>(group_.rank());
    const at::Tensor mine = at::empty({chunk}, like_.at(0).options().device(wholes[0].device()));
    for (std::int64_t begin = 0; begin < longest; begin += chunk) {
        runs[me].read(begin, mine);
        const at::Tensor all = group_.all_gather(mine);  // (ranks, chunk)
        for (std::size_t rank = 0; rank < runs.size(); ++rank) {
            if (rank != me) {
                runs[rank].write(begin, all[static_cast<std::int64_t>(rank)]);
            }
        }
    }
}

std::vector<at::Tensor> ParameterShards::gather(const std::vector<at::Tensor>& own) const {
    const c10::NoGradGuard no_grad;
    std::vector<at::Tensor> wholes;
    for (const at::Tensor& like : like_) {
        wholes.push_back(at::empty_like(like, like.options().device(group_.first() ? at::kCPU : at::kMeta)));
    }
    const Run mine(own);
    const std::int64_t longest = longest_shard();
    const at::Tensor chunk =
        at::empty({std::min(gathered_elements(), longest)}, like_.at(0).options().device(at::kCPU));
    for (int rank = 0; rank < group_.size(); ++rank) {
        group_.barrier();  // the turns of the others may take longer than a step's time-out
        if (!group_.first() && rank != group_.rank()) {
            continue;
        }
        for (std::int64_t begin = 0; begin < longest; begin += chunk.numel()) {
            if (rank == group_.rank()) {
                mine.read(begin, chunk);
            }
            if (rank != 0) {
                group_.send(chunk, /*from=*/rank, /*to=*/0);
            }
            if (group_.first()) {
                Run(wholes, pieces_[static_cast<std::size_t>(rank)]).write(begin, chunk);
            }
        }
    }
    return group_.first() ? wholes : std::vector<at::Tensor>();
}

std::vector<RowMajorPiece> ParameterShards::in_row_major(const std::vector<at::Tensor>& own) const {
    std::vector<std::size_t> scattered;  // in a file, such as a channels-last parameter
    std::vector<at::Tensor> scattered_like;
    for (std::size_t i = 0; i < like_.size(); ++i) {
        if (!like_[i].is_contiguous()) {
            scattered.push_back(i);
            scattered_like.push_back(like_[i]);
        }
    }
    const auto place_of = [&](const ParameterPiece& piece) {
        return static_cast<std::size_t>(std::ranges::find(scattered, piece.parameter) - scattered.begin());
    };
    std::vector<RowMajorPiece> result;
    std::vector<at::Tensor> scattered_own;
    for (std::size_t i = 0; i < own.size(); ++i) {
        const ParameterPiece& piece = this->own()[i];
        if (place_of(piece) == scattered.size()) {
            result.push_back({.parameter = piece.parameter, .begin = piece.begin, .values = own[i]});
        } else {
            scattered_own.push_back(own[i]);
        }
    }
    if (scattered.empty()) {
        return result;
    }
    std::vector<std::vector<ParameterPiece>> scattered_pieces;
    for (const auto& pieces : pieces_) {
        std::vector<ParameterPiece>& some = scattered_pieces.emplace_back();
        for (ParameterPiece piece : pieces) {
            if (const std::size_t place = place_of(piece); place < scattered.size()) {
                piece.parameter = place;
                some.push_back(piece);
            }
        }
    }
    const auto wholes = ParameterShards(group_, scattered_like, std::move(scattered_pieces)).gather(scattered_own);
    for (std::size_t i = 0; i < wholes.size(); ++i) {
        result.push_back({.parameter = scattered[i], .values = wholes[i].contiguous().flatten()});
    }
    return result;
}

}  // namespace stoker
