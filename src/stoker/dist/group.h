// The ranks that train one model together, and their collective operations apart from gradient reduction. All ranks
// must make the same calls in the same order. A group of one rank starts nothing, and every call returns its input. A
// process can have one group and its sub-groups at a time, because c10d keeps state for the whole process.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/dist/world.h"

namespace stoker {

// Another rank has ended or does not answer.
class RankLost : public Error {
    using Error::Error;
};

// All ranks make the same calls in the same order: a rank that leaves one out stalls the others until the time-out.
class Group {
  public:
    Group();  // one rank
    // Waits for all ranks. Throws RankLost if one does not arrive in time.
    explicit Group(const World& world);
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;
    ~Group();

    // Some of this group's ranks as a separate group, in this order, with its own connections. Every rank of this
    // group must call it, with the list that it is in. Such a group has collectives, but no messages and no `leave`,
    // which are this group's. This group must outlive it.
    std::shared_ptr<Group> subgroup(const std::vector<int>& ranks) const;

    // From now on, and in sub-groups that are made later, tensors on `device` go through NCCL if each rank has a GPU of
    // its own, and through Gloo otherwise. `gpu` names the GPU; ranks that share one pass the same name. All ranks must
    // call it.
    void use_device(const at::Device& device, const std::string& gpu) const;
    bool uses_nccl() const;
    std::string why_gloo() const;  // why it does not; the same on all ranks
    // Collectives on GPUs return before they are complete. This throws RankLost if one of this group or of its
    // sub-groups has failed; to be called after the host has waited for the device, and before it believes the result.
    void check() const;

    int local_rank() const { return world_.local_rank; }
    int rank() const { return rank_; }
    int size() const { return size_; }
    bool alone() const { return size_ == 1; }
    bool first() const { return rank_ == 0; }

    // All of these throw RankLost.
    void all_reduce(std::span<double> values) const;      // sums over the ranks, in place
    void all_reduce(const at::Tensor& values) const;      // the same; contiguous
    at::Tensor all_gather(const at::Tensor& mine) const;  // same shape on all ranks -> (size(), shape...)
    std::vector<std::string> all_gather(const std::string& mine) const;
    // The two collectives of sharded parameters. Both return at once; the returned function waits for the result. Until
    // then the tensors must not change. `all` is (size() * n), `mine` (n); ranks must start them in the same order.
    std::function<void()> start_all_gather(const at::Tensor& all, const at::Tensor& mine) const;
    // `mine` gets this rank's part of the sum of `all` over the ranks; the values of `all` are lost.
    std::function<void()> start_reduce_scatter(const at::Tensor& mine, const at::Tensor& all) const;
    void broadcast(const std::vector<at::Tensor>& tensors) const;  // from rank 0, in place
    std::string broadcast(const std::string& text) const;          // from rank 0
    // Copies `tensor`, which is contiguous, from rank `from` to rank `to`. Both must call it, others need not.
    void send(const at::Tensor& tensor, int from, int to) const;
    // The two halves of it, which return at once; the returned function waits until the message has arrived. The tensor
    // must not change before. Messages from one rank to another arrive in order.
    std::function<void()> start_send(const at::Tensor& tensor, int to) const;
    std::function<void()> start_receive(const at::Tensor& tensor, int from) const;
    // Sends `mine` to rank `to` and returns the tensor of the same shape that rank `from` sends to this rank.
    at::Tensor exchange(const at::Tensor& mine, int to, int from) const;
    // Its time-out is ten times that of the others, but a rank whose process gives no sign of life is given up after
    // one.
    void barrier() const;

    // The maximum over the ranks of the values that they passed to the previous call, 0 at the first call. The
    // reduction of this call's values runs while the step runs, so no step waits for it. A group of one returns `mine`
    // at once.
    int delayed_max(int mine);
    // Forgets the values that were passed to `delayed_max`.
    void reset_delayed_max();

    // A failing rank, which no longer takes part in collectives, leaves a message in the store. Messages can be read
    // until the group is destroyed. None of these throws; a rank that does not answer has left "".
    void post_message(const std::string& text) const;
    std::vector<std::string> messages() const;  // by rank
    // The last call of a rank: stores the reason, empty if another rank was lost, and closes the connections, so that
    // the others notice at once. Returns false if another rank has stored the same reason before.
    bool leave(const std::string& reason);

    // Calls `work`, which communicates through LibTorch, and turns a lost connection into RankLost.
    template <typename Work>
    void guard(Work&& work) const {
        try {
            work();
        } catch (const Error&) {
            throw;
        } catch (const std::exception& error) {
            throw_if_rank_lost(error);
            throw;
        }
    }

    struct Backend;  // group_backend.h
    const Backend& backend() const { return *backend_; }

  private:
    Group(const Group& whole, const std::vector<int>& ranks, const std::string& name);
    void throw_if_rank_lost(const std::exception& error) const;
    // `waited`: until a time-out.
    [[noreturn]] void throw_lost(std::optional<std::chrono::milliseconds> waited, std::string got) const;

    World world_;  // of all ranks
    int rank_ = 0;
    int size_ = 1;
    std::unique_ptr<Backend> backend_;
};

// The group that the environment describes (world.h). `on_wait` gets a line if the others take long to come.
std::shared_ptr<Group> join_group(std::function<void(const std::string& line)> on_wait = {});

}  // namespace stoker
