// c10d's Reducer rebuilds its buckets once, after the first backward pass, in the order in which gradients arrived.
// That pass is one of zeros here: if it were the first step's, a resumed run would add up other buckets in its first
// step than the unbroken run, and three or more ranks round otherwise.
#include "stoker/dist/gradient_reducer.h"

#include <ATen/ops/div.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <utility>

#include "stoker/dist/group_backend.h"
#include "stoker/dist/message_sizes.h"

namespace stoker {

struct GradientReducer::Works {
    std::vector<c10::intrusive_ptr<c10d::Work>> all;
};

namespace {

using ProcessGroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

// Averages a bucket, `compressed` in another type. The division comes first, so that fp16 does not overflow in the sum.
class AverageHook : public c10d::CppCommHookInterface<ProcessGroupPtr> {
  public:
    AverageHook(const ProcessGroupPtr& group, std::optional<at::ScalarType> compressed,
                const std::shared_ptr<GradientReducer::Works>& works)
        : CppCommHookInterface(group), compressed_(compressed), works_(works) {}

    c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
        const at::Tensor& gradients = bucket.getBuffer();
        if (!compressed_) {
            gradients.div_(state_->getSize());
            return start(gradients);
        }
        at::Tensor small = at::empty_like(gradients, gradients.options().dtype(compressed_));
        at::div_out(small, gradients, at::scalar_tensor(state_->getSize(), gradients.options()));
        return start(small)->then(
            [gradients](c10::ivalue::Future& done) {
                gradients.copy_(c10d::detail::parseCppCommHookResult(done.value()));
                return c10::IValue(gradients);
            },
            c10::TensorType::get());
    }

  private:
    c10::intrusive_ptr<c10::ivalue::Future> start(const at::Tensor& sent) {
        std::vector<at::Tensor> tensors = {sent};
        auto work = state_->allreduce(tensors);
        if (state_->getBackend(sent.device().type())->getBackendName() == "gloo") {
            works_->all.push_back(work);
        }
        return work->getFuture();
    }

    std::optional<at::ScalarType> compressed_;
    std::shared_ptr<GradientReducer::Works> works_;
};

}  // namespace

void require_same_parameters(const Group& group, const std::vector<at::Tensor>& parameters) {
    try {
        group.guard([&] { c10d::verify_params_across_processes(group.backend().group, parameters, std::nullopt); });
    } catch (const c10::Error& error) {
        group.check();  // numbers of a failed collective mean nothing
        throw InvalidArgument({.where = fmt::format("rank {}", group.rank()),
                               .expected = "the same model on all ranks",
                               .got = error.what_without_backtrace(),
                               .hint = "start all ranks with the same recipe and data"});
    }
}

GradientReducer::GradientReducer(const Group& group, const std::vector<at::Tensor>& parameters,
                                 std::optional<at::ScalarType> compressed)
    : group_(group), parameters_(parameters), works_(std::make_shared<Works>()) {
    require_same_parameters(group, parameters);
    const std::vector<bool> sparse(parameters.size(), false);
    auto buckets =
        std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, {kFirstBucketBytes, kBucketBytes}, sparse));
    std::ranges::reverse(buckets);  // gradients arrive from the last layer to the first
    reducer_ = std::make_shared<c10d::Reducer>(
        parameters, std::move(buckets), group.backend().group, sparse, kBucketBytes,
        /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/true,
        std::unordered_map<std::size_t, std::string>{}, kFirstBucketBytes,
        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, std::vector<std::int64_t>{});
    // The hook divides, always. Without one the Reducer divides gradients that are in the bucket, and multiplies others
    // by 1 / ranks while it copies them: with three ranks a resumed run would round otherwise.
    reducer_->register_comm_hook(std::make_unique<AverageHook>(group.backend().group, compressed, works_));
    reduce_zeros();
    for (at::Tensor& parameter : parameters_) {
        parameter.mutable_grad().reset();
    }
}

void GradientReducer::prepare() {
    works_->all.clear();
    group_.guard([&] {
        reducer_->rebuild_buckets();
        reducer_->prepare_for_backward({});
    });
}

void GradientReducer::reduce_zeros() {
    at::Tensor sum;
    for (const at::Tensor& parameter : parameters_) {
        sum = sum.defined() ? sum.add(parameter.sum()) : parameter.sum();
    }
    prepare();
    group_.guard([&] { sum.backward(at::zeros({}, sum.options())); });
}

bool GradientReducer::complete() const {
    try {
        reducer_->check_finalized();
    } catch (const c10::Error&) {  // the Reducer offers no other query
        return false;
    }
    // Gloo completes a future before it ends the work: a profiler that stops now would miss the last all-reduce.
    group_.guard([&] {
        for (const c10::intrusive_ptr<c10d::Work>& work : std::exchange(works_->all, {})) {
            work->wait();
        }
    });
    return true;
}

}  // namespace stoker
