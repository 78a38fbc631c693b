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

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <typeinfo>
#include <utility>

#include "stoker/dist/group_backend.h"

namespace stoker {
namespace {

constexpr int kLong = 10;               // times the usual time-out
constexpr const char* kLeft = "left";   // how many have
constexpr const char* kWhy = "why";     // the first did
constexpr const char* kTold = "told/";  // by a rank

constexpr auto kAnswer = std::chrono::seconds(5);     // a store answers in milliseconds or never
constexpr auto kFarewell = std::chrono::seconds(2);   // that the store stays for the others
constexpr auto kLook = std::chrono::milliseconds(5);  // between two looks whether they have left

// What `question` finds in the store; nothing where that does not answer. c10d waits for ever for a host that is
// frozen, so a thread of its own asks, which is left behind then.
template <typename Answer>
std::optional<Answer> ask(Group::Backend& backend, std::function<Answer(c10d::Store&)> question) {
    if (backend.silent) {
        return std::nullopt;
    }
    auto promise = std::make_shared<std::promise<Answer>>();
    std::future<Answer> answer = promise->get_future();
    std::thread([promise, question = std::move(question), store = backend.store] {
        try {
            promise->set_value(question(*store));
        } catch (const std::exception&) {  // rank 0 has taken the store with it
            promise->set_exception(std::current_exception());
        }
    }).detach();
    backend.silent = answer.wait_for(kAnswer) != std::future_status::ready;
    try {
        return backend.silent ? std::nullopt : std::optional(answer.get());
    } catch (const std::exception&) {
        return std::nullopt;
    }
}

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
    backend_ = std::make_unique<Backend>();
    try {
        backend_->store = open_store(world);
        wait_for_ranks(*backend_->store, world);
        backend_->gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(
            backend_->store, world.rank, world.size, c10d::ProcessGroupGloo::Options::create_default(world.timeout));
    } catch (const std::exception& error) {
        throw RankLost(
            {.where = fmt::format("rank {}", world.rank),
             .expected = fmt::format("all {} ranks to meet at {}:{}", world.size, world.address, world.port),
             .got = first_line(error.what()),
             .hint = "MASTER_ADDR and MASTER_PORT must be the same on all ranks, and free on rank 0's host"});
    }
    backend_->group = c10::make_intrusive<c10d::ProcessGroup>(backend_->store, world.rank, world.size);
    backend_->group->setBackend(at::kCPU, c10d::ProcessGroup::GLOO, backend_->gloo);
    backend_->group->setDefaultBackend(c10d::ProcessGroup::GLOO);
}

// c10d's errors are DistErrors; Gloo's types no header of the wheel tells, but their names do, or, where c10d has
// wrapped one, the file in its text. An operation of a model throws neither.
void Group::explain(const std::exception& error) const {
    const std::string text = error.what();
    const auto says = [&](const char* words) { return text.find(words) != std::string::npos; };
    const bool of_gloo = std::strstr(typeid(error).name(), "4gloo") != nullptr || says("gloo/");
    if (dynamic_cast<const c10::DistError*>(&error) == nullptr && !of_gloo) {
        return;
    }
    const bool late = says("imed out") || says("imeout");
    const bool closed = says("closed by peer") || says("reset by peer") || says("Broken pipe");
    const auto reason = ask<std::string>(
        *backend_, [](c10d::Store& store) { return store.check({kWhy}) ? store.get_to_str(kWhy) : std::string(); });
    std::string got;
    if (reason && !reason->empty()) {
        got = first_line(*reason) + " left";  // which has said why
    } else if (late) {
        got = fmt::format("no answer from another for {} s", world_.timeout.count() / 1000);
    } else {
        got = closed ? "a connection that another has closed" : first_line(text);
    }
    throw RankLost({.where = fmt::format("rank {}", world_.rank),
                    .expected = fmt::format("all {} ranks to go on", world_.size),
                    .got = got,
                    .hint = late ? "STOKER_DIST_TIMEOUT=SECONDS waits longer" : ""});
}

void Group::tell(const std::string& text) const {
    if (alone() || text.empty()) {
        return;
    }
    const std::string key = kTold + std::to_string(world_.rank);
    ask<bool>(*backend_, [key, text](c10d::Store& store) {
        store.set(key, text);
        return true;
    });
}

std::vector<std::string> Group::told() const {
    std::vector<std::string> all(static_cast<std::size_t>(size()));
    if (alone()) {
        return all;
    }
    const auto told = ask<std::vector<std::string>>(*backend_, [all](c10d::Store& store) {
        std::vector<std::string> texts = all;
        for (std::size_t rank = 0; rank < texts.size(); ++rank) {
            const std::string key = kTold + std::to_string(rank);
            texts[rank] = store.check({key}) ? store.get_to_str(key) : "";
        }
        return texts;
    });
    return told.value_or(all);
}

bool Group::leave(const std::string& why) {
    if (alone()) {
        return true;
    }
    const std::string mine = fmt::format("rank {}\n{}", world_.rank, why);
    const auto said = ask<std::string>(*backend_, [mine, why](c10d::Store& store) {
        if (!why.empty()) {
            store.compareSet(kWhy, "", mine);
        }
        return store.check({kWhy}) ? store.get_to_str(kWhy) : std::string();
    });
    backend_->vote.reset();
    backend_->group.reset();
    backend_->gloo.reset();
    ask<bool>(*backend_, [size = size(), keeps = first() && !world_.has_store](c10d::Store& store) {
        const auto until = std::chrono::steady_clock::now() + kFarewell;
        std::int64_t left = store.add(kLeft, 1);
        while (keeps && left < size && std::chrono::steady_clock::now() < until) {
            std::this_thread::sleep_for(kLook);
            left = store.add(kLeft, 0);
        }
        return true;
    });
    return !said || *said == mine || said->substr(said->find('\n') + 1) != why;
}

void Group::all_reduce(std::span<double> values) const {
    if (alone()) {
        return;
    }
    guard([&] {
        const auto count = static_cast<std::int64_t>(values.size());
        std::vector<at::Tensor> tensors = {at::from_blob(values.data(), {count}, at::kDouble)};
        backend_->gloo->allreduce(tensors)->wait();
    });
}

at::Tensor Group::all_gather(const at::Tensor& mine) const {
    if (alone()) {
        return mine.unsqueeze(0);
    }
    std::vector<at::Tensor> inputs = {mine.contiguous()};
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (int rank = 0; rank < size(); ++rank) {
        outputs[0].push_back(at::empty_like(inputs[0]));
    }
    guard([&] { backend_->gloo->allgather(outputs, inputs)->wait(); });
    return at::stack(outputs[0]);
}

// First how long they are, then all padded to the longest.
std::vector<std::string> Group::all_gather(const std::string& mine) const {
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

std::string Group::broadcast(const std::string& text) const {
    return gather(first() ? text : "").front();
}

void Group::broadcast(const std::vector<at::Tensor>& tensors) const {
    if (alone() || tensors.empty()) {
        return;
    }
    constexpr std::size_t kPieces = std::size_t{25} << 20;  // bytes that go together
    const c10::NoGradGuard no_grad;
    guard([&] { c10d::broadcast_coalesced(backend_->group, tensors, kPieces); });
}

void Group::barrier() const {
    if (alone()) {
        return;
    }
    guard([&] {
        std::vector<at::Tensor> nothing = {at::zeros({1})};
        c10d::AllreduceOptions options;
        options.timeout = kLong * world_.timeout;
        backend_->gloo->allreduce(nothing, options)->wait();
    });
}

int Group::agree(int mine) {
    if (alone()) {
        return mine;
    }
    int agreed = 0;
    guard([&] {
        if (backend_->vote) {
            backend_->vote->wait();
            agreed = backend_->voted[0].item<int>();
        }
        backend_->voted = {at::full({1}, mine, at::kInt)};
        c10d::AllreduceOptions options;
        options.reduceOp = c10d::ReduceOp::MAX;
        backend_->vote = backend_->gloo->allreduce(backend_->voted, options);
    });
    return agreed;
}

void Group::agree_anew() {
    if (!alone() && backend_->vote) {
        guard([&] { backend_->vote->wait(); });
        backend_->vote.reset();
    }
}

std::shared_ptr<Group> join_group() {
    return std::make_shared<Group>(read_world());
}

}  // namespace stoker
