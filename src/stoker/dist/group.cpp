// Gloo over a TCPStore, the only CPU backend in LibTorch's wheel, and also NCCL for tensors on GPUs.
#include "stoker/dist/group.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <future>
#include <optional>
#include <string_view>
#include <thread>
#include <typeinfo>
#include <utility>

#include "stoker/dist/group_backend.h"
#include "stoker/dist/heartbeat.h"
#include "stoker/dist/message_sizes.h"
#include "stoker/dist/nccl.h"
#include "stoker/dist/rendezvous.h"

namespace stoker {
namespace {

constexpr int kTag = 0;  // of messages between two ranks, which arrive in order
// Keys of the store.
constexpr const char* kLeft = "left";         // number of ranks that have left
constexpr const char* kReason = "why";        // why the first of them left
constexpr const char* kMessage = "message/";  // + rank

constexpr auto kStoreTimeout = std::chrono::seconds(5);       // the store answers in milliseconds or never
constexpr auto kStoreLinger = std::chrono::seconds(2);        // how long rank 0 keeps the store for the others
constexpr auto kPollInterval = std::chrono::milliseconds(5);  // between two checks whether they have left

// Runs `query` on the store; empty if the store does not answer in time. c10d waits forever for a frozen host, so a
// separate thread runs the query, and is left behind if the store never answers.
template <typename Answer>
std::optional<Answer> query_store(Group::Backend& backend, std::function<Answer(c10d::Store&)> query) {
    if (backend.store_lost) {
        return std::nullopt;
    }
    auto promise = std::make_shared<std::promise<Answer>>();
    std::future<Answer> answer = promise->get_future();
    std::thread([promise, query = std::move(query), store = backend.store] {
        try {
            promise->set_value(query(*store));
        } catch (const std::exception&) {  // rank 0 has ended, and the store with it
            promise->set_exception(std::current_exception());
        }
    }).detach();
    backend.store_lost = answer.wait_for(kStoreTimeout) != std::future_status::ready;
    try {
        return backend.store_lost ? std::nullopt : std::optional(answer.get());
    } catch (const std::exception&) {
        return std::nullopt;
    }
}

// False if it is not complete after a second. Throws what it failed with.
bool wait_a_second(c10d::Work& work) {
    try {
        work.wait(std::chrono::seconds(1));
        return true;
    } catch (const c10::Error&) {  // also the time-out
        if (work.isCompleted()) {
            throw;
        }
        return false;
    }
}

// How long Gloo has waited: "Timed out waiting 60000ms for recv operation to complete".
std::optional<std::chrono::milliseconds> waited_in(const std::string& text) {
    constexpr std::string_view kBefore = "waiting ";
    const std::size_t at = text.find(kBefore);
    std::int64_t count = 0;
    if (at == std::string::npos) {
        return std::nullopt;
    }
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + at + kBefore.size(), end, count);
    const bool milliseconds = error == std::errc() && std::string_view(stop, end).starts_with("ms");
    return milliseconds ? std::optional(std::chrono::milliseconds(count)) : std::nullopt;
}

std::string first_line(const std::string& text) {
    return text.substr(0, text.find('\n'));
}

std::string one_line(std::string text) {
    std::ranges::replace(text, '\n', ' ');
    return text;
}

}  // namespace

Group::Group() = default;

Group::~Group() {
    if (backend_) {
        backend_->close();
    }
}

Group::Group(const World& world) : world_(world), rank_(world.rank), size_(world.size) {
    if (alone()) {
        return;
    }
    if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) {
        constexpr int kErrors = 2;
        FLAGS_caffe2_log_level = kErrors;  // no warning with a backtrace before each RankLost
    }
    backend_ = std::make_unique<Backend>();
    try {
        backend_->store = open_store(world, /*serves=*/true);
        backend_->address = meet(*backend_->store, world);
        connect_gloo(*backend_, backend_->store, rank_, size_, world.timeout);
        backend_->heartbeat =
            std::make_shared<Heartbeat>(open_store(world, /*serves=*/false), rank_, size_, world.timeout);
    } catch (const std::exception& error) {
        throw RankLost(
            {.where = fmt::format("rank {}", world.rank),
             .expected = fmt::format("all {} ranks to connect to {}:{}", world.size, world.address, world.port),
             .got = first_line(error.what()),
             .hint = "MASTER_ADDR and MASTER_PORT must be the same on all ranks, and free on rank 0's host"});
    }
}

Group::Group(const Group& whole, const std::vector<int>& ranks, const std::string& name)
    : world_(whole.world_),
      rank_(static_cast<int>(std::ranges::find(ranks, whole.rank_) - ranks.begin())),
      size_(static_cast<int>(ranks.size())),
      backend_(std::make_unique<Backend>()) {
    backend_->store = whole.backend_->store;
    backend_->address = whole.backend_->address;
    backend_->heartbeat = whole.backend_->heartbeat;
    whole.guard([&] {
        const auto store = c10::make_intrusive<c10d::PrefixStore>(name, backend_->store);
        connect_gloo(*backend_, store, rank_, size_, world_.timeout);
        if (whole.backend_->nccl) {
            connect_nccl_for(*backend_, {.store = store,
                                         .rank = rank_,
                                         .size = size_,
                                         .device = whole.backend_->device,
                                         .timeout = world_.timeout});
        } else {
            use_gloo_for(*backend_, whole.backend_->device);
        }
    });
}

// NCCL cannot have two ranks on one GPU, and all ranks must agree.
void Group::use_device(const at::Device& device, const std::string& gpu) const {
    if (alone() || backend_->nccl) {
        return;
    }
    const std::string why_not = why_no_nccl(device);
    barrier();  // opening CUDA takes some ranks longer than others
    const std::vector<std::string> reasons = all_gather(gpu.empty() && why_not.empty() ? "no GPU" : why_not);
    const std::vector<std::string> gpus = all_gather(gpu);
    for (std::size_t rank = 0; rank < gpus.size() && backend_->why_gloo.empty(); ++rank) {
        const auto other =
            std::ranges::find(gpus.begin(), gpus.begin() + static_cast<std::ptrdiff_t>(rank), gpus[rank]);
        if (!reasons[rank].empty()) {
            backend_->why_gloo = fmt::format("rank {} has {}", rank, reasons[rank]);
        } else if (other - gpus.begin() < static_cast<std::ptrdiff_t>(rank)) {
            backend_->why_gloo = fmt::format("ranks {} and {} share a GPU", other - gpus.begin(), rank);
        }
    }
    if (!backend_->why_gloo.empty()) {
        use_gloo_for(*backend_, device);
        return;
    }
    if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) {
        constexpr int kFatal = 3;
        FLAGS_caffe2_log_level = kFatal;  // a failed collective says it in several lines, and we in one
    }
    guard([&] {
        connect_nccl_for(*backend_, {.store = c10::make_intrusive<c10d::PrefixStore>("nccl", backend_->store),
                                     .rank = rank_,
                                     .size = size_,
                                     .device = device,
                                     .timeout = world_.timeout});
    });
}

std::string Group::why_gloo() const {
    return backend_ ? backend_->why_gloo : "";
}

bool Group::uses_nccl() const {
    return backend_ && backend_->nccl;
}

void Group::check() const {
    if (!uses_nccl()) {
        return;
    }
    for (const std::shared_ptr<Group>& subgroup : backend_->subgroups) {
        subgroup->check();
    }
    for (const NcclBackend& connection : {backend_->nccl, backend_->nccl_down}) {
        const c10d::ErrorType error = connection->getError();
        if (error != c10d::ErrorType::SUCCESS) {
            const bool late = error == c10d::ErrorType::TIMEOUT;
            throw_lost(late ? std::optional(world_.timeout) : std::nullopt,
                       late ? "no answer from another rank" : "a collective between GPUs that failed");
        }
    }
}

std::shared_ptr<Group> Group::subgroup(const std::vector<int>& ranks) const {
    if (alone()) {
        return std::make_shared<Group>();
    }
    std::vector<std::shared_ptr<Group>>& all = backend_->subgroups;
    const std::string name = fmt::format("subgroup/{}/{}", all.size(), ranks.front());
    all.push_back(ranks.size() == 1 ? std::make_shared<Group>()
                                    : std::shared_ptr<Group>(new Group(*this, ranks, name)));
    return all.back();
}

// c10d throws DistError. The wheel lacks the header of Gloo's exceptions, so they are recognised by the name of their
// type, or by the file name in their text if c10d has wrapped them. Operators of a model throw neither.
void Group::throw_if_rank_lost(const std::exception& error) const {
    const std::string text = error.what();
    const auto says = [&](const char* words) { return text.find(words) != std::string::npos; };
    const bool of_gloo = std::strstr(typeid(error).name(), "4gloo") != nullptr || says("gloo/");
    if (dynamic_cast<const c10::DistError*>(&error) == nullptr && !of_gloo) {
        return;
    }
    const bool closed = says("closed by peer") || says("reset by peer") || says("Broken pipe");
    const bool late = says("imed out") || says("imeout");
    if (says("NCCL") && !late && !closed && !says("remote") && !says("abort")) {  // a fault of this host or this GPU
        const std::size_t last = text.find("Last error:");
        throw CudaError({.where = fmt::format("rank {}, NCCL", world_.rank),
                         .expected = "the GPUs to reach each other",
                         .got = first_line(text) + (last == std::string::npos ? "" : " " + one_line(text.substr(last))),
                         .hint = "NCCL_DEBUG=INFO says more"});
    }
    throw_lost(late ? std::optional(waited_in(text).value_or(world_.timeout)) : std::nullopt,
               closed ? "a connection that another rank closed"
               : late ? "no answer from another rank"
                      : first_line(text));
}

void Group::throw_lost(std::optional<std::chrono::milliseconds> waited, std::string got) const {
    const auto reason = query_store<std::string>(*backend_, [](c10d::Store& store) {
        return store.check({kReason}) ? store.get_to_str(kReason) : std::string();
    });
    if (reason && !reason->empty()) {
        got = first_line(*reason) + " left";  // it has printed why
    } else if (waited) {
        got += fmt::format(" for {} s", waited->count() / 1000);
    }
    throw RankLost({.where = fmt::format("rank {}", world_.rank),
                    .expected = fmt::format("all {} ranks to continue", world_.size),
                    .got = got,
                    .hint = waited ? "STOKER_DIST_TIMEOUT=SECONDS waits longer" : ""});
}

void Group::post_message(const std::string& text) const {
    if (alone() || text.empty()) {
        return;
    }
    const std::string key = kMessage + std::to_string(world_.rank);
    query_store<bool>(*backend_, [key, text](c10d::Store& store) {
        store.set(key, text);
        return true;
    });
}

std::vector<std::string> Group::messages() const {
    std::vector<std::string> all(static_cast<std::size_t>(size()));
    if (alone()) {
        return all;
    }
    const auto found = query_store<std::vector<std::string>>(*backend_, [all](c10d::Store& store) {
        std::vector<std::string> texts = all;
        for (std::size_t rank = 0; rank < texts.size(); ++rank) {
            const std::string key = kMessage + std::to_string(rank);
            texts[rank] = store.check({key}) ? store.get_to_str(key) : "";
        }
        return texts;
    });
    return found.value_or(all);
}

bool Group::leave(const std::string& reason) {
    if (alone()) {
        return true;
    }
    const std::string mine = fmt::format("rank {}\n{}", world_.rank, reason);
    const auto said = query_store<std::string>(*backend_, [mine, reason](c10d::Store& store) {
        if (!reason.empty()) {
            store.compareSet(kReason, "", mine);
        }
        return store.check({kReason}) ? store.get_to_str(kReason) : std::string();
    });
    backend_->close();
    query_store<bool>(*backend_, [size = size(), keeps = first() && !world_.has_store](c10d::Store& store) {
        const auto until = std::chrono::steady_clock::now() + kStoreLinger;
        std::int64_t left = store.add(kLeft, 1);
        while (keeps && left < size && std::chrono::steady_clock::now() < until) {
            std::this_thread::sleep_for(kPollInterval);
            left = store.add(kLeft, 0);
        }
        return true;
    });
    return !said || *said == mine || said->substr(said->find('\n') + 1) != reason;
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

void Group::all_reduce(const at::Tensor& values) const {
    if (!alone()) {
        std::vector<at::Tensor> tensors = {values};
        guard([&] { backend_->of(values).allreduce(tensors)->wait(); });
    }
}

at::Tensor Group::all_gather(const at::Tensor& mine) const {
    if (alone()) {
        return mine.unsqueeze(0);
    }
    std::vector<at::Tensor> inputs = {mine.contiguous()};
    std::vector<std::int64_t> shape = inputs[0].sizes().vec();
    shape.insert(shape.begin(), size());
    const at::Tensor all = at::empty(shape, inputs[0].options());
    std::vector<std::vector<at::Tensor>> outputs = {all.unbind(0)};
    guard([&] { backend_->of(mine).allgather(outputs, inputs)->wait(); });
    return all;
}

std::function<void()> Group::start_all_gather(const at::Tensor& all, const at::Tensor& mine) const {
    if (alone()) {
        all.copy_(mine);
        return [] {};
    }
    at::Tensor output = all;
    at::Tensor input = mine;
    c10::intrusive_ptr<c10d::Work> gathering;
    guard([&] { gathering = backend_->of(mine)._allgather_base(output, input); });
    return [this, gathering] { guard([&] { gathering->wait(); }); };
}

// Gloo lacks a reduce-scatter: c10d's sums a copy of `all` on every rank. This sums it in place.
std::function<void()> Group::start_reduce_scatter(const at::Tensor& mine, const at::Tensor& all) const {
    if (alone()) {
        mine.copy_(all);
        return [] {};
    }
    c10::intrusive_ptr<c10d::Work> reducing;
    c10d::Backend& backend = backend_->of(all);
    if (&backend != backend_->gloo.get()) {
        at::Tensor output = mine;
        at::Tensor input = all;
        guard([&] { reducing = backend._reduce_scatter_base(output, input); });
        return [this, reducing] { guard([&] { reducing->wait(); }); };
    }
    std::vector<at::Tensor> sums = {all};
    guard([&] { reducing = backend.allreduce(sums); });
    return [this, reducing, mine, all] {
        guard([&] { reducing->wait(); });
        mine.copy_(all.narrow(0, rank() * mine.numel(), mine.numel()));
    };
}

// Gathers the lengths first, then the texts, padded to the longest.
std::vector<std::string> Group::all_gather(const std::string& mine) const {
    if (alone()) {
        return {mine};
    }
    const auto length = static_cast<std::int64_t>(mine.size());
    const at::Tensor lengths = all_gather(at::full({}, length, at::kLong));  // (size)
    const auto longest = lengths.max().item<std::int64_t>();
    std::vector<std::string> all(static_cast<std::size_t>(size()));
    if (longest == 0) {
        return all;
    }
    const at::Tensor bytes = at::zeros({longest}, at::kByte);
    std::memcpy(bytes.mutable_data_ptr<std::uint8_t>(), mine.data(), mine.size());
    const at::Tensor texts = all_gather(bytes);  // (size, longest)
    for (std::int64_t rank = 0; rank < size(); ++rank) {
        all[static_cast<std::size_t>(rank)] = {
            reinterpret_cast<const char*>(texts.const_data_ptr<std::uint8_t>()) + rank * longest,
            static_cast<std::size_t>(lengths[rank].item<std::int64_t>())};
    }
    return all;
}

std::string Group::broadcast(const std::string& text) const {
    return all_gather(first() ? text : "").front();
}

void Group::broadcast(const std::vector<at::Tensor>& tensors) const {
    if (alone() || tensors.empty()) {
        return;
    }
    const c10::NoGradGuard no_grad;
    guard([&] { c10d::broadcast_coalesced(backend_->group, tensors, kBucketBytes); });
}

// Gloo sends when the other rank receives. It sums tensors of GPUs, but cannot send them: they go by way of the host.
std::function<void()> Group::start_send(const at::Tensor& tensor, int to) const {
    if (!tensor.is_cpu() && !uses_nccl()) {
        return start_send(tensor.cpu(), to);
    }
    std::vector<at::Tensor> tensors = {tensor};
    c10::intrusive_ptr<c10d::Work> sending;
    guard([&] { sending = backend_->of_message(tensor, rank(), to).send(tensors, to, kTag); });
    return [this, sending, tensor] { guard([&] { sending->wait(); }); };
}

std::function<void()> Group::start_receive(const at::Tensor& tensor, int from) const {
    if (!tensor.is_cpu() && !uses_nccl()) {
        const at::Tensor on_host = at::empty_like(tensor, tensor.options().device(at::kCPU));
        const auto received = start_receive(on_host, from);
        return [received, on_host, tensor] {
            received();
            tensor.copy_(on_host);
        };
    }
    std::vector<at::Tensor> tensors = {tensor};
    c10::intrusive_ptr<c10d::Work> receiving;
    guard([&] { receiving = backend_->of_message(tensor, from, rank()).recv(tensors, from, kTag); });
    return [this, receiving, tensor] { guard([&] { receiving->wait(); }); };
}

void Group::send(const at::Tensor& tensor, int from, int to) const {
    const auto wait = rank() == from ? start_send(tensor, to) : start_receive(tensor, from);
    wait();
}

at::Tensor Group::exchange(const at::Tensor& mine, int to, int from) const {
    if (to == rank() && from == rank()) {
        return mine;
    }
    const at::Tensor sent = mine.contiguous();
    at::Tensor received = at::empty_like(sent);
    c10d::Backend& backend = backend_->of(sent);
    if (backend.supportsCoalescing()) {  // NCCL moves the two at once, and else would wait for the first
        guard([&] {
            std::vector<at::Tensor> outgoing = {sent};
            std::vector<at::Tensor> incoming = {received};
            backend.startCoalescing();
            try {
                backend.send(outgoing, to, kTag);
                backend.recv(incoming, from, kTag);
            } catch (...) {
                backend.endCoalescing();  // else all that follows belongs to it
                throw;
            }
            backend.endCoalescing()->wait();
        });
        return received;
    }
    const auto sending = start_send(sent, to);
    start_receive(received, from)();
    sending();
    return received;
}

void Group::barrier() const {
    if (alone()) {
        return;
    }
    guard([&] {
        std::vector<at::Tensor> nothing = {at::zeros({1})};
        c10d::AllreduceOptions options;
        options.timeout = kLongTimeoutFactor * world_.timeout;
        const auto waiting = backend_->gloo->allreduce(nothing, options);
        while (!wait_a_second(*waiting)) {
            if (const std::string silent = backend_->heartbeat->silent(); !silent.empty()) {
                backend_->given_up = true;
                throw_lost(world_.timeout, fmt::format("no sign of life from {}", silent));
            }
        }
    });
}

int Group::delayed_max(int mine) {
    if (alone()) {
        return mine;
    }
    int maximum = 0;
    guard([&] {
        if (backend_->pending) {
            backend_->pending->wait();
            maximum = backend_->pending_value[0].item<int>();
        }
        backend_->pending_value = {at::full({1}, mine, at::kInt)};
        c10d::AllreduceOptions options;
        options.reduceOp = c10d::ReduceOp::MAX;
        backend_->pending = backend_->gloo->allreduce(backend_->pending_value, options);
    });
    return maximum;
}

void Group::reset_delayed_max() {
    if (!alone() && backend_->pending) {
        guard([&] { backend_->pending->wait(); });
        backend_->pending.reset();
    }
}

std::shared_ptr<Group> join_group(std::function<void(const std::string& line)> on_wait) {
    World world = read_world();
    world.on_wait = std::move(on_wait);
    return std::make_shared<Group>(world);
}

}  // namespace stoker
