// Buckets follow the reversed order of the parameters at first, and are rebuilt once in the order in which gradients
// arrive.
#include "stoker/dist/gradient_reducer.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>

#include "stoker/dist/group_backend.h"

namespace stoker {
namespace {

void require_same(const Group& group, const std::vector<at::Tensor>& parameters) {
    try {
        group.guard([&] { c10d::verify_params_across_processes(group.backend().group, parameters, std::nullopt); });
    } catch (const c10::Error& error) {
        throw InvalidArgument({.where = fmt::format("rank {}", group.rank()),
                               .expected = "the same model on all ranks",
                               .got = error.what_without_backtrace(),
                               .hint = "start all ranks with the same recipe and data"});
    }
}

}  // namespace

GradientReducer::GradientReducer(const Group& group, const std::vector<at::Tensor>& parameters) : group_(group) {
    require_same(group, parameters);
    constexpr std::size_t kFirst = c10d::kDefaultFirstBucketBytes;  // small, so that the first reduction starts early
    constexpr std::size_t kOthers = c10d::kDefaultBucketBytesCap;
    const std::vector<bool> sparse(parameters.size(), false);
    auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, {kFirst, kOthers}, sparse));
    std::ranges::reverse(buckets);  // gradients arrive from the last layer to the first
    reducer_ = std::make_shared<c10d::Reducer>(
        parameters, std::move(buckets), group.backend().group, sparse, c10d::kDefaultBucketBytesCap,
        /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/true,
        std::unordered_map<std::size_t, std::string>{}, c10d::kDefaultFirstBucketBytes,
        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, std::vector<std::int64_t>{});
}

void GradientReducer::prepare() {
    group_.guard([&] {
        reducer_->rebuild_buckets();
        reducer_->prepare_for_backward({});
    });
}

bool GradientReducer::complete() const {
    try {
        reducer_->check_finalized();
    } catch (const c10::Error&) {  // the Reducer offers no other query
        return false;
    }
    return true;
}

}  // namespace stoker
