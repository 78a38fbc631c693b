// The loader's order, its random numbers and its state, for data sets that are Python objects (stoker/processes).
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>
#include <limits>

#include "python/src/bindings.h"
#include "stoker/base/error.h"
#include "stoker/base/rng.h"
#include "stoker/pipeline/loader_state.h"
#include "stoker/pipeline/recipe_data.h"
#include "stoker/pipeline/sampling/batch_sampler.h"
#include "stoker/pipeline/sampling/sampler.h"

namespace stoker::python {
namespace {

constexpr std::int64_t kMostEpochs = std::numeric_limits<std::uint32_t>::max();

// A data set that is known by its size alone. Its samples' keys are their numbers.
class Positions final : public Dataset {
  public:
    explicit Positions(std::int64_t size) : size_(size) {}
    std::int64_t size() const override { return size_; }
    void read(std::int64_t /*index*/, Sample& /*sample*/) const override {
        throw InternalError({.where = "order", .expected = "no read", .got = "one"});
    }

  private:
    std::int64_t size_;
};

// (index, occurrence) of each sample of a batch.
using Draws = std::vector<std::tuple<std::int64_t, std::uint16_t>>;

// Which samples are in which batch of one rank. All members are constant, so a forked child may use a copy.
class Order {
  public:
    Order(std::int64_t size, std::uint64_t seed, bool shuffle, std::int64_t batch_size, bool drop_last, int rank,
          int world_size)
        : sampler_(make_sampler({.size = size, .seed = seed, .shuffle = shuffle})),
          batches_(
              {.size = size, .batch_size = batch_size, .drop_last = drop_last, .rank = rank, .world_size = world_size}),
          keys_(keys_hash(Positions(size))) {}

    std::int64_t batches() const { return batches_.batches(); }

    Draws draw(std::int64_t epoch, std::int64_t batch) const {
        const BatchSlice slice = batches_.slice(batch);
        std::vector<SampledIndex> drawn(static_cast<std::size_t>(slice.count));
        sampler_->draw(epoch, slice.first, drawn);
        Draws draws;
        for (const SampledIndex& one : drawn) {
            draws.emplace_back(one.index, one.occurrence);
        }
        return draws;
    }

    // For item `item` of the batch. Empty where all samples were tried.
    std::optional<std::int64_t> substitute(std::int64_t epoch, std::int64_t batch, std::int64_t item,
                                           std::int64_t attempt) const {
        return sampler_->substitute(epoch, batches_.slice(batch).first + item, attempt);
    }

    std::string state(std::int64_t epoch, std::int64_t batch, std::int64_t bad_samples) const {
        return to_json(state_at(epoch, batch, bad_samples));
    }

    // (epoch, batch, bad samples) of a state.
    std::tuple<std::int64_t, std::int64_t, std::int64_t> restore(const std::string& text) const {
        const LoaderState state = loader_state_from_json(text);
        require_same_sampler(state_at(0, 0, 0), state);
        const bool inside = state.bad_samples >= 0 && state.epoch >= 0 && state.epoch <= kMostEpochs &&
                            state.batch >= 0 && state.batch < batches();
        if (!inside) {
            throw InvalidArgument({.where = "loader state",
                                   .expected = fmt::format("batch 0 to {} of epoch 0 or later", batches() - 1),
                                   .got = fmt::format("batch {} of epoch {}", state.batch, state.epoch)});
        }
        return {state.epoch, state.batch, state.bad_samples};
    }

  private:
    LoaderState state_at(std::int64_t epoch, std::int64_t batch, std::int64_t bad_samples) const {
        return {.epoch = epoch,
                .batch = batch,
                .bad_samples = bad_samples,
                .size = sampler_->samples(),
                .keys = keys_,
                .identity = 0,
                .batch_size = batches_.options().batch_size,
                .seed = sampler_->seed(),
                .order = sampler_->name(),
                .drop_last = batches_.options().drop_last};
    }

    std::shared_ptr<const Sampler> sampler_;
    BatchSampler batches_;
    std::uint64_t keys_;
};

// A number for the generators of Python, NumPy and torch. The stream is one that no op has.
std::uint64_t sample_seed(std::uint64_t seed, std::int64_t epoch, std::int64_t index, int occurrence) {
    Rng rng({.seed = seed,
             .epoch = static_cast<std::uint32_t>(epoch),
             .sample = static_cast<std::uint64_t>(index),
             .occurrence = static_cast<std::uint16_t>(occurrence),
             .op = std::numeric_limits<std::uint16_t>::max()});
    const std::uint64_t high = rng.next();
    return high << 32 | rng.next();
}

}  // namespace

void bind_order(nb::module_& module) {
    module.def("auto_workers", [] { return auto_workers(/*on_gpu=*/false); });
    module.def("sample_seed", &sample_seed, nb::arg("seed"), nb::arg("epoch"), nb::arg("index"), nb::arg("occurrence"));
    module.def("most_substitutes", &most_substitutes, nb::arg("budget"));
    nb::class_<Order>(module, "Order")
        .def(nb::init<std::int64_t, std::uint64_t, bool, std::int64_t, bool, int, int>(), nb::arg("size"),
             nb::arg("seed"), nb::arg("shuffle"), nb::arg("batch_size"), nb::arg("drop_last"), nb::arg("rank"),
             nb::arg("world_size"))
        .def("batches", &Order::batches)
        .def("draw", &Order::draw, nb::arg("epoch"), nb::arg("batch"))
        .def("substitute", &Order::substitute, nb::arg("epoch"), nb::arg("batch"), nb::arg("item"), nb::arg("attempt"))
        .def("state", &Order::state, nb::arg("epoch"), nb::arg("batch"), nb::arg("bad_samples"))
        .def("restore", &Order::restore, nb::arg("state"));
}

}  // namespace stoker::python
