// Gloo over a TCPStore: on the CPU it is the one backend of LibTorch's wheel.
#include "stoker/dist/group.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "stoker/dist/links.h"

namespace stoker {
namespace {

constexpr int kLong = 10;  // times the usual time-out
constexpr const char* kLeft = "left";
constexpr const char* kWhy = "why";

c10::intrusive_ptr<c10d::Store> open_store(const World& world) {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(world.port);
    options.isServer = world.rank == 0 && !world.has_store;
    options.numWorkers = static_cast<std::size_t>(world.size);
    options.waitWorkers = false;
    options.timeout = kLong * world.timeout;
    return c10::make_intrusive<c10d::PrefixStore>("stoker/" + world.attempt,
                                                  c10::make_intrusive<c10d::TCPStore>(world.address, options));
}

// Ranks come when they come; Gloo's own time-out is for steps.
void wait_for_ranks(c10d::Store& store, const World& world) {
    store.set("here/" + std::to_string(world.rank), "1");
    std::vector<std::string> all;
    for (int rank = 0; rank < world.size; ++rank) {
        all.push_back("here/" + std::to_string(rank));
    }
    store.wait(all, kLong * world.timeout);
}

std::string first_line(const std::string& text) {
    return text.substr(0, text.find('\n'));
}

}  // namespace

Group::Group() = default;

Group::~Group() = default;

Group::Group(const World& world) : world_(world) {
    if (alone()) {
        return;
    }
    if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) {
        constexpr int kErrors = 2;
        FLAGS_caffe2_log_level = kErrors;  // what becomes an error of ours is no warning with a backtrace before
    }
    links_ = std::make_unique<Links>();
    try {
        links_->store = open_store(world);
        wait_for_ranks(*links_->store, world);
        links_->gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(
            links_->store, world.rank, world.size, c10d::ProcessGroupGloo::Options::create_default(world.timeout));
    } catch (const std::exception& error) {
        throw RankLost(
            {.where = fmt::format("rank {}", world.rank),
             .expected = fmt::format("all {} ranks to meet at {}:{}", world.size, world.address, world.port),
             .got = first_line(error.what()),
             .hint = "MASTER_ADDR and MASTER_PORT must be the same on all ranks, and free on rank 0's host"});
    }
    links_->group = c10::make_intrusive<c10d::ProcessGroup>(links_->store, world.rank, world.size);
    links_->group->setBackend(at::kCPU, c10d::ProcessGroup::GLOO, links_->gloo);
    links_->group->setDefaultBackend(c10d::ProcessGroup::GLOO);
}

// c10d's errors are DistErrors; Gloo's are runtime_errors, or LibTorch's by their text. An operation of a model throws
// neither.
void Group::explain(const std::exception& error) const {
    const std::string text = error.what();
    const bool lost = dynamic_cast<const c10::DistError*>(&error) != nullptr ||
                      dynamic_cast<const std::runtime_error*>(&error) != nullptr ||
                      text.find("gloo") != std::string::npos || text.find("Gloo") != std::string::npos;
    if (!lost) {
        return;
    }
    std::string got;
    try {
        if (links_->store->check({kWhy})) {
            got = links_->store->get_to_str(kWhy);
            got = got.substr(0, got.find('\n')) + " left";  // which has said why
        }
    } catch (const std::exception&) {  // rank 0 has taken the store with it
        got.clear();
    }
    const bool late = text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
    if (got.empty()) {
        got = late ? fmt::format("no answer from another for {} s", world_.timeout.count() / 1000)
                   : "a connection that another has closed";
    }
    throw RankLost({.where = fmt::format("rank {}", world_.rank),
                    .expected = fmt::format("all {} ranks to go on", world_.size),
                    .got = got,
                    .hint = late ? "STOKER_DIST_TIMEOUT=SECONDS waits longer" : ""});
}

bool Group::leave(const std::string& why) const {
    if (alone()) {
        return true;
    }
    try {
        c10d::Store& store = *links_->store;
        if (store.add(kLeft, 1) == 1) {
            store.set(kWhy, fmt::format("rank {}\n{}", world_.rank, why));
            return true;
        }
        store.wait({kWhy}, world_.timeout);
        const std::string first = store.get_to_str(kWhy);
        return first.substr(first.find('\n') + 1) != why;
    } catch (const std::exception&) {  // the store is gone with rank 0: nobody can be told, so it is said here
        return true;
    }
}

void Group::sum(std::span<double> values) const {
    if (alone()) {
        return;
    }
    guard([&] {
        const auto count = static_cast<std::int64_t>(values.size());
        std::vector<at::Tensor> tensors = {at::from_blob(values.data(), {count}, at::kDouble)};
        links_->gloo->allreduce(tensors)->wait();
    });
}

at::Tensor Group::gather(const at::Tensor& mine) const {
    if (alone()) {
        return mine.unsqueeze(0);
    }
    std::vector<at::Tensor> inputs = {mine.contiguous()};
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (int rank = 0; rank < size(); ++rank) {
        outputs[0].push_back(at::empty_like(inputs[0]));
    }
    guard([&] { links_->gloo->allgather(outputs, inputs)->wait(); });
    return at::stack(outputs[0]);
}

// First how long they are, then all padded to the longest.
std::vector<std::string> Group::gather(const std::string& mine) const {
    if (alone()) {
        return {mine};
    }
    const auto length = static_cast<std::int64_t>(mine.size());
    const at::Tensor lengths = gather(at::full({}, length, at::kLong));  // (size)
    const auto longest = lengths.max().item<std::int64_t>();
    std::vector<std::string> all(static_cast<std::size_t>(size()));
    if (longest == 0) {
        return all;
    }
    const at::Tensor bytes = at::zeros({longest}, at::kByte);
    std::memcpy(bytes.mutable_data_ptr<std::uint8_t>(), mine.data(), mine.size());
    const at::Tensor texts = gather(bytes);  // (size, longest)
    for (std::int64_t rank = 0; rank < size(); ++rank) {
        all[static_cast<std::size_t>(rank)] = {
            reinterpret_cast<const char*>(texts.const_data_ptr<std::uint8_t>()) + rank * longest,
            static_cast<std::size_t>(lengths[rank].item<std::int64_t>())};
    }
    return all;
}

std::string Group::share(const std::string& text) const {
    return gather(first() ? text : "").front();
}

void Group::share(const std::vector<at::Tensor>& tensors) const {
    if (alone() || tensors.empty()) {
        return;
    }
    constexpr std::size_t kPieces = std::size_t{25} << 20;  // bytes that go together
    const c10::NoGradGuard no_grad;
    guard([&] { c10d::broadcast_coalesced(links_->group, tensors, kPieces); });
}

void Group::meet() const {
    if (alone()) {
        return;
    }
    guard([&] {
        std::vector<at::Tensor> nothing = {at::zeros({1})};
        c10d::AllreduceOptions options;
        options.timeout = kLong * world_.timeout;
        links_->gloo->allreduce(nothing, options)->wait();
    });
}

int Group::agree(int mine) const {
    if (alone()) {
        return mine;
    }
    int agreed = 0;
    guard([&] {
        if (links_->vote) {
            links_->vote->wait();
            agreed = links_->voted[0].item<int>();
        }
        links_->voted = {at::full({1}, mine, at::kInt)};
        c10d::AllreduceOptions options;
        options.reduceOp = c10d::ReduceOp::MAX;
        links_->vote = links_->gloo->allreduce(links_->voted, options);
    });
    return agreed;
}

std::shared_ptr<Group> join_group() {
    return std::make_shared<Group>(read_world());
}

}  // namespace stoker
